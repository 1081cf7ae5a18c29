"""Training and search keep their tensors on the GPU, by the kernels that TensorFlow registers."""

import gpu_kernels
import pytest
import tensorflow as tf
from tiny_model import make_model

from tf_transformer.config import DecodeConfig, GenerationConfig
from tf_transformer.decoding.inference import search_translations

IDS = tf.TensorSpec([None, None], tf.int32)
GRAPHS = gpu_kernels.graphs()


@pytest.mark.parametrize(
    "name", ["update, float32, one shard", "update, mixed_float16, accumulation", "validation"]
)
def test_updates_and_validation_copy_nothing(name):
    assert not gpu_kernels.copies_to_host(GRAPHS[name]())


def check_search(copies):
    """A step of a search copies only whether sentences leave."""
    copies = [copy for copy in copies if copy.in_loop]
    assert [(copy.op, copy.argument) for copy in copies] == [("StatelessIf", "cond")]


def test_greedy_search():
    check_search(gpu_kernels.copies_to_host(GRAPHS["greedy search"]()))


def test_beam_search_with_logits_processors():
    model, decode = make_model(), DecodeConfig()
    generation = GenerationConfig(no_repeat_ngram_size=3, repetition_penalty=2.0, min_length=2)

    def search(inp):
        return search_translations(model, inp, decode, generation=generation)

    graph = tf.function(search, input_signature=[IDS], autograph=False)
    check_search(gpu_kernels.copies_to_host(graph.get_concrete_function()))
