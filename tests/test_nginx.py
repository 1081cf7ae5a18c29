"""The front door of deploy/: nginx with the shipped configuration, and our server behind it."""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading

import filelock
import pytest
import urllib3
from serving.fake_models import SECONDS, wait_until

from tf_transformer.export.ctranslate2_folder import write_ctranslate2_folder

pytestmark = pytest.mark.slow

FOLDER = pathlib.Path(__file__).parents[1] / "deploy"
CONF = (FOLDER / "nginx" / "tf-transformer.conf").read_text("utf-8")
# The same, which never gives up a client or a server that the machine has no time for.
PATIENT = re.sub(r"_timeout \d+s", f"_timeout {SECONDS}s", CONF)
UPSTREAM = (FOLDER / "nginx" / "upstream.conf").read_text("utf-8")
# A key of each test, because limits are counted by key.
KEYS = {name: f"{number:032x}" for number, name in enumerate(("anna", "bea"), 1)}
BEARER = {name: f"Bearer {key}" for name, key in KEYS.items()}
TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
MODEL = "/v1/models/transformer"
PATH = f"{MODEL}:predict"
BODY = json.dumps({"instances": ["Anna sleeps."]})
HEAD = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: 99999\r\nAuthorization: {{}}\r\n\r\n"


@pytest.fixture(scope="session")
def nginx(tmp_path_factory):
    """The path of nginx, which is installed where that is possible."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin"
    with filelock.FileLock(tmp_path_factory.getbasetemp().parent / "nginx.lock"):  # other workers
        if not shutil.which("nginx", path=path) and os.geteuid() == 0 and shutil.which("apt-get"):
            for command in ("update", "install --yes --no-install-recommends nginx"):
                subprocess.run(["apt-get", "-qq", *command.split()], check=False)
    for program in ("nginx", "openssl"):
        if not shutil.which(program, path=path):
            pytest.skip(f"needs {program}: apt-get install {program}")
    return shutil.which("nginx", path=path)


@pytest.fixture(scope="session")
def private(tmp_path_factory):
    """The folder with certificate and keys, made by the commands of the guide."""
    folder = tmp_path_factory.mktemp("front")
    guide = (FOLDER / "README.md").read_text("utf-8")
    (commands,) = re.findall(r"```bash\n(mkdir -p deploy/private\n.*?)```", guide, re.S)
    commands = re.sub(r"^NAME=.*\n", "", commands, flags=re.M)
    for name, key in KEYS.items():
        environment = {**os.environ, "NAME": name, "KEY": key}
        subprocess.run(["bash", "-ec", commands], cwd=folder, env=environment, check=True)
    return folder / "deploy" / "private"


class Servers:
    """Our servers, at two ports, with a common log."""

    def __init__(self, export, ports):
        self.ports = ports
        self.log = pathlib.Path(f"{export}.log")
        self._export = export
        self._running = {}

    def start(self, port):
        """Starts one of them, and waits until it answers."""
        command = f"serve --engine=ctranslate2 --port={port} --export_dir={self._export}"
        command = [sys.executable, "-m", "tf_transformer", *command.split()]
        with open(self.log, "ab") as log:
            self._running[port] = subprocess.Popen(command, stderr=log)
        pool = urllib3.PoolManager()
        wait_until(lambda: status(pool, f"http://127.0.0.1:{port}/healthz/ready") == 200)

    def stop(self, port, number=signal.SIGTERM):
        """Stops one of them. Returns: its exit code."""
        process = self._running.pop(port)
        process.send_signal(number)
        return process.wait(SECONDS)

    def stop_all(self):
        for port in list(self._running):
            self.stop(port, signal.SIGKILL)


class Door:
    """A running nginx, in a folder with its logs."""

    def __init__(self, program, folder, private, conf, ports):
        self.folder = folder
        *ports, self.grpc_port, self.port = ports
        self.url = f"https://localhost:{self.port}"
        self.trust = str(private / "tls.crt")
        self.pool = urllib3.PoolManager(ca_certs=self.trust, maxsize=40, retries=False)
        (folder / "conf.d").mkdir(parents=True)
        shutil.copytree(private, folder / "tf-transformer")
        paths = "".join(f"{kind}_temp_path {folder}/temp;" for kind in TEMPORARY)
        (folder / "nginx.conf").write_text(
            f"pid {folder}/nginx.pid; events {{}} http {{ {paths} include conf.d/*.conf; "
            f"keepalive_timeout {SECONDS}; }}"
        )
        conf = replace(conf, "listen 443", f"listen 127.0.0.1:{self.port}")
        conf = replace(conf, "/var/log/nginx", str(folder))
        (folder / "conf.d" / "tf-transformer.conf").write_text(conf)
        upstream = UPSTREAM
        for old, new in zip((8501, 8502, 8500), (*ports, self.grpc_port), strict=True):
            upstream = replace(upstream, f"127.0.0.1:{old}", f"127.0.0.1:{new}")
        (folder / "conf.d" / "upstream.conf").write_text(upstream)
        self._command = [program, "-e", f"{folder}/error.log", "-c", f"{folder}/nginx.conf"]
        self._process = subprocess.Popen([*self._command, "-g", "daemon off;"])
        wait_until(lambda: status(self.pool, self.url) == 401)

    def request(self, path, name="", body=None, **headers):
        """Sends a request with the key of a name. Returns: the response."""
        if name:
            headers["Authorization"] = BEARER[name]
        method = "POST" if body else "GET"
        return self.pool.request(method, self.url + path, body=body, headers=headers)

    def connect(self, head):
        """Returns a new connection with TLS, on which the head of a request is sent."""
        context = ssl.create_default_context(cafile=self.trust)
        connection = socket.create_connection(("localhost", self.port), timeout=SECONDS)
        connection = context.wrap_socket(connection, server_hostname="localhost")
        connection.sendall(head.encode())
        return connection

    def reload(self):
        subprocess.run([*self._command, "-s", "reload"], check=True)

    def stop(self):
        self._process.terminate()
        self._process.wait()


def replace(text, old, new):
    """Replaces what the text must have once, except in comments."""
    (line,) = (line for line in text.splitlines() if old in line.partition("#")[0])
    return text.replace(line, line.replace(old, new))


def status(pool, url):
    with contextlib.suppress(urllib3.exceptions.HTTPError):
        return pool.request("GET", url, retries=False).status


@pytest.fixture(scope="module")
def servers(tmp_path_factory, free_port):
    export = str(tmp_path_factory.mktemp("exports") / "1")
    write_ctranslate2_folder("pocket-en-de", export)
    running = Servers(export, [free_port(), free_port()])
    try:
        running.start(running.ports[0])
        yield running
    finally:
        running.stop_all()


@pytest.fixture(scope="module")
def open_door(nginx, servers, private, free_port, tmp_path_factory):
    """A function that starts nginx, with a changed configuration."""
    with contextlib.ExitStack() as stack:

        def start(conf):
            folder = tmp_path_factory.mktemp("nginx") / "nginx"
            ports = [*servers.ports, free_port(), free_port()]
            started = Door(nginx, folder, private, conf, ports)
            stack.callback(started.stop)
            return started

        yield start


@pytest.fixture(scope="module")
def door(open_door):
    return open_door(PATIENT)


def is_error(response, code):
    """Whether a response is an error of nginx, in the form of the server's."""
    return response.status == code and list(response.json()) == ["error"]


