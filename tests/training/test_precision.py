"""The choice of precision. Its effect on an update is in test_update.py."""

import pytest
import tensorflow as tf

from tf_transformer import host
from tf_transformer.training import precision


@pytest.mark.parametrize(("capabilities", "cpu_flags", "chosen"), [
    ([(9, 0), (8, 0)], "", "mixed_bfloat16"),
    ([(8, 6), (7, 5)], "amx_bf16", "float32"),  # all GPUs need compute capability 8
    ([None], "", "float32"),
    ([], "avx512f amx_bf16 amx_tile", "mixed_bfloat16"),
    ([], "avx512_bf16", "float32"),
])  # fmt: skip
def test_auto(monkeypatch, tmp_path, capabilities, cpu_flags, chosen):
    """On GPUs, or where there are none, on the CPU."""
    details = [{"compute_capability": value} if value else {} for value in capabilities]
    monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda gpu: details[gpu])
    (tmp_path / "cpuinfo").write_text(f"flags : {cpu_flags}")
    monkeypatch.setattr(host, "CPU_INFO", tmp_path / "cpuinfo")
    assert precision.choose_precision("auto", list(range(len(details)))) == chosen
