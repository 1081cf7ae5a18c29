"""Invariant 9, the round trip of the tokenizer; its vocabulary, graphs, and errors."""

import collections
import copy
import gc
import pickle
import re
import signal
import threading
import unicodedata
from itertools import islice

import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from sentencepiece import sentencepiece_model_pb2 as messages

from tf_transformer.data.pocket import read_pairs
from tf_transformer.data.tokenizer import (
    LEARNING_THREADS,
    Tokenizer,
    learn_tokenizers,
    load_tokenizers,
    save_tokenizers,
)
from tf_transformer.errors import DamagedError, UserError
from tf_transformer.special_tokens import BLANK, END, PAD, START, UNK

PAIRS = list(islice(read_pairs(), 400))
UNUSUAL = ["", " ", "  two   blanks ", "Ça va? ½ Ω 漢字 🙂 \u200b", "e\u0301", "\t\n", "a" * 3000]
UNUSUAL += ["[START] <0x41> </s>", "▁", "\x00\x07", "﷽"]


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def subword_model(request):
    return request.param


@pytest.fixture(scope="module")
def tokenizer(subword_model):
    return learn_tokenizers(lambda: iter(PAIRS), 600, shared=True, subword_model=subword_model)[0]


def test_round_trip(tokenizer):
    """No text is unknown, also in scripts that are not in the training text."""
    texts = [sentence for pair in PAIRS for sentence in pair] + UNUSUAL
    ids = tokenizer.encode(texts)
    assert not (ids.values == UNK).numpy().any()
    decoded = [text.decode() for text in tokenizer.decode(ids).numpy()]
    assert decoded == [tokenizer.normalize(text) for text in texts]


# What the rule of SentencePiece replaces: punctuation, symbols, the joiner of Persian, a direction
# mark, a blank of a fixed width, letters of Hindi and Vietnamese.
REPLACED = ["，", "…", "m²", "½", "™", "ه\u200cا", "a\u200eb", "a\u00a0b", "\u0958", "e\u0302"]


@pytest.fixture(scope="module")
def by_rule(subword_model):
    """A source and a target tokenizer of one vocabulary, by their rules."""
    text = [(" ".join(REPLACED), " ".join(REPLACED))] * 50 + PAIRS
    rules = [("nmt_nfkc", "identity"), ("identity", "nfkc"), ("nmt_nfkc_cf", "nmt_nfkc")]
    return {
        rule: learn_tokenizers(
            lambda: iter(text), 600, True, subword_model=subword_model, normalization=rule
        )
        for rule in rules
    }


@given(st.lists(st.text() | st.sampled_from([*REPLACED, " ▁ a"]), min_size=1), st.integers(0, 5))
def test_encoding_loses_no_text(by_rule, texts, number):
    """Text in any script is decoded to its normal form, in graphs and outside of them."""
    rule, side = list(by_rule)[number % 3], number % 2
    tokenizer = by_rule[rule][side]
    ids = tokenizer.encode(texts)
    assert ids.to_list() == tokenizer.encode_lists(texts)
    expected = [tokenizer.normalize(text) for text in texts]
    assert [text.decode() for text in tokenizer.decode(ids).numpy()] == expected
    if rule[side] == "identity":
        words = [filter(None, text.replace(BLANK, " ").split(" ")) for text in texts]
        assert expected == [" ".join(each) for each in words]
    assert not (ids.values == UNK).numpy().any()


def test_sources_and_targets_have_their_rules(by_rule):
    """The sub-words are one vocabulary, learned from the normal forms of both sides."""
    for rules, (source, target) in by_rule.items():
        assert source.same_vocabulary(target)
        for rule, tokenizer in zip(rules, (source, target)):
            assert tokenizer.normalizer_spec.name == rule
            assert (tokenizer.normalize("m²…") == "m²…") == (rule == "identity")
    source, target = by_rule["nmt_nfkc", "identity"]
    assert source.normalize("  e\u0301  ½ ") == unicodedata.normalize("NFKC", "é ½")
    assert {"²", "½", "\u200c"} <= set("".join(target.pieces(range(target.vocab_size))))
    upper = by_rule["nmt_nfkc_cf", "nmt_nfkc"][0]
    assert upper.normalize("ANNA") == "anna"


def test_a_file_of_rules(tmp_path):
    path = tmp_path / "rules.tsv"
    path.write_text("2026\t2E 2E 2E\n61 62\t63\n")
    tokenizer = Tokenizer.learn(["some text"], 400, normalization=str(path))
    path.unlink()
    assert tokenizer.normalize("…  ab½") == "... c½"
    (ids,) = tokenizer.encode_lists(["…  ab½"])
    assert tokenizer.decode([ids]).numpy()[0].decode() == "... c½"
    path.write_text("no code points\n")
    for bad in (path, tmp_path / "none.tsv"):
        with pytest.raises(UserError, match=f"the rules of normalization in {bad} cannot be read"):
            Tokenizer.learn(["some text"], 400, normalization=str(bad))