def translation_of(response):
    assert response.status == 200, response.data
    return response.json()["predictions"][0]["translation"]


def test_keys(door):
    assert translation_of(door.request(PATH, "anna", BODY)) == "Anna schläft."
    assert is_error(door.request(PATH, body=BODY), 401)
    for wrong in ("Bearer 00", f"{BEARER['anna']}0", KEYS["anna"], "Basic YW5uYTo="):
        assert is_error(door.request(PATH, body=BODY, Authorization=wrong), 401)
    assert is_error(door.request("/", "", **{"X-API-Key": KEYS["anna"]}), 401)
    # A browser shows the page.
    assert door.request("/").headers["WWW-Authenticate"].startswith("Basic ")
    for name, code in {"anna": 200, "bea": 401}.items():
        headers = urllib3.make_headers(basic_auth=f"{name}:{KEYS['anna']}")
        assert door.pool.request("GET", door.url, headers=headers).status == code


def test_the_log_has_the_request_id_and_the_name_but_no_key(door, servers):
    given = {"Authorization": "secret", "X-Request-Id": "mine"}
    answers = [door.request(PATH, "anna", BODY), door.request("/x?key=secret", **given)]
    ids = [answer.headers["X-Request-Id"] for answer in answers]

    def entries():
        lines = (door.folder / "access.log").read_text().rpartition("\n")[0].splitlines()
        found = {entry["id"]: entry for entry in map(json.loads, lines)}
        return [found[each] for each in ids if each in found]

    known, unknown = wait_until(lambda: len(found := entries()) == 2 and found)
    assert (known["client"], known["path"], known["status"]) == ("anna", PATH, 200)
    assert (unknown["client"], unknown["path"], unknown["status"]) == ("", "/x", 401)
    wait_until(lambda: ids[0] in servers.log.read_text())
    written = (door.folder / "access.log").read_text() + (door.folder / "error.log").read_text()
    assert not any(secret in written for secret in ("secret", *KEYS.values()))


