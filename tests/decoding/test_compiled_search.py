"""A search that XLA compiles finds the same translations as one that it does not compile."""

import numpy as np
import pytest
from tiny_model import make_model, sentences

from tf_transformer.config import ControlConfig, DecodeConfig
from tf_transformer.decoding.ensemble import Ensemble
from tf_transformer.decoding.inference import search_translations
from tf_transformer.decoding.translator import Replicas

INP, LONG_INP = sentences(3, 9), sentences(6, 40)
PREFIX = {"inp": INP, "prefix": np.array([[5, 6, 7], [8, 0, 0], [0, 0, 0]])}
LONG_PREFIX = {  # longer than the outputs of these sources may be
    "inp": sentences(3, 4),
    "prefix": np.array([range(5, 20), [8, *[0] * 14], [0] * 15]),
}
PHRASES = {"inp": INP, "phrases": np.array([[[5, 6], [9, 0]], [[7, 0], [0, 0]], [[0, 0], [0, 0]]])}
CONTROLS = {"controls": ControlConfig(repetition_penalty=1.5, no_repeat_ngram_size=2, min_length=9)}
GROUPS = {"controls": ControlConfig(diverse_groups=2)}
CASES = {  # models, beam size, hypotheses, arrays, other options
    "beam": (1, 4, 1, {"inp": INP}, {}),
    "greedy": (1, 1, 1, {"inp": INP}, {}),
    "greedy, long": (1, 1, 1, {"inp": LONG_INP}, {}),
    "beam, long": (1, 4, 1, {"inp": LONG_INP}, {}),
    "greedy, prefix": (1, 1, 1, PREFIX, CONTROLS),
    "beam, prefix": (1, 4, 4, PREFIX, CONTROLS),
    "greedy, long prefix": (1, 1, 1, LONG_PREFIX, {}),
    "beam, long prefix": (1, 4, 4, LONG_PREFIX, CONTROLS),
    "groups": (1, 4, 4, PREFIX, GROUPS),
    "phrases": (1, 4, 2, PHRASES, {}),
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
