"""The files of deploy/ agree with each other, and with the flags and defaults of the server."""

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
from tf_transformer.export import saved_model

ROOT = pathlib.Path(__file__).parents[1]
FOLDER = ROOT / "deploy"
DEFAULTS = ServeConfig()
MODEL = "/models/transformer"
IMAGE = f"tf-transformer:{tf_transformer.__version__}"
DOCKERFILE = (FOLDER / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
COMPOSE = yaml.safe_load((FOLDER / "compose.yaml").read_text("utf-8"))["services"]
KUBERNETES = {
    item["kind"]: item
    for item in yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text("utf-8"))
}
SERVICE = (FOLDER / "tf-transformer.service").read_text("utf-8")


def instructions(name):
    """The arguments of an instruction of the Dockerfile."""
    return re.findall(rf"^\s*{name} +(.+)$", DOCKERFILE, re.M)


def directives(name):
    """The values of a directive of the systemd service."""
    return re.findall(rf"^{name}=(.*)$", SERVICE, re.M)


def seconds(text):
    return float(str(text).removesuffix("s"))


def pod():
    return KUBERNETES["Deployment"]["spec"]["template"]


def container():
    (only,) = pod()["spec"]["containers"]
    return only


def served(arguments):
    """The flags of `tf-transformer serve ...`."""
    program, command, *rest = arguments
    assert program.endswith("tf-transformer")
    assert command == "serve"
    return parse("serve", rest)


def test_the_command_of_the_image():
    entry_point, default = instructions("ENTRYPOINT")[-1], instructions("CMD")[-1]
    values = served([*json.loads(entry_point), *json.loads(default)])
    assert (values.host, values.export_dir) == ("0.0.0.0", MODEL)
    assert values.port is None  # the port of ServeConfig


def test_the_image():
    bases = instructions("FROM")
    assert len({base.split()[0] for base in bases}) == 1  # the virtual environment is copied
    version = tuple(map(int, re.search(r"python:(\d+)\.(\d+)-", bases[0]).groups()))
    assert (3, 10) <= version <= (3, 13)
    export = re.search(r"tf-transformer (export .*)", DOCKERFILE)[1].split()
    assert parse(export[0], export[1:]).output == MODEL
    assert f"--tag={IMAGE} ." in DOCKERFILE
    user, group = instructions("USER")[-1].split(":")
    assert f"--uid={user} " in DOCKERFILE
    context = pod()["spec"]["securityContext"]
    assert (context["runAsUser"], context["runAsGroup"]) == (int(user), int(group))
    assert user != "0"


def test_the_context_of_the_image_has_the_files_that_the_package_needs():
    lines = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    kept = {line[1:] for line in lines if line.startswith("!")}
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    needed = re.findall(r'^(?:readme|license-files) = \[?"([^"]+)"', project, re.M)
    assert kept == {*needed, "pyproject.toml", "setup.py", "tf_transformer"}
    assert all((ROOT / name).exists() for name in kept)


def test_ports():
    port = DEFAULTS.port
    assert instructions("EXPOSE") == [str(port)]
    assert COMPOSE["tf-transformer"]["ports"] == [f"127.0.0.1:{port}:{port}"]
    assert f"127.0.0.1:{port}:{port}" in COMPOSE["tensorflow-serving"]["ports"]
    assert pod()["metadata"]["annotations"]["prometheus.io/port"] == str(port)
    (pod_port,), (service_port,) = container()["ports"], KUBERNETES["Service"]["spec"]["ports"]
    assert pod_port["containerPort"] == service_port["port"] == port
    assert pod_port["name"] == service_port["targetPort"] == "http"


def test_paths_of_probes():
    """Each of them is a route of the server."""
    routes = (ROOT / "tf_transformer" / "serving" / "server.py").read_text("utf-8")
    health = re.search(r"http://127\.0\.0\.1:(\d+)(/[\w/]+)", instructions("HEALTHCHECK")[-1])
    assert health.groups() == (str(DEFAULTS.port), "/healthz/ready")
    probes = {name: container()[f"{name}Probe"] for name in ("startup", "readiness", "liveness")}
    paths = {name: probe["httpGet"]["path"] for name, probe in probes.items()}
    assert paths == {
        "startup": "/healthz/ready",
        "readiness": "/healthz/ready",
        "liveness": "/healthz/live",
    }
    for path in (*paths.values(), pod()["metadata"]["annotations"]["prometheus.io/path"]):
        assert f'"{path}"' in routes
    assert {probe["httpGet"]["port"] for probe in probes.values()} == {"http"}


