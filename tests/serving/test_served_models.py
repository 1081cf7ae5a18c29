"""Several models and versions in one server, over REST."""

import concurrent.futures
import contextlib
import dataclasses
import itertools
import os
import shutil
import threading
import time
from unittest import mock

import pytest
from starlette.testclient import TestClient

from serving.fake_models import FakeModel, add_versions, fake_source, waiting
from tf_transformer.errors import UserError
from tf_transformer.serving.connections import bind_address
from tf_transformer.serving.model_source import ModelSource
from tf_transformer.serving.reloader import Reloader
from tf_transformer.serving.serve_config import ServeConfig
from tf_transformer.serving.server import Server

FAST = ServeConfig(reload_seconds=0.1)


@contextlib.contextmanager
def serving(*sources, settings=FAST):
    """An HTTP client of a server that has searched all folders."""
    with TestClient(Server(sources, settings).app) as web:
        wait_until(lambda: web.get("/healthz/ready").status_code == 200)
        yield web


def wait_until(condition):
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def predict(web, model="anna", text="a"):
    """The version that answers a request, or the error."""
    response = web.post(f"/v1/models/{model}:predict", json={"instances": [text]})
    if response.status_code != 200:
        return response.status_code, response.json()["error"]
    (row,) = response.json()["predictions"]
    assert row["translation"] == text.upper()
    return row["score"]


def states(web, model="anna"):
    """The states of the versions of a model, or the error."""
    response = web.get(f"/v1/models/{model}")
    if response.status_code != 200:
        return response.status_code, response.json()["error"]
    return {
        int(state["version"]): state["state"] for state in response.json()["model_version_status"]
    }


def in_memory(folder):
    return sorted(model.version for model in FakeModel.loaded if model.path.startswith(str(folder)))


def test_versions_and_labels(tmp_path):
    add_versions(tmp_path, 1, 2, 3)
    labels = {"stable": 1, "new": 3, "gone": 4}
    source = fake_source(tmp_path, latest=None, labels=labels)
    with serving(source) as web:
        assert states(web) == {3: "AVAILABLE", 2: "AVAILABLE", 1: "AVAILABLE"}
        assert web.get("/healthz").json() == {"status": "ok", "version": 3}
        assert [predict(web), predict(web, "anna/versions/2")] == [3, 2]
        assert predict(web, "anna/labels/stable") == 1
        assert predict(web, "anna/labels/n%65w") == 3
        assert states(web, "anna/labels/stable") == {1: "AVAILABLE"}
        metadata = web.get("/v1/models/anna/labels/stable/metadata").json()
        assert metadata["model_spec"]["version"] == "1"
        unknown = (400, "Unrecognized servable version label: old")
        assert predict(web, "anna/labels/old") == unknown
        assert states(web, "anna/labels/old") == unknown
        assert predict(web, "berta/labels/old") == unknown
        missing = (404, "Servable not found for request: Specific(anna, 4)")
        assert predict(web, "anna/labels/gone") == missing
        assert predict(web, "anna/versions/4") == missing
        assert states(web, "anna/labels/gone") == (404, "Could not find version 4 of model anna")
    assert in_memory(tmp_path) == []


def test_the_newest_versions_replace_older_ones(tmp_path):
    add_versions(tmp_path, 1, 2, 3)
    with serving(fake_source(tmp_path, latest=2)) as web:
        assert in_memory(tmp_path) == [2, 3]
        add_versions(tmp_path, 5)
        wait_until(lambda: states(web) == {5: "AVAILABLE", 3: "AVAILABLE"})
        assert predict(web) == 5
        wait_until(lambda: in_memory(tmp_path) == [3, 5])


def test_a_removed_version_is_served_until_a_newer_one_appears(tmp_path):
    add_versions(tmp_path, 1, 2)
    with serving(fake_source(tmp_path)) as web:
        (tmp_path / "2").rmdir()
        time.sleep(0.5)  # some checks of the folder
        assert predict(web) == 2
        (tmp_path / "1").rmdir()
        tmp_path.rename(f"{tmp_path}-moved")
        time.sleep(0.3)
        assert states(web) == {2: "AVAILABLE"}
        add_versions(tmp_path, 3)
        wait_until(lambda: in_memory(tmp_path) == [3])
        assert predict(web) == 3


def test_removed_versions_of_the_policy_all(tmp_path):
    add_versions(tmp_path, 1, 2, 3)
    with serving(fake_source(tmp_path, latest=None)) as web:
        (tmp_path / "1").rmdir()
        (tmp_path / "3").rmdir()
        wait_until(lambda: in_memory(tmp_path) == [2, 3])
        assert predict(web) == 3
        assert predict(web, "anna/versions/1")[0] == 404


def test_a_file_in_place_of_a_version_does_not_keep_the_others_from_service(tmp_path):
    add_versions(tmp_path, 1)
    (tmp_path / "2").write_text("no folder")
    (tmp_path / "3").symlink_to(tmp_path / "removed")
    with serving(fake_source(tmp_path)) as web:
        assert states(web) == {1: "AVAILABLE"}


