"""The nine invariants, on a model of yours: most bugs that users of Transformers report break one of them.

Each invariant is a function of a `Case` that returns whether it holds and what was measured. A difference is the largest one, as a share of
the largest number that was compared; computing in another order changes the last digits, so some are allowed.
"""

import contextlib
import dataclasses
import html
import itertools
import os
import tempfile
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tf_transformer.checkpoints import checkpoint
from tf_transformer.checkpoints.loading import build_model, load_model
from tf_transformer.checkpoints.paths import checkpoint_step, find, read_metrics, step_checkpoints
from tf_transformer.data.sources import open_corpus
from tf_transformer.decoding.kv_cache import make_decode_step
from tf_transformer.decoding.scores import NEGATIVE_INFINITY
from tf_transformer.decoding.search import beam_search, greedy_search, length_penalty
from tf_transformer.decoding.translator import Translator, search_translations
from tf_transformer.errors import UserError
from tf_transformer.paper.resumed_run import resumed_run
from tf_transformer.serving.saved_model import export_saved_model
from tf_transformer.special_tokens import END, PAD, START, UNK

SENTENCES = 12  # of the validation split
ROUNDING = 1e-4  # largest difference of what is computed in float32 in two ways
FEW, SHORT, MANY = (
    3,
    4,
    64,
)  # invariant 5: words, longest output, a beam that holds all outputs of so many words
UPDATES = 6  # invariants 6 and 7: how far the model's run goes on
HARD = [
    "  two   blanks ",
    "1\u00bd \u03a9 \u6f22\u5b57 \U0001f642",
    "[END] <0x41> </s>",
]  # invariant 9: text that no vocabulary was made for


class Case(NamedTuple):
    """What the invariants are checked on."""

    folder: str  # the model folder
    scratch: str  # a folder for what is made on the way
    config: Any  # a `Config`
    model: Any  # a `Transformer`
    tokenizers: tuple  # of source and target
    translator: Any  # a `Translator` of these
    texts: list  # source sentences
    inp: Any  # int32 [B, S], their ids, padded
    tar: Any  # int32 [B, T], ids of target sentences, beginning with the start symbol, padded


class Invariant(NamedTuple):
    """What became of a invariant."""

    number: int
    name: str
    holds: bool | None  # None where it could not be checked
    measured: str


