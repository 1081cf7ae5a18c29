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
import tempfile
import threading
import time

import filelock
import pytest
import urllib3
import yaml

from tf_transformer.export.ctranslate2_folder import write_ctranslate2_folder

pytestmark = pytest.mark.slow

FOLDER = pathlib.Path(__file__).parents[1] / "deploy"
CONF = (FOLDER / "nginx" / "tf-transformer.conf").read_text("utf-8")
UPSTREAM = (FOLDER / "nginx" / "upstream.conf").read_text("utf-8")
# A key of each test, because limits are counted by key.
KEYS = {name: f"{number:032x}" for number, name in enumerate(("anna", "bea", "carl"), 1)}
MAIN = """\
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{}}
http {{
    client_body_temp_path {folder}/temp;
    proxy_temp_path {folder}/temp;
    fastcgi_temp_path {folder}/temp;
    uwsgi_temp_path {folder}/temp;
    scgi_temp_path {folder}/temp;
    include conf.d/*.conf;
}}
"""
PATH = "/v1/models/transformer:predict"
BODY = json.dumps({"instances": ["Anna sleeps."]})
SECONDS = 300  # for what must happen some time


@pytest.fixture(scope="session")
def nginx():
    """The path of nginx, which is installed where that is possible."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin"
    with filelock.FileLock(f"{tempfile.gettempdir()}/tf_transformer-nginx.lock"):  # other workers
        if not shutil.which("nginx", path=path) and os.geteuid() == 0 and shutil.which("apt-get"):
            for command in ("update", "install --yes --no-install-recommends nginx"):
                subprocess.run(["apt-get", "-qq", *command.split()], check=False)
    for program in ("nginx", "curl", "openssl"):
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
    """Our servers, at two ports.

    Attributes:
      ports: of them.
      log: the path of their log.
    """

    def __init__(self, export):
        self.ports = free_ports(2)
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
        wait_for(lambda: status(pool, f"http://127.0.0.1:{port}/healthz/ready") == 200)

    def stop(self, port):
        """Stops one of them, and waits until it has ended."""
        process = self._running.pop(port)
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == 0

    def stop_all(self):
        for process in self._running.values():
            process.kill()
            process.wait()


class Door:
    """A running nginx.

    Attributes:
      url: its address.
      port: of it.
      folder: with its logs.
    """

    def __init__(self, program, folder, private, ports, rate):
        self.folder = folder
        (self.port,) = free_ports(1)
        self.url = f"https://localhost:{self.port}"
        self.trust = str(private / "tls.crt")
        self.pool = urllib3.PoolManager(ca_certs=self.trust, maxsize=40, retries=False)
        (folder / "conf.d").mkdir(parents=True)
        shutil.copytree(private, folder / "tf-transformer")
        (folder / "nginx.conf").write_text(MAIN.format(folder=folder))
        conf = replace(CONF, "listen 443", f"listen 127.0.0.1:{self.port}")
        conf = replace(conf, "/var/log/nginx", str(folder))
        if rate:
            conf = replace(conf, "rate=30r/s", f"rate={rate}")
        (folder / "conf.d" / "tf-transformer.conf").write_text(conf)
        upstream = UPSTREAM
        for old, new in zip((8501, 8502, 8500), ports, strict=True):
            upstream = replace(upstream, f"127.0.0.1:{old}", f"127.0.0.1:{new}")
        (folder / "conf.d" / "upstream.conf").write_text(upstream)
        self._command = [program, "-e", f"{folder}/error.log", "-c", f"{folder}/nginx.conf"]
        self._process = subprocess.Popen([*self._command, "-g", "daemon off;"])
        wait_for(lambda: status(self.pool, self.url) == 401)

    def request(self, path, name="", body=None, **headers):
        """Sends a request with the key of a name. Returns: the response."""
        if name:
            headers["Authorization"] = f"Bearer {KEYS[name]}"
        method = "POST" if body else "GET"
        return self.pool.request(method, self.url + path, body=body, headers=headers)

    def connect(self):
        """Returns a new connection, with TLS."""
        context = ssl.create_default_context(cafile=self.trust)
        connection = socket.create_connection(("localhost", self.port), timeout=SECONDS)
        return context.wrap_socket(connection, server_hostname="localhost")

    def curl(self, *arguments):
        """Runs curl. Returns: the status, and the body as JSON."""
        command = ["curl", "--silent", "--show-error", "--cacert", self.trust]
        command += ["--write-out", "\n%{http_code}", *arguments]
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        body, _, code = out.rpartition("\n")
        return int(code), json.loads(body)

    def reload(self):
        subprocess.run([*self._command, "-s", "reload"], check=True)

    def stop(self):
        self._process.terminate()
        self._process.wait()


def replace(text, old, new):
    """Replaces what the text must have once, except in comments."""
    lines = [line for line in text.splitlines() if old in line and not is_comment(line)]
    assert len(lines) == 1, old
    return text.replace(lines[0], lines[0].replace(old, new))


def is_comment(line):
    return line.lstrip().startswith("#")


def free_ports(number):
    with contextlib.ExitStack() as stack:
        bound = [stack.enter_context(socket.socket()) for _ in range(number)]
        for each in bound:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in bound]


def wait_for(condition):
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def status(pool, url):
    try:
        return pool.request("GET", url, retries=False).status
    except urllib3.exceptions.HTTPError:
        return None


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    export = str(tmp_path_factory.mktemp("exports") / "1")
    write_ctranslate2_folder("pocket-en-de", export)
    running = Servers(export)
    try:
        running.start(running.ports[0])
        yield running
    finally:
        running.stop_all()


@pytest.fixture(scope="module")
def open_door(nginx, servers, private, tmp_path_factory):
    """A function that starts nginx, with the shipped rate of requests or another one."""
    with contextlib.ExitStack() as stack:

        def start(rate=""):
            (grpc_port,) = free_ports(1)
            folder = tmp_path_factory.mktemp("nginx") / "nginx"
            ports = [*servers.ports, grpc_port]
            started = Door(nginx, folder, private, ports, rate)
            started.grpc_port = grpc_port
            stack.callback(started.stop)
            return started

        yield start


@pytest.fixture(scope="module")
def door(open_door):
    return open_door()


def is_error(response, code):
    """Whether a response is an error of nginx, in the form of the server's."""
    return response.status == code and list(response.json()) == ["error"]


