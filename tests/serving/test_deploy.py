"""The files of deploy/ agree with each other, and with the flags and defaults of the server.

`tests/test_nginx.py` runs nginx with them.
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

ROOT = pathlib.Path(__file__).parents[2]
FOLDER = ROOT / "deploy"
DEFAULTS = ServeConfig()
MODEL = "/models/transformer"
IMAGE = f"tf-transformer:{tf_transformer.__version__}"
DOCKERFILE = (FOLDER / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
README = (FOLDER / "README.md").read_text("utf-8")
COMPOSE = yaml.safe_load((FOLDER / "compose.yaml").read_text("utf-8"))
SERVICE = (FOLDER / "tf-transformer@.service").read_text("utf-8")
NGINX = (FOLDER / "nginx" / "tf-transformer.conf").read_text("utf-8")
UPSTREAM = (FOLDER / "nginx" / "upstream.conf").read_text("utf-8")
KUBERNETES = [
    item
    for name in ("front", "server", "tensorflow-serving")
    for item in yaml.safe_load_all((FOLDER / "kubernetes" / f"{name}.yaml").read_text("utf-8"))
]


def specifications(kind):
    """Of the items "translation" of a kind."""
    items = [item for item in KUBERNETES if item["metadata"]["name"] == "translation"]
    return [item["spec"] for item in items if item["kind"] == kind]


# Of our server, and of TensorFlow Serving.
POD, OTHER_POD = (each["template"]["spec"] for each in specifications("Deployment"))
CONTAINER, OTHER_CONTAINER = (pod["containers"][0] for pod in (POD, OTHER_POD))


def last(name, text=DOCKERFILE):
    """The value of the last instruction, or directive of nginx or systemd, with this name."""
    return re.findall(rf"^\s*{name}[= ]+([^;\n]*)", text, re.M)[-1]


def seconds(text):
    return float(str(text).removesuffix("s"))


def served(command):
    """The flags of `tf-transformer serve ...`."""
    program, name, *flags = command
    assert (pathlib.Path(program).name, name) == ("tf-transformer", "serve")
    return parse("serve", flags)


def test_the_image():
    values = served([*json.loads(last("ENTRYPOINT")), *json.loads(last("CMD"))])
    assert (values.host, values.export_dir) == ("0.0.0.0", MODEL)
    assert values.port is None  # ServeConfig has it
    export = re.search(r"tf-transformer export (.*)", DOCKERFILE)[1].split()
    assert parse("export", export).output == MODEL
    assert last("USER").split(":")[0] == str(POD["securityContext"]["runAsUser"])
    images = {each["image"] for each in COMPOSE["services"].values() if "build" in each}
    images |= {each["image"] for each in (CONTAINER, *OTHER_POD["initContainers"])}
    assert images | set(re.findall(r"tf-transformer:\d[\d.]*\d", README)) == {IMAGE}
    # Its context has the files that the package needs.
    kept = re.findall("^!(.*)", (ROOT / ".dockerignore").read_text("utf-8"), re.M)
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    needed = re.findall(r'^(?:readme|license-files) = \[?"([^"]+)"', project, re.M)
    assert {*kept} == {*needed, "pyproject.toml", "setup.py", "tf_transformer"}


def test_paths_of_probes_are_routes_of_the_server():
    routes = (ROOT / "tf_transformer" / "serving" / "server.py").read_text("utf-8")
    probes = [CONTAINER[f"{name}Probe"] for name in ("startup", "readiness", "liveness")]
    paths = [probe["httpGet"]["path"] for probe in probes]
    paths += re.findall(r"127\.0\.0\.1:\d+(/[\w/]+)", DOCKERFILE)
    assert len(paths) == 4
    assert all(f'"{path}"' in routes for path in paths)


def test_limits_and_times():
    assert (last("client_max_body_size", NGINX), DEFAULTS.max_request_bytes) == ("1m", 2**20)
    timeout = seconds(last("proxy_read_timeout", NGINX))
    assert timeout > DEFAULTS.timeout
    assert timeout == seconds(last("grpc_read_timeout", NGINX))
    services = COMPOSE["services"]
    assert seconds(services["nginx"]["stop_grace_period"]) > timeout
    _, pause = CONTAINER["lifecycle"]["preStop"]["exec"]["command"]
    stops = [  # for the answers to pending requests
        services["server-1"]["stop_grace_period"],
        last("TimeoutStopSec", SERVICE),
        POD["terminationGracePeriodSeconds"] - seconds(pause),
        *re.findall(r"--stop-timeout=(\d+)", README),
    ]
    assert len(stops) > 3
    assert min(map(seconds, stops)) > DEFAULTS.grace_seconds


def test_tensorflow_serving_gets_the_files_of_an_export(exported):
    written = pathlib.Path(exported).parent
    for flags in (COMPOSE["services"]["tensorflow-serving"]["command"], OTHER_CONTAINER["args"]):
        files = re.findall(rf"={MODEL}/(\S+)", " ".join(flags))
        assert len(files) == 3
        assert all((written / name).is_file() for name in files)


def test_the_service(tmp_path):
    program, *flags = shlex.split(last("ExecStart", SERVICE).replace("%i", "8502"))
    values = served([program, *flags[:-1]])
    assert (values.port, values.host, flags[-1]) == (8502, None, "$FLAGS")
    (example,) = re.findall(r'FLAGS="(.*)"', SERVICE)
    assert served([program, "serve", *example.split()]).export_dir
    if not shutil.which("systemd-analyze"):
        pytest.skip("no systemd-analyze")
    unit = tmp_path / "tf-transformer@8501.service"
    unit.write_text(SERVICE.replace(f"ExecStart={program}", f"ExecStart={sys.executable}"))
    command = ["systemd-analyze", "verify", str(unit)]
    assert subprocess.run(command, capture_output=True, timeout=600).stderr == b""
