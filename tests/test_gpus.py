"""GPUs that TensorFlow does not cover."""

import types

import pytest
import tensorflow as tf

from tf_transformer.errors import UserError
from tf_transformer.gpus import check_products, missing_machine_code
from tf_transformer.training.compilation import choose_jit_compile


def devices_of(monkeypatch, *capabilities, built=("sm_60", "sm_89", "compute_90")):
    """Physical GPUs of some capabilities, and a TensorFlow with machine code for others."""
    devices = [
        types.SimpleNamespace(name=f"/physical_device:GPU:{i}", details={"compute_capability": x})
        for i, x in enumerate(capabilities)
    ]
    experimental = tf.config.experimental
    monkeypatch.setattr(experimental, "get_device_details", lambda device: device.details)
    build = {"cuda_compute_capabilities": list(built)}
    monkeypatch.setattr(tf.sysconfig, "get_build_info", lambda: build)
    return devices


@pytest.mark.parametrize(("capabilities", "missing"), [
    ([(9, 0)], ""),
    ([(6, 1), (8, 9)], ""),
    ([(8, 0)], "8.0"),  # machine code of 8.9 does not run there
    ([(9, 0), (12, 0)], "12.0"),
    ([(10, 3)], "10.3"),
])  # fmt: skip
def test_gpus_without_machine_code(monkeypatch, capabilities, missing):
    devices = devices_of(monkeypatch, *capabilities)
    text = missing_machine_code(devices)
    assert (f"has compute capability {missing}, and TensorFlow" in text) if missing else not text
    assert choose_jit_compile("auto", devices) == (not missing)
    assert choose_jit_compile("on", devices) and not choose_jit_compile("off", devices)


def test_cpus_and_other_builds(monkeypatch):
    assert not missing_machine_code([]) and not choose_jit_compile("auto", [])
    assert choose_jit_compile("on", [])
    assert not missing_machine_code(devices_of(monkeypatch, (9, 0), built=()))  # such as ROCm


def test_a_gpu_that_cannot_compute(monkeypatch):
    """It is named, with what to do; there is no GPU here, so a product fails by itself."""

    def fail(*_):
        raise tf.errors.InternalError(None, None, "'cuLaunchKernel' failed: CUDA_ERROR_INVALID_PTX")

    device = types.SimpleNamespace(name="/device:GPU:0")
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: [device])
    monkeypatch.setattr(tf.linalg, "matmul", fail)
    with pytest.raises(UserError, match=r"on GPU:0 \(.*INVALID_PTX\): .*CUDA_VISIBLE_DEVICES=-1"):
        check_products()
