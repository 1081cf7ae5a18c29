"""The gradients of a training step as StableHLO for a GPU, made on a machine without one."""

import functools
import pathlib
import re
import sys

import pytest

sys.path.append(str(pathlib.Path(__file__).parents[1] / "benchmarks"))
import step_stablehlo

from tf_transformer.checkpoints.loading import build_model
from tf_transformer.config import Config
from tf_transformer.training.train_step import shard_gradients

TINY = Config().replace(num_layers=1, d_model=32, num_heads=2, dff=64)


@pytest.mark.parametrize("precision", ["float32", "mixed_bfloat16"])
def test_the_step_compiles_for_gpus(precision):
    config = TINY.with_vocabularies(300, 300)
    model = build_model(config.model, precision)
    gradients = functools.partial(shard_gradients, config.train, model)
    text = step_stablehlo.gpu_stablehlo(gradients, model, rows=6, length=5)
    signature = re.search(r"func\.func (?:public )?@main\((.*?)\) -> \((.*?)\) ?\{", text, re.S)
    arguments, results = (re.findall(r"tensor<([^>]*)>", part) for part in signature.groups())
    shapes = ["x".join(map(str, weight.shape)) + "xf32" for weight in model.weights]
    ids = ["6x5xi32", "6x6xi32", "2xi32"]
    assert sorted(arguments) == sorted([*shapes, *ids, "i64", "f32"])
    assert sorted(results) == sorted([*shapes, "5xf32"])
    assert "custom_call" not in text  # nothing is computed on the host
    products = re.findall(r"stablehlo\.dot_general .*tensor<[\dx]+x(\w+)>,", text)
    assert set(products) == {"f32" if precision == "float32" else "bf16"}