class Invariants(list):
    """A list of `Invariant`, which notebooks and `print` show as a table."""

    def __repr__(self):
        return "\n".join(
            f"{invariant.number}  {invariant.name:10s}  {_word(invariant.holds):11s}  {invariant.measured}"
            for invariant in self
        )

    def _repr_html_(self):
        colours = {True: "#1a7f37", False: "#b3261e", None: "#5b6470"}
        left, short, rows = (
            'style="text-align: left"',
            'style="text-align: left; white-space: nowrap"',
            [],
        )
        for invariant in self:
            mark = f'style="background: {colours[invariant.holds]}; color: #fff; text-align: left; white-space: nowrap"'
            cells = f"<td>{invariant.number}</td><td {short}>{invariant.name}</td><td {mark}>{_word(invariant.holds)}</td>"
            rows.append(f"<tr>{cells}<td {left}>{html.escape(invariant.measured)}</td></tr>")
        head = "".join(
            f'<th scope="col" {left}>{title}</th>'
            for title in ("", "invariant", "result", "measured")
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _word(holds):
    return {True: "\u2713 holds", False: "\u2717 broken", None: "? not checked"}[holds]


def check_invariants(model_dir, texts=None):
    """Checks all nine invariants, which takes about a minute.

    Args:
      model_dir: a model folder, as `train` wrote it; nothing in it is changed.
      texts: source sentences; None for some of the validation split of the model's own corpus.
    Returns: `Invariants`: for each invariant (number, name, holds, what was measured).
    Raises: UserError when there is no model, or the texts cannot be used.
    """
    with tempfile.TemporaryDirectory() as scratch:
        case = make_case(model_dir, texts, scratch)
        return Invariants(
            judge(number, invariant, case) for number, invariant in enumerate(INVARIANTS, start=1)
        )


def judge(number, invariant, case):
    """The `Invariant` that a function of a `Case` makes; an error of the user's leaves it open, any other breaks it."""
    try:
        holds, measured = invariant(case)
    except UserError as error:
        holds, measured = None, str(error)
    except Exception as error:  # whatever a broken model makes of it
        holds, measured = False, f"{type(error).__name__}: {error}"
    return Invariant(
        number,
        invariant.__name__.replace("_", " "),
        holds if holds is None else bool(holds),
        measured,
    )


def make_case(model_dir, texts, scratch):
    """A `Case`; arguments and errors as of `check_invariants`, and an empty folder."""
    model, tokenizers, config = load_model(model_dir)
    if texts is None:
        data = config.data
        pairs = list(
            itertools.islice(
                open_corpus(data.data, data.source, data.target).read("validation"), SENTENCES
            )
        )
    else:
        pairs = [(text, text) for text in texts]  # any target will do
    pairs = [pair for pair in pairs if all(map(str.strip, pair))]
    if not pairs:
        raise UserError("no text to check the invariants on: give sentences")
    inp, tar = (
        tokenizer.encode(list(side)).to_tensor(PAD).numpy()
        for tokenizer, side in zip(tokenizers, zip(*pairs))
    )
    longest = min(model.pe_input, model.pe_target) - 1
    if max(inp.shape[1], tar.shape[1]) > longest:
        raise UserError(f"a text has more than {longest:,} sub-words: give shorter ones")
    tar = np.pad(tar[:, :-1], [(0, 0), (1, 0)], constant_values=START)
    translator = Translator(model, tokenizers, config.decode)
    return Case(
        model_dir,
        scratch,
        config,
        model,
        tokenizers,
        translator,
        [source for source, _ in pairs],
        inp,
        tar,
    )


def _difference(found, expected):
    return float(np.max(np.abs(found - expected)) / max(np.max(np.abs(expected)), 1e-9))


def padding(case):
    """1. More padding changes no logit."""
    sides = ((case.inp, 6, "pe_input"), (case.tar, 4, "pe_target"))
    wider = [
        np.pad(ids, [(0, 0), (0, min(more, getattr(case.model, most) - ids.shape[1]))])
        for ids, more, most in sides
    ]
    logits = case.model(case.inp, case.tar)[0].numpy()  # (B, T, V)
    difference = _difference(case.model(*wider)[0].numpy()[:, : logits.shape[1]], logits)
    return difference <= ROUNDING, f"logits differ by {difference:.2g} (at most {ROUNDING:g})"


def batch_independence(case):
    """2. What a model makes of a sentence does not depend on the batch that it is in."""
    logits, differences = case.model(case.inp, case.tar)[0].numpy(), []  # (B, T, V)
    for inp, tar, together in zip(case.inp, case.tar, logits):
        inp, tar = inp[inp != PAD], tar[tar != PAD]
        differences.append(
            _difference(
                case.model(inp[np.newaxis], tar[np.newaxis])[0].numpy()[0], together[: len(tar)]
            )
        )
    same = sum(
        together == case.translator(text)
        for text, together in zip(case.texts, case.translator(case.texts))
    )
    told = f"logits differ by {max(differences):.2g} (at most {ROUNDING:g}); {same} of {len(logits)} translations are the same"
    return np.max(differences) <= ROUNDING and same == len(logits), told


def causality(case):
    """3. A later target word changes no earlier logit, to the last bit."""
    length, vocabulary = case.tar.shape[1], case.model.target_vocab_size
    logits = case.model(case.inp, case.tar)[0].numpy()  # (B, T, V)
    earlier, later = [], []
    for place in sorted({1, length // 2, length - 1} - {0}):
        changed = case.tar.copy()
        changed[:, place] = (changed[:, place] + 7) % (vocabulary - 4) + 4
        again = case.model(case.inp, changed)[0].numpy()
        earlier.append(_difference(again[:, :place], logits[:, :place]))
        later.append(_difference(again[:, place:], logits[:, place:]))
    told = f"earlier logits differ by {np.max(earlier):.2g} (must be 0), later ones by {np.min(later):.2g} or more"
    return np.max(earlier) == 0 < np.min(later), told


def cache(case):
    """4. Step by step with kept keys and values gives a translation the probability that the full pass gives it."""
    decode = dataclasses.replace(case.config.decode, length_penalty=0.0)
    found = search_translations(case.model, tf.constant(case.inp), decode)
    expected = _log_probabilities(case.model, case.inp, found.ids[:, 0].numpy())
    difference = _difference(found.scores[:, 0].numpy(), expected)
    return (
        difference <= ROUNDING,
        f"log-probabilities of {len(expected)} translations differ by {difference:.2g} (at most {ROUNDING:g})",
    )


def _log_probabilities(model, inp, ids, added=0.0):
    """Of target ids `[B, T]` without the start symbol, by the full pass -> `[B]`; `added` goes to the logits."""
    tar = np.pad(ids, [(0, 0), (1, 0)], constant_values=START).astype(np.int32)
    log_probs = tf.nn.log_softmax(model(inp, tar[:, :-1])[0] + added)  # (B, T, V)
    return np.sum(np.where(ids != PAD, tf.gather(log_probs, ids, batch_dims=2), 0.0), axis=1)


def search(case):
    """5. A beam of one is greedy search; a beam that is wide enough finds all outputs, best first."""
    alpha, limits = (
        case.config.decode.length_penalty,
        tf.reduce_sum(tf.cast(case.inp != PAD, tf.int32), axis=1) + 5,
    )
    one = beam_search(*make_decode_step(case.model, case.inp, 1), limits, 1, alpha)
    greedy = greedy_search(*make_decode_step(case.model, case.inp, 1), limits, alpha)
    same = np.array_equal(one.ids, greedy.ids)

    first = case.model(case.inp[:1], case.tar[:1, :1])[0].numpy()[0, 0]  # (V)
    words = [int(word) for word in np.argsort(-first) if word not in (PAD, UNK, START, END)][:FEW]
    added = np.full_like(first, NEGATIVE_INFINITY)
    added[[*words, END]] = 0.0
    outputs = [
        [*body, END] for length in range(SHORT) for body in itertools.product(words, repeat=length)
    ]
    ids = tf.ragged.constant(outputs, dtype=tf.int32).to_tensor(PAD).numpy()  # (outputs, SHORT)
    inp = case.inp[:4]
    wide = beam_search(
        *_step(case.model, inp, MANY, added),
        tf.fill([len(inp)], SHORT),
        MANY,
        alpha,
        n_best=len(ids),
    )
    log_probs = np.array(
        [
            _log_probabilities(case.model, np.repeat(row[np.newaxis], len(ids), axis=0), ids, added)
            for row in inp
        ]
    )
    scores = log_probs / length_penalty(np.sum(ids != PAD, axis=1), alpha).numpy()  # (B, outputs)
    difference = _difference(wide.scores.numpy(), -np.sort(-scores, axis=1))
    told = f"greedy and a beam of 1 {'agree' if same else 'differ'}; a beam of {MANY} against all {len(ids)} outputs of {FEW} words, best "
    return (
        same and difference <= ROUNDING,
        f"{told}first: scores differ by {difference:.2g} (at most {ROUNDING:g})",
    )


def _step(model, inp, hypotheses, added):
    """The step function of a model with its first state; `added` goes to the logits."""
    step, state = make_decode_step(model, inp, hypotheses)

    def step_with_added(*arguments):
        logits, state = step(*arguments)  # (B, K', V)
        return logits + added, state

    return step_with_added, state


def replicas(case):
    """6. Two replicas make the updates that one makes; dropout, whose masks belong to the share of a replica, is off."""
    config, start = (
        case.config.replace(dropout_rate=0.0),
        checkpoint_step(find(case.folder, "latest")),
    )
    goal = start + UPDATES
    folders = [_run_folder(case, config, number, goal) for number in (1, 2)]
    with contextlib.ExitStack() as both:
        runs = [
            resumed_run(case.folder, folder, config, number, goal)
            for number, folder in enumerate(folders, start=1)
        ]
        for wait in [both.enter_context(run) for run in runs]:
            wait()
    runs = [
        [line for line in read_metrics(folder) if start < line["step"] <= goal]
        for folder in folders
    ]
    assert [len(line["tokens_per_replica"]) for run in runs for line in run] == [1] * UPDATES + [
        2
    ] * UPDATES
    norms, losses = (
        _difference(*(np.array([line[name] for line in run]) for run in runs))
        for name in ("gradient_norm", "loss")
    )
    told = f"{UPDATES} updates by 1 and by 2 replicas: losses differ by {losses:.2g}, lengths of gradients by {norms:.2g}"
    return max(norms, losses) <= 10 * ROUNDING, f"{told} (at most {10 * ROUNDING:g})"


def resume(case):
    """7. A run that is killed and goes on equals one that never was, to the last bit."""
    start, killed = (
        checkpoint_step(find(case.folder, "latest")),
        os.path.join(case.scratch, "killed"),
    )
    with resumed_run(case.folder, killed, case.config, 1, start + 1) as wait:
        wait()
    last_before = checkpoint_step(step_checkpoints(killed)[-1])
    goal = max(start + UPDATES, last_before + 1)
    with contextlib.ExitStack() as both:
        folders = (killed, _run_folder(case, case.config, 1, goal))
        runs = [resumed_run(case.folder, folder, case.config, 1, goal) for folder in folders]
        paths = [wait() for wait in [both.enter_context(run) for run in runs]]
    with np.load(paths[0]) as found, np.load(paths[1]) as expected:
        same = sum(
            name in found.files and np.array_equal(found[name], expected[name])
            for name in expected.files
        )
        total = len(expected.files)
    told = f"killed (SIGKILL) after the checkpoint of update {last_before:,}, gone on to {checkpoint_step(paths[0]):,}"
    return same == total, f"{told}: {same} of {total} arrays equal to the last bit"


def _run_folder(case, config, number, goal):
    """Where the run of so many replicas, with this dropout, goes on to an update in one go."""
    return os.path.join(
        case.scratch, f"{number}-replicas-rate-{config.model.dropout_rate}-to-{goal}"
    )


def export(case):
    """8. The SavedModel for TensorFlow Serving says what the live model says."""
    logger, level = tf.get_logger(), tf.get_logger().level
    logger.setLevel("WARNING")  # it would tell where it writes to
    try:
        path = export_saved_model(case.folder, os.path.join(case.scratch, "exported"))
    finally:
        logger.setLevel(level)
    found = tf.saved_model.load(path).signatures["serving_default"](text=tf.constant(case.texts))
    live = [best[0] for best in case.translator.n_best(case.texts, 1)]
    same = sum(one.decode() == text for one, (text, _) in zip(found["translation"].numpy(), live))
    difference = _difference(found["score"].numpy(), np.array([score for _, score in live]))
    told = f"{same} of {len(live)} translations are the same, scores differ by {difference:.2g} (at most {ROUNDING:g})"
    return same == len(live) and difference <= ROUNDING, told


def round_trip(case):
    """9. `decode(encode(text))` is the normalised text; weights that are saved and loaded are the same to the last bit."""
    lost = []
    for tokenizer in case.tokenizers:
        texts = [*case.texts, *HARD]
        decoded = [text.decode() for text in tokenizer.decode(tokenizer.encode(texts)).numpy()]
        lost += [text for text, found in zip(texts, decoded) if found != tokenizer.normalize(text)]
    path, other = os.path.join(case.scratch, "saved.npz"), build_model(case.config.model)
    checkpoint.save(path, case.model)
    checkpoint.restore(path, other)
    weights, loaded = (checkpoint.named_weights(model) for model in (case.model, other))
    changed = [
        name
        for name, value in weights.items()
        if not np.array_equal(value.numpy(), loaded[name].numpy())
    ]
    told = (
        f"{len(lost)} of {2 * len(texts)} texts changed{f', such as {lost[0]!r}' if lost else ''}"
    )
    return (
        not lost and not changed,
        f"{told}; {len(weights) - len(changed)} of {len(weights)} weights saved and loaded are the same",
    )


INVARIANTS = (
    padding,
    batch_independence,
    causality,
    cache,
    search,
    replicas,
    resume,
    export,
    round_trip,
)