def test_keys(door):
    assert is_error(door.request(PATH, body=BODY), 401)
    for wrong in ("Bearer 00", f"Bearer {KEYS['anna']}0", KEYS["anna"], "Basic YW5uYTo="):
        assert is_error(door.request(PATH, body=BODY, Authorization=wrong), 401)
    response = door.request(PATH, "anna", BODY)
    assert response.status == 200
    assert response.json()["predictions"][0]["translation"] == "Anna schläft."
    assert is_error(door.request("/", "", **{"X-API-Key": KEYS["anna"]}), 401)


def test_the_page_has_basic_authentication(door):
    assert door.request("/").headers["WWW-Authenticate"].startswith("Basic ")
    basic = urllib3.make_headers(basic_auth=f"anna:{KEYS['anna']}")
    page = door.pool.request("GET", door.url, headers=basic)
    assert (page.status, page.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    wrong = urllib3.make_headers(basic_auth=f"bea:{KEYS['anna']}")
    assert door.pool.request("GET", door.url, headers=wrong).status == 401


def test_the_log_has_the_request_id_and_the_name_but_no_key(door, servers):
    given = {"Authorization": "secret", "X-Request-Id": "mine"}
    answers = [door.request(PATH, "anna", BODY), door.request("/x?key=secret", **given)]
    entries = {}

    def read():
        for line in (door.folder / "access.log").read_text().splitlines():
            entry = json.loads(line)
            entries[entry["id"]] = entry
        return all(answer.headers["X-Request-Id"] in entries for answer in answers)

    wait_for(read)
    known, unknown = (entries[answer.headers["X-Request-Id"]] for answer in answers)
    assert (known["client"], known["path"], known["status"]) == ("anna", PATH, 200)
    assert (unknown["client"], unknown["path"], unknown["status"]) == ("", "/x", 401)
    wait_for(lambda: known["id"] in servers.log.read_text())
    written = (door.folder / "access.log").read_text() + (door.folder / "error.log").read_text()
    assert not any(secret in written for secret in ("secret", *KEYS.values()))


def test_curl(door):
    key = f"Authorization: Bearer {KEYS['anna']}"
    code, answer = door.curl("--header", key, "--data", BODY, door.url + PATH)
    assert (code, answer["predictions"][0]["translation"]) == (200, "Anna schläft.")


def test_the_command_translate(door):
    server = f"https://anna:{KEYS['anna']}@localhost:{door.port}"
    command = [sys.executable, "-m", "tf_transformer", "translate", f"--server={server}"]
    done = subprocess.run(
        command, input="Anna sleeps.\n", capture_output=True, text=True,
        env={**os.environ, "SSL_CERT_FILE": door.trust},
    )  # fmt: skip
    assert done.stdout == "Anna schläft.\n", done.stderr


def test_a_large_body(door, tmp_path):
    (tmp_path / "body").write_bytes(b" " * 30_000_000)
    key = f"Authorization: Bearer {KEYS['anna']}"
    for flags in (
        ["--http1.1"],
        ["--http2"],
        ["--http1.1", "--header", "Transfer-Encoding: chunked"],
    ):
        arguments = [*flags, "--header", key, "--data-binary", f"@{tmp_path}/body"]
        code, answer = door.curl(*arguments, door.url + PATH)
        assert (code, list(answer)) == (413, ["error"])


def test_a_burst(open_door):
    door = open_door(rate="1r/m")
    answers = [door.request("/v1/models/transformer", "bea") for _ in range(70)]
    codes = [answer.status for answer in answers]
    assert codes[:61] == [200] * 61  # the burst, and one
    assert is_error(answers[-1], 429)
    assert answers[-1].headers["Retry-After"] == "1"
    assert door.request("/v1/models/transformer", "anna").status == 200


def test_slow_clients_are_cut(door):
    def send_head_byte_by_byte():
        with door.connect() as connection:
            connection.settimeout(1)
            for byte in f"GET / HTTP/1.1\r\nX: {'a' * SECONDS}".encode():
                with contextlib.suppress(TimeoutError):
                    if not connection.recv(100):
                        return True
                try:
                    connection.sendall(bytes([byte]))
                except OSError:
                    return True

    def stop_in_the_body():
        with door.connect() as connection:
            head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEYS['anna']}\r\n"
            connection.sendall(f"{head}Content-Length: 99\r\n\r\n{{".encode())
            return not connection.recv(100)

    def say_nothing():
        with socket.create_connection(("localhost", door.port), SECONDS) as connection:
            return not connection.recv(100)

    def is_cut(client):
        try:
            return client()
        except ConnectionResetError:
            return True

    with concurrent.futures.ThreadPoolExecutor() as pool:
        clients = [send_head_byte_by_byte, stop_in_the_body, say_nothing]
        results = [pool.submit(is_cut, client) for client in clients]
        assert door.request(PATH, "anna", BODY).status == 200
        assert all(result.result() for result in results)


