"""Measures our server under load, and sends it malformed requests, on one host.

    python benchmarks/serving.py --model_dir=MODEL_DIR              # 15 minutes on two cores
    python benchmarks/serving.py --model_dir=MODEL_DIR --seconds=5 --hostile=1000

The model is exported first, for TensorFlow and for CTranslate2. In the load test, clients on the
same cores request one test sentence at a time. Servers with both engines, and one without dynamic
batching, take turns. Printed are sentences a second, and the median, 95th and 99th percentile of
the latency.

Then hostile requests are sent to each engine between valid ones: huge, empty, of wrong types,
invalid JSON, invalid UTF-8, incomplete requests, dropped connections. Every valid request must get
the right answer, the server must stay up, and its memory must not grow.
"""

import argparse
import contextlib
import itertools
import json
import os
import pathlib
import random
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import urllib3
from evaluation_text import read_test_sources

CLIENTS = (1, 8, 32, 128)
# The servers of the load test: name -> flags. The first one is the unit of the speed-up.
SERVERS = {
    "TensorFlow": {},
    "TensorFlow, no batching": {"max_batch_size": 1},
    "CTranslate2": {"engine": "ctranslate2"},
    "CTranslate2, int8": {"engine": "ctranslate2", "compute_type": "int8"},
}
NAME = "transformer"
PATH = f"/v1/models/{NAME}:predict"
ATTACKERS = 16  # threads that send hostile requests
ENGINES = ("tensorflow", "ctranslate2")
TURNS = 2  # of each server in a row of the load test
PARTS = 11  # parts of the hostile requests, after each of which the memory is read


@contextlib.contextmanager
def running_server(folder, **flags):
    """Starts our server.

    Args:
      folder: of the exports, of `export_model`.
      **flags: of `tf-transformer serve`.
    Yields: its address (host, port), and its process.
    """
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    command = [sys.executable, "-m", "tf_transformer", "serve"]
    engine = flags.get("engine", "tensorflow")
    flags = {"export_dir": os.path.join(folder, engine), "port": port, **flags}
    command += [f"--{name}={value}" for name, value in flags.items()]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with process:
        try:
            wait_until_ready(("127.0.0.1", port), process)
            yield ("127.0.0.1", port), process
        finally:
            process.terminate()


def wait_until_ready(address, process):
    """Waits until the server answers; exits when its process ends before that."""
    while process.poll() is None:
        try:
            response = urllib3.request("GET", f"http://{address[0]}:{address[1]}/healthz")
            if response.status == 200:
                return
        except urllib3.exceptions.HTTPError:
            pass
        time.sleep(0.1)
    sys.exit(f"the server did not start: {' '.join(process.args)}")


def send_load(address, texts, clients, seconds):
    """Lets clients send requests for some seconds, each as soon as it has its last answer.

    Returns: the latencies of all answers in seconds.
    """
    pool = urllib3.HTTPConnectionPool(*address, maxsize=clients, retries=20)
    bodies = [json.dumps({"instances": [text]}) for text in texts]
    end = time.perf_counter() + seconds
    latencies = []
    errors = []

    def run_client(number):
        for i in itertools.count(number):
            start = time.perf_counter()
            if start > end:
                break
            response = pool.request("POST", PATH, body=bodies[i % len(bodies)])
            if response.status != 200:
                errors.append(response.data)
                break
            latencies.append(time.perf_counter() - start)

    run_threads(run_client, range(clients))
    if errors:
        sys.exit(f"a valid request was refused: {errors[0]}")
    return latencies


