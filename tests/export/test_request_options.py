"""The decoding options of each row of a request, as by `Translator`."""

import dataclasses
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from tf_transformer.config import GenerationConfig, SamplingConfig
from tf_transformer.decoding.translator import Translator

TEXTS = ["Anna sleeps.", "The old man reads a book.", "", "The dog sees the cat."]


def decoded(texts):
    return [text.decode() for text in texts]


def test_the_model_file_has_the_defaults_and_operations_of_every_server(exported, option_defaults):
    """TensorFlow Serving fills in inputs that a request leaves out."""
    content = pathlib.Path(exported, "saved_model.pb").read_bytes()
    (graph,) = saved_model_pb2.SavedModel.FromString(content).meta_graphs
    functions = [
        graph.graph_def.node,
        *(each.node_def for each in graph.graph_def.library.function),
    ]
    operations = {node.op for function in functions for node in function}
    assert not [name for name in operations if "PyFunc" in name or "Xla" in name]
    for name, expected in option_defaults.items():
        defaults = graph.signature_def[name].defaults
        assert sorted(defaults) == sorted(expected)
        for key, value in expected.items():
            np.testing.assert_array_equal(tf.make_ndarray(defaults[key]), value)


def test_options_of_each_row(call, model_dir):
    options = [(1, 0.6, 0), (2, 0.0, 0), (3, 0.6, 0), (3, 2.0, 4)]
    names = ("n_best", "length_penalty", "max_decode_length")
    found = call("translate_with_options", text=TEXTS, **dict(zip(names, zip(*options))))
    assert found["translations"].shape == found["scores"].shape == (4, 4)
    for i, (n_best, alpha, limit) in enumerate(options):
        if limit:
            assert all(len(text.split()) <= limit for text in decoded(found["translations"][i]))
            continue
        alone = Translator.load(str(model_dir), length_penalty=alpha)
        expected = alone.n_best(TEXTS[i : i + 1], n_best)[0]
        assert found["count"][i] == len(expected)
        assert decoded(found["translations"][i, : len(expected)]) == [text for text, _ in expected]
        np.testing.assert_allclose(
            found["scores"][i, : len(expected)], [score for _, score in expected], rtol=1e-4
        )
        assert set(decoded(found["translations"][i, len(expected) :])) <= {""}
        assert np.all(found["scores"][i, len(expected) :] == -1e9)


def test_prefix_and_length(call, translator):
    prefixes = ["", "Der alte", "Der", "Hund"]
    found = call("translate_with_options", text=TEXTS, target_prefix=prefixes)
    expected = translator.n_best(TEXTS, 1, target_prefixes=prefixes)
    assert decoded(found["translations"][:, 0]) == [row[0][0] for row in expected]
    # A prefix has room whatever the limit; without one, the limit counts the end token.
    options = {"target_prefix": prefixes, "max_decode_length": [1]}
    short = call("translate_with_options", text=TEXTS, **options)
    assert decoded(short["translations"][:, 0]) == ["", "Der alte", "", "Hund"]


def test_minimum_length(call, model_dir):
    lengths = [0, 30, 9, 0]
    found = call("translate_with_options", text=TEXTS, n_best=[4], min_length=lengths)
    samples = call("sample", text=TEXTS, min_length=lengths)
    for i, length in enumerate(lengths):
        generation = GenerationConfig(min_length=length)
        alone = Translator.load(str(model_dir), None, generation).n_best(TEXTS[i : i + 1], 4)[0]
        assert decoded(found["translations"][i, : len(alone)]) == [text for text, _ in alone]
        assert found["truncated"][i, : len(alone)].tolist() == [each.truncated for each in alone]
        words = decoded(samples["translation"])[i]
        assert bool(words) or not TEXTS[i] or not length


def test_samples_are_those_of_the_translator(call, translator):
    settings = [SamplingConfig(), SamplingConfig(2.0, 5), SamplingConfig(1.0, 0, 0.8)]
    for seed, setting in enumerate(settings):
        options = {name: [value] for name, value in dataclasses.asdict(setting).items()}
        found = call("sample", text=TEXTS[:1], seed=np.array([seed]), **options)
        ((text, score),) = translator.sample(TEXTS[:1], 1, setting, seed)[0]
        assert decoded(found["translation"]) == [text]
        np.testing.assert_allclose(found["score"], [score], rtol=1e-4)
    seeds = np.array([1, 2**32 + 1, -1, 5])
    together = call("sample", text=["Anna sleeps."] * 4, seed=seeds, temperature=[3.0])
    assert len(set(together["translation"])) > 1
    for i in range(4):
        alone = call("sample", text=["Anna sleeps."], seed=seeds[i : i + 1], temperature=[3.0])
        assert alone["translation"][0] == together["translation"][i]


@pytest.mark.parametrize("min_length", [0, 9])
def test_alternatives(call, model_dir, min_length):
    prefixes = ["", "Der alte", "", "Hund"]
    options = {"min_length": [min_length], "target_prefix": prefixes}
    found = call("alternatives", text=TEXTS, **options)
    generation = GenerationConfig(min_length=min_length)
    greedy = Translator.load(str(model_dir), None, generation, beam_size=1)
    greedy = greedy.n_best(TEXTS, 1, target_prefixes=prefixes)
    for i, text in enumerate(TEXTS):
        translations, probabilities = decoded(found["translations"][i]), found["probabilities"][i]
        if text:
            assert translations[0] == greedy[i][0][0]
            assert found["truncated"][i, 0] == greedy[i][0].truncated
            assert all(each.startswith(prefixes[i]) for each in translations)
            assert probabilities.tolist() == sorted(probabilities, reverse=True)
        else:
            assert translations == [""] * 10 and np.all(probabilities == 0)


def test_the_longest_prefixes(call, translator):
    """Those of the translator: the model needs a position after them, and two for alternatives."""
    positions = translator.model.pe_target
    word = next(
        word for word in "abcdefg" if len(translator.target.encode([word]).to_list()[0]) == 2
    )
    for name, following in (("translate_with_options", 1), ("sample", 1), ("alternatives", 2)):
        longest = " ".join([word] * (positions - following))
        for prefix, fits in ((longest, True), (f"{longest} {word}", False)):
            found = call(name, text=TEXTS[:1], target_prefix=[prefix])
            scores = found.get("scores", found.get("score"))
            assert (scores.flat[0] > -1e9) == fits, (name, fits)
    long_text = call("sample", text=["x " * 500])
    assert np.all(long_text["score"] == -1e9)
