"""Runs our server for a long time under everything that users and the network do to it.

    python benchmarks/soak.py --export_dir=EXPORT_DIR --minutes=30
    python benchmarks/soak.py --export_dir=EXPORT_DIR --minutes=2 --engine=ctranslate2

At the same time, clients send legal requests, with and without options, and check each answer;
others send hostile ones, disconnect, or are slow; and new versions appear, some of them damaged.
Nothing may be answered wrongly, no status may be 5xx, and the memory must not grow. The exit code
is 1 where that does not hold.
"""

import argparse
import collections
import contextlib
import itertools
import json
import math
import os
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import urllib3
from serving import NAME, PATH, hostile_requests, resident_memory, wait_until_ready

SENTENCES = (
    "Anna sleeps.",
    "The old man reads a book.",
    "He sees the dog.",
    "The children play in the garden.",
    "Tom and Maria drink coffee.",
    "She does not know why.",
)
TEXTS = 60
MAX_ROWS = 16  # of a legal request
CLIENTS, ATTACKERS = 4, 2  # threads of legal requests, and of each kind of hostile clients
DAMAGED = 4  # each fourth version
MEMORY_SECONDS = 2  # between two samples
MAX_GROWTH = 0.05
MIN_SAMPLES = 180  # of a run whose growth is measured: the first requests need more memory anyway
LIMIT_SECONDS = 120  # to load a version, and to end
SHOWN = 10  # problems of the summary
# What each signature may be asked for beside the text; {prefix} is a word of the translation.
OPTIONS = {
    "translate_with_options": (
        {},
        {"n_best": 2, "length_penalty": 0.0},
        {"max_decode_length": 3},
        {"target_prefix": "{prefix}", "n_best": 2},
    ),
    "sample": ({"seed": 7}, {"seed": 2**40, "temperature": 0.5, "top_k": 5, "top_p": 0.9}),
    "alternatives": ({}, {"target_prefix": "{prefix}"}),
}
WRONG_OPTIONS = {
    "translate_with_options": (
        {"n_best": 0}, {"n_best": 99}, {"n_best": 1.5}, {"n_best": 2**31}, {"n_best": True},
        {"length_penalty": 10.5}, {"length_penalty": None}, {"max_decode_length": -1},
        {"target_prefix": 7}, {"target_prefix": {"b64": "*"}}, {"m_best": 1},
    ),
    "sample": ({"temperature": 0}, {"top_p": 1.5}, {"top_k": 2.5}, {"seed": 2**63}),
}  # fmt: skip
COLUMNS = (
    "requests", "options", "failures", "hostile", "slow", "disconnected", "reloads", "damaged",
)  # fmt: skip


