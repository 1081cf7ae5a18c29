"""A search that XLA compiles finds the same translations as one that it does not compile."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from tiny_model import make_model, sentences

from tf_transformer.config import DecodeConfig, GenerationConfig
from tf_transformer.data.pocket import read_pairs
from tf_transformer.decoding.ensemble import Ensemble
from tf_transformer.decoding.inference import search_translations
from tf_transformer.decoding.translator import Replicas, Translator
from tf_transformer.training.distribution import make_strategy

INP, LONG_INP = sentences(3, 9), sentences(6, 40)
PREFIX = {"inp": INP, "prefix": np.array([[5, 6, 7], [8, 0, 0], [0, 0, 0]])}
LONG_PREFIX = {  # longer than the outputs of these sources may be
    "inp": sentences(3, 4),
    "prefix": np.array([range(5, 20), [8, *[0] * 14], [0] * 15]),
}
GENERATION = {
    "generation": GenerationConfig(repetition_penalty=1.5, no_repeat_ngram_size=2, min_length=9)
}
CASES = {  # models, beam size, hypotheses, arrays, other options
    "beam": (1, 4, 1, {"inp": INP}, {}),
    "greedy": (1, 1, 1, {"inp": INP}, {}),
    "greedy, long": (1, 1, 1, {"inp": LONG_INP}, {}),
    "beam, long": (1, 4, 1, {"inp": LONG_INP}, {}),
    "greedy, prefix": (1, 1, 1, PREFIX, GENERATION),
    "beam, prefix": (1, 4, 4, PREFIX, GENERATION),
    "greedy, long prefix": (1, 1, 1, LONG_PREFIX, {}),
    "beam, long prefix": (1, 4, 4, LONG_PREFIX, GENERATION),
    "ensemble": (2, 3, 3, {"inp": INP}, {}),
}
FIRST, *OTHERS = CASES


@pytest.mark.parametrize(
    "name", [FIRST, *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)]
)
def test_search(name):
    models, beam_size, n_best, arrays, options = CASES[name]
    model = make_model()
    if models > 1:
        model = Ensemble([model, make_model(num_layers=1)])
    decode = DecodeConfig(beam_size=beam_size, extra_decode_length=6)
    options = {"decode": decode, "n_best": n_best, **options}
    plain, compiled = (
        Replicas(model).run(search_translations, arrays, for_xla=jit, **options)[0]
        for jit in (False, True)
    )
    length = plain.ids.shape[2]
    np.testing.assert_array_equal(plain.ids, compiled.ids[:, :, :length])
    np.testing.assert_array_equal(compiled.ids[:, :, length:], 0)
    np.testing.assert_array_equal(plain.lengths, compiled.lengths)
    np.testing.assert_array_equal(plain.truncated, compiled.truncated)
    np.testing.assert_allclose(plain.scores, compiled.scores, rtol=1e-4)


def test_a_file_has_few_shapes(model_dir, translator, monkeypatch):
    """Texts of all lengths, with and without prefixes; without XLA, to save the compilations."""
    shapes, run = set(), Replicas.run

    def record(self, function, arrays, number, for_xla, **options):
        shapes.add(tuple(each.shape for each in arrays.values()))
        return run(self, function, arrays, number, **options)

    words = " ".join(source for source, _ in itertools.islice(read_pairs(), 20)).split()
    texts = [" ".join(words[i : i + i % 26]) for i in range(80)]
    prefixes = ["Anna" if i < 20 else "" for i in range(80)]
    expected, prefixed = translator(texts), translator.n_best(texts, 1, target_prefixes=prefixes)
    for_xla = Translator.load(str(model_dir), jit_compile="on", decode_batch_tokens=1024)
    monkeypatch.setattr(Replicas, "run", record)
    assert for_xla(texts) == expected
    assert sorted(shapes) == [
        ((2, 96), (2, 0)),
        ((4, 64), (4, 0)),
        ((8, 32), (8, 0)),
        ((16, 16), (16, 0)),
    ]
    assert for_xla.n_best(texts, 1, target_prefixes=prefixes) == [
        [(best, pytest.approx(score, abs=1e-4))] for ((best, score),) in prefixed
    ]
    assert len(shapes) <= 12


def test_a_search_that_cannot_be_compiled(model_dir, translator, monkeypatch, caplog):
    """It goes on without XLA, with one line; an error without XLA stays one."""
    run, fails = Replicas.run, {True}

    def failing(self, function, arrays, number, for_xla=False, **options):
        if for_xla in fails:
            raise tf.errors.InternalError(None, None, "Autotuner could not compile\nmore")
        return run(self, function, arrays, number, **options)

    monkeypatch.setattr(Replicas, "run", failing)
    texts = ["Anna sleeps.", "The dog sees the cat."]
    for_xla = Translator.load(str(model_dir), jit_compile="on")
    assert for_xla(texts) == translator(texts)
    assert caplog.messages == [
        "XLA cannot compile the search, which goes on without it: Autotuner could not compile"
    ]
    fails.add(False)
    with pytest.raises(tf.errors.InternalError):
        for_xla(texts)


@pytest.mark.slow
@pytest.mark.parametrize("replicas", [1, 2])
def test_texts(model_dir, translator, replicas):
    texts = ["Anna sleeps.", "The dog sees the cat.", "Anna sees seven dogs."]
    with make_strategy(replicas).scope():
        compiled = Translator.load(str(model_dir), jit_compile="on")
    assert compiled(texts) == translator(texts)
