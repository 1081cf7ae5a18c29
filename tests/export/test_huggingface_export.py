"""The export for Hugging Face transformers.

`test_huggingface_import.py` compares an imported model with transformers, and here the import of an
export is the exported model: so the weights of an export are what transformers expects.
`transformers_parity.py` compares an export with transformers itself.
"""

import json

import numpy as np
import pytest

from tf_transformer.checkpoints.checkpoint import named_weights
from tf_transformer.checkpoints.loading import load_model
from tf_transformer.config import ModelConfig
from tf_transformer.errors import UserError
from tf_transformer.export.huggingface import (
    check_sizes,
    export_huggingface,
    import_huggingface,
    warn_of_tags,
)


def arrays(model):
    return {name: variable.numpy() for name, variable in named_weights(model).items()}


@pytest.mark.parametrize("rules", [1, 2])
def test_export_and_import_give_the_model_back(tmp_path, model_dir, rules):
    """Also with one vocabulary whose sources and targets have other normalizers."""
    exported = "pocket-en-de" if rules == 1 else str(model_dir)
    export_huggingface(exported, str(tmp_path / "marian"), beam_size=3)
    import_huggingface(str(tmp_path / "marian"), str(tmp_path / "model"))
    original, tokenizers, config = load_model(exported)
    model, imported_tokenizers, imported_config = load_model(str(tmp_path / "model"))
    for name, array in arrays(original).items():
        np.testing.assert_array_equal(arrays(model)[name], array)
    assert imported_config.model == config.model
    assert imported_config.decode.beam_size == 3
    assert imported_config.decode.length_penalty == config.decode.length_penalty
    assert (imported_tokenizers[0] is imported_tokenizers[1]) == (rules == 1)
    assert [each.model for each in imported_tokenizers] == [each.model for each in tokenizers]
    assert imported_config.data.shared_vocab
    assert imported_config.data.normalization == config.data.normalization


def test_files_of_an_export(tmp_path):
    export_huggingface("pocket-en-de", str(tmp_path / "marian"), beam_size=1)
    names = ("config", "generation_config", "tokenizer_config", "vocab")
    config, generation, tokenizer, vocabulary = (
        json.loads((tmp_path / "marian" / f"{name}.json").read_text("utf-8")) for name in names
    )
    assert config["tie_word_embeddings"] and config["share_encoder_decoder_embeddings"]
    assert config["vocab_size"] == len(vocabulary)
    for settings in (config, generation):
        assert settings["pad_token_id"] == vocabulary[tokenizer["pad_token"]] == 0
        assert settings["eos_token_id"] == vocabulary[tokenizer["eos_token"]] == 3
        assert settings["decoder_start_token_id"] == vocabulary["[START]"] == 2
    assert generation["bad_words_ids"] == [[0], [2]]
    assert generation["num_beams"] == 1
    assert "length_penalty" not in generation
    with pytest.raises(UserError, match="already exists"):
        export_huggingface("pocket-en-de", str(tmp_path / "marian"))


def test_tags_that_are_no_language_codes_are_reported(caplog):
    warn_of_tags([">>de<<", "<2fr>", "<BT>"])
    assert "MarianTokenizer encodes <2fr> and <BT> as text" in caplog.text
    caplog.clear()
    warn_of_tags([">>de<<"])
    assert not caplog.text


@pytest.mark.parametrize(
    "change, message",
    [
        ({"positional_encoding": "learned"}, "learned positions"),
        ({"key_dim": 16}, "key_dim or value_dim"),
        ({"norm": "pre"}, "post-norm. Give --format=ctranslate2"),
    ],
)
def test_models_that_cannot_be_expressed(change, message):
    with pytest.raises(UserError, match=message):
        check_sizes(ModelConfig(**change))
