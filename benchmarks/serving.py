"""Our server under load and under attack, on this machine alone.

    python benchmarks/serving.py --model_dir=MODEL_DIR              # exports it; 10 minutes on two cores
    python benchmarks/serving.py --model_dir=MODEL_DIR --seconds=5 --hostile=1000

First, clients that each ask for one held-out sentence at a time, with requests of different clients computed together and with each
request computed alone, in turns: sentences a second, and the median, 95th and 99th percentile of the time to an answer. The clients run
on the same cores. Then hostile requests between good ones: huge, empty, of wrong types, broken JSON, broken UTF-8, half requests, dropped
connections. Every good request must be answered right, the server must live, and its memory must come to rest: in the first half of the
requests TensorFlow still fills its cache of oneDNN's compiled products, one for each shape and 1,024 at most.
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

CLIENTS = (1, 8, 32, 128)
NAME = "transformer"
PATH = f"/v1/models/{NAME}:predict"


@contextlib.contextmanager
def server(folder, **flags):
    """Our server as a process -> its address and its process number."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "tf_transformer",
        "serve",
        f"--export_dir={folder}",
        f"--port={port}",
    ]
    command += [f"--{name}={value}" for name, value in flags.items()]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        if "answers" not in process.stdout.readline():
            sys.exit(f"no server: {' '.join(command)}")
        try:
            yield ("127.0.0.1", port), process
        finally:
            process.terminate()


