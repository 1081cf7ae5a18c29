"""The nine invariants, checked on your own model, which takes about a minute.

    python tools/invariants.py models/pocket-pocket-en-de

Most bugs that users of Transformers report break one of them. Each invariant is a function of a
`Case` that returns whether it holds and what was measured. A difference is the largest absolute
difference, divided by the largest absolute value that was compared. Another order of computation
changes the last digits, so small differences are allowed.
"""

import argparse
import contextlib
import dataclasses
import itertools
import logging
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

import tf_transformer
from tf_transformer.checkpoints import checkpoint
from tf_transformer.checkpoints.loading import build_model, load_model
from tf_transformer.checkpoints.model_folder import (
    checkpoint_step,
    find,
    read_metrics,
    step_checkpoints,
)
from tf_transformer.config import Config
from tf_transformer.data.readers import corpus_of_run
from tf_transformer.data.tokenizer import Tokenizer
from tf_transformer.decoding.beam_search import SearchProblem, beam_search, greedy_search
from tf_transformer.decoding.inference import search_translations
from tf_transformer.decoding.kv_cache import make_decode_step
from tf_transformer.decoding.scores import NEGATIVE_INFINITY, length_penalty
from tf_transformer.decoding.translator import Translator
from tf_transformer.errors import UserError
from tf_transformer.export.saved_model import export_saved_model
from tf_transformer.model.transformer import Transformer
from tf_transformer.special_tokens import END, PAD, START, UNK
from tf_transformer.training.distribution import split_cpu
from tf_transformer.training.trainer import build_trainer

SENTENCES = 12  # of the validation split
ROUNDING = 1e-4  # largest difference allowed between two ways to compute a value in float32

# Invariant 5: the search may use this many tokens and output lengths, and the wide beam holds all
# possible outputs.
SEARCH_TOKENS = 3
SEARCH_LENGTH = 4
WIDE_BEAM = 64

# Invariants 6 and 7 train in other processes.
TRAINING_STEPS = 6  # updates after the newest checkpoint
SAVE_STEPS = 2  # updates between checkpoints
MAX_BATCH_TOKENS = 1024  # of one side of a batch, unless a single sentence may be longer
TIMEOUT = 600  # seconds to wait for a checkpoint

# Invariant 9: text that no vocabulary was learned from.
UNUSUAL_TEXTS = [
    "  two   blanks ",
    "1\u00bd \u03a9 \u6f22\u5b57 \U0001f642",
    "[END] <0x41> </s>",
]

MARKS = {True: "holds", False: "BROKEN", None: "not checked"}


class Result(NamedTuple):
    """The result of checking one invariant; `str` gives it as a line."""

    number: int
    name: str
    holds: bool | None  # None where it could not be checked
    measured: str

    def __str__(self) -> str:
        return f"{self.number}  {self.name:18s}  {MARKS[self.holds]:11s}  {self.measured}"


class Case(NamedTuple):
    """A model and text to check the invariants on."""

    folder: str  # the model folder
    scratch: str  # a folder for temporary files
    config: Config
    model: Transformer
    tokenizers: tuple[Tokenizer, Tokenizer]  # of source and target
    translator: Translator  # of these
    texts: list[str]  # source sentences
    inp: np.ndarray  # int32 [B, S], their ids, padded
    tar: np.ndarray  # int32 [B, T], ids of target sentences, beginning with the start token, padded


def make_case(model_dir: str, texts: Sequence[str] | None, scratch: str) -> Case:
    """Makes a `Case`.

    Args:
      model_dir: a model folder.
      texts: source sentences; None for some of the validation split of the model's corpus.
      scratch: an empty folder.
    Raises: UserError when there is no model, or the texts cannot be used.
    """
    model, tokenizers, config = load_model(model_dir)
    if texts is None:
        corpus = corpus_of_run(config.data)
        pairs = list(itertools.islice(corpus.read("validation"), SENTENCES))
    else:
        pairs = [(text, text) for text in texts]  # any target will do
    pairs = [(source, target) for source, target in pairs if source.strip() and target.strip()]
    if not pairs:
        raise UserError("no text to check the invariants on: give sentences")
    sources, targets = (list(side) for side in zip(*pairs))
    inp = tokenizers[0].encode(sources).to_tensor(PAD).numpy()  # (B, S)
    tar = tokenizers[1].encode(targets).to_tensor(PAD).numpy()  # (B, T)
    longest = min(model.pe_input, model.pe_target) - 1
    if max(inp.shape[1], tar.shape[1]) > longest:
        raise UserError(f"a text has more than {longest:,} sub-words: give shorter ones")
    return Case(
        folder=model_dir,
        scratch=scratch,
        config=config,
        model=model,
        tokenizers=tokenizers,
        translator=Translator(model, tokenizers, config.decode),
        texts=sources,
        inp=inp,
        tar=np.pad(tar[:, :-1], [(0, 0), (1, 0)], constant_values=START),
    )


