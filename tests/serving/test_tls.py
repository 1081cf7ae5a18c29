"""HTTPS: the certificate of the server, and its client."""

import asyncio
import contextlib
import os
import socket
import ssl
import sys
import threading
import time

import pytest
import trustme
from cryptography.hazmat.primitives import serialization
from starlette.responses import Response
from starlette.routing import Route

from serving.fake_models import add_versions, fake_source
from tf_transformer.cli.main import main
from tf_transformer.errors import UserError
from tf_transformer.serving.client import RestClient, translate_lines
from tf_transformer.serving.grpc_client import GrpcClient
from tf_transformer.serving.serve_config import ServeConfig
from tf_transformer.serving.server import Server, _Uvicorn
from tf_transformer.serving.tls import check_certificate

KEY = "k" * 16
LARGE = b"x" * 12_000_000  # more than the buffers of a connection


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The paths of a CA, of the certificate and the key of 127.0.0.1, and of faulty files."""
    folder = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    issued, other = authority.issue_cert("127.0.0.1"), authority.issue_cert("127.0.0.1")
    key = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None)
    protected = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    certificate = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
    contents = {
        "ca": authority.cert_pem.bytes(),
        "certificate": certificate,
        "key": issued.private_key_pem.bytes(),
        "both": certificate + issued.private_key_pem.bytes(),
        "other_key": other.private_key_pem.bytes(),
        "protected": protected,
        "damaged": certificate.replace(b"MII", b"MIJ"),
        "empty": b"",
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return {name: str(folder / name) for name in [*contents, "missing"]}


def test_files_that_a_server_can_use(files):
    check_certificate("", "")
    check_certificate(files["certificate"], files["key"])
    check_certificate(files["both"], "")


@pytest.mark.parametrize(
    "certificate, key, message",
    [
        ("missing", "key", "^--tls_certificate: cannot read .*missing: No such file"),
        ("certificate", "missing", "^--tls_key: cannot read .*missing: No such file"),
        ("empty", "key", "^--tls_certificate: .*empty has no certificate in PEM format$"),
        ("key", "key", "^--tls_certificate: .*key has no certificate in PEM format$"),
        ("certificate", "", "^--tls_key: .*certificate has no private key in PEM format$"),
        ("certificate", "other_key", "other_key is not that of the certificate in .*certificate:"),
        ("certificate", "protected", "protected is protected by a password: write it without one"),
        ("damaged", "key", "damaged and its private key cannot be used: "),
    ],
)
def test_files_that_a_server_cannot_use(files, certificate, key, message):
    with pytest.raises(UserError, match=message) as raised:
        check_certificate(files[certificate], files[key] if key else "")
    assert "\n" not in str(raised.value)
    settings = ServeConfig(tls_certificate=files[certificate], tls_key=files[key] if key else "")
    with pytest.raises(UserError, match=message):
        Server([], settings)


def test_a_key_without_a_certificate(files):
    with pytest.raises(UserError, match="^--tls_key needs --tls_certificate$"):
        check_certificate("", files["key"])


@pytest.fixture(scope="module")
def grpc_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.fixture(scope="module")
def address(tmp_path_factory, files, grpc_port):
    """The host and the port of a server with TLS and an API key."""
    folder = tmp_path_factory.mktemp("versions")
    add_versions(folder, 1)
    (folder / "keys").write_text(f"alice {KEY}")
    settings = ServeConfig(
        port=0,
        grpc_port=grpc_port,
        timeout=1.0,
        api_key_file=str(folder / "keys"),
        tls_certificate=files["certificate"],
        tls_key=files["key"],
    )
    with_routes = Server([fake_source(folder)], settings)
    with_routes.app.router.routes.append(Route("/large", lambda _: Response(LARGE)))
    server = _Uvicorn(with_routes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asyncio.constants, "SSL_HANDSHAKE_TIMEOUT", 1.0)
        patch.setattr(asyncio.constants, "SSL_SHUTDOWN_TIMEOUT", 0.5)
        thread = threading.Thread(target=server.run)
        thread.start()
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.02)
        yield server.servers[0].sockets[0].getsockname()
        server.should_exit = True
        thread.join()


def test_the_client_with_a_key_and_a_ca_of_its_own(address, files):
    url = "https://{}:{}".format(*address)
    client = RestClient(url, "anna", api_key=KEY, tls_ca=files["ca"])
    assert list(translate_lines(client, ["a", "b"])) == [("A", 1.0), ("B", 1.0)]
    client = RestClient(url, "anna", api_key="x" * 16, tls_ca=files["ca"])
    with pytest.raises(UserError, match="status 401: the API key is not valid: give a key of this"):
        list(translate_lines(client, ["a"]))


def test_a_connection_that_ends_in_the_handshake_is_tried_again(files):
    """As that to a load balancer without a server behind it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def close_each():
            with contextlib.suppress(OSError):
                while True:
                    listener.accept()[0].close()

        thread = threading.Thread(target=close_each)
        thread.start()
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        client = RestClient(url, "anna", tls_ca=files["ca"])
        with pytest.raises(UserError, match="no answer from .*tried again for 0.3 s"):
            list(translate_lines(client, ["a"], max_wait=0.3))
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_the_client_with_a_ca_sends_nothing_without_tls(files):
    assert RestClient("host:8501", "anna", tls_ca=files["ca"]).address == "https://host:8501"
    with pytest.raises(UserError, match="--tls_ca needs an address with https://"):
        RestClient("http://host:8501", "anna", tls_ca=files["ca"])


