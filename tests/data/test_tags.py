"""Tags: one token before a source, of text only where it begins a source."""

import itertools
import re

import pytest
import sentencepiece
import tensorflow as tf
from encoded import encode, sequences

from tf_transformer.data.pocket import read_pairs
from tf_transformer.data.readers import open_corpus
from tf_transformer.data.tags import TagWarnings, parse_tags, split_tag
from tf_transformer.data.tokenizer import learn_tokenizers, load_tokenizers, save_tokenizers
from tf_transformer.errors import UserError
from tf_transformer.special_tokens import END

PAIRS = list(itertools.islice(read_pairs(), 300))
TAGS = ["<2de>", ">>fr<<", "<a.b*>"]


@pytest.fixture(scope="module")
def tokenizer():
    pairs = [(f"{TAGS[i % 3]} {source}", target) for i, (source, target) in enumerate(PAIRS)]
    return learn_tokenizers(lambda: pairs, 500, shared=True, tags=TAGS)[0]


def test_the_vocabulary_has_the_tags_and_not_their_characters(tokenizer, tmp_path):
    """They are learned from the text without tags: the other sub-words are the same."""
    assert tokenizer.tags == {"<2de>": 4, ">>fr<<": 5, "<a.b*>": 6}
    plain = learn_tokenizers(lambda: PAIRS, 497, shared=True)[0]
    assert plain.tags == {}
    assert tokenizer.pieces(range(7, 500)) == plain.pieces(range(4, 497))
    save_tokenizers((tokenizer, tokenizer), str(tmp_path))
    assert load_tokenizers(str(tmp_path))[0].tags == tokenizer.tags
    source, target = learn_tokenizers(lambda: PAIRS, 400, shared=False, tags=TAGS[:1])
    assert source.tags == {"<2de>": 4} and target.tags == {}


SENTENCES = [  # text, its tag, the rest
    ("<2de> The dog sleeps.", "<2de>", "The dog sleeps."),
    (">>fr<< The dog", ">>fr<<", "The dog"),
    ("<a.b*> x\ny", "<a.b*>", "x\ny"),
    ("  <2de>   The dog", "<2de>", "The dog"),
    ("<2de> <2de> The dog", "<2de>", "<2de> The dog"),
    ("The <2de> dog", "", "The <2de> dog"),
    ("<2de>The dog", "", "<2de>The dog"),
    ("<2de>", "", "<2de>"),
    ("\t<2de> dog", "", "\t<2de> dog"),
    ("<axbb> a", "", "<axbb> a"),
    ("<2DE> a", "", "<2DE> a"),
    ("", "", ""),
    ("  ", "", "  "),
]


def test_only_a_tag_before_a_sentence_is_one(tokenizer):
    """In Python, in graphs, and in the processes that encode text; elsewhere it is plain text."""
    texts = [text for text, _, _ in SENTENCES]
    processor = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model)
    expected = [
        [*([tokenizer.tags[tag]] if tag else []), *processor.encode(rest), END]
        for _, tag, rest in SENTENCES
    ]
    for row, (_, tag, _) in zip(expected, SENTENCES):
        assert sum(4 <= token <= 6 for token in row) == bool(tag)
    assert [split_tag(text, tokenizer.tags) for text in texts] == [row[1:] for row in SENTENCES]
    assert tokenizer.encode(texts).to_list() == expected
    in_graph = tf.function(tokenizer.encode, input_signature=[tf.TensorSpec([None], tf.string)])
    assert in_graph(tf.constant(texts)).to_list() == expected
    assert in_graph(tf.constant([], tf.string)).to_list() == []
    kept = [row for row in expected if len(row) > 1]
    pairs = [(text, "<2de> a") for text, row in zip(texts, expected) if len(row) > 1]
    ids = sequences(encode(pairs, (tokenizer, tokenizer), 100, 100.0))
    assert ids[::2] == list(map(tuple, kept))
    assert not {4, 5, 6} & set(itertools.chain(*ids[1::2]))


def test_tags_in_targets_are_text(tokenizer):
    """Also with a shared vocabulary, which has the tags."""
    texts = ["<2de> The dog", "The dog"]
    assert tokenizer.decode(tokenizer.encode(texts)).numpy().tolist() == [b"The dog", b"The dog"]
    target = tokenizer.for_targets()
    assert target.decode(target.encode(texts)).numpy().tolist() == [b"<2de> The dog", b"The dog"]
    assert target.fingerprint == tokenizer.fingerprint and tokenizer.tags


def test_a_tagged_corpus(corpus_folder):
    plain = open_corpus(str(corpus_folder), "en", "de")
    tagged = open_corpus(str(corpus_folder), "en", "de", "<2de>")
    for split in ("train", "validation", "test"):
        expected = [(f"<2de> {source}", target) for source, target in plain.read(split)]
        assert list(tagged.read(split)) == expected
        other = open_corpus(str(corpus_folder), "en", "de", "<2fr>")
        fingerprints = {each.fingerprint(split) for each in (plain, tagged, other)}
        assert len(fingerprints) == 3
    data = f"{corpus_folder},{corpus_folder}"
    half = open_corpus(data, "en", "de", ",<BT>")
    sources = [source for source, _ in half.read("train")]
    assert [source.startswith("<BT> ") for source in sources] == [False] * 400 + [True] * 400
    part, _ = open_corpus(data, "en", "de").parts("train")
    assert half.parts("train")[0].fingerprint("train") == part.fingerprint("train")


@pytest.mark.parametrize(
    ("text", "corpora"),
    [("<2de>", 2), ("<2de>,<2fr>", 1), ("2de", 1), ("<2 de>", 1), ("<0x41>", 1), ("<>", 1)],
)
def test_mistakes(text, corpora):
    with pytest.raises(UserError, match=f"tag '{text}': give one for each of the {corpora}"):
        parse_tags(text, corpora)


@pytest.mark.parametrize(("tags", "training_tags", "texts", "warnings"), [
    (["<2de>"], "<2de>", ["<2de> a", "  <2de>  a", "", " "], []),
    (["<2de>"], "<2de>", ["<2de> a", "b", "c"], ["line 8 has no tag, .* it knows <2de>"]),
    (["<2de>"], "<2de>", ["<2de>"], ["line 7 has no tag"]),
    (["<BT>"], ",<BT>", ["a", "<BT> a", "a <BT> a", "<2de>a", "1 < 2"], []),
    (["<BT>", "<2de>"], ",<BT>", ["<bt> a", "<BT2> b"], ["7: .* tag <bt>, .* <BT>, <2de>"]),
    (["<2de>"], "<2de>", ["a", "<2fr> a", "b"], ["7 has no tag", "8: .* the tag <2fr>"]),
    ([], "", ["a", "<b> bold", "<2de> a", ">>de<< a"], ["9: .* tag <2de>, .* knows none"]),
])  # fmt: skip
def test_warnings_of_tags(caplog, tags, training_tags, texts, warnings):
    """Of each kind, the first one; the lines are counted from 7."""
    checked = TagWarnings(tags, training_tags)
    checked.check(texts[:1], [7])
    checked.check(texts[1:], range(8, 99))
    found = [record.getMessage() for record in caplog.records]
    assert len(found) == len(warnings)
    assert all(map(re.search, warnings, found))
