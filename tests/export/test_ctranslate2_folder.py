"""The CTranslate2 export, compared with the live model."""

import ctranslate2
import numpy as np
import pytest
from tiny_model import SIZES, make_model, sentences

from tf_transformer.config import ModelConfig
from tf_transformer.errors import UserError
from tf_transformer.export.ctranslate2_folder import make_spec
from tf_transformer.special_tokens import END, PAD

VARIANTS = {
    "shared": {},
    "separate": {"shared_embeddings": False, "target_vocab_size": 37},
    "learned positions": {"positional_encoding": "learned"},
    "pre-norm": {"norm": "pre", "num_encoder_layers": 3, "num_decoder_layers": 1},
}


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=list(VARIANTS))
def test_log_probabilities_of_given_translations_are_equal(tmp_path, changes):
    """Invariant 8 for every variant of the model: the network is the same."""
    model = make_model(**changes)
    sizes = ModelConfig(**{**SIZES, "pe_input": 64, "pe_target": 64, **changes})
    vocabulary = ["[PAD]", "[UNK]", "[START]", "[END]", *(f"<{i}>" for i in range(4, 41))]
    spec = make_spec(model, sizes, [vocabulary, vocabulary[: sizes.target_vocab_size]])
    spec.save(str(tmp_path))
    inp = sentences(6, 9)
    tar = sentences(6, 7, 1, start=True)
    logits = model(inp, tar[:, :-1])[0].numpy().astype(np.float64)
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    sources, targets = (
        [[vocabulary[i] for i in row if i not in (PAD, END)] for row in ids]
        for ids in (inp, tar[:, 1:])
    )
    translator = ctranslate2.Translator(str(tmp_path), compute_type="float32")
    for i, result in enumerate(translator.score_batch(sources, targets)):
        expected = [log_probs[i, t, token] for t, token in enumerate(tar[i, 1:]) if token != PAD]
        np.testing.assert_allclose(result.log_probs, expected, atol=2e-5)


def test_a_model_that_cannot_be_expressed():
    sizes = ModelConfig(**{**SIZES, "key_dim": 6, "value_dim": 10})
    with pytest.raises(UserError, match="key_dim or value_dim"):
        make_spec(None, sizes, [[], []])
