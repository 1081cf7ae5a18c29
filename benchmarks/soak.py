"""Runs our server for a long time under all that it must endure, and looks for what goes wrong.

    python benchmarks/soak.py --export_dir=EXPORT_DIR                # 30 minutes
    python benchmarks/soak.py --export_dir=EXPORT_DIR --minutes=2 --engine=ctranslate2 --grpc

EXPORT_DIR is a folder of versions, of which the newest one is copied. During the whole time,

- clients send legal requests of 1 to 16 texts, and compare the answers with those of the beginning;
- clients send requests with decoding options, where the export has these signatures: legal ones,
  whose answers are compared too, and wrong ones, which must get status 400;
- others send malformed HTTP and JSON, too much, too slowly, and to wrong paths; they close their
  connections before they have their answers, or cancel their calls;
- a new version appears every --reload_seconds, each fourth one damaged, and old ones are removed.

Printed are a line each minute and a summary. The exit code is 1 when an answer was wrong, a legal
request failed, a wrong option was not refused, any request got status 500 or above, a version was
not loaded, the server did not end in order, or its memory grew by more than 5% from the second
sixth of the time to the last.
"""

import argparse
import collections
import contextlib
import itertools
import json
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
from soak_options import GRPC_METHOD, OptionClient
from soak_versions import VersionChanger

SENTENCES = (
    "Anna sleeps.",
    "The old man reads a book.",
    "He sees the dog.",
    "The children play in the garden.",
    "Tom and Maria drink coffee.",
    "She does not know why.",
)
CLIENTS = 4  # threads with legal requests, and as many of gRPC
ATTACKERS = 2  # threads of each kind of hostile clients
TEXTS = 60
MAX_ROWS = 16  # of a legal request
STOP_SECONDS = 60
MEMORY_SECONDS = 2  # between two samples
MAX_GROWTH = 0.05
MIN_GROWTH_SECONDS = 60  # of a sixth of the time: the first requests need more memory anyway
OPTION_CLIENTS = 2  # threads with requests to the signatures with options
SHOWN = 10  # problems of the summary