def test_connections_of_a_key_are_limited(door):
    """Bodies that arrive byte by byte keep those of their own key busy, and no others."""
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(door.connect()) for _ in range(32)]
        head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEYS['carl']}\r\n"
        for connection in connections:
            connection.sendall(f"{head}Content-Length: 99999\r\n\r\n".encode())

        def is_refused():
            for connection in connections:
                connection.sendall(b" ")
            return door.request("/v1/models/transformer", "carl").status == 429

        wait_for(is_refused)
        assert door.request(PATH, "anna", BODY).status == 200


def test_health_and_metrics(door):
    assert door.request("/healthz/ready").status == 200
    outside = urllib3.HTTPSConnectionPool(
        "localhost", door.port, ca_certs=door.trust, source_address=("127.0.0.2", 0)
    )
    assert is_error(outside.request("GET", "/healthz/ready"), 403)
    for path in ("/metrics", "//metrics", "/%6Detrics", "/monitoring/prometheus/metrics"):
        assert is_error(door.request(path, "anna"), 404)


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
            key = [("authorization", f"Bearer {KEYS['anna']}")]
            assert call(b"request", metadata=key, timeout=SECONDS) == b"request"
            with pytest.raises(grpc.RpcError) as error:
                call(b"request", timeout=SECONDS)
            assert error.value.code() == grpc.StatusCode.UNAUTHENTICATED
        server.stop(0)
    assert len(seen) == 1
    assert "authorization" not in seen[0]


def test_an_upgrade_drops_no_request(open_door, servers):
    door = open_door(rate="10000r/s")
    ended = threading.Event()
    answers = []

    def translate():
        while not ended.is_set():
            response = door.request(PATH, "anna", BODY)
            answers.append((response.status, response.data))

    def wait_for_answers(number=50):
        count = len(answers) + number
        wait_for(lambda: len(answers) > count)

    old, new = servers.ports
    with concurrent.futures.ThreadPoolExecutor() as pool:
        clients = [pool.submit(translate) for _ in range(4)]
        try:
            for started, stopped in ((new, old), (old, new)):
                servers.start(started)
                wait_for_answers()
                servers.stop(stopped)
                wait_for_answers()
            door.reload()
            wait_for_answers()
        finally:
            ended.set()
        for client in clients:
            client.result()
    assert {code for code, _ in answers} == {200}
    found = {json.loads(data)["predictions"][0]["translation"] for _, data in answers}
    assert found == {"Anna schläft."}


def test_nginx_accepts_the_addresses_of_kubernetes(nginx, door):
    """Those of Compose have `resolve`, which Debian's nginx does not know."""
    documents = yaml.safe_load_all((FOLDER / "kubernetes" / "front.yaml").read_text("utf-8"))
    (upstream,) = (each["data"]["upstream.conf"] for each in documents if "data" in each)
    folder = door.folder.parent / "kubernetes"
    shutil.copytree(door.folder, folder, ignore=shutil.ignore_patterns("*.pid", "*.log"))
    conf = upstream.replace("translation:85", "localhost:85")  # a name that has an address here
    (folder / "conf.d" / "upstream.conf").write_text(conf)
    subprocess.run(
        [nginx, "-t", "-e", f"{folder}/error.log", "-c", f"{folder}/nginx.conf"], check=True
    )
