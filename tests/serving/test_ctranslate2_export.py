"""The folder for CTranslate2, against the live model."""

import ctranslate2
import numpy as np
import pytest
import sentencepiece
from tiny_model import SIZES, make_model, sentences

from tf_transformer.config import ModelConfig
from tf_transformer.data.sources import open_corpus
from tf_transformer.decoding.translator import Translator
from tf_transformer.errors import UserError
from tf_transformer.serving.ctranslate2_export import make_spec, write_ctranslate2_folder
from tf_transformer.special_tokens import END, PAD

VARIANTS = {
    "shared": {},
    "separate": {"shared_embeddings": False, "target_vocab_size": 37},
    "learned positions": {"positional_encoding": "learned"},
}


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=list(VARIANTS))
def test_scores_of_given_translations_are_ours(tmp_path, changes):
    """Law 8: the network is the same, for every form that a model can have."""
    model, sizes = (
        make_model(**changes),
        ModelConfig(**{**SIZES, "pe_input": 64, "pe_target": 64, **changes}),
    )
    words = [f"<{i}>" for i in range(41)]
    words[:4] = "[PAD]", "[UNK]", "[START]", "[END]"
    make_spec(model, sizes, [words, words[: sizes.target_vocab_size]]).save(str(tmp_path))
    inp, tar = sentences(6, 9), sentences(6, 7, 1, start=True)
    logits = model(inp, tar[:, :-1])[0].numpy().astype(np.float64)
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    texts = [
        [[words[i] for i in row if i not in (PAD, END)] for row in side]
        for side in (inp, tar[:, 1:])
    ]
    found = ctranslate2.Translator(str(tmp_path), compute_type="float32").score_batch(*texts)
    for i, scored in enumerate(found):
        expected = [log_probs[i, t, word] for t, word in enumerate(tar[i, 1:]) if word != PAD]
        np.testing.assert_allclose(scored.log_probs, expected, atol=2e-5)


@pytest.mark.parametrize("beam_size", [1, 4])
def test_translations_are_ours(model_dir, tiny_config, tmp_path, beam_size):
    """Law 8, text to text; without a length penalty, which CTranslate2 defines otherwise."""
    output = tmp_path / "engine"
    write_ctranslate2_folder(str(model_dir), str(output))
    texts = [source for source, _ in open_corpus(tiny_config.data.data, "en", "de").read("test")]
    ours = Translator.load(str(model_dir), beam_size=beam_size, alpha=0.0, extra_decode_length=20)(
        texts
    )
    words = sentencepiece.SentencePieceProcessor(str(output / "shared.model"))
    engine = ctranslate2.Translator(str(output), compute_type="float32")
    theirs = []
    for text in texts:
        pieces = words.encode(text, out_type=str)
        (result,) = engine.translate_batch(
            [pieces], beam_size=beam_size, length_penalty=0, max_decoding_length=len(pieces) + 19
        )
        theirs.append(words.decode(result.hypotheses[0]))
    same = sum(a == b for a, b in zip(ours, theirs))
    assert same >= 0.9 * len(texts), (
        same,
        len(texts),
    )  # an untrained model writes to the limit, where the two stop differently


def test_int8_is_smaller(model_dir, tmp_path):
    for quantization in ("float32", "int8"):
        write_ctranslate2_folder(
            str(model_dir), str(tmp_path / quantization), quantization=quantization
        )
        ctranslate2.Translator(str(tmp_path / quantization))
    small, large = ((tmp_path / name / "model.bin").stat().st_size for name in ("int8", "float32"))
    assert small < 0.6 * large


def test_refusals(model_dir, tmp_path, monkeypatch):
    (tmp_path / "there").mkdir()
    with pytest.raises(UserError, match="is there already"):
        write_ctranslate2_folder(str(model_dir), str(tmp_path / "there"))
    sizes = ModelConfig(**{**SIZES, "key_dim": 6, "value_dim": 10})
    with pytest.raises(UserError, match="key_dim or value_dim"):
        make_spec(None, sizes, [[], []])
    monkeypatch.setitem(__import__("sys").modules, "ctranslate2", None)
    with pytest.raises(UserError, match="pip install"):
        write_ctranslate2_folder(str(model_dir), str(tmp_path / "new"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["there"]
