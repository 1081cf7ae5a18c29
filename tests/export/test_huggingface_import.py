"""An imported Marian model computes what Hugging Face transformers computes with it.

`marian/` is a tiny model of transformers 5.23.0 with the architecture of OPUS-MT models and their
form of the vocabulary: two SentencePiece models, and one `vocab.json` that begins with the end
token, ends with padding, and lacks a letter. It was trained for a few seconds, so that its outputs
end. `expected.json` has what transformers computes with it.
"""

import json
import pathlib
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from sentencepiece import sentencepiece_model_pb2 as messages

from tf_transformer.checkpoints.checkpoint import named_weights
from tf_transformer.checkpoints.loading import load_model
from tf_transformer.checkpoints.model_folder import initial_settings, load_config
from tf_transformer.decoding.inference import target_log_probs, teacher_forcing
from tf_transformer.decoding.translator import Translator
from tf_transformer.errors import UserError
from tf_transformer.export.ctranslate2_folder import write_ctranslate2_folder
from tf_transformer.export.ctranslate2_translator import CTranslate2Translator
from tf_transformer.export.huggingface import export_huggingface, import_huggingface
from tf_transformer.export.marian import to_tokenizer, token_order
from tf_transformer.special_tokens import UNK

MARIAN = pathlib.Path(__file__).with_name("marian")
VOCABULARY = json.loads((MARIAN / "vocab.json").read_text("utf-8"))
EXPECTED = json.loads((MARIAN / "expected.json").read_text("utf-8"))
PADDING = len(VOCABULARY) - 1
ORDER = token_order(len(VOCABULARY), PADDING, 1, PADDING, 0)  # Marian's ids in the order of ours


@pytest.fixture
def folder(tmp_path):
    """A copy of the model of transformers."""
    return shutil.copytree(MARIAN, tmp_path / "marian")


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    path = tmp_path_factory.mktemp("imported") / "model"
    import_huggingface(str(MARIAN), str(path))
    return str(path)


def test_ids_and_logits(imported):
    model, (source, target), _ = load_model(imported)
    columns = [ORDER.index(token) for token in range(len(VOCABULARY))]
    for pair in EXPECTED["pairs"]:
        inp = source.encode([pair["source"]]).to_tensor()
        tar = target.encode([pair["target"]]).to_tensor()
        assert [ORDER[token] for token in inp[0].numpy()] == pair["source_ids"]
        assert [ORDER[token] for token in tar[0].numpy()] == pair["target_ids"]
        logits = teacher_forcing(model, inp, tar)[0].numpy()[0]
        expected = np.array(pair["logits"])[: len(logits)]
        np.testing.assert_allclose(logits[:, columns], expected, rtol=0, atol=1e-4)
        # The start token, which Marian does not have, has no probability.
        log_probs = target_log_probs(model, inp, tar).numpy()[0]
        log_sums = np.log(np.exp(expected).sum(axis=1))
        tokens = pair["target_ids"]
        found = expected[np.arange(len(tokens)), tokens] - log_sums
        np.testing.assert_allclose(log_probs, found, rtol=0, atol=1e-4)


@pytest.mark.parametrize("beam_size, kind", [(1, "greedy"), (4, "beam")])
def test_search(imported, beam_size, kind):
    """With length penalty 0, both libraries search the output with the largest probability."""
    search = {"beam_size": beam_size, "length_penalty": 0.0, "extra_decode_length": 30}
    translator = Translator.load(imported, **search)
    texts = [row["source"] for row in EXPECTED["searches"]]
    found = translator.n_best(texts, 1)
    for ((text, score),), row in zip(found, EXPECTED["searches"]):
        # Of the ids of transformers; its own text has nothing for unknown tokens.
        ids = [[ORDER.index(token) for token in row[kind]["ids"]]]
        assert text == translator.target.decode(ids).numpy()[0].decode()
        if kind == "beam":
            assert score == pytest.approx(row[kind]["score"], abs=1e-4)
    assert any(row["greedy"]["ids"] != row["beam"]["ids"] for row in EXPECTED["searches"])


