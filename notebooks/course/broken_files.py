"""Ten wrong versions of `my_transformer.py`: the complete file with one bug each.

`write` makes them in the folder `broken` beside the notebooks, where a learner opens them.
`learn_to_copy` and `translate` show their symptoms.
"""

from course import ROOT
from course.blanks import SOLUTION
from course.graduation import load_weights, vocabularies

import functools
import pathlib
import types
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

FOLDER = ROOT / "notebooks" / "broken"
START, END = 2, 3


class Bug(NamedTuple):
    """One replacement in the text of the complete file.

    Fields:
      name: what went wrong.
      functions: the names under which a learner may know the function at fault.
      breaks: the invariants of `file_invariants` that find it, the nearest first.
      old: lines of the complete file, which occur there once.
      new: the lines in their place.
    """

    name: str
    functions: tuple[str, ...]
    breaks: tuple[str, ...]
    old: str
    new: str


BUGS = {
    1: Bug(
        "no scaling",
        ("scaled_dot_product_attention",),
        ("scale",),
        """\
    d_k = tf.cast(tf.shape(k)[-1], tf.float32)
    scores = tf.matmul(q, k, transpose_b=True) / tf.sqrt(d_k)  # (..., T, S)
""",
        """\
    scores = tf.matmul(q, k, transpose_b=True)  # (..., T, S)
""",
    ),
    2: Bug(
        "targets not shifted",
        ("train_step",),
        ("shift", "replicas"),
        "label_smoothed_cross_entropy(tar[:, 1:], logits)",
        "label_smoothed_cross_entropy(tar[:, :-1], logits)",
    ),
    3: Bug(
        "sinusoids interleaved wrongly",
        ("positional_encoding",),
        ("positions",),
        "    table[0, :, 0::2], table[0, :, 1::2] = np.sin(angles), np.cos(angles)\n",
        "    table[0] = np.concatenate([np.sin(angles), np.cos(angles)], axis=-1)\n",
    ),
    4: Bug(
        "mask after the softmax",
        ("scaled_dot_product_attention",),
        ("causality", "padding", "batch", "cache", "search"),
        """\
    if mask is not None:
        scores += mask * -1e9
    weights = tf.nn.softmax(scores, axis=-1)  # (..., T, S)
""",
        """\
    weights = tf.nn.softmax(scores, axis=-1)  # (..., T, S)
    if mask is not None:
        weights *= 1 - mask
""",
    ),
    5: Bug(
        "warm-up by epoch",
        ("CustomSchedule.__call__", "CustomSchedule", "custom_schedule"),
        ("schedule",),
        "        step = tf.cast(step, tf.float32)\n",
        "        step = tf.cast(step, tf.float32) // 100  # an epoch has 100 updates\n",
    ),
    6: Bug(
        "heads transposed",
        ("split_heads", "MultiHeadAttention.split_heads"),
        ("causality", "padding", "batch", "cache", "search"),
        """\
        shape = (tf.shape(x)[0], -1, self.num_heads, self.depth)
        x = tf.reshape(x, shape)  # (B, S, H, K)
        return tf.transpose(x, (0, 2, 1, 3))  # (B, H, S, K)
""",
        """\
        shape = (tf.shape(x)[0], self.num_heads, -1, self.depth)
        return tf.reshape(x, shape)  # (B, H, S, K)
""",
    ),
    7: Bug(
        "a cache that forgets",
        ("Cache.append", "append", "cache_append"),
        ("cache", "search"),
        "        self.kept[layer] = k, v\n",
        "        self.kept.setdefault(layer, (k, v))\n",
    ),
    8: Bug(
        "padding counted in the loss",
        ("label_smoothed_cross_entropy",),
        ("padding", "replicas"),
        """\
    real = tf.cast(tf.not_equal(labels, PAD), tf.float32)  # (B, T)
    return tf.reduce_sum(losses * real) / tf.reduce_sum(real)  # ()
""",
        """\
    return tf.reduce_mean(losses)  # ()
""",
    ),
    9: Bug(
        "a beam that compares hypotheses of different lengths",
        ("beam_search",),
        ("search",),
        "finished.append((log_p / length_penalty(length, alpha), ids[1:]))",
        "finished.append((log_p, ids[1:]))",
    ),
    10: Bug(
        "mean of means over replicas",
        ("train_step",),
        ("replicas",),
        """\
        logits, _ = model(inp, tar[:, :-1], training=True)  # (B, T, V)
        loss = label_smoothed_cross_entropy(tar[:, 1:], logits)  # ()
""",
        """\
        losses = []
        for i in range(2):  # the two replicas, each with its half of the rows
            logits, _ = model(inp[i::2], tar[i::2, :-1], training=True)  # (B/2, T, V)
            losses.append(label_smoothed_cross_entropy(tar[i::2, 1:], logits))
        loss = tf.add_n(losses) / 2  # ()
""",
    ),
}