def test_the_command_client(address, files, grpc_port, tmp_path, monkeypatch):
    (tmp_path / "in").write_text("a\nb\n")
    (tmp_path / "keys").write_text(f"alice {KEY}\n")
    rest, grpc = "--server=https://{}:{}".format(*address), f"--grpc=127.0.0.1:{grpc_port}"
    flags = ["--name=anna", f"--tls_ca={files['ca']}", f"--input={tmp_path}/in"]
    key_file = f"--api_key_file={tmp_path}/keys"
    for number, server in enumerate([[rest, key_file], [rest], [grpc]]):
        if number:
            monkeypatch.setenv("TF_TRANSFORMER_API_KEY", KEY)
        output = tmp_path / f"out{number}"
        assert main(["client", *server, *flags, f"--output={output}"]) == 0
        assert output.read_text() == "A\nB\n"


def test_the_grpc_client_with_a_key_and_a_ca_of_its_own(address, files, grpc_port):
    server = f"127.0.0.1:{grpc_port}"
    client = GrpcClient(server, "anna", api_key=KEY, tls_ca=files["ca"])
    assert list(translate_lines(client, ["a", "b"])) == [("A", 1.0), ("B", 1.0)]
    client = GrpcClient(server, "anna", tls_ca=files["ca"])
    message = f"^{server} returned UNAUTHENTICATED: an API key is needed: .*: give a key of this"
    with pytest.raises(UserError, match=message):
        list(translate_lines(client, ["a"]))
    with pytest.raises(UserError, match="^--tls_ca: .*empty has no certificate in PEM format$"):
        GrpcClient(server, "anna", tls_ca=files["empty"])


def test_a_server_that_the_client_does_not_trust(address, files):
    url = "https://{}:{}".format(*address)
    for ca in (None, files["certificate"]):
        client = RestClient(url, "anna", tls_ca=ca)
        with pytest.raises(UserError, match="CERTIFICATE_VERIFY_FAILED.*--tls_ca") as raised:
            list(translate_lines(client, ["a"]))
        assert "\n" not in str(raised.value)
    plain = RestClient(url.replace("https", "http"), "anna")
    with pytest.raises(UserError, match=r"\(a server with TLS needs https://\)"):
        list(translate_lines(plain, ["a"], max_wait=0))
    with pytest.raises(UserError, match="^--tls_ca: cannot read .*missing: No such file"):
        RestClient(url, "anna", tls_ca=files["missing"])
    with pytest.raises(UserError, match="^--tls_ca: .*empty has no certificate in PEM format$"):
        RestClient(url, "anna", tls_ca=files["empty"])


def connect(address, files, **versions):
    context = ssl.create_default_context(cafile=files["ca"])
    for name, version in versions.items():
        setattr(context, name, version)
    return context.wrap_socket(socket.create_connection(address), server_hostname=address[0])


def test_versions_of_tls(address, files):
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        with connect(address, files, minimum_version=version, maximum_version=version) as secure:
            assert secure.version() == version.name.replace("_", ".")
    with pytest.warns(DeprecationWarning), pytest.raises(OSError):
        old = ssl.TLSVersion.TLSv1_1
        connect(address, files, minimum_version=old, maximum_version=old)


def test_connections_that_are_idle_are_closed(address, files):
    """Before, in and after the handshake."""
    hello = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        hello.wrap_bio(incoming, outgoing, server_hostname=address[0]).do_handshake()
    begin = outgoing.read()
    with (
        socket.create_connection(address, timeout=10) as silent,
        socket.create_connection(address, timeout=10) as incomplete,
        socket.create_connection(address, timeout=10) as plain,
        connect(address, files) as secure,
    ):
        start = time.monotonic()
        incomplete.sendall(begin[:100])
        plain.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        secure.settimeout(10)
        secure.sendall(b"GET / HT")
        for connection in (silent, incomplete, plain):
            assert not connection.recv(9999).startswith(b"HTTP")
        assert secure.recv(9999) == b""
        assert time.monotonic() - start < 5
    with connect(address, files) as secure:  # others are answered
        secure.sendall(b"GET /healthz/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert secure.recv(9999).startswith(b"HTTP/1.1 200")


def test_a_client_that_does_not_end_its_connections(address, files):
    """Its side of the connection stays open after the server has closed it."""
    descriptors = len(os.listdir("/proc/self/fd"))
    with connect(address, files) as secure:
        time.sleep(2.5)
        assert len(os.listdir("/proc/self/fd")) <= descriptors + 2
        assert secure.recv(9999) == b""


@pytest.mark.skipif(sys.version_info < (3, 11), reason="asyncio has no setting for it")
def test_a_client_that_reads_slowly_gets_all(address, files):
    """The end of the connection waits for it, longer than asyncio's limit (here 0.5 seconds)."""
    received = 0
    with connect(address, files) as secure:
        secure.settimeout(10)
        secure.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        start = time.monotonic()
        while part := secure.recv(16384):
            received += len(part)
            time.sleep(0.004)
    assert received > len(LARGE) and time.monotonic() - start > 1.5
