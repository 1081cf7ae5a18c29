"""Measures heads of `my_transformer.py` (notebook D): where they attend, what they are worth.

Shapes: B sentences, S source, T target, H heads, L layers.
"""

from course.graduation import load_weights, vocabularies

import contextlib
import functools
import re
from collections import Counter
from typing import NamedTuple
from unittest import mock

import numpy as np
from pocket.grammar import DETERMINERS
from pocket.lexicon import ADJECTIVES, NOUNS

SIZES = {  # of the built-in models: N, d_model, heads, dff, sub-words, dropout, norm
    "pocket-en-de": (2, 128, 4, 512, 2000, 0.1, "post"),
    "tatoeba-en-de": ((6, 2), 320, 5, 1280, 8000, 0.1, "pre"),
    "tatoeba-en-es": ((4, 2), 256, 4, 1024, 8000, 0.1, "pre"),
}
_NOUNS = [noun for kind in NOUNS.values() for noun in kind]
# The forms of an English noun -> the forms of the German noun that translates it.
TRANSLATIONS = {}
for _noun in _NOUNS:
    for _form in (_noun.en, _noun.en_plural):
        TRANSLATIONS.setdefault(_form, set()).update(
            (_noun.de, _noun.weak, _noun.de_plural, _noun.de_plural + "n")
        )

EVERYDAY = [  # sentences of the kind that the real-language model learned
    ("I have to go home now.", "Ich muss jetzt nach Hause gehen."),
    ("She doesn't like coffee.", "Sie mag keinen Kaffee."),
    ("Where did you buy this book?", "Wo hast du dieses Buch gekauft?"),
    ("We were very tired last night.", "Wir waren gestern Abend sehr müde."),
    ("My brother works in a hospital.", "Mein Bruder arbeitet in einem Krankenhaus."),
    ("Can you help me with the dishes?", "Kannst du mir beim Abwasch helfen?"),
    ("He told me that he was ill.", "Er sagte mir, dass er krank sei."),
    ("The train arrived ten minutes late.", "Der Zug kam zehn Minuten zu spät an."),
    ("I don't know what she wants.", "Ich weiß nicht, was sie will."),
    ("It is too cold to swim today.", "Es ist heute zu kalt zum Schwimmen."),
]


# What *it* can be -> the German for it, and the German pronoun.
SUBJECTS = {
    "dog": ("Der Hund", "er"),
    "bird": ("Der Vogel", "er"),
    "lion": ("Der Löwe", "er"),
    "bear": ("Der Bär", "er"),
    "cat": ("Die Katze", "sie"),
    "cow": ("Die Kuh", "sie"),
    "mouse": ("Die Maus", "sie"),
    "snake": ("Die Schlange", "sie"),
    "horse": ("Das Pferd", "es"),
    "animal": ("Das Tier", "es"),
    "child": ("Das Kind", "es"),
    "pig": ("Das Schwein", "es"),
}
IT_TEXTS = {  # texts -> the German between subject and pronoun
    "The animal did not cross the street because it was too tired.": (
        "ging nicht über die Straße, weil"
    ),
    "The animal did not come into the house because it was too big.": "kam nicht ins Haus, weil",
    "The animal could not sleep because it was too hungry.": "konnte nicht schlafen, weil",
    "The animal stayed in the garden because it was very old.": "blieb im Garten, weil",
}


class Example(NamedTuple):
    """A sentence pair: its sub-words, and the attention weights by name, without padding."""

    source: list
    target: list
    weights: dict


class Case(NamedTuple):
    """One test of a head: from this query, is its largest weight on one of the goals?"""

    weights: dict
    query: int
    goals: list


class MyTranslator:
    """Your Transformer with the weights of a built-in model, and its vocabularies.

    Args:
      mine: the module `my_transformer`.
      name: of the built-in model, a key of `SIZES`.
    """

    def __init__(self, mine, name):
        self.mine, (self.source, self.target) = mine, vocabularies(name)
        self.model = mine.Transformer(*SIZES[name])
        load_weights(self.model, name)

    def encode(self, pairs):
        """Pairs of texts -> padded ids: ... END (B, S), and START ... END (B, T + 1)."""
        start, end = self.mine.START, self.mine.END
        inp = [[*self.source.encode(text), end] for text, _ in pairs]
        tar = [[start, *self.target.encode(text), end] for _, text in pairs]
        return self.mine.pad(inp), self.mine.pad(tar)

    def translate(self, *texts):
        """The translations of some texts by your greedy search."""
        inp, _ = self.encode([(text, "") for text in texts])
        return [self.target.decode(ids) for ids in self.mine.greedy_search(self.model, inp)]

    def pieces(self, ids):
        """The sub-words of ids; both vocabularies have the same."""
        names = {self.mine.PAD: "[PAD]", self.mine.START: "[START]", self.mine.END: "[END]"}
        return [names.get(i) or self.target.id_to_piece(i) for i in map(int, ids)]

    def attention(self, text, translation=None):
        """The `Example` of a text and a translation; None for your model's own."""
        translation = self.translate(text)[0] if translation is None else translation
        return self.attentions([(text, translation)])[0]

    def attentions(self, pairs):
        """The `Example` of each pair of texts, 50 at a time."""
        return [
            example for i in range(0, len(pairs), 50) for example in self._batch(pairs[i : i + 50])
        ]

    def _batch(self, pairs):
        inp, tar = self.encode(pairs)
        with recorded(self.model.encoder) as weights:
            weights |= self.model(inp, tar[:, :-1])[1]
        arrays = {name: np.array(values) for name, values in weights.items()}
        for i, (source, target) in enumerate(zip(inp, tar[:, 1:])):
            source, target = source[source > 0], target[target > 0]
            own = {}
            for name, values in arrays.items():
                queries = len(source) if "encoder" in name else len(target)
                keys = len(target) if "block1" in name else len(source)
                own[name] = values[i, :, :queries, :keys]
            yield Example(self.pieces(source), self.pieces(target), own)


