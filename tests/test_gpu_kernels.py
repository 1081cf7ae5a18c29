"""Training and search keep their tensors on the GPU, by the kernels that TensorFlow registers."""

import pathlib
import sys

import pytest
import tensorflow as tf

sys.path.append(str(pathlib.Path(__file__).parents[1] / "benchmarks"))
import gpu_kernels

from tf_transformer.config import ControlConfig, DecodeConfig
from tf_transformer.decoding.inference import search_translations

IDS = tf.TensorSpec([None, None], tf.int32)
NUMBERS = tf.TensorSpec([None], tf.float32)
GRAPHS = gpu_kernels.graphs()


def copies_of(function, *signature):
    graph = tf.function(function, input_signature=signature, autograph=False)
    return gpu_kernels.copies_to_host(graph.get_concrete_function())


def test_int32_is_computed_on_the_host():
    copies = copies_of(lambda x: tf.argmax(x, output_type=tf.int32) + 1, NUMBERS)
    assert [(copy.op, copy.dtype, copy.in_loop) for copy in copies] == [("AddV2", "int32", False)]
    assert not copies_of(lambda x: tf.argmax(x) + 1, NUMBERS)
    assert not copies_of(lambda ids: tf.shape(ids)[0] + 1, IDS)  # the host knows shapes


def test_decisions_and_loops():
    def body(i, x):
        return i + 1, tf.cond(tf.reduce_sum(x) > 0, lambda: x / 2, lambda: x)

    def loop(x):
        return tf.while_loop(lambda i, _: i < 3, body, (0, x))[1]

    copies = copies_of(loop, NUMBERS)
    assert [(copy.op, copy.argument, copy.in_loop) for copy in copies] == [
        ("StatelessIf", "cond", True)
    ]


@pytest.mark.parametrize("name", [name for name in GRAPHS if name.startswith("update")])
def test_an_update_copies_nothing(name):
    assert not gpu_kernels.copies_to_host(GRAPHS[name]())


def test_validation_copies_nothing():
    assert not gpu_kernels.copies_to_host(GRAPHS["validation"]())


@pytest.mark.parametrize("name", ["greedy search", "beam search"])
def test_a_step_of_a_search_copies_only_whether_sentences_leave(name):
    check_search(gpu_kernels.copies_to_host(GRAPHS[name]()))


def check_search(copies):
    copies = [copy for copy in copies if copy.in_loop]
    assert [(copy.op, copy.argument) for copy in copies] == [("StatelessIf", "cond")]


def test_controls_and_constraints_copy_nothing_more():
    model, decode = gpu_kernels._model(), DecodeConfig()
    controls = ControlConfig(no_repeat_ngram_size=3, repetition_penalty=2.0, diverse_groups=2)
    check_search(
        copies_of(lambda inp: search_translations(model, inp, decode, controls=controls), IDS)
    )
    phrases = tf.TensorSpec([None, None, None], tf.int32)
    check_search(
        copies_of(
            lambda inp, phrases: search_translations(model, inp, decode, phrases=phrases),
            IDS,
            phrases,
        )
    )