def test_special_tokens(tokenizer):
    """A text cannot contain them: a sentence with the text "[END]" does not end there."""
    assert tokenizer.pieces([PAD, UNK, START, END]) == ["[PAD]", "[UNK]", "[START]", "[END]"]
    ids = tokenizer.encode(["a", ""])
    assert ids[1].numpy().tolist() == [END]
    assert ids[0].numpy()[-1] == END
    assert not set(ids[0].numpy()[:-1].tolist()) & {PAD, START, END}
    padded = tf.constant([[START, *ids[0].numpy(), PAD, PAD]])
    assert tokenizer.decode(padded).numpy()[0] == b"a"
    ids = tokenizer.encode(["one [END] two [PAD]"])[0].numpy()
    assert (ids == END).sum() == 1 and PAD not in ids


def test_learning_is_deterministic_and_gives_the_size_and_kind(tokenizer, subword_model):
    again = learn_tokenizers(lambda: iter(PAIRS), 600, shared=True, subword_model=subword_model)[0]
    assert again.model == tokenizer.model
    assert again.vocab_size == 600
    assert again.subword_model == subword_model
    spec = messages.ModelProto.FromString(again.model).trainer_spec
    assert spec.num_threads == LEARNING_THREADS  # on all hosts
    assert not spec.seed_sentencepieces_file


def test_frequent_words_are_sub_words(subword_model):
    """Also in tokenised text, where each word has a blank after it."""
    texts = [re.sub(r"(\W)", r" \1 ", sentence) for pair in PAIRS for sentence in pair]
    tokenizer = Tokenizer.learn(iter(texts), 1000, subword_model=subword_model)
    words = collections.Counter(word for text in texts for word in text.split())
    frequent = [word for word, _ in words.most_common(40)]
    assert tokenizer.encode(frequent).row_lengths().numpy().tolist() == [2] * 40


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("one_rule", [True, False])
def test_save_and_load(tmp_path, shared, one_rule):
    rules = ("identity", "identity" if one_rule else "nfkc")
    learned = learn_tokenizers(lambda: iter(PAIRS), 500, shared, normalization=rules)
    save_tokenizers(learned, str(tmp_path))
    loaded = load_tokenizers(str(tmp_path))
    assert (learned[0] is learned[1]) == (loaded[0] is loaded[1]) == (shared and one_rule)
    assert [t.model for t in learned] == [t.model for t in loaded]
    assert learned[0].same_vocabulary(learned[1]) == shared


def test_errors_of_learning(subword_model):
    def learn(texts, vocab_size):
        return Tokenizer.learn(texts, vocab_size, subword_model=subword_model)

    for blank in ([], [""], ["  ", " "]):
        with pytest.raises(UserError, match="no vocabulary can be learned: the text is blank"):
            learn(blank, 500)
    message = "vocab_size 10 is too small: this text needs at least 267 sub-words"
    with pytest.raises(UserError, match=message):
        learn(["some text"], 10)
    assert learn(["some text"], 267).vocab_size == 256 + 4 + len("▁sometx")
    with pytest.raises(UserError, match="each line has more than 4,192 bytes"):
        learn(["word " * 1000], 500)

    def damaged():
        yield "text"
        raise DamagedError("line 2 is damaged")

    with pytest.raises(DamagedError, match="^line 2 is damaged"):
        learn(damaged(), 500)


@pytest.mark.parametrize("content", [None, b"nonsense", b""])
def test_errors_of_loading(tmp_path, content):
    if content is not None:
        (tmp_path / "bad").write_bytes(content)
    with pytest.raises(UserError, match="no vocabulary at .*bad"):
        Tokenizer.load(str(tmp_path / "bad"))


def test_a_tokenizer_outlives_its_resource(tokenizer):
    """Deleting another one of the same model, and `tf.random.set_seed`, free it."""
    other = Tokenizer(tokenizer.model)
    ids = other.encode(["a word"])
    del other
    gc.collect()
    assert tokenizer.encode(["a word"]).to_list() == ids.to_list()
    tf.random.set_seed(5)
    assert tokenizer.encode(["a word"]).to_list() == ids.to_list()
    tf.random.set_seed(6)
    assert tokenizer.decode(ids).numpy()[0] == b"a word"
    tf.random.set_seed(7)
    in_graph = tf.function(lambda texts: tokenizer.decode(tokenizer.encode(texts)))
    assert in_graph(tf.constant(["a word"])).numpy()[0] == b"a word"


def test_copies_of_a_tokenizer(tokenizer):
    for each in (tokenizer, tokenizer.for_targets()):
        copies = copy.copy(each), copy.deepcopy(each), pickle.loads(pickle.dumps(each))
        for other in copies:
            assert (other.model, other.tags) == (each.model, each.tags)
            assert other.encode(["a word"]).to_list() == each.encode(["a word"]).to_list()


def test_ctrl_c_interrupts_learning():
    """Also while the trainer, which is one step of C++ code, does not return to Python."""
    learned = threading.Event()
    waited_in_vain = []

    def sentences():
        yield "some text"
        signal.raise_signal(signal.SIGINT)  # the main thread gets it
        if not learned.wait(600):
            waited_in_vain.append(True)

    with pytest.raises(KeyboardInterrupt):
        Tokenizer.learn(sentences(), 300)
    learned.set()
    assert not waited_in_vain