class Soak:
    """One run.

    Args:
      address: of the server, (host, port).
      folder: of its versions; `original` beside it is copied for a new one.
    """

    def __init__(self, address, folder):
        self.address = address
        self.folder = folder
        self.counts = collections.Counter()
        self.problems = []
        self.memory = []  # MB
        self.ended = threading.Event()
        self._lock = threading.Lock()
        self._pool = urllib3.HTTPConnectionPool(*address, maxsize=2 * CLIENTS, retries=False)
        self._hostile = hostile_requests(address, SENTENCES[1])
        generator = random.Random(0)
        texts = (" ".join(generator.choices(SENTENCES, k=k)) for k in (1, 1, 1, 2, 3, 8) * 10)
        self.expected = {}  # (signature, row as JSON) -> the first answer
        metadata = json.loads(self._pool.request("GET", f"/v1/models/{NAME}/metadata").data)
        self._signatures = metadata["metadata"]["signature_def"]["signature_def"]
        for text in texts:
            self._expect("serving_default", {"text": text})
        for (_, row), answer in list(self.expected.items())[:10]:
            prefix = answer["translation"].partition(" ")[0]
            for signature in OPTIONS.keys() & self._signatures.keys():
                for options in OPTIONS[signature]:
                    given = json.loads(json.dumps(options).replace("{prefix}", prefix))
                    self._expect(signature, {**json.loads(row), **given})

    def _expect(self, signature, row):
        (self.expected[signature, json.dumps(row)],) = self._predict(signature, [row])

    def count(self, kind, problem=""):
        """Counts an event, and keeps the first problems."""
        with self._lock:
            self.counts[kind] += 1
            if problem and len(self.problems) < SHOWN:
                self.problems.append(problem)

    def _post(self, signature, rows):
        body = json.dumps({"signature_name": signature, "instances": rows})
        return self._pool.request("POST", PATH, body=body, timeout=90)

    def _predict(self, signature, rows):
        """Returns the rows of an answer. Raises: RuntimeError for another status than 200."""
        response = self._post(signature, rows)
        if response.status != 200:
            raise RuntimeError(f"status {response.status}: {response.data[:200]!r}")
        return json.loads(response.data)["predictions"]

    def repeat(self, function, seed):
        """Calls a function with a random generator until the end; its exceptions are problems."""
        generator = random.Random(seed)
        while not self.ended.is_set():
            try:
                function(generator)
            except Exception as error:
                self.count("failures", f"{function.__name__}: {type(error).__name__}: {error}")
                self.ended.wait(0.5)

    def translate(self, generator):
        """Sends a legal request."""
        self._check(generator, "serving_default", generator.choice([1, 1, 1, 2, 4, MAX_ROWS]))
        self.count("requests")

    def use_options(self, generator):
        """Sends a legal request with options, whose rows may differ in them."""
        names = sorted(OPTIONS.keys() & self._signatures.keys()) or ["serving_default"]
        self._check(generator, generator.choice(names), generator.randint(1, 4))
        self.count("options")

    def _check(self, generator, name, rows):
        known = [(row, answer) for (of, row), answer in self.expected.items() if of == name]
        chosen = generator.choices(known, k=rows)
        answers = self._predict(name, [json.loads(row) for row, _ in chosen])
        for (row, expected), answer in zip(chosen, answers, strict=True):
            if not is_same(answer, expected):
                self.count("failures", f"{name} of {row} gives {answer}, not {expected}")

    def send_wrong_options(self, generator):
        """Sends a request with an option that must be refused."""
        name = generator.choice(sorted(WRONG_OPTIONS))
        options = generator.choice(WRONG_OPTIONS[name])
        status = self._post(name, [{"text": "a"}, {"text": "b", **options}]).status
        if status != 400:
            self.count("failures", f"{name} with {options} gets status {status}")
        self.count("hostile")
        self.ended.wait(0.1)

    def attack(self, generator):
        """Sends one of the hostile requests of the load test."""
        try:
            status = generator.choice(self._hostile)()
        except (OSError, urllib3.exceptions.HTTPError):
            status = None  # the server has closed the connection
        if status and status >= 500:
            self.count("failures", f"a hostile request gets {status}")
        self.count("hostile")

    def _request(self, generator, rows):
        """The bytes of a legal request."""
        body = json.dumps({"instances": generator.choices(SENTENCES, k=rows)}).encode()
        head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        return head.encode() + body

    def disconnect(self, generator):
        """Sends a legal request, and closes the connection, or a half of it, before the answer."""
        with contextlib.suppress(OSError), socket.create_connection(self.address) as connection:
            connection.sendall(self._request(generator, generator.choice([1, MAX_ROWS, 100])))
            time.sleep(generator.uniform(0, 0.2))
            if generator.random() < 0.5:
                connection.shutdown(socket.SHUT_WR)
                connection.recv(100)
        self.count("disconnected")

    def be_slow(self, generator):
        """Sends a request byte by byte, or reads nothing of the answers to many."""
        with contextlib.suppress(OSError), socket.create_connection(self.address) as connection:
            if generator.random() < 0.5:
                for byte in self._request(generator, 1)[: generator.randrange(100)]:
                    connection.sendall(bytes([byte]))
                    self.ended.wait(0.05)
            else:
                connection.sendall(self._request(generator, 1) * 20)
                self.ended.wait(3)
        self.count("slow")

    def change_versions(self, seconds):
        """Adds a version every some seconds, until the end, and removes the older ones."""
        served = 1
        for version in itertools.count(2):
            if self.ended.wait(seconds):
                return
            new, path = f"{self.folder}/new", f"{self.folder}/{version}"
            shutil.copytree(f"{self.folder}/../original", new)
            is_damaged = version % DAMAGED == 0
            if is_damaged:
                with open(f"{new}/SHA256SUMS") as sums:
                    name = sums.readline().rstrip("\n").split("  ", 1)[1]
                with open(f"{new}/{name}", "a") as file:
                    file.write("damaged")
            os.rename(new, path)
            self._wait_for_state(version, "END" if is_damaged else "AVAILABLE")
            shutil.rmtree(path if is_damaged else f"{self.folder}/{served}")
            served = served if is_damaged else version
            self.count("damaged" if is_damaged else "reloads")

    def _wait_for_state(self, version, expected):
        end = time.monotonic() + LIMIT_SECONDS
        while not self.ended.is_set():
            path = f"/v1/models/{NAME}/versions/{version}"
            content = json.loads(self._pool.request("GET", path, timeout=10).data)
            if content.get("model_version_status", [{}])[0].get("state") == expected:
                return
            if time.monotonic() > end:
                raise RuntimeError(f"version {version} is not {expected}: {content}")
            time.sleep(0.2)

    def watch(self, process, minutes):
        """Samples the memory until the time is over, and prints a line each minute."""
        print(f"{'minute':>6} {'MB':>6} " + " ".join(f"{kind:>12}" for kind in COLUMNS))
        each = round(60 / MEMORY_SECONDS)
        for sample in range(1, round(minutes * each) + 1):
            time.sleep(MEMORY_SECONDS)
            if process.poll() is not None:
                self.count("failures", f"the server has ended with code {process.returncode}")
                return
            self.memory.append(resident_memory(process))
            if sample % each == 0:
                columns = " ".join(f"{self.counts[kind]:>12,}" for kind in COLUMNS)
                print(f"{sample // each:>6} {self.memory[-1]:>6.0f} {columns}", flush=True)

    def summarize(self):
        """Prints the summary. Returns: the exit code."""
        print("\n" + ", ".join(f"{kind}: {self.counts[kind]:,}" for kind in COLUMNS))
        sixth = len(self.memory) // 6
        if len(self.memory) < MIN_SAMPLES:
            print("growth of the memory: not measured, the run is too short")
        else:
            early, late = self.memory[sixth : 2 * sixth], self.memory[-sixth:]
            growth = statistics.median(late) / statistics.median(early) - 1
            print(f"memory, median of the last sixth against the second: {growth:+.1%}")
            if growth > MAX_GROWTH:
                self.problems.append(f"the memory grew by more than {MAX_GROWTH:.0%}")
        for problem in self.problems:
            print(f"PROBLEM {problem}")
        return int(bool(self.problems))