def test_export_for_ctranslate2(imported, tmp_path):
    """It has swish, the output bias and the separate tables too."""
    write_ctranslate2_folder(imported, str(tmp_path / "export"))
    search = {"beam_size": 4, "length_penalty": 0.0}
    translator = CTranslate2Translator(str(tmp_path / "export"), **search)
    texts = [row["source"] for row in EXPECTED["searches"]]
    for ((_, score), *_), row in zip(translator.n_best(texts, 1), EXPECTED["searches"]):
        assert score == pytest.approx(row["beam"]["score"], abs=1e-3)


def test_settings(imported):
    config = load_config(imported)
    assert config.model.activation == "swish"
    assert not config.model.shared_embeddings
    assert config.model.input_vocab_size == len(VOCABULARY) + 1
    assert (config.data.source, config.data.target) == ("eng", "deu")
    assert (config.decode.beam_size, config.decode.length_penalty) == (6, 1.0)
    assert config.data.max_length == config.model.pe_input == 64
    kinds = [tokenizer.subword_model for tokenizer in load_model(imported)[1]]
    assert kinds == ["unigram", "unigram"]
    assert initial_settings(imported)["subword_model"] == "unigram"


def change_config(folder, changes):
    config = json.loads((folder / "config.json").read_text("utf-8"))
    (folder / "config.json").write_text(json.dumps({**config, **changes}), "utf-8")


@pytest.mark.parametrize(
    "generation, expected",
    [
        (None, (3, 0.5, 40, 64)),
        ({"num_beams": 2}, (2, 1.0, 64, 64)),  # then those in config.json have no effect
        ({"max_length": 500, "num_beams": None}, (1, 1.0, 64, 64)),
    ],
)
def test_settings_of_the_search(folder, tmp_path, generation, expected):
    """Those of generation_config.json, or of config.json in a folder without it."""
    output = str(tmp_path / "model")
    change_config(folder, {"num_beams": 3, "length_penalty": 0.5, "max_length": 40})
    (folder / "generation_config.json").unlink()
    if generation is not None:
        (folder / "generation_config.json").write_text(json.dumps(generation), "utf-8")
    import_huggingface(str(folder), output)
    config = load_config(output)
    found = config.decode.beam_size, config.decode.length_penalty
    assert (*found, config.model.pe_target, config.model.pe_input) == expected
    assert config.data.max_length == config.model.pe_target


def test_encoder_and_decoder_of_different_depths(folder, tmp_path):
    """Two layers and one: imported, and exported again."""
    model_dir, exported = tmp_path / "model", tmp_path / "exported"
    change_config(folder, {"decoder_layers": 1})
    with pytest.raises(UserError, match="has model.decoder.layers.1.encoder_attn.k_proj.bias"):
        import_huggingface(str(folder), str(model_dir))
    tensors = load_file(folder / "model.safetensors")
    tensors = {name: x for name, x in tensors.items() if "decoder.layers.1." not in name}
    save_file(tensors, folder / "model.safetensors")
    import_huggingface(str(folder), str(model_dir))
    sizes = load_config(str(model_dir)).model
    assert (sizes.encoder_layers, sizes.decoder_layers) == (2, 1)
    export_huggingface(str(model_dir), str(exported))
    config = json.loads((exported / "config.json").read_text("utf-8"))
    assert (config["encoder_layers"], config["decoder_layers"]) == (2, 1)
    again = load_file(exported / "model.safetensors")
    layers = [name for name in tensors if ".layers." in name]
    assert layers == [name for name in again if ".layers." in name]
    for name in layers:
        np.testing.assert_array_equal(again[name], tensors[name])


def test_sub_words_without_an_id_are_split():
    vocabulary = {piece: token for piece, token in VOCABULARY.items() if piece != "▁The"}
    vocabulary = {piece: i for i, piece in enumerate(vocabulary)}
    size = len(vocabulary)
    order = token_order(size, size - 1, 1, size - 1, 0)
    tokenizer = to_tokenizer((MARIAN / "source.spm").read_bytes(), vocabulary, order)
    ids = tokenizer.encode(["The cat"]).to_list()[0]
    assert "".join(tokenizer.pieces(ids[:-1])) == "▁The▁cat"
    assert UNK not in ids


