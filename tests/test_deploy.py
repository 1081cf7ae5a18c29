"""The files of deploy/ agree with each other, and with the flags and defaults of the server.

`test_nginx.py` runs nginx with them.
"""

import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import pytest
import yaml

import tf_transformer
from tf_transformer.cli.main import parse
from tf_transformer.config import ServeConfig

ROOT = pathlib.Path(__file__).parents[1]
FOLDER = ROOT / "deploy"
DEFAULTS = ServeConfig()
MODEL = "/models/transformer"
IMAGE = f"tf-transformer:{tf_transformer.__version__}"
DOCKERFILE = (FOLDER / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
README = (FOLDER / "README.md").read_text("utf-8")
COMPOSE = yaml.safe_load((FOLDER / "compose.yaml").read_text("utf-8"))
SERVICE = (FOLDER / "tf-transformer@.service").read_text("utf-8")
NGINX = (FOLDER / "nginx" / "tf-transformer.conf").read_text("utf-8")
KUBERNETES = [
    item
    for name in ("front", "server", "tensorflow-serving")
    for item in yaml.safe_load_all((FOLDER / "kubernetes" / f"{name}.yaml").read_text("utf-8"))
]
SERVER, TENSORFLOW_SERVING = (
    item["spec"]["template"]
    for item in KUBERNETES
    if (item["kind"], item["metadata"]["name"]) == ("Deployment", "translation")
)


def instructions(name):
    """The arguments of an instruction of the Dockerfile."""
    return re.findall(rf"^\s*{name} +(.+)$", DOCKERFILE, re.M)


def directive(text, name):
    """The value of a directive of the systemd service, or of nginx."""
    return re.findall(rf"^\s*{name}[= ]([^;\n]*)", text, re.M)[-1]


def seconds(text):
    return float(str(text).removesuffix("s"))


def container(pod):
    (only,) = pod["spec"]["containers"]
    return only


def served(arguments):
    """The flags of `tf-transformer serve ...`."""
    program, command, *rest = arguments
    assert program.endswith("tf-transformer")
    assert command == "serve"
    return parse("serve", rest)


def test_the_image():
    entry_point, default = instructions("ENTRYPOINT")[-1], instructions("CMD")[-1]
    values = served([*json.loads(entry_point), *json.loads(default)])
    assert (values.host, values.export_dir) == ("0.0.0.0", MODEL)
    assert values.port is None  # the port of ServeConfig
    export = re.search(r"tf-transformer (export .*)", DOCKERFILE)[1].split()
    assert parse(export[0], export[1:]).output == MODEL
    assert len({base.split()[0] for base in instructions("FROM")}) == 1  # of the environment
    user = instructions("USER")[-1].split(":")[0]
    assert SERVER["spec"]["securityContext"]["runAsUser"] == int(user)
    images = {each["image"] for each in COMPOSE["services"].values() if "build" in each}
    images |= {container(SERVER)["image"]}
    images |= {each["image"] for each in TENSORFLOW_SERVING["spec"]["initContainers"]}
    assert images | set(re.findall(r"tf-transformer:\d[\d.]*\d", README)) == {IMAGE}


def test_the_context_of_the_image_has_the_files_that_the_package_needs():
    lines = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    kept = {line[1:] for line in lines if line.startswith("!")}
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    needed = re.findall(r'^(?:readme|license-files) = \[?"([^"]+)"', project, re.M)
    assert kept == {*needed, "pyproject.toml", "setup.py", "tf_transformer"}


def test_ports():
    port = DEFAULTS.port
    assert instructions("EXPOSE") == [str(port)]
    upstream = (FOLDER / "nginx" / "upstream.conf").read_text("utf-8")
    services = set(re.findall(r"tf-transformer@(\d+)", README))
    assert set(re.findall(r"127\.0\.0\.1:(85\d\d) max", upstream)) == services
    assert str(port) in services
    (service,) = (
        item["spec"]
        for item in KUBERNETES
        if (item["kind"], item["metadata"]["name"]) == ("Service", "translation")
    )
    ports = {each["targetPort"]: each["port"] for each in service["ports"]}
    for pod in (SERVER, TENSORFLOW_SERVING):
        assert pod["metadata"]["labels"] == service["selector"]
        named = {each["name"]: each["containerPort"] for each in container(pod)["ports"]}
        assert named == {name: ports[name] for name in named}
    assert named == ports
    assert ports["http"] == port
    for text in (upstream, COMPOSE["configs"]["upstream"]["content"], json.dumps(KUBERNETES)):
        assert f":{ports['http']} " in text
        assert re.search(rf"translation_grpc .*:{ports['grpc']}\b", text, re.S)


def test_paths_of_probes_are_routes_of_the_server():
    routes = (ROOT / "tf_transformer" / "serving" / "server.py").read_text("utf-8")
    probes = [container(SERVER)[f"{name}Probe"] for name in ("startup", "readiness", "liveness")]
    paths = [probe["httpGet"]["path"] for probe in probes]
    paths += [SERVER["metadata"]["annotations"]["prometheus.io/path"]]
    paths += [re.search(r"127\.0\.0\.1:\d+(/[\w/]+)", instructions("HEALTHCHECK")[-1])[1]]
    assert len(paths) == 5
    assert all(f'"{path}"' in routes for path in paths)


def test_limits_and_times_of_nginx():
    assert directive(NGINX, "client_max_body_size") == "1m"
    assert DEFAULTS.max_request_bytes == 2**20
    timeout = seconds(directive(NGINX, "proxy_read_timeout"))
    assert timeout > DEFAULTS.timeout
    assert timeout == seconds(directive(NGINX, "grpc_read_timeout"))
    assert seconds(COMPOSE["services"]["nginx"]["stop_grace_period"]) > timeout


def test_the_server_has_time_to_answer_what_is_pending():
    grace = DEFAULTS.grace_seconds
    assert seconds(COMPOSE["services"]["server-1"]["stop_grace_period"]) > grace
    assert seconds(directive(SERVICE, "TimeoutStopSec")) > grace
    _, pause = container(SERVER)["lifecycle"]["preStop"]["exec"]["command"]
    assert SERVER["spec"]["terminationGracePeriodSeconds"] > seconds(pause) + grace
    stop_timeouts = re.findall(r"--stop-timeout=(\d+)", README)
    assert stop_timeouts
    assert all(seconds(text) > grace for text in stop_timeouts)


def test_tensorflow_serving_gets_the_files_of_an_export(exported):
    """Its flags name files that the folder of the versions has."""
    written = pathlib.Path(exported).parent
    commands = [COMPOSE["services"]["tensorflow-serving"]["command"]]
    commands += [container(TENSORFLOW_SERVING)["args"]]
    for command in commands:
        files = [flag.partition(f"={MODEL}/")[2] for flag in command if f"={MODEL}/" in flag]
        assert len(files) == 3
        assert all((written / name).is_file() for name in files)


def test_flags_of_the_service():
    (command,) = re.findall(r"^ExecStart=(.*)", SERVICE, re.M)
    values = served(shlex.split(command.replace("%i", "8502").replace("$FLAGS", "")))
    assert (values.port, values.host) == (8502, None)
    (example,) = re.findall(r'FLAGS="(.*)"', SERVICE)
    assert served(["tf-transformer", "serve", *example.split()]).export_dir


def test_systemd_reads_the_service(tmp_path):
    if not shutil.which("systemd-analyze"):
        pytest.skip("no systemd-analyze")
    (program,) = re.findall(r"^ExecStart=(\S+)", SERVICE, re.M)
    unit = tmp_path / "tf-transformer@8501.service"
    unit.write_text(SERVICE.replace(f"ExecStart={program}", f"ExecStart={sys.executable}"))
    result = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=60
    )
    assert (result.returncode, result.stdout + result.stderr) == (0, "")