def check(number: int, case: Case) -> Result:
    """Checks one invariant.

    Args:
      number: of the invariant, from 1.
      case: a `Case`.
    Returns: a `Result`. After a `UserError`, or without an optional package, the invariant counts
      as not checked; after any other error it is broken.
    """
    invariant = INVARIANTS[number - 1]
    holds: bool | None
    try:
        holds, measured = invariant(case)
        holds = bool(holds)
    except UserError as error:
        holds = None
        measured = str(error)
    except ModuleNotFoundError as error:
        holds = None
        measured = f"the package {error.name} is not installed"
    except Exception as error:  # a broken model can raise anything
        holds = False
        measured = f"{type(error).__name__}: {error}"
    return Result(number, invariant.__name__.replace("_", " "), holds, measured)


def _difference(actual: np.ndarray, expected: np.ndarray) -> float:
    largest = max(np.max(np.abs(expected)), 1e-9)
    return float(np.max(np.abs(actual - expected)) / largest)


def padding(case: Case) -> tuple[bool, str]:
    """1. More padding changes no logit."""
    more_inp = min(6, case.model.pe_input - case.inp.shape[1])
    more_tar = min(4, case.model.pe_target - case.tar.shape[1])
    inp = np.pad(case.inp, [(0, 0), (0, more_inp)])
    tar = np.pad(case.tar, [(0, 0), (0, more_tar)])
    logits = case.model(case.inp, case.tar)[0].numpy()  # (B, T, V)
    padded = case.model(inp, tar)[0].numpy()[:, : logits.shape[1]]  # (B, T, V)
    difference = _difference(padded, logits)
    return difference <= ROUNDING, f"logits differ by {difference:.2g} (at most {ROUNDING:g})"


def batch_independence(case: Case) -> tuple[bool, str]:
    """2. Logits and translation of a sentence do not depend on the other rows of its batch."""
    logits = case.model(case.inp, case.tar)[0].numpy()  # (B, T, V)
    differences = []
    for inp, tar, in_batch in zip(case.inp, case.tar, logits):
        inp = inp[inp != PAD][np.newaxis]  # (1, S)
        tar = tar[tar != PAD][np.newaxis]  # (1, T)
        alone = case.model(inp, tar)[0].numpy()[0]  # (T, V)
        differences.append(_difference(alone, in_batch[: len(alone)]))
    translations = case.translator(case.texts)
    same = sum(
        translation == case.translator(text) for text, translation in zip(case.texts, translations)
    )
    measured = (
        f"logits differ by {max(differences):.2g} (at most {ROUNDING:g}); "
        f"{same} of {len(logits)} translations are the same"
    )
    return np.max(differences) <= ROUNDING and same == len(logits), measured