def load(address, texts, clients, seconds):
    """Keeps clients busy for some seconds. Returns: the seconds of all answers."""
    pool = urllib3.HTTPConnectionPool(*address, maxsize=clients, retries=20)
    end, found, failed = time.perf_counter() + seconds, [], []

    def ask(number):
        mine, body = [], [json.dumps({"instances": [text]}) for text in texts]
        for i in itertools.count(number):
            start = time.perf_counter()
            if start > end:
                break
            response = pool.request("POST", PATH, body=body[i % len(body)])
            if response.status != 200:
                failed.append(response.data)
                break
            mine.append(time.perf_counter() - start)
        found.extend(mine)

    threads = [threading.Thread(target=ask, args=[i]) for i in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        sys.exit(f"a good request was refused: {failed[0]}")
    return found


def under_load(folder, texts, seconds):
    """Prints the table of clients."""
    print(
        f"{'clients':>7} {'together':>9} {'sentences/s':>12} {'p50, ms':>9} {'p95, ms':>9} {'p99, ms':>9} {'of alone':>9}"
    )
    with (
        server(folder, max_queue=1000) as (together, _),
        server(folder, max_queue=1000, max_batch_size=0) as (alone, _),
    ):
        for address in (together, alone):
            load(address, texts, 2, 2.0)  # the connection and the graph
        for clients in CLIENTS:
            found = {"yes": [], "no": []}
            for _ in range(2):
                for how, address in (("yes", together), ("no", alone)):
                    found[how].append(load(address, texts, clients, seconds / 2))
            rates = {how: sum(map(len, runs)) / seconds for how, runs in found.items()}
            for how, runs in found.items():
                cuts = statistics.quantiles(itertools.chain(*runs), n=100)
                cuts = " ".join(f"{cuts[i] * 1e3:>9.0f}" for i in (49, 94, 98))
                print(
                    f"{clients:>7} {how:>9} {rates[how]:>12.1f} {cuts} {rates[how] / rates['no']:>9.2f}",
                    flush=True,
                )


def hostile_requests(address, text):
    """Functions that each do something rude."""
    pool = urllib3.HTTPConnectionPool(*address, maxsize=16, retries=False, timeout=60)

    def post(body, **headers):
        return lambda: pool.request("POST", PATH, body=body, headers=headers).status

    def raw(*parts):
        def send():
            with socket.create_connection(address) as connection:
                for part in parts:
                    connection.sendall(part)
                    time.sleep(0.005)

        return send

    begin = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: ".encode()
    whole = json.dumps({"instances": [text]}).encode()
    return [
        post(b"x" * 3_000_000), post(json.dumps({"instances": [text * 400]})), post(json.dumps({"instances": [text] * 300})),
        post(b""), post(b"{"), post(b"[" * 100_000), post(b'{"instances": ["\xff\xfe"]}'), post(json.dumps({"instances": []})),
        post(json.dumps({"instances": [None]})), post(json.dumps({"instances": [[["a"]]]})), post(json.dumps({"instances": [7, "a"]})),
        post(json.dumps({"instances": [""]})), post(json.dumps({"instances": ["\u0000\ud83d\ude00\u202e" * 20]})),
        post(json.dumps({"instances": [{"b64": "//79"}]})), post(json.dumps({"signature_name": "none", "instances": ["a"]})),
        post(json.dumps({"signature_name": "score", "inputs": {"source": ["a"], "target": ["b", "c"]}})),
        post(whole, **{"Content-Type": "image/png"}), lambda: pool.request("DELETE", "/v1/models/x").status,
        lambda: pool.request("GET", "/" + "a" * 5000).status, raw(b"\x16\x03\x01\x02\x00" * 40), raw(b"GET / HTTP/9.9\r\n\r\n"),
        raw(begin + b"99\r\n\r\n", b"{"), raw(begin + str(len(whole)).encode() + b"\r\n\r\n" + whole), raw(begin, b"-1\r\n\r\n"),
        raw(begin + str(len(whole)).encode() + b"\r\n\r\n", *(bytes([byte]) for byte in whole[:20])),
    ]  # fmt: skip


def under_attack(folder, texts, number, clients=16):
    """Prints what became of hostile and good requests, and of the server's memory."""
    with server(folder) as (address, process):
        pool = urllib3.HTTPConnectionPool(
            *address,
            maxsize=clients,
            retries=urllib3.Retry(9, status_forcelist=[503], allowed_methods=None),
        )

        def translate(text):
            return json.loads(
                pool.request("POST", PATH, body=json.dumps({"instances": [text]})).data
            )["predictions"][0]["translation"]

        expected = {text: translate(text) for text in texts}
        statuses, wrong, good, memory, lock = {}, 0, 0, [], threading.Lock()

        def attack(seed, share):
            nonlocal wrong, good
            chance, requests = random.Random(seed), hostile_requests(address, texts[0])
            for i in range(share):
                try:
                    status = chance.choice(requests)()
                except (OSError, urllib3.exceptions.HTTPError) as error:
                    status = type(error).__name__
                right = None
                if i % 5 == 0:
                    text = chance.choice(texts)
                    try:
                        right = translate(text) == expected[text]
                    except (KeyError, ValueError, urllib3.exceptions.HTTPError):
                        right = False
                with lock:
                    statuses[status] = statuses.get(status, 0) + 1
                    good, wrong = good + (right is not None), wrong + (right is False)

        for part in range(11):
            threads = [
                threading.Thread(
                    target=attack, args=[(part, i).__hash__(), number // 10 // clients + 1]
                )
                for i in range(clients)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
            memory.append(int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1e3)
        print(
            f"hostile requests: {sum(statuses.values()):,} ({', '.join(f'{k}: {v}' for k, v in sorted(statuses.items(), key=str))})"
        )
        print(
            f"good requests between them: {good:,}, wrong answers: {wrong}; the server lives: {process.poll() is None}"
        )
        print(
            f"its memory after each of {len(memory)} parts, MB: {' '.join(f'{size:.0f}' for size in memory)}"
        )
        print(f"from the middle to the end: {memory[-1] / memory[len(memory) // 2] - 1:+.1%}")


def main():
    """Prints the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model_dir", required=True)
    parser.add_argument(
        "--seconds", type=float, default=20, help="of load for each number of clients and each way"
    )
    parser.add_argument("--hostile", type=int, default=10_000, help="hostile requests")
    args = parser.parse_args()
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    from tf_transformer.checkpoints import paths as model_folder
    from tf_transformer.data.sources import open_corpus

    data = model_folder.load_config(args.model_dir).data
    corpus = open_corpus(data.data, data.source, data.target)
    texts = [
        source for source, _ in itertools.islice(corpus.read(corpus.default_test(seen=True)), 500)
    ]
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "tf_transformer",
            "export",
            f"--model_dir={args.model_dir}",
            f"--output={folder}",
            f"--name={NAME}",
        ]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        under_load(folder, texts, args.seconds)
        under_attack(folder, texts[:50], args.hostile)


if __name__ == "__main__":
    main()