def text_of(number):
    """The text of a broken file.

    Raises: ValueError if the complete file has the old lines not exactly once.
    """
    text, bug = SOLUTION.read_text("utf-8"), BUGS[number]
    if text.count(bug.old) != 1:
        raise ValueError(f"{SOLUTION.name} has the lines of bug {number} {text.count(bug.old)}x")
    return text.replace(bug.old, bug.new)


def write(folder=FOLDER):
    """Writes the ten files, `file_1.py` to `file_10.py`; returns their paths by number."""
    folder = pathlib.Path(folder)
    folder.mkdir(exist_ok=True)
    paths = {number: folder / f"file_{number}.py" for number in BUGS}
    for number, path in paths.items():
        path.write_text(text_of(number), "utf-8")
    return paths


def load(path):
    """A file as a module of its own."""
    path = pathlib.Path(path)
    module = types.ModuleType(path.stem)
    exec(compile(path.read_text("utf-8"), str(path), "exec"), module.__dict__)
    return module


def _rows_to_copy(random, count):
    """Rows of four to eight of ten ids, and END."""
    return [[*random.integers(4, 14, random.integers(4, 9)).tolist(), END] for _ in range(count)]


def learn_to_copy(file):
    """Trains a small model of a file, and prints how well it copies new rows.

    Returns: the losses of 300 updates.
    """
    random = np.random.default_rng(1)
    rows, new = _rows_to_copy(random, 8_000), _rows_to_copy(random, 50)
    copies = file.make_batches([(row, [START, *row]) for row in rows], 320)
    keras.utils.set_random_seed(1)
    model = file.Transformer(1, 64, 4, 128, 14, rate=0.0)
    losses = file.train(model, copies, 300, file.CustomSchedule(64, warmup_steps=60, scale=0.45))
    written = file.greedy_search(model, file.pad(new), extra=5)
    same = sum(copy == row[:-1] for copy, row in zip(written, new))
    print(f"row {new[0][:-1]}\ncopy {written[0]}\n{same} of {len(new)} rows are right")
    return losses


@functools.cache
def vocabulary():
    """The vocabulary of the built-in model, one for both languages."""
    return vocabularies("pocket-en-de")[0]


@functools.cache
def _weights():
    """The weights of the built-in model, in the order of the complete file."""
    model = load(SOLUTION).Transformer(2, 128, 4, 512, vocabulary().vocab_size())
    load_weights(model, "pocket-en-de")
    return model.get_weights()


def trained(file, rate=0.1):
    """A model of a file with the weights of the built-in model."""
    model = file.Transformer(2, 128, 4, 512, vocabulary().vocab_size(), rate=rate)
    model(tf.constant([[END]]), tf.constant([[START]]))  # creates the variables
    model.set_weights(_weights())
    return model


def encode(*texts):
    """Texts -> ids (B, S)."""
    rows = [[*vocabulary().encode(text), END] for text in texts]
    return keras.utils.pad_sequences(rows, padding="post")  # int32


def translate(file, *texts):
    """Prints greedy translations of texts, which are in one batch."""
    for ids in file.greedy_search(trained(file), encode(*texts)):
        print(vocabulary().decode(ids))