def causality(case: Case) -> tuple[bool, str]:
    """3. A later target token changes no earlier logit, to the last bit."""
    length = case.tar.shape[1]
    logits = case.model(case.inp, case.tar)[0].numpy()  # (B, T, V)
    earlier = []
    later = []
    for position in sorted({1, length // 2, length - 1} - {0}):
        tar = case.tar.copy()
        # Another id that is not a special token.
        tar[:, position] = (tar[:, position] + 7) % (case.model.target_vocab_size - 4) + 4
        changed = case.model(case.inp, tar)[0].numpy()  # (B, T, V)
        earlier.append(_difference(changed[:, :position], logits[:, :position]))
        later.append(_difference(changed[:, position:], logits[:, position:]))
    measured = (
        f"earlier logits differ by {np.max(earlier):.2g} (must be 0), "
        f"later ones by {np.min(later):.2g} or more"
    )
    return np.max(earlier) == 0 < np.min(later), measured


def cache(case: Case) -> tuple[bool, str]:
    """4. Decoding with a KV cache gives a translation the same probability as the full pass."""
    decode = dataclasses.replace(case.config.decode, length_penalty=0.0)
    result = search_translations(case.model, tf.constant(case.inp), decode)
    expected = _log_probabilities(case.model, case.inp, result.ids[:, 0].numpy())
    difference = _difference(result.scores[:, 0].numpy(), expected)
    measured = (
        f"log-probabilities of {len(expected)} translations differ by {difference:.2g} "
        f"(at most {ROUNDING:g})"
    )
    return difference <= ROUNDING, measured


def _log_probabilities(
    model: Transformer, inp: np.ndarray, ids: np.ndarray, bias: np.ndarray | float = 0.0
) -> np.ndarray:
    """Computes log-probabilities of translations by the full pass.

    Args:
      inp: source ids `[B, S]`.
      ids: target ids `[B, T]` without the start token.
      bias: added to the logits.
    Returns: `[B]`.
    """
    tar = np.pad(ids, [(0, 0), (1, 0)], constant_values=START).astype(np.int32)  # (B, T + 1)
    log_probs = tf.nn.log_softmax(model(inp, tar[:, :-1])[0] + bias)  # (B, T, V)
    chosen = tf.gather(log_probs, ids, batch_dims=2)  # (B, T)
    return np.sum(np.where(ids != PAD, chosen, 0.0), axis=1)


def search(case: Case) -> tuple[bool, str]:
    """5. A beam of one equals greedy search; a beam of all outputs finds them, best first."""
    alpha = case.config.decode.length_penalty
    max_lengths = tf.reduce_sum(tf.cast(case.inp != PAD, tf.int32), axis=1) + 5  # (B)
    problem = SearchProblem(*make_decode_step(case.model, case.inp, 1), max_lengths, alpha)
    same = np.array_equal(beam_search(problem, 1).ids, greedy_search(problem).ids)

    # All outputs of the few likeliest tokens. The bias excludes the other tokens.
    first = case.model(case.inp[:1], case.tar[:1, :1])[0].numpy()[0, 0]  # (V)
    special = (PAD, UNK, START, END)
    tokens = [int(token) for token in np.argsort(-first) if token not in special][:SEARCH_TOKENS]
    bias = np.full_like(first, NEGATIVE_INFINITY)  # (V)
    bias[[*tokens, END]] = 0.0
    outputs = []
    for length in range(SEARCH_LENGTH):
        outputs += [[*prefix, END] for prefix in itertools.product(tokens, repeat=length)]
    ids = tf.ragged.constant(outputs, dtype=tf.int32).to_tensor(PAD).numpy()  # (outputs, T)
    lengths = np.sum(ids != PAD, axis=1)  # (outputs)

    inp = case.inp[:4]
    max_lengths = tf.fill([len(inp)], SEARCH_LENGTH)
    step_and_state = _biased_decode_step(case.model, inp, WIDE_BEAM, bias)
    problem = SearchProblem(*step_and_state, max_lengths, alpha)
    wide = beam_search(problem, WIDE_BEAM, n_best=len(ids))
    log_probs = []
    for row in inp:
        repeated = np.repeat(row[np.newaxis], len(ids), axis=0)  # (outputs, S)
        log_probs.append(_log_probabilities(case.model, repeated, ids, bias))
    scores = np.array(log_probs) / length_penalty(lengths, alpha)  # (B, outputs)
    difference = _difference(wide.scores.numpy(), -np.sort(-scores, axis=1))
    measured = (
        f"greedy and a beam of 1 {'agree' if same else 'differ'}; a beam of {WIDE_BEAM} against "
        f"all {len(ids)} outputs of {SEARCH_TOKENS} tokens, best first: scores differ by "
        f"{difference:.2g} (at most {ROUNDING:g})"
    )
    return same and difference <= ROUNDING, measured


def _biased_decode_step(
    model: Transformer, inp: np.ndarray, beam_size: int, bias: np.ndarray
) -> tuple[Callable[..., Any], Any]:
    """As `make_decode_step`, with a bias added to the logits."""
    decode_step, state = make_decode_step(model, inp, beam_size)

    def biased(*arguments: Any) -> tuple[tf.Tensor, Any]:
        logits, state = decode_step(*arguments)  # (B, K, V)
        return logits + bias, state

    return biased, state


def replicas(case: Case) -> tuple[bool, str]:
    """6. Two replicas make the same updates as one.

    Dropout is off, because its masks depend on the shard of a replica.
    """
    config = case.config.replace(dropout_rate=0.0)
    start = checkpoint_step(find(case.folder, "latest"))
    until = start + TRAINING_STEPS
    folders = [_run_folder(case, config, number, until) for number in (1, 2)]
    with contextlib.ExitStack() as processes:
        waits = [
            processes.enter_context(resumed_run(case.folder, folder, config, number, until))
            for number, folder in enumerate(folders, start=1)
        ]
        for wait in waits:
            wait()
    runs = []
    for number, folder in enumerate(folders, start=1):
        lines = [line for line in read_metrics(folder) if start < line["step"] <= until]
        assert [len(line["tokens_per_replica"]) for line in lines] == [number] * TRAINING_STEPS
        runs.append(lines)
    losses = _difference(*(np.array([line["loss"] for line in lines]) for lines in runs))
    norms = _difference(*(np.array([line["gradient_norm"] for line in lines]) for lines in runs))
    most = 10 * ROUNDING
    measured = (
        f"{TRAINING_STEPS} updates by 1 and by 2 replicas: losses differ by {losses:.2g}, "
        f"gradient norms by {norms:.2g} (at most {most:g})"
    )
    return max(norms, losses) <= most, measured


def resume(case: Case) -> tuple[bool, str]:
    """7. A run that is killed and resumes equals an uninterrupted one, to the last bit."""
    start = checkpoint_step(find(case.folder, "latest"))
    killed = os.path.join(case.scratch, "killed")
    with resumed_run(case.folder, killed, case.config, 1, start + 1) as wait:
        wait()
    last_before = checkpoint_step(step_checkpoints(killed)[-1])
    until = max(start + TRAINING_STEPS, last_before + 1)
    uninterrupted = _run_folder(case, case.config, 1, until)
    with contextlib.ExitStack() as processes:
        waits = [
            processes.enter_context(resumed_run(case.folder, folder, case.config, 1, until))
            for folder in (killed, uninterrupted)
        ]
        paths = [wait() for wait in waits]
    with np.load(paths[0]) as actual, np.load(paths[1]) as expected:
        names = expected.files
        same = sum(
            name in actual.files and np.array_equal(actual[name], expected[name]) for name in names
        )
    measured = (
        f"killed (SIGKILL) after the checkpoint of update {last_before:,}, resumed until "
        f"{checkpoint_step(paths[0]):,}: {same} of {len(names)} arrays equal to the last bit"
    )
    return same == len(names), measured


def _run_folder(case: Case, config: Config, replicas: int, until: int) -> str:
    """The folder of an uninterrupted run; two invariants share it where they need the same run."""
    name = f"{replicas}-replicas-rate-{config.model.dropout_rate}-to-{until}"
    return os.path.join(case.scratch, name)


def export(case: Case) -> tuple[bool, str]:
    """8. The SavedModel for TensorFlow Serving gives the translations of the live model."""
    logger = tf.get_logger()
    level = logger.level
    logger.setLevel("WARNING")  # at INFO it logs the path of the temporary folder
    try:
        path = export_saved_model(case.folder, os.path.join(case.scratch, "exported"))
    finally:
        logger.setLevel(level)
    signature = tf.saved_model.load(path).signatures["serving_default"]
    exported = signature(text=tf.constant(case.texts))
    live = [hypotheses[0] for hypotheses in case.translator.n_best(case.texts, 1)]
    same = sum(
        translation.decode() == text
        for translation, (text, _) in zip(exported["translation"].numpy(), live)
    )
    scores = np.array([score for _, score in live])
    difference = _difference(exported["score"].numpy(), scores)
    measured = (
        f"{same} of {len(live)} translations are the same, scores differ by {difference:.2g} "
        f"(at most {ROUNDING:g})"
    )
    return same == len(live) and difference <= ROUNDING, measured


def round_trip(case: Case) -> tuple[bool, str]:
    """9. `decode(encode(text))` is the normalised text; loaded weights equal those saved."""
    texts = [*case.texts, *UNUSUAL_TEXTS]
    changed = []
    for tokenizer in case.tokenizers:
        decoded = tokenizer.decode(tokenizer.encode(texts)).numpy()
        for text, result in zip(texts, decoded):
            if result.decode() != tokenizer.normalize(text):
                changed.append(text)
    path = os.path.join(case.scratch, "saved.npz")
    loaded_model = build_model(case.config.model)
    checkpoint.save(path, case.model)
    checkpoint.restore(path, loaded_model)
    saved = checkpoint.named_weights(case.model)
    loaded = checkpoint.named_weights(loaded_model)
    same = sum(np.array_equal(value.numpy(), loaded[name].numpy()) for name, value in saved.items())
    example = f", such as {changed[0]!r}" if changed else ""
    measured = (
        f"{len(changed)} of {2 * len(texts)} texts changed{example}; "
        f"{same} of {len(saved)} weights saved and loaded are the same"
    )
    return not changed and same == len(saved), measured


@contextlib.contextmanager
def resumed_run(
    model_dir: str, folder: str, config: Config, replicas: int, until: int
) -> Iterator[Callable[[], str]]:
    """Resumes a run from its newest checkpoint, in another folder and on the CPU.

    The copied run neither ends nor validates nor averages. When the block is left, its process is
    killed (SIGKILL).

    Args:
      model_dir: the model folder.
      folder: the folder of the copy, created where it does not exist; otherwise its run resumes.
      config: the `Config` of the model.
      replicas: number of replicas.
      until: the update whose checkpoint is wanted. If the checkpoint exists, no process is started.
    Yields: a function that waits for the checkpoint of that update or of a later one, and returns
      the path of the first of them. It raises UserError when the process ends before.
    """
    if not os.path.exists(folder):
        _copy_run(model_dir, folder)
    if path := _first_checkpoint(folder, until):
        yield lambda: path
        return
    _endless(config, replicas).save(os.path.join(folder, "config.json"))
    with open(f"{folder}.log", "w") as log:
        command = [sys.executable, __file__, "--train", folder]
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=log, env=_environment()
        )
    try:
        yield lambda: _wait(process, folder, until)
    finally:
        process.kill()
        process.wait()


def _endless(config: Config, replicas: int) -> Config:
    """The `Config` of the copied run: it only trains and writes checkpoints, and never ends."""
    batch_tokens = min(config.data.batch_tokens, MAX_BATCH_TOKENS)
    never = 10**9
    return config.replace(
        batch_tokens=max(batch_tokens, config.data.max_length),
        logical_devices=replicas,
        train_steps=never,
        train_minutes=0.0,
        early_stopping_patience=0,
        eval_steps=never,
        bleu_sentences=0,
        save_steps=SAVE_STEPS,
        max_checkpoints=1000,
        log_steps=1,
        precision="float32",
        jit_compile="off",
    )


def _first_checkpoint(folder: str, step: int) -> str | None:
    """The path of the first checkpoint of an update or a later one; None where there is none."""
    for path in step_checkpoints(folder):
        if checkpoint_step(path) >= step:
            return path
    return None


def _copy_run(model_dir: str, folder: str) -> None:
    """Copies the vocabulary and the newest checkpoint, and links the encoded text."""
    for part in ("checkpoints", "cache"):
        os.makedirs(os.path.join(folder, part))
    vocabularies = map(str, pathlib.Path(model_dir).glob("*.model"))
    for path in [*vocabularies, find(model_dir, "latest")]:
        shutil.copy(path, os.path.join(folder, os.path.relpath(path, model_dir)))
    cache = os.path.abspath(os.path.join(model_dir, "cache"))
    if os.path.isdir(cache):
        for name in os.listdir(cache):
            os.symlink(os.path.join(cache, name), os.path.join(folder, "cache", name))


def _environment() -> dict[str, str]:
    """This process's environment, with the package in the path, without GPUs or other workers."""
    package = str(pathlib.Path(tf_transformer.__file__).parents[1])
    environment = {name: value for name, value in os.environ.items() if name != "TF_CONFIG"}
    environment["PYTHONPATH"] = os.pathsep.join([os.environ.get("PYTHONPATH", ""), package])
    environment["CUDA_VISIBLE_DEVICES"] = "-1"
    environment["TF_CPP_MIN_LOG_LEVEL"] = "3"
    return environment


def _wait(process: subprocess.Popen[bytes], folder: str, until: int) -> str:
    """Waits for a checkpoint; see `resumed_run`."""
    started = time.monotonic()
    while not (path := _first_checkpoint(folder, until)):
        if process.poll() is not None or time.monotonic() - started > TIMEOUT:
            log = pathlib.Path(f"{folder}.log").read_text("utf-8", "replace")
            lines = log.strip().splitlines() or ["it wrote no message"]
            raise UserError(f"a training run ended, or took more than {TIMEOUT} s: {lines[-1]}")
        time.sleep(0.01)
    return path


def _train(folder: str) -> None:
    """Trains in a folder with the settings in its `config.json`; the work of the other process."""
    logging.basicConfig(level=logging.INFO)
    config = Config.load(os.path.join(folder, "config.json"))
    split_cpu(config.train.logical_devices)
    build_trainer(config, folder).run()


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


def main() -> None:
    """Prints a line for each invariant of a model; nothing in its folder is changed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model_dir", help="a folder that `tf-transformer train` wrote")
    parser.add_argument("--train", action="store_true", help="used for the trainings of 6 and 7")
    args = parser.parse_args()
    try:
        if args.train:
            _train(args.model_dir)
            return
        with tempfile.TemporaryDirectory() as scratch:
            case = make_case(args.model_dir, None, scratch)
            for number in range(1, len(INVARIANTS) + 1):
                print(check(number, case), flush=True)
    except UserError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