def test_a_vocabulary_with_some_of_the_bytes():
    spm = messages.ModelProto.FromString((MARIAN / "source.spm").read_bytes())
    spm.trainer_spec.byte_fallback = True
    spm.pieces.add(piece="<0x41>", type=messages.ModelProto.SentencePiece.BYTE)
    vocabulary = {**VOCABULARY, "<0x41>": len(VOCABULARY)}
    order = token_order(len(vocabulary), PADDING, 1, PADDING, 0)
    tokenizer = to_tokenizer(spm.SerializeToString(), vocabulary, order)
    assert tokenizer.decode([[4, 5]]).numpy() == [b".?"]
    assert UNK in tokenizer.encode(["The \u65e5"]).to_list()[0]


def test_language_codes_are_tags(imported, tmp_path):
    """They begin sources only, and an export has them as Marian has."""
    _, (source, target), _ = load_model(imported)
    code = ORDER.index(VOCABULARY[">>fra<<"])
    assert source.tags == {">>fra<<": code}
    tagged, plain, inside = source.encode([">>fra<< a", "a", "a >>fra<< a"]).to_list()
    assert tagged == [code, *plain] and code not in inside
    assert code not in target.for_targets().encode([">>fra<< a"]).to_list()[0]
    exported, again = str(tmp_path / "exported"), str(tmp_path / "again")
    export_huggingface(imported, exported)
    vocabulary = json.loads((tmp_path / "exported" / "vocab.json").read_text("utf-8"))
    assert vocabulary[">>fra<<"] == code and "\u2581>>fra<<" not in vocabulary
    import_huggingface(exported, again)
    assert [each.model for each in load_model(again)[1]] == [source.model, target.model]


@pytest.mark.parametrize("form", ["shards", "padded"])
def test_other_forms_of_weights(imported, folder, tmp_path, form):
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    if form == "shards":
        files = {name: f"model-{number % 2}.safetensors" for number, name in enumerate(tensors)}
        for file in set(files.values()):
            save_file({n: tensors[n] for n, of in files.items() if of == file}, folder / file)
        index = folder / "model.safetensors.index.json"
        index.write_text(json.dumps({"weight_map": files}), "utf-8")
    else:
        for name, axis in (("model.shared.weight", 0), ("final_logits_bias", 1)):
            widths = [(0, 24 * (each == axis)) for each in range(2)]
            tensors[name] = np.pad(tensors[name], widths)
        save_file(tensors, folder / "model.safetensors")
    import_huggingface(str(folder), str(tmp_path / "model"))
    found, expected = (
        named_weights(load_model(path)[0]) for path in (str(tmp_path / "model"), imported)
    )
    for name, variable in expected.items():
        np.testing.assert_array_equal(found[name].numpy(), variable.numpy())


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("config.json", {"normalize_before": True}, "normalize_before is True"),
        ("config.json", {"activation_function": "gelu"}, "activation_function is 'gelu'"),
        ("config.json", {"decoder_attention_heads": 2}, "decoder_attention_heads is 2, and only 4"),
        ("config.json", {"encoder_layers": "2"}, "num_layers is '2'"),
        ("config.json", {"encoder_ffn_dim": 30, "decoder_ffn_dim": 30}, "could not be read"),
        ("config.json", None, "no file .*config.json"),
        ("vocab.json", b'{"</s>": 0, "<unk>": 7}', "could not be read"),
        ("source.spm", b"\xff\xff", "could not be read"),
        ("model.safetensors", b"x", "could not be read"),
        ("model.safetensors", None, "No such file.*model.safetensors"),
        ("pytorch_model.bin", b"x", "could not be read|package torch"),
    ],
)
def test_what_cannot_be_imported(folder, tmp_path, name, content, message):
    """A model that cannot be expressed, and a damaged folder (None: without the file)."""
    if isinstance(content, dict):
        change_config(folder, content)
    else:
        (folder / name).unlink(missing_ok=True)
    if name == "pytorch_model.bin":
        (folder / "model.safetensors").unlink()
    if isinstance(content, bytes):
        (folder / name).write_bytes(content)
    with pytest.raises(UserError, match=message):
        import_huggingface(str(folder), str(tmp_path / "model"))
    assert not (tmp_path / "model").exists()
