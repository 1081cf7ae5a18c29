"""Table 2's operations: the paper's estimate to its printed digits, and a count that equals TensorFlow's own."""

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


@pytest.mark.parametrize(("name", "printed"), [("base", 3.3e18), ("big", 2.3e19)])
def test_the_papers_estimate(name, printed):
    assert paper_operations(PAPER_HOURS[name]) == pytest.approx(printed, rel=0.01)


@pytest.mark.parametrize(
    "changes",
    [{}, {"key_dim": 4}, {"key_dim": 4, "value_dim": 6}, {"num_layers": 3, "num_heads": 1}],
)
def test_the_count_is_that_of_the_graphs_products(changes):
    """TensorFlow counts the multiplications and additions of every product in the graph of a forward pass, a third of an update."""
    sizes = {
        "num_layers": 2,
        "d_model": 16,
        "num_heads": 2,
        "dff": 24,
        "input_vocab_size": 40,
        "target_vocab_size": 40,
        "dropout_rate": 0.0,
    }
    config = ModelConfig(**(sizes | changes))
    model, rows, source, target = build_model(config), 3, 7, 5
    ids = [tf.TensorSpec([rows, length], tf.int32) for length in (source, target)]
    graph = (
        tf.function(lambda inp, tar: model(inp, tar)[0], autograph=False)
        .get_concrete_function(*ids)
        .graph
    )
    counted = 0
    for operation in graph.get_operations():
        if operation.type in ("MatMul", "BatchMatMulV2"):
            inner = operation.inputs[0].shape[
                -2
                if operation.get_attr("transpose_a" if operation.type == "MatMul" else "adj_x")
                else -1
            ]
            counted += 2 * inner * operation.outputs[0].shape.num_elements()
        assert operation.type != "Einsum"
    assert matrix_operations(config, rows, source, target) == 3 * counted


def test_a_whole_run():
    config = preset("base")
    base = config.replace(input_vocab_size=37000, target_vocab_size=37000)
    by_hand = (
        3 * 2 * 25_000 * 100_000 * 63_082_496
    )  # two operations for each weight and pair of tokens, three times: all but q k^T
    assert by_hand < training_operations(base) < 1.02 * by_hand
    assert training_operations(base.replace(train_steps=200_000)) == 2 * training_operations(base)