class Soak:
    """One run.

    Args:
      address: of the server, (host, port).
      grpc_port: 0 for none.
    """

    def __init__(self, address, grpc_port):
        self.address = address
        self.grpc_port = grpc_port
        self.counts = collections.Counter()
        self.problems = []
        self.memory = []  # MB
        self.ended = threading.Event()
        self._lock = threading.Lock()
        self.pool = urllib3.HTTPConnectionPool(*address, maxsize=2 * CLIENTS, retries=False)
        generator = random.Random(0)
        lengths = [1, 1, 1, 2, 3, 8]  # sentences of a text
        self.texts = [
            " ".join(generator.choices(SENTENCES, k=generator.choice(lengths)))
            for _ in range(TEXTS)
        ]
        self.expected = {text: self.translate([text])[0] for text in self.texts}

    def count(self, kind, problem=""):
        """Counts an event, and keeps the first problems."""
        with self._lock:
            self.counts[kind] += 1
            if problem and len(self.problems) < SHOWN:
                self.problems.append(f"{kind}: {problem}")

    def translate(self, texts):
        """Returns the translations over REST. Raises: RuntimeError for another status than 200."""
        return [row["translation"] for row in self.predict("serving_default", texts)]

    def predict(self, signature, instances):
        """Returns the rows of an answer over REST. Raises: RuntimeError as `translate`."""
        body = json.dumps({"signature_name": signature, "instances": instances})
        response = self.pool.request("POST", PATH, body=body, timeout=90)
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

    # Legal requests.

    def use_rest(self, generator):
        """Sends a legal request over REST."""
        self._check(generator, self.translate)

    def use_grpc(self, generator):
        """Sends a legal request over gRPC."""
        self._check(generator, self.grpc_translate)

    def _check(self, generator, translate):
        texts = generator.choices(self.texts, k=generator.choice([1, 1, 1, 2, 4, MAX_ROWS]))
        translations = translate(texts)
        for text, translation in zip(texts, translations, strict=True):
            if translation != self.expected[text]:
                self.count("wrong answers", f"{text!r} gives {translation!r}")
        self.count("requests")

    def connect_grpc(self):
        """Connects with gRPC, whose import takes seconds."""
        from tf_transformer.serving.grpc_client import GrpcClient

        client = GrpcClient(f"{self.address[0]}:{self.grpc_port}", NAME, 90)
        self.grpc_translate = lambda texts: [text for text, _ in client(texts)]

    # Hostile clients.

    def attack(self, generator):
        """Sends one of the hostile requests of the load test."""
        function = generator.choice(self._hostile_requests())
        try:
            status = function()
        except (OSError, urllib3.exceptions.HTTPError):
            status = None  # the server has closed the connection
        if status and status >= 500:
            self.count("status 5xx", f"a hostile request gets {status}")
        self.count("hostile")

    def _hostile_requests(self):
        if not hasattr(self, "_hostile"):
            self._hostile = hostile_requests(self.address, SENTENCES[1])
        return self._hostile

    def _connect(self, port=None):
        host, rest_port = self.address
        return socket.create_connection((host, port or rest_port), timeout=10)

    def _request(self, generator, rows):
        """The bytes of a legal request."""
        body = json.dumps({"instances": generator.choices(self.texts, k=rows)}).encode()
        head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        return head.encode() + body

    def disconnect(self, generator):
        """Sends a legal request, and closes the connection, or a half of it, before the answer."""
        with contextlib.suppress(OSError), self._connect() as connection:
            connection.sendall(self._request(generator, generator.choice([1, MAX_ROWS, 100])))
            time.sleep(generator.uniform(0, 0.2))
            if generator.random() < 0.5:
                connection.shutdown(socket.SHUT_WR)
                connection.recv(100)
        self.count("disconnected")

    def be_slow(self, generator):
        """Sends a request byte by byte, or reads nothing of the answers to many."""
        with contextlib.suppress(OSError), self._connect() as connection:
            if generator.random() < 0.5:
                for byte in self._request(generator, 1)[: generator.randrange(100)]:
                    connection.sendall(bytes([byte]))
                    if self.ended.wait(0.05):
                        break
            else:
                connection.sendall(self._request(generator, 1) * 20)
                self.ended.wait(3)
        self.count("slow")

    def send_grpc_garbage(self, generator):
        """Sends to the port of gRPC what is not gRPC."""
        preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" if generator.random() < 0.5 else b""
        with contextlib.suppress(OSError), self._connect(self.grpc_port) as connection:
            connection.sendall(preface + generator.randbytes(generator.randrange(1, 5000)))
            connection.settimeout(0.2)
            connection.recv(100)
        self.count("hostile")
        self.ended.wait(0.05)  # gRPC closes such a connection at once

    def cancel_grpc(self, generator):
        """Cancels a call, or sends a wrong message in it."""
        import grpc

        with grpc.insecure_channel(f"{self.address[0]}:{self.grpc_port}") as channel:
            call = channel.unary_unary(GRPC_METHOD).future(
                generator.choice([b"\xff", self.grpc_request]), timeout=30
            )
            if generator.random() < 0.5:
                time.sleep(generator.uniform(0, 0.1))
                call.cancel()
            with contextlib.suppress(grpc.FutureCancelledError):
                error = call.exception()
                if error and error.code().name in ("INTERNAL", "UNKNOWN", "UNAVAILABLE"):
                    self.count("status 5xx", f"a wrong gRPC call gets {error.details()}")
        self.count("hostile")

    def make_grpc_request(self):
        """Makes the bytes of a legal call of some texts."""
        import tensorflow as tf
        from tensorflow_serving.apis import predict_pb2

        request = predict_pb2.PredictRequest()
        request.model_spec.name = NAME
        request.inputs["text"].CopyFrom(tf.make_tensor_proto(self.texts[:MAX_ROWS]))
        self.grpc_request = request.SerializeToString()

    # Results.

    def watch(self, process, minutes):
        """Samples the memory until the time is over, and prints a line each minute."""
        start = time.monotonic()
        print(f"{'minute':>6} {'MB':>6} " + " ".join(f"{kind:>14}" for kind in COLUMNS))
        for sample in itertools.count(1):
            time.sleep(max(0.0, start + sample * MEMORY_SECONDS - time.monotonic()))
            if process.poll() is not None:
                self.count("failures", f"the server has ended with code {process.returncode}")
                return
            self.memory.append(resident_memory(process))
            elapsed = (time.monotonic() - start) / 60
            if int(elapsed) > int(elapsed - MEMORY_SECONDS / 60) or elapsed >= minutes:
                columns = " ".join(f"{self.counts[kind]:>14,}" for kind in COLUMNS)
                print(f"{elapsed:>6.1f} {self.memory[-1]:>6.0f} {columns}", flush=True)
            if elapsed >= minutes:
                return

    @property
    def growth(self):
        """The growth of the memory from the second sixth of the time to the last.

        None after a run that is too short to tell.
        """
        sixth = len(self.memory) // 6
        if sixth * MEMORY_SECONDS < MIN_GROWTH_SECONDS:
            return None
        early, late = self.memory[sixth : 2 * sixth], self.memory[-sixth:]
        return statistics.median(late) / statistics.median(early) - 1

    def summarize(self):
        """Prints the summary. Returns: the exit code."""
        print()
        for kind in COLUMNS:
            is_measured = self.counts[kind] or kind in MUST_BE_0
            print(f"{kind}: {f'{self.counts[kind]:,}' if is_measured else 'not measured'}")
        growth = self.growth
        shown = "not measured, the run is too short" if growth is None else f"{growth:+.1%}"
        print(f"memory, median of the last sixth against the second: {shown}")
        for problem in self.problems:
            print(f"PROBLEM {problem}")
        has_grown = growth is not None and growth > MAX_GROWTH
        if has_grown:
            print(f"PROBLEM the memory grew by more than {MAX_GROWTH:.0%}")
        return int(bool(self.problems) or has_grown)


