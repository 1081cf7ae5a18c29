"""Measures heads on many sentences (notebook D): where they attend, and what they are worth."""

import contextlib
import re
from collections import Counter
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from pocket.grammar import DETERMINERS
from pocket.lexicon import ADJECTIVES, NOUNS

from tf_transformer.decoding.inference import target_log_probs, teacher_forcing

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


def attention_of(translator, pairs):
    """The `Example` of each (English, German) pair, 50 pairs at a time."""
    examples = []
    for first in range(0, len(pairs), 50):
        inp, tar = encode(translator, pairs[first : first + 50])
        model = translator.model
        batch = model.encoder.attention_weights(inp) | teacher_forcing(model, inp, tar)[1]
        batch = {name: weights.numpy() for name, weights in batch.items()}
        for i, (source, target) in enumerate(zip(inp, tar)):
            source, target = source[source > 0], target[target > 0]
            own = {}
            for name, weights in batch.items():
                queries = len(source) if "encoder" in name else len(target)
                keys = len(target) if "block1" in name else len(source)
                own[name] = weights[i, :, :queries, :keys]
            pieces = translator.source.pieces(source), translator.target.pieces(target)
            examples.append(Example(*pieces, own))
    return examples


def encode(translator, pairs):
    """The ids of both sides of some pairs, padded: (B, S) and (B, T)."""
    sources, targets = zip(*pairs)
    inp = translator.source.encode(list(sources)).to_tensor()
    return inp, translator.target.encode(list(targets)).to_tensor()


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
    ids = translator.source.encode([text]).to_tensor()
    layers = translator.model.encoder.attention_weights(ids).values()
    at = words_of(translator.source.pieces(ids[0]))
    stacked = np.stack([weights[0].numpy() for weights in layers])
    return [word for word, _ in at], by_words(stacked, at, at)


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


def translated_nouns(examples):
    """The `Case`s from a German noun, when it is predicted, to the English noun."""
    cases = []
    for example in examples:
        english, german = words_of(example.source), words_of(example.target)
        once = Counter(word for word, _ in english)
        for noun, goals in english:
            matches = [at[0] for word, at in german if word in TRANSLATIONS.get(noun, ())]
            if len(matches) == 1 and once[noun] == 1:
                cases.append(Case(example.weights, matches[0], goals))
    return cases


@contextlib.contextmanager
def without_heads(block, heads):
    """Silences some heads of a `MultiHeadAttention`: their rows of W^O are 0 inside `with`."""
    kernel = block.dense.kernel.numpy()  # (H d_v, D), W^O
    silent = kernel.copy()
    for head in heads:
        silent[head * block.value_depth : (head + 1) * block.value_depth] = 0
    block.dense.kernel.assign(silent)
    try:
        yield
    finally:
        block.dense.kernel.assign(kernel)


@contextlib.contextmanager
def uniform_weights(block):
    """Makes all weights of a `MultiHeadAttention` equal inside `with`: queries of 0."""
    saved = [variable.numpy() for variable in block.wq.variables]
    for variable in block.wq.variables:
        variable.assign(tf.zeros_like(variable))
    try:
        yield
    finally:
        for variable, values in zip(block.wq.variables, saved):
            variable.assign(values)


def loss_of(model, inp, tar):
    """Mean of -ln p over the sub-words of the references, in nats."""
    real = tf.cast(tar > 0, tf.float32)
    return float(-tf.reduce_sum(target_log_probs(model, inp, tar) * real) / tf.reduce_sum(real))
