"""Operations of Table 2: the paper's estimate, and a count that equals TensorFlow's graph."""

import pytest
import tensorflow as tf

from tf_transformer.checkpoints.loading import build_model
from tf_transformer.config import ModelConfig
from tf_transformer.paper.flops import (
    PAPER_HOURS,
    matrix_operations,
    paper_operations,
    training_operations,
)
from tf_transformer.presets import preset

SIZES = {
    "num_layers": 2, "d_model": 16, "num_heads": 2, "dff": 24, "dropout_rate": 0.0,
    "input_vocab_size": 40, "target_vocab_size": 40,
}  # fmt: skip


@pytest.mark.parametrize(("name", "printed"), [("base", 3.3e18), ("big", 2.3e19)])
def test_the_papers_estimate(name, printed):
    assert paper_operations(PAPER_HOURS[name]) == pytest.approx(printed, rel=0.01)


def product_operations(operation):
    """Multiplications and additions of a matrix product in a graph."""
    transposed = operation.get_attr("transpose_a" if operation.type == "MatMul" else "adj_x")
    inner = operation.inputs[0].shape[-2 if transposed else -1]
    return 2 * inner * operation.outputs[0].shape.num_elements()


@pytest.mark.parametrize("changes", [
    {},
    {"key_dim": 4},
    {"key_dim": 4, "value_dim": 6},
    {"num_layers": 3, "num_heads": 1},
    {"num_encoder_layers": 3, "num_decoder_layers": 1, "norm": "pre"},
])  # fmt: skip
def test_the_count_equals_the_products_in_the_graph(changes):
    """The forward pass has a third of the operations of an update."""
    config = ModelConfig(**(SIZES | changes))
    model = build_model(config)
    rows, source, target = 3, 7, 5
    ids = [tf.TensorSpec([rows, length], tf.int32) for length in (source, target)]
    forward = tf.function(lambda inp, tar: model(inp, tar)[0], autograph=False)
    counted = 0
    for operation in forward.get_concrete_function(*ids).graph.get_operations():
        assert operation.type != "Einsum"
        if operation.type in ("MatMul", "BatchMatMulV2"):
            counted += product_operations(operation)
    assert matrix_operations(config, rows, source, target) == 3 * counted


def test_operations_of_a_whole_run():
    base = preset("base").replace(input_vocab_size=37000, target_vocab_size=37000)
    # Two operations for each weight and pair of tokens, three times: all products but q k^T and
    # the weighted sums.
    expected = 3 * 2 * 25_000 * 100_000 * 63_082_496
    assert expected < training_operations(base) < 1.02 * expected
    assert training_operations(base.replace(train_steps=200_000)) == 2 * training_operations(base)