def test_a_burst(open_door):
    door = open_door(replace(PATIENT, "rate=30r/s", "rate=1r/m"))
    answers = [door.request(MODEL, "bea") for _ in range(70)]
    assert [answer.status for answer in answers[:61]] == [200] * 61  # the burst, and one
    assert is_error(answers[-1], 429)
    assert answers[-1].headers["Retry-After"] == "1"
    assert door.request(MODEL, "anna").status == 200


def test_slow_clients_are_cut(open_door):
    door = open_door(CONF)

    def is_cut(connect, argument, drip):
        """Whether nginx closes a connection on which these bytes are sent again and again."""
        with contextlib.suppress(ConnectionError, ssl.SSLError), connect(argument) as connection:
            connection.settimeout(1)
            for _ in range(SECONDS):
                with contextlib.suppress(TimeoutError):
                    return not connection.recv(100)
                connection.sendall(drip)
            return False
        return True

    head = door.connect, "GET / HTTP/1.1\r\nX: ", b"a"
    body = door.connect, HEAD.format(BEARER["anna"]), b""
    nothing = socket.create_connection, ("localhost", door.port), b""
    with concurrent.futures.ThreadPoolExecutor() as pool:
        results = [pool.submit(is_cut, *client) for client in (head, body, nothing)]
        wait_until(lambda: status(door.pool, door.url) == 401)
        assert [result.result() for result in results] == [True] * 3


def test_health_and_metrics(door):
    assert door.request("/healthz/ready").status == 200
    outside = urllib3.HTTPSConnectionPool(
        "localhost", door.port, ca_certs=door.trust, source_address=("127.0.0.2", 0)
    )
    assert is_error(outside.request("GET", "/healthz/ready"), 403)
    for path in ("/metrics", "//metrics", "/%6Detrics", "/monitoring/prometheus/metrics"):
        assert is_error(door.request(path, "anna"), 404)


# nginx closes the connection after the answer, and a client that is still sending then would lose
# it. So each request has no body, and its head is in one TLS record, also the path above 8 KiB.
@pytest.mark.parametrize("start, code", [
    ("GET /%00", 400), ("GET /%zz", 400), ("GET /../..", 400), ("GET x", 400),
    ("GET /" + "a" * 9_000, 414), (f"POST {PATH}", 413),
])  # fmt: skip
def test_a_request_that_is_not_read(door, start, code):
    head = f"{start} HTTP/1.1\r\nHost: x\r\nContent-Length: 2000000\r\n\r\n"
    with door.connect(head) as connection:
        response = connection.recv(10_000).decode()
    head, _, body = response.partition("\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {code}")
    assert "Content-Type: application/json" in head
    assert list(json.loads(body)) == ["error"]


def test_grpc(door):
    """TensorFlow Serving's port for gRPC, with a server that answers what it gets."""
    import grpc

    method = "/tensorflow.serving.PredictionService/Predict"
    seen = []

    class Echo(grpc.GenericRpcHandler):
        def service(self, details):
            seen.append(dict(details.invocation_metadata))
            if details.method == method:
                return grpc.unary_unary_rpc_method_handler(lambda request, context: request)

    with concurrent.futures.ThreadPoolExecutor() as threads:
        server = grpc.server(threads, handlers=[Echo()])
        server.add_insecure_port(f"127.0.0.1:{door.grpc_port}")
        server.start()
        trust = grpc.ssl_channel_credentials(pathlib.Path(door.trust).read_bytes())
        with grpc.secure_channel(f"localhost:{door.port}", trust) as channel:
            call = channel.unary_unary(method)
            key = [("authorization", BEARER["anna"])]
            assert call(b"request", metadata=key, timeout=SECONDS) == b"request"
            with pytest.raises(grpc.RpcError) as error:
                call(b"request", timeout=SECONDS)
            assert error.value.code() == grpc.StatusCode.UNAUTHENTICATED
        server.stop(0)
    assert len(seen) == 1
    assert "authorization" not in seen[0]


def test_an_upgrade_drops_no_request(open_door, servers):
    door = open_door(replace(PATIENT, "rate=30r/s", "rate=10000r/s"))
    ended = threading.Event()
    answers = []

    def translate():
        while not ended.is_set():  # a reload closes kept connections, also just before a request
            answer = door.request(PATH, "anna", BODY, Connection="close")
            answers.append(translation_of(answer))

    def wait_for_answers():
        count = len(answers) + 50
        wait_until(lambda: len(answers) > count)

    old, new = servers.ports
    with concurrent.futures.ThreadPoolExecutor() as pool:
        clients = [pool.submit(translate) for _ in range(4)]
        try:
            for started, stopped in ((new, old), (old, new)):
                servers.start(started)
                wait_for_answers()
                assert servers.stop(stopped) == 0
                wait_for_answers()
            door.reload()
            wait_for_answers()
        finally:
            ended.set()
        for client in clients:
            client.result()  # raises what was not translated
    assert set(answers) == {"Anna schläft."}
