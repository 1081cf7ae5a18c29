"""Law 9, round trip, for sub-words."""

import gc
import unicodedata

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf

from tf_transformer.data.pocket import corpus as pocket
from tf_transformer.data.tokenizer import (
    Tokenizer,
    learn_tokenizers,
    load_tokenizers,
    save_tokenizers,
)
from tf_transformer.errors import UserError
from tf_transformer.special_tokens import END, PAD, START, UNK

PAIRS = pocket.generate(400)
HARD = [
    "",
    " ",
    "  two   blanks ",
    "Ça va? ½ Ω 漢字 🙂 \u200b",
    "e\u0301",
    "\t\n",
    "a" * 3000,
    "[START] <0x41> </s>",
    "▁",
    "\x00\x07",
    "﷽",
]


@pytest.fixture(scope="module")
def tokenizer():
    return learn_tokenizers(lambda: iter(PAIRS), 600, shared=True)[0]


def test_round_trip(tokenizer):
    texts = [sentence for pair in PAIRS for sentence in pair] + HARD
    decoded = [text.decode() for text in tokenizer.decode(tokenizer.encode(texts)).numpy()]
    assert decoded == [tokenizer.normalize(text) for text in texts]
    assert tokenizer.normalize("  e\u0301  ½ ") == unicodedata.normalize("NFKC", "é ½")


def test_no_text_is_unknown(tokenizer):
    """Also in a script that was not in the training text."""
    assert not (tokenizer.encode(HARD).values == UNK).numpy().any()


def test_special_ids(tokenizer):
    assert tokenizer.pieces([PAD, UNK, START, END]) == ["[PAD]", "[UNK]", "[START]", "[END]"]
    ids = tokenizer.encode(["a", ""])
    assert ids[1].numpy().tolist() == [END] and ids[0].numpy()[-1] == END
    assert not set(ids[0].numpy()[:-1].tolist()) & {PAD, START, END}
    assert tokenizer.decode(tf.constant([[START, *ids[0].numpy(), PAD, PAD]])).numpy()[0] == b"a"


def test_text_cannot_write_special_symbols(tokenizer):
    """A sentence that contains "[END]" does not end there."""
    ids = tokenizer.encode(["one [END] two [PAD]"])[0].numpy()
    assert (ids == END).sum() == 1 and (ids == PAD).sum() == 0


def test_in_graph_equals_python(tokenizer):
    processor = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model)
    texts = [pair[1] for pair in PAIRS]
    graph = tf.function(tokenizer.encode, input_signature=[tf.TensorSpec([None], tf.string)])
    assert graph(texts).to_list() == [processor.encode(text) + [END] for text in texts]


def test_company(tokenizer):
    texts = [pair[0] for pair in PAIRS[:50]] + HARD
    together = tokenizer.encode(texts)
    for i, text in enumerate(texts):
        np.testing.assert_array_equal(tokenizer.encode([text])[0], together[i])


def test_learning_is_repeatable_and_size_is_kept(tokenizer):
    again = learn_tokenizers(lambda: iter(PAIRS), 600, shared=True)[0]
    assert again.model == tokenizer.model and again.vocab_size == 600


@pytest.mark.parametrize("shared", [True, False])
def test_save_and_load(tmp_path, shared):
    made = learn_tokenizers(lambda: iter(PAIRS), 500, shared)
    save_tokenizers(made, str(tmp_path))
    loaded = load_tokenizers(str(tmp_path), shared)
    assert (made[0] is made[1]) == (loaded[0] is loaded[1]) == shared
    assert [t.model for t in made] == [t.model for t in loaded]
    if not shared:
        assert made[0].model != made[1].model


def test_a_small_text_has_a_small_vocabulary():
    assert 260 < Tokenizer.learn(["a few words only", "and a few more"], 8000).vocab_size < 500


def test_errors(tmp_path):
    with pytest.raises(UserError, match="no vocabulary of 500"):
        Tokenizer.learn([], 500)
    with pytest.raises(UserError, match="no vocabulary of 10"):
        Tokenizer.learn(["some text"], 10)
    with pytest.raises(UserError, match="no vocabulary at"):
        Tokenizer.load(str(tmp_path / "none"))
    (tmp_path / "bad").write_bytes(b"nonsense")
    with pytest.raises(UserError, match="not a SentencePiece model"):
        Tokenizer.load(str(tmp_path / "bad"))


def test_a_tokenizer_outlives_another_of_the_same_model(tokenizer):
    other = Tokenizer(tokenizer.model)
    expected = other.encode(["a word"]).to_list()
    del other
    gc.collect()
    assert tokenizer.encode(["a word"]).to_list() == expected


def test_a_tokenizer_outlives_a_new_seed(tokenizer):
    ids = tokenizer.encode(["a word"])
    tf.random.set_seed(5)
    assert tokenizer.encode(["a word"]).to_list() == ids.to_list()
    tf.random.set_seed(6)
    assert tokenizer.decode(ids).numpy()[0] == b"a word"


def test_ctrl_c_while_learning_is_no_trouble_with_the_text():
    def sentences():
        yield "some text"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Tokenizer.learn(sentences(), 300)


def test_first_use_in_a_graph():
    """A tokenizer whose first use is in a graph serves that graph, others, and eager calls."""
    tokenizer = Tokenizer.learn((sentence for pair in PAIRS for sentence in pair), 350)

    def encode():
        return tf.function(
            lambda texts: tokenizer.encode(texts).values,
            input_signature=[tf.TensorSpec([None], tf.string)],
        )

    texts = tf.constant(["Anna sleeps."])
    first = encode()(texts)
    np.testing.assert_array_equal(first, tokenizer.encode(texts).values)
    np.testing.assert_array_equal(first, encode()(texts))