def test_the_server_has_time_to_answer_what_is_pending():
    grace = DEFAULTS.grace_seconds
    assert seconds(COMPOSE["tf-transformer"]["stop_grace_period"]) > grace
    assert seconds(directives("TimeoutStopSec")[-1]) > grace
    command, pause = container()["lifecycle"]["preStop"]["exec"]["command"]
    assert command == "sleep"
    assert pod()["spec"]["terminationGracePeriodSeconds"] > seconds(pause) + grace
    stop_timeouts = re.findall(r"--stop-timeout=(\d+)", (FOLDER / "README.md").read_text("utf-8"))
    assert stop_timeouts
    assert all(seconds(text) > grace for text in stop_timeouts)


def test_versions_of_the_image():
    assert COMPOSE["tf-transformer"]["image"] == container()["image"] == IMAGE
    readme = (FOLDER / "README.md").read_text("utf-8")
    assert set(re.findall(r"tf-transformer:\d[\d.]*\d", readme)) == {IMAGE}


def test_no_server_can_write_or_gain_privileges():
    compose = COMPOSE["tf-transformer"]
    assert compose["read_only"]
    assert compose["cap_drop"] == ["ALL"]
    assert compose["security_opt"] == ["no-new-privileges:true"]
    assert container()["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod()["spec"]["securityContext"]["runAsNonRoot"]
    assert directives("DynamicUser") == directives("NoNewPrivileges") == ["yes"]
    assert directives("ProtectSystem") == ["strict"]
    assert directives("CapabilityBoundingSet") == [""]


def test_labels_of_kubernetes():
    labels = pod()["metadata"]["labels"]
    for kind in ("Deployment", "PodDisruptionBudget"):
        assert KUBERNETES[kind]["spec"]["selector"]["matchLabels"] == labels
    assert KUBERNETES["Service"]["spec"]["selector"] == labels
    kept = KUBERNETES["PodDisruptionBudget"]["spec"]["minAvailable"]
    assert kept < KUBERNETES["Deployment"]["spec"]["replicas"]


def test_tensorflow_serving_gets_the_files_of_an_export():
    """The command of the export's README, with the folder of its models.config."""
    settings = saved_model._server_settings("transformer")
    assert f'base_path: "{MODEL}"' in settings["models.config"]
    service = COMPOSE["tensorflow-serving"]
    files = [flag.partition("=")[2] for flag in service["command"] if "=" in flag]
    assert sorted(files) == sorted(f"{MODEL}/{name}" for name in settings)
    (volume,) = service["volumes"]
    assert volume.endswith(f"/export/saved_model}}:{MODEL}:ro")


def test_flags_of_the_service():
    environment = shlex.split(" ".join(directives("Environment")))
    settings = dict(text.split("=", 1) for text in environment)
    (command,) = directives("ExecStart")
    for name, value in settings.items():
        command = re.sub(rf"\$\{{?{name}\b\}}?", value, command)
    program, *arguments = shlex.split(command)
    values = served([program, *arguments])
    assert (values.host, values.port) == (DEFAULTS.host, DEFAULTS.port)
    (example,) = re.findall(r'FLAGS="(.*)"', SERVICE)
    assert served([program, "serve", *example.split()]).export_dir


def test_systemd_reads_the_service(tmp_path):
    if not shutil.which("systemd-analyze"):
        pytest.skip("no systemd-analyze")
    (program,) = re.findall(r"^ExecStart=(\S+)", SERVICE, re.M)
    unit = tmp_path / "tf-transformer.service"
    unit.write_text(SERVICE.replace(f"ExecStart={program}", f"ExecStart={sys.executable}"))
    result = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=60
    )
    assert (result.returncode, result.stdout + result.stderr) == (0, "")