@contextlib.contextmanager
def recorded(encoder):
    """Yields a dict, which gets the weights (B, H, S, S) of your encoder's layers by name.

    `EncoderLayer` drops the weights, so this listens to its `MultiHeadAttention`.
    """
    weights = {}

    def listening(name, call):
        @functools.wraps(call)  # with its signature
        def recording(*args, **kwargs):
            output, weights[name] = call(*args, **kwargs)
            return output, weights[name]

        return recording

    with contextlib.ExitStack() as stack:
        for i, layer in enumerate(encoder.enc_layers, start=1):
            call = listening(f"encoder_layer{i}", layer.mha.call)
            stack.enter_context(mock.patch.object(layer.mha, "call", call))
        yield weights


def words_of(pieces):
    """Sub-words -> (word, its positions); marks and [END] are words of their own."""
    words = []
    for place, piece in enumerate(pieces):
        if re.fullmatch("<0x[2-7].>", piece):  # an ASCII character that is no piece
            piece = chr(int(piece[3:5], 16))
        is_mark = not piece[0].isalnum()
        if not words or piece[0] in "▁[" or (is_mark and words[-1][0]):
            words.append((piece.lstrip("▁"), [place]))
        else:
            words[-1] = (words[-1][0] + piece, [*words[-1][1], place])
    return words


def by_words(weights, queries, keys):
    """Weights (..., T, S) of sub-words as those of words: mean over queries, sum over keys."""
    rows = [weights[..., at, :].mean(axis=-2) for _, at in queries]
    rows = np.stack(rows, axis=-2)  # (..., words, S)
    return np.stack([rows[..., at].sum(axis=-1) for _, at in keys], axis=-1)


def encoder_words(translator, text):
    """The words of a text, and the weights of all encoder heads between them (L, H, S, S)."""
    pieces, _, weights = translator.attention(text, "")
    at = words_of(pieces)
    layers = np.stack([values for name, values in weights.items() if "encoder" in name])
    return [word for word, _ in at], by_words(layers, at, at)


def determiners_and_nouns(examples):
    """The `Case`s from determiner to noun: the noun next, and behind an adjective."""
    following, over = [], []
    for example in examples:
        words = words_of(example.source)
        for (first, at), (second, at_2), (third, at_3) in zip(words, words[1:], words[2:]):
            if first.lower() in DETERMINERS and second in TRANSLATIONS:
                following.append(Case(example.weights, at[-1], at_2))
            elif first.lower() in DETERMINERS and second in ADJECTIVES and third in TRANSLATIONS:
                over.append(Case(example.weights, at[-1], at_3))
    return following, over


def nouns_to_the_right(examples):
    """The `Case`s from each word to the next noun on its right, by the kind of the word."""
    kinds = {"determiners": [], "adjectives": [], "nouns": [], "other words": []}
    for example in examples:
        goals = []
        for word, at in reversed(words_of(example.source)):
            kind = "other words"
            if word.lower() in DETERMINERS:
                kind = "determiners"
            elif word in ADJECTIVES:
                kind = "adjectives"
            elif word in TRANSLATIONS:
                kind = "nouns"
            if goals:
                kinds[kind].append(Case(example.weights, at[-1], goals))
            if kind == "nouns":
                goals = at
    return kinds


def translated_nouns(examples):
    """The `Case`s from a German noun of the reference, when predicted, to the English noun."""
    cases = []
    for example in examples:
        english, german = words_of(example.source), words_of(example.target)
        once = Counter(word for word, _ in english)
        for noun, goals in english:
            matches = [at[0] for word, at in german if word in TRANSLATIONS.get(noun, ())]
            if len(matches) == 1 and once[noun] == 1:
                cases.append(Case(example.weights, matches[0], goals))
    return cases


def pronoun_pairs(text):
    """One of the `IT_TEXTS` with each of the `SUBJECTS`, translated up to the pronoun."""
    return [
        (text.replace("animal", noun), f"{german} {IT_TEXTS[text]} {pronoun}")
        for noun, (german, pronoun) in SUBJECTS.items()
    ]


@contextlib.contextmanager
def replaced(layer, weights):
    """Gives a Keras layer other weights, inside `with`."""
    own = layer.get_weights()
    layer.set_weights(weights)
    try:
        yield
    finally:
        layer.set_weights(own)
