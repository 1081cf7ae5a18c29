"""The choice of precision. Its effect on an update is in test_update.py."""

import pytest
import tensorflow as tf

from tf_transformer import host
from tf_transformer.training import precision


@pytest.mark.parametrize(("capabilities", "chosen"), [
    ([(9, 0), (8, 0)], "mixed_bfloat16"), ([(8, 6), (7, 5)], "float32"), ([None], "float32"),
])  # fmt: skip
def test_gpus_with_compute_capability_8_use_bfloat16(monkeypatch, capabilities, chosen):
    """All GPUs need compute capability 8; a GPU without the field has none."""
    details = [{"compute_capability": value} if value else {} for value in capabilities]
    monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda gpu: details[gpu])
    assert precision.choose_precision("auto", list(range(len(details)))) == chosen


@pytest.mark.parametrize(
    ("text", "chosen"),
    [("flags : avx512f amx_bf16 amx_tile", "mixed_bfloat16"), ("flags : avx512_bf16", "float32")],
)
def test_cpus_with_amx_use_bfloat16(monkeypatch, tmp_path, text, chosen):
    (tmp_path / "cpuinfo").write_text(text)
    monkeypatch.setattr(host, "CPU_INFO", tmp_path / "cpuinfo")
    assert precision.choose_precision("auto", []) == chosen