MUST_BE_0 = ("wrong answers", "failures", "status 5xx", "wrong options", "versions")
COLUMNS = (
    "requests", "options", *MUST_BE_0, "hostile", "slow", "disconnected", "reloads",
    "damaged versions",
)  # fmt: skip


def run_soak(soak, versions, process, args):
    """Runs all threads for the time of the flags, with the versions of a folder."""
    jobs = [soak.use_rest] * CLIENTS + [soak.attack, soak.disconnect, soak.be_slow] * ATTACKERS
    options = OptionClient(soak)
    if options.first_answers:
        jobs += [options.use] * OPTION_CLIENTS + [options.send_wrong]
    if soak.grpc_port:
        soak.connect_grpc()
        soak.make_grpc_request()
        jobs += [soak.use_grpc] * CLIENTS + [soak.send_grpc_garbage, soak.cancel_grpc] * ATTACKERS
        if options.first_answers:
            options.make_grpc_requests()
            jobs.append(options.send_wrong_grpc)
    changer = VersionChanger(soak, versions)
    threads = [
        threading.Thread(target=soak.repeat, args=[job, seed]) for seed, job in enumerate(jobs)
    ]
    threads.append(
        threading.Thread(
            target=soak.repeat, args=[lambda _: changer.run(args.reload_seconds), len(jobs)]
        )
    )
    for thread in threads:
        thread.start()
    try:
        soak.watch(process, args.minutes)
    finally:
        soak.ended.set()
        for thread in threads:
            thread.join()


def stop_server(soak, process, log_path):
    """Ends the server, and looks for errors in its log."""
    process.send_signal(signal.SIGTERM)
    try:
        if process.wait(STOP_SECONDS):
            soak.count("failures", f"the server ends with code {process.returncode}")
    except subprocess.TimeoutExpired:
        soak.count("failures", f"the server runs {STOP_SECONDS} s after SIGTERM")
        process.kill()
    with open(log_path, encoding="utf-8", errors="replace") as log:
        for line in log:
            if " ERROR " in line or line.startswith("Traceback"):
                soak.count("failures", f"the log has {line.strip()[:200]}")


def free_port():
    """Returns a port that is free now."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return unused.getsockname()[1]


def main():
    """Runs the soak."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--export_dir", required=True)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--reload_seconds", type=float, default=20, help="between two versions")
    parser.add_argument("--engine", default="tensorflow", choices=["tensorflow", "ctranslate2"])
    parser.add_argument("--grpc", action="store_true", help="use the gRPC interface too")
    args = parser.parse_args()
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    newest = max((name for name in os.listdir(args.export_dir) if name.isdigit()), key=int)
    port, grpc_port = free_port(), free_port() if args.grpc else 0
    with tempfile.TemporaryDirectory() as folder:
        versions, log_path = os.path.join(folder, "versions"), os.path.join(folder, "log")
        shutil.copytree(os.path.join(args.export_dir, newest), os.path.join(folder, "original"))
        shutil.copytree(os.path.join(folder, "original"), os.path.join(versions, "1"))
        command = [
            sys.executable, "-m", "tf_transformer", "serve", f"--export_dir={versions}",
            f"--engine={args.engine}", f"--port={port}", f"--grpc_port={grpc_port}",
            f"--access_log={folder}/access.log", "--timeout=60",
        ]  # fmt: skip
        with (
            open(log_path, "wb") as log,
            subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log) as process,
        ):
            try:
                wait_until_ready(("127.0.0.1", port), process)
                soak = Soak(("127.0.0.1", port), grpc_port)
                run_soak(soak, versions, process, args)
                stop_server(soak, process, log_path)
            finally:
                process.kill()
        sys.exit(soak.summarize())


if __name__ == "__main__":
    main()