def test_a_version_that_failed_is_tried_again_after_growing_pauses(tmp_path, monkeypatch):
    """A reason may pass without a change of the files."""
    add_versions(tmp_path, 1)
    now, attempts = [0.0], []
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def load(path, concurrency):
        attempts.append(now[0])
        if len(attempts) < 10:
            raise MemoryError("too little memory")
        return path

    source = dataclasses.replace(fake_source(tmp_path), load=load)
    reloader = Reloader(source, mock.Mock())
    loaded = None
    while not loaded:
        for version in reloader.wanted([]):
            loaded = reloader.load(version)
        assert bool(loaded) == (reloader.failures != {1: "too little memory"})
        now[0] += 60
    pauses = [int(after - before) // 60 for before, after in itertools.pairwise(attempts)]
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert reloader.failures == {}


def test_a_specific_version_that_is_missing(tmp_path):
    add_versions(tmp_path, 1, 2)
    specific = frozenset({1, 7})
    with serving(fake_source(tmp_path, latest=None, specific=specific)) as web:
        assert states(web) == {1: "AVAILABLE", 7: "END"}
        status = web.get("/v1/models/anna/versions/7").json()["model_version_status"][0]["status"]
        assert status["error_code"] == "FAILED_PRECONDITION"
        assert status["error_message"] == f"{tmp_path}/7 does not exist"
        assert predict(web) == 1
        add_versions(tmp_path, 7)
        wait_until(lambda: states(web) == {7: "AVAILABLE", 1: "AVAILABLE"})
        assert predict(web) == 7


def test_a_failing_model_does_not_stop_the_others(tmp_path):
    add_versions(tmp_path / "anna", 1)
    add_versions(tmp_path / "berta", 1, 4)
    (tmp_path / "anna" / "1" / "broken").touch()
    (tmp_path / "carla").mkdir()
    names = ("anna", "berta", "carla")
    with serving(*(fake_source(tmp_path / name, name) for name in names)) as web:
        assert web.get("/healthz/ready").json() == {"status": "ok", "versions": {"berta": 4}}
        assert predict(web, "berta") == 4
        assert predict(web) == (404, "Servable not found for request: Latest(anna)")
        assert states(web) == {1: "END"}
        assert states(web, "carla") == (404, "Could not find any versions of model carla")
        metrics = web.get("/metrics").text
        assert 'tf_transformer_failed_loads_total{model="anna"} 1.0' in metrics
        assert 'tf_transformer_failed_loads_total{model="berta"} 0.0' in metrics
        assert 'tf_transformer_version{model="berta"} 4.0' in metrics
        (tmp_path / "anna" / "1" / "broken").unlink()
        add_versions(tmp_path / "carla", 2)
        wait_until(lambda: web.get("/healthz").json()["versions"].keys() == set(names))
        assert predict(web) == 1


def test_a_model_that_loads_slowly_does_not_delay_the_others(tmp_path):
    gate = threading.Event()

    def load_slowly(path, concurrency):
        assert gate.wait(20)
        return FakeModel(path, concurrency)

    add_versions(tmp_path / "anna", 1)
    add_versions(tmp_path / "berta", 1)
    slow = ModelSource("anna", str(tmp_path / "anna"), load=load_slowly)
    with TestClient(Server([slow, fake_source(tmp_path / "berta", "berta")], FAST).app) as web:
        wait_until(lambda: predict(web, "berta") == 1)
        assert predict(web) == (503, "the model is being loaded")
        assert states(web) == {1: "LOADING"}
        assert web.get("/healthz/ready").json() == {"status": "the model is being loaded"}
        add_versions(tmp_path / "berta", 2)
        wait_until(lambda: predict(web, "berta") == 2)
        gate.set()
        wait_until(lambda: web.get("/healthz/ready").status_code == 200)
        assert predict(web) == 1


def test_a_server_without_any_version_ends(tmp_path):
    settings = ServeConfig(port=0)
    for name in ("anna", "berta"):
        (tmp_path / name).mkdir()
    sources = [fake_source(tmp_path / name, name) for name in ("anna", "berta")]
    message = f"no version of a model in {tmp_path}/anna, {tmp_path}/berta can be loaded"
    with bind_address(settings) as bound, pytest.raises(UserError, match=message):
        Server(sources, settings).run(bound)


def test_two_busy_models_take_turns(tmp_path):
    """The models share a thread. Requests of one do not wait for the queue of the other."""
    for name in ("anna", "berta"):
        add_versions(tmp_path / name, 1)
    settings = ServeConfig(max_batch_size=1)
    sources = [fake_source(tmp_path / name, name) for name in ("anna", "berta")]
    with (
        serving(*sources, settings=settings) as web,
        concurrent.futures.ThreadPoolExecutor(16) as executor,
    ):
        with waiting(tmp_path) as models:
            FakeModel.computed.clear()
            requests = [executor.submit(predict, web, "anna") for _ in range(12)]
            wait_until(lambda: _waiting(web) >= 11)
            requests += [executor.submit(predict, web, "berta") for _ in range(3)]
            wait_until(lambda: _waiting(web) >= 13)
        assert [request.result() for request in requests] == [1] * 15
    order = [os.path.basename(os.path.dirname(path)) for path in FakeModel.computed]
    assert sorted(len(model.batches) for model in models) == [3, 12]
    assert order.index("berta") < 6
    assert len(order) - order[::-1].index("berta") < 12


def _waiting(web):
    return sum(
        float(line.rpartition(" ")[2])
        for line in web.get("/metrics").text.splitlines()
        if line.startswith("tf_transformer_waiting{")
    )


def test_a_replaced_version_answers_its_requests(tmp_path):
    add_versions(tmp_path, 1)
    settings = ServeConfig(reload_seconds=0.1, concurrent_batches=2)
    with (
        serving(fake_source(tmp_path), settings=settings) as web,
        concurrent.futures.ThreadPoolExecutor(1) as executor,
    ):
        with waiting(tmp_path) as models:
            old = executor.submit(predict, web)
            wait_until(lambda: models[0].batches)
            add_versions(tmp_path, 2)
            wait_until(lambda: states(web) == {2: "AVAILABLE"})
            assert predict(web) == 2
            shutil.rmtree(tmp_path / "1")
            assert in_memory(tmp_path) == [1, 2]
        assert old.result() == 1
        wait_until(lambda: in_memory(tmp_path) == [2])
    assert os.listdir(tmp_path) == ["2"]
