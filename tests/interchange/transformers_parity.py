"""Exports and imports compute what Hugging Face transformers computes.

`make test-transformers` installs PyTorch and transformers and runs it.
"""

import json
import pathlib
import shutil

import numpy as np
import pytest
import torch
from interchange.make_marian import make_model
from transformers import MarianMTModel, MarianTokenizer

from tf_transformer.checkpoints.loading import load_model
from tf_transformer.data.pocket import corpus as pocket
from tf_transformer.decoding.inference import forced_decoding
from tf_transformer.decoding.translator import Translator
from tf_transformer.interchange.huggingface_export import export_huggingface
from tf_transformer.interchange.huggingface_import import import_huggingface
from tf_transformer.interchange.marian_vocabulary import token_order
from tf_transformer.special_tokens import PAD
from tf_transformer.training.build import build_trainer

MARIAN = pathlib.Path(__file__).with_name("marian")
SOURCES = ["The teacher gets up at half past six.", "Anna sleeps.", "We see the old dog."]
TARGETS = ["Der Lehrer steht um halb sieben auf.", "Anna schläft.", "Wir sehen den alten Hund."]


def marian_logits(model, inp, decoder_input):
    """The logits of a `MarianMTModel`.

    Args:
      model: the `MarianMTModel`.
      inp: int `[batch, source length]`, ids of transformers, padded.
      decoder_input: int `[batch, target length]`, ids that begin with the start token.
    Returns: float `[batch, target length, ids]`.
    """
    inp = torch.tensor(inp)
    with torch.no_grad():
        return model(
            input_ids=inp,
            attention_mask=(inp != model.config.pad_token_id).long(),
            decoder_input_ids=torch.tensor(decoder_input),
        ).logits.numpy()


def exported_model(model_dir, path):
    """The `MarianMTModel` and the `MarianTokenizer` of an export to this path."""
    export_huggingface(model_dir, str(path))
    return MarianMTModel.from_pretrained(path).eval(), MarianTokenizer.from_pretrained(path)


@pytest.mark.parametrize(
    "changes",
    [None, {}, {"shared_vocab": False}, {"activation": "swish"}],
    ids=["pocket-en-de", "shared", "separate", "swish"],
)
def test_ids_and_logits_of_an_export(tiny_config, tmp_path, changes):
    """The built-in model, and models of a short run with other settings."""
    model_dir = "pocket-en-de"
    if changes is not None:
        model_dir = str(tmp_path / "model")
        assert build_trainer(tiny_config.replace(**changes), model_dir).run()
    marian, marian_tokenizer = exported_model(model_dir, tmp_path / "marian")
    model, (source, target), _ = load_model(model_dir)
    encoded = marian_tokenizer(SOURCES, text_target=TARGETS, padding=True)
    inp, tar = source.encode(SOURCES).to_tensor(), target.encode(TARGETS).to_tensor()
    np.testing.assert_array_equal(encoded["input_ids"], inp)
    np.testing.assert_array_equal(encoded["labels"], tar)
    start = np.full((len(tar), 1), marian.config.decoder_start_token_id)
    decoder_input = np.concatenate([start, tar[:, :-1]], axis=1)
    expected = marian_logits(marian, inp.numpy(), decoder_input)
    found = forced_decoding(model, inp, tar)[0].numpy()
    real = tar.numpy() != PAD
    np.testing.assert_allclose(found[real], expected[real], rtol=0, atol=1e-4)


@pytest.mark.parametrize("beam_size", [1, 4])
def test_search_of_an_export(tmp_path, beam_size):
    """Without a length penalty, both search the output with the largest probability."""
    marian, tokenizer = exported_model("pocket-en-de", tmp_path / "marian")
    sources = [pair["en"] for pair in pocket.generate(60)]
    search = {"num_beams": 1} if beam_size == 1 else {"num_beams": beam_size, "length_penalty": 0.0}
    found = marian.generate(**tokenizer(sources, return_tensors="pt", padding=True), **search)
    expected = tokenizer.batch_decode(found, skip_special_tokens=True)
    translator = Translator.load("pocket-en-de", beam_size=beam_size, length_penalty=0.0)
    assert translator.translate(sources) == expected


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("activation", ["relu", "swish"])
def test_logits_of_an_import(tmp_path, seed, activation):
    """A `MarianMTModel` with random weights."""
    folder = tmp_path / "marian"
    shutil.copytree(MARIAN, folder)
    tokens = len(json.loads((folder / "vocab.json").read_text("utf-8")))
    marian = make_model(tokens, seed, activation).eval()
    marian.save_pretrained(folder)
    import_huggingface(str(folder), str(tmp_path / "model"))
    model, _, _ = load_model(str(tmp_path / "model"))

    padding = tokens - 1
    random = np.random.default_rng(seed)
    inp = random.integers(1, padding, [3, 12])
    inp[1, 7:] = inp[2, 3:] = padding
    tar = random.integers(1, padding, [3, 9])
    decoder_input = np.concatenate([np.full((3, 1), padding), tar[:, :-1]], axis=1)
    expected = marian_logits(marian, inp, decoder_input)

    order = token_order(tokens, padding, 1, padding, 0)  # Marian's ids in the order of ours
    ours = np.array([order.index(token) for token in range(tokens)])
    found = forced_decoding(model, ours[inp], ours[tar])[0].numpy()
    np.testing.assert_allclose(found[..., ours], expected, rtol=0, atol=1e-4)