def run_threads(function, arguments):
    """Calls a function with each of the arguments in its own thread, and waits for all."""
    threads = [threading.Thread(target=function, args=[argument]) for argument in arguments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def measure_load(folder, texts, seconds):
    """Prints the table of the load test."""
    print(
        f"{'clients':>7} {'server':<24} {'sentences/s':>12} {'p50, ms':>9} {'p95, ms':>9} "
        f"{'p99, ms':>9} {'speed-up':>9}"
    )
    with contextlib.ExitStack() as stack:
        addresses = {}
        for name, flags in SERVERS.items():
            flags = {**flags, "max_queue": 1000}
            addresses[name], _ = stack.enter_context(running_server(folder, **flags))
            send_load(addresses[name], texts, 2, 2.0)  # warms up
        for clients in CLIENTS:
            latencies = {name: [] for name in SERVERS}
            for _ in range(TURNS):
                for name, address in addresses.items():
                    latencies[name] += send_load(address, texts, clients, seconds / TURNS)
            for name, values in latencies.items():
                percentiles = statistics.quantiles(values, n=100)
                columns = [f"{percentiles[i] * 1e3:>9.1f}" for i in (49, 94, 98)]
                speed_up = len(values) / len(next(iter(latencies.values())))
                print(
                    f"{clients:>7} {name:<24} {len(values) / seconds:>12.1f} {' '.join(columns)} "
                    f"{speed_up:>9.2f}",
                    flush=True,
                )


def hostile_requests(address, text):
    """Makes functions that each send a malformed or hostile request."""
    pool = urllib3.HTTPConnectionPool(*address, maxsize=16, retries=False, timeout=60)

    def post(body, **headers):
        body = body if isinstance(body, bytes) else json.dumps(body)
        return lambda: pool.request("POST", PATH, body=body, headers=headers).status

    def instances(*values):
        return post({"instances": list(values)})

    def send(*parts):
        """Sends bytes over a new connection, and closes it without reading."""

        def send_parts():
            with socket.create_connection(address) as connection:
                for part in parts:
                    connection.sendall(part)
                    time.sleep(0.005)

        return send_parts

    head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: ".encode()
    valid = json.dumps({"instances": [text]}).encode()
    valid_head = head + str(len(valid)).encode() + b"\r\n\r\n"
    unequal = {"source": ["a"], "target": ["b", "c"]}
    return [
        # Too large.
        post(b"x" * 3_000_000),
        instances(text * 400),
        instances(*[text] * 300),
        # Empty, or invalid JSON or UTF-8.
        post(b""),
        post(b"{"),
        post(b"[" * 100_000),
        post(b'{"instances": ["\xff\xfe"]}'),
        # Wrong types, unusual text.
        instances(),
        instances(None),
        instances([["a"]]),
        instances(7, "a"),
        instances(""),
        instances("\u0000\ud83d\ude00\u202e" * 20),
        instances({"b64": "//79"}),
        post({"signature_name": "none", "instances": ["a"]}),
        post({"signature_name": "score", "inputs": unequal}),
        post(valid, **{"Content-Type": "image/png"}),
        # Wrong paths and protocols, dropped connections.
        lambda: pool.request("DELETE", "/v1/models/x").status,
        lambda: pool.request("GET", "/" + "a" * 5000).status,
        send(b"\x16\x03\x01\x02\x00" * 40),
        send(b"GET / HTTP/9.9\r\n\r\n"),
        send(head + b"99\r\n\r\n", b"{"),
        send(valid_head + valid),
        send(head, b"-1\r\n\r\n"),
        send(valid_head, *(bytes([byte]) for byte in valid[:20])),
    ]


class Attack:
    """Sends hostile requests to a server, and a valid one after every fifth.

    Args:
      address: of the server, (host, port).
      texts: sentences of the valid requests.
    """

    def __init__(self, address, texts):
        self.statuses = {}  # status or error of a hostile request -> how often
        self.valid = 0
        self.wrong = 0  # valid requests without the right answer
        self._texts = texts
        self._lock = threading.Lock()
        retries = urllib3.Retry(9, status_forcelist=[503], allowed_methods=None)
        self._pool = urllib3.HTTPConnectionPool(*address, maxsize=ATTACKERS, retries=retries)
        self._hostile = hostile_requests(address, texts[0])
        self._expected = {text: self._translate(text) for text in texts}

    def _translate(self, text):
        body = json.dumps({"instances": [text]})
        response = self._pool.request("POST", PATH, body=body)
        return json.loads(response.data)["predictions"][0]["translation"]

    def _is_right(self, text):
        try:
            return self._translate(text) == self._expected[text]
        except (KeyError, ValueError, urllib3.exceptions.HTTPError):
            return False

    def send(self, seed, requests):
        """Sends hostile requests in a random order."""
        generator = random.Random(seed)
        for i in range(requests):
            try:
                status = generator.choice(self._hostile)()
            except (OSError, urllib3.exceptions.HTTPError) as error:
                status = type(error).__name__
            with self._lock:
                self.statuses[status] = self.statuses.get(status, 0) + 1
            if i % 5 == 0:
                right = self._is_right(generator.choice(self._texts))
                with self._lock:
                    self.valid += 1
                    self.wrong += not right


def resident_memory(process):
    """The resident memory of a process in MB."""
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1e3


def measure_hostile_requests(folder, texts, number, engine):
    """Prints the answers to hostile and valid requests, and the server's memory."""
    memory = []
    requests = number // 10 // ATTACKERS + 1  # of each thread in a part
    with running_server(folder, engine=engine) as (address, process):
        attack = Attack(address, texts)
        for part in range(PARTS):
            seeds = [part * ATTACKERS + i for i in range(ATTACKERS)]
            run_threads(lambda seed: attack.send(seed, requests), seeds)
            memory.append(resident_memory(process))
        running = process.poll() is None
    statuses = sorted(attack.statuses.items(), key=str)
    listed = ", ".join(f"{status}: {count}" for status, count in statuses)
    print(f"{engine}: hostile requests: {sum(attack.statuses.values()):,} ({listed})")
    print(
        f"valid requests between them: {attack.valid:,}, wrong answers: {attack.wrong}; "
        f"the server is running: {running}"
    )
    sizes = " ".join(f"{size:.0f}" for size in memory)
    print(f"its memory after each of {len(memory)} parts, MB: {sizes}")
    print(f"growth in the second half: {memory[-1] / memory[len(memory) // 2] - 1:+.1%}")


def export_model(model_dir, folder):
    """Exports a model for each engine, to a folder of versions that has the engine's name."""
    export = [sys.executable, "-m", "tf_transformer", "export", f"--model_dir={model_dir}"]
    saved_model = [f"--output={folder}/tensorflow", f"--name={NAME}"]
    ctranslate2 = ["--format=ctranslate2", f"--output={folder}/ctranslate2/1"]
    for flags in (saved_model, ctranslate2):
        subprocess.run([*export, *flags], check=True, stderr=subprocess.DEVNULL)


def main():
    """Prints the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model_dir", required=True)
    parser.add_argument(
        "--seconds", type=float, default=20, help="of load for each row of the table"
    )
    parser.add_argument(
        "--hostile", type=int, default=10_000, help="hostile requests to each engine"
    )
    args = parser.parse_args()
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    texts = read_test_sources(args.model_dir, 500)
    with tempfile.TemporaryDirectory() as folder:
        export_model(args.model_dir, folder)
        measure_load(folder, texts, args.seconds)
        for engine in ENGINES:
            measure_hostile_requests(folder, texts[:50], args.hostile, engine)


if __name__ == "__main__":
    main()