def is_same(answer, expected):
    """Whether two answers have the same strings, and numbers that hardly differ."""
    if isinstance(expected, dict):
        return answer.keys() == expected.keys() and all(
            is_same(answer[key], expected[key]) for key in expected
        )
    if isinstance(expected, list):
        return len(answer) == len(expected) and all(map(is_same, answer, expected))
    if isinstance(expected, float):
        return math.isclose(answer, expected, rel_tol=1e-3, abs_tol=1e-3)
    return answer == expected


def run_soak(soak, process, args):
    """Runs all threads for the time of the flags."""
    jobs = [soak.translate] * CLIENTS + [soak.use_options] * ATTACKERS
    jobs += [soak.attack, soak.disconnect, soak.be_slow] * ATTACKERS + [soak.send_wrong_options]
    threads = [
        threading.Thread(target=soak.repeat, args=[job, seed]) for seed, job in enumerate(jobs)
    ]
    reload = threading.Thread(
        target=soak.repeat, args=[lambda _: soak.change_versions(args.reload_seconds), 0]
    )
    for thread in (*threads, reload):
        thread.start()
    try:
        soak.watch(process, args.minutes)
    finally:
        soak.ended.set()
        for thread in (*threads, reload):
            thread.join()


def stop_server(soak, process, log_path):
    """Ends the server, and looks for errors in its log."""
    process.send_signal(signal.SIGTERM)
    if code := process.wait(LIMIT_SECONDS):
        soak.count("failures", f"the server ends with code {code}")
    with open(log_path, encoding="utf-8", errors="replace") as log:
        for line in log:
            if " ERROR " in line or line.startswith("Traceback"):
                soak.count("failures", f"the log has {line.strip()[:200]}")


def main():
    """Runs the soak."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--export_dir", required=True)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--reload_seconds", type=float, default=20, help="between two versions")
    parser.add_argument("--engine", default="tensorflow", choices=["tensorflow", "ctranslate2"])
    args = parser.parse_args()
    newest = max((name for name in os.listdir(args.export_dir) if name.isdigit()), key=int)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = unused.getsockname()
    with tempfile.TemporaryDirectory() as folder:
        versions, log_path = f"{folder}/versions", f"{folder}/log"
        shutil.copytree(f"{args.export_dir}/{newest}", f"{folder}/original")
        shutil.copytree(f"{folder}/original", f"{versions}/1")
        command = [
            sys.executable, "-m", "tf_transformer", "serve", f"--export_dir={versions}",
            f"--engine={args.engine}", f"--port={address[1]}",
        ]  # fmt: skip
        with (
            open(log_path, "wb") as log,
            subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log) as process,
        ):
            try:
                wait_until_ready(address, process)
                soak = Soak(address, versions)
                run_soak(soak, process, args)
                stop_server(soak, process, log_path)
            finally:
                process.kill()
        sys.exit(soak.summarize())


if __name__ == "__main__":
    main()
