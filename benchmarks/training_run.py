"""Measures the input pipeline, and whole training runs against Joey NMT.

    python benchmarks/training_run.py       # the built-in corpus, 15 minutes on two cores
    python benchmarks/training_run.py --data=FOLDER --source=en --target=de

Both programs train the model of a preset (`small`: 3 + 3 post-norm layers) on the same sub-words,
with the same number of tokens in a batch, padding included; with one table for embeddings and
logits, dropout, label smoothing and Adam. Compared are the target tokens a second, without padding,
that each program logs. This leaves out reading, vocabulary, tracing, validation and checkpoints.
Joey NMT also has dropout on attention weights and inside the feed-forward network, and does not
sort its batches by length. The programs run in turns, and medians are printed. Joey NMT is measured
where it is installed (`benchmarks/requirements.txt`; `--peers=PYTHON` is the interpreter that has
it).
"""

import argparse
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any, NamedTuple

from peers import joey_nmt

NEVER = 10**9


class Pipeline(NamedTuple):
    """The input pipeline of a run, and its speed."""

    pairs: Any  # an `EncodedPairs`
    tokenizers: tuple
    config: Any  # a `Config`
    batched: float  # pairs a second from ids to batches
    encoded: float  # pairs a second from text to ids

    @property
    def target_tokens(self):
        """The mean number of target tokens of a pair."""
        return float(self.pairs.lengths[:, 1].mean())


def train_ours(folder, options, updates):
    """Starts or resumes our run for some updates.

    Returns: target tokens a second.
    """
    metrics = _train_metrics(folder)
    steps = updates + (metrics[-1]["step"] if metrics else 0)
    flags = {
        **options,
        "model_dir": folder,
        "train_steps": steps,
        "log_steps": updates // 4,
        "bleu_sentences": 0,
        "eval_steps": NEVER,
        "save_steps": NEVER,
    }
    command = [sys.executable, "-m", "tf_transformer", "train"]
    command += [f"--{name}={value}" for name, value in flags.items()]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    rates = [line["target_tokens_per_second"] for line in _train_metrics(folder)]
    return statistics.median(rates[-3:])  # the first of the four quarters builds graphs


def _train_metrics(folder):
    from tf_transformer.checkpoints.model_folder import read_metrics

    if not folder.exists():
        return []
    return [line for line in read_metrics(str(folder)) if line["kind"] == "train"]


def measure_pipeline(folder, seconds=5.0):
    """Measures the input pipeline alone.

    Args:
      folder: the model folder of a run.
      seconds: for which batches are made.
    Returns: a `Pipeline`.
    """
    from tf_transformer.checkpoints.model_folder import load_config
    from tf_transformer.data.batching import Batches
    from tf_transformer.data.encoding import EncodedPairs, encode_shards
    from tf_transformer.data.readers import open_corpus
    from tf_transformer.data.tokenizer import load_tokenizers

    config = load_config(str(folder))
    data = config.data
    tokenizers = load_tokenizers(str(folder))
    corpus = open_corpus(data.data, data.source, data.target)
    texts = list(corpus.read_weighted("train"))

    start = time.perf_counter()
    shards = encode_shards(texts, tokenizers, data.max_length, data.max_length_ratio)
    pairs = EncodedPairs(list(shards))
    encoded = len(texts) / (time.perf_counter() - start)

    batches = Batches(pairs, data.batch_tokens, config.train.seed)
    epochs = 0
    start = time.perf_counter()
    while time.perf_counter() < start + seconds:
        for _ in batches.epoch(epochs):
            pass
        epochs += 1
    batched = epochs * len(pairs) / (time.perf_counter() - start)
    return Pipeline(pairs, tokenizers, config, batched, encoded)


def prepare_joey(folder, pipeline, updates):
    """Writes training pairs, vocabularies and settings for Joey NMT.

    The pairs are sub-words between blanks.
    """
    folder.mkdir()
    joey_nmt.write_vocabularies(folder, pipeline.tokenizers)
    (shard,) = pipeline.pairs.shards
    for number, (side, tokenizer) in enumerate(zip(("source", "target"), pipeline.tokenizers)):
        with open(folder / f"train.{side}", "w", encoding="utf-8") as file:
            for begin, end in zip(shard.splits[number::2], shard.splits[number + 1 :: 2]):
                # Joey NMT appends the end token itself.
                pieces = tokenizer.pieces(shard.ids[begin : end - 1])
                file.write(" ".join(pieces) + "\n")
    joey_nmt.write_settings(folder, pipeline.config, updates)


def train_joey(python, folder):
    """Trains with Joey NMT.

    Args:
      python: the interpreter that has it.
      folder: as `prepare_joey` wrote it.
    Returns: target tokens a second, or None where it cannot run.
    """
    command = [python, "-m", "joeynmt", "train", str(folder / "settings.yaml"), "--skip-test"]
    environment = {**os.environ, **joey_nmt.TORCH_ALLOCATOR}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    output = done.stdout + done.stderr
    rates = [int(rate) for rate in re.findall(r"Tokens per Sec: +(\d+)", output)]
    if not rates:
        lines = output.strip().splitlines() or ["no message"]
        print(f"(left out: Joey NMT: {lines[-1]})", file=sys.stderr)
        return None
    return statistics.median(rates[1:])


def print_pipeline(preset, pipeline, tokens_per_second):
    """Prints the speed of the input pipeline beside that of training."""
    config = pipeline.config
    trained = tokens_per_second / pipeline.target_tokens
    print(
        f"{preset}, {config.data.data}, {len(pipeline.pairs):,} pairs, "
        f"{config.data.batch_tokens:,} tokens a batch, {os.cpu_count()} cores"
    )
    print(f"{'':<26} {'pairs/s':>10} {'of training':>12}")
    rows = [
        ("training", trained),
        ("ids -> batches", pipeline.batched),
        ("text -> ids, once", pipeline.encoded),
    ]
    for name, rate in rows:
        print(f"{name:<26} {rate:>10,.0f} {rate / trained:>12.1f}", flush=True)


def print_runs(ours, theirs):
    """Prints the target tokens a second of both programs, lists with a number for each run."""
    print(f"\n{'':<26} {'target tokens/s':>16} {'ours is faster by':>18}")
    print(f"{'ours':<26} {statistics.median(ours):>16,.0f} {1:>18.2f}")
    if theirs:
        ratio = statistics.median([our / their for our, their in zip(ours, theirs)])
        print(f"{'Joey NMT':<26} {statistics.median(theirs):>16,.0f} {ratio:>18.2f}")


def main():
    """Prints the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", default="pocket")
    parser.add_argument("--source", default="en")
    parser.add_argument("--target", default="de")
    parser.add_argument("--preset", default="small")
    parser.add_argument(
        "--updates", type=int, default=200, help="of a run in a round; the first quarter warms up"
    )
    parser.add_argument("--rounds", type=int, default=3, help="turns; medians are printed")
    parser.add_argument("--peers", default=sys.executable, help="Python interpreter of Joey NMT")
    args = parser.parse_args()
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    options = {name: getattr(args, name) for name in ("preset", "data", "source", "target")}
    with tempfile.TemporaryDirectory() as folder:
        our_folder = pathlib.Path(folder, "ours")
        joey_folder = pathlib.Path(folder, "joey")
        ours = [train_ours(our_folder, options, args.updates)]
        theirs = []
        pipeline = measure_pipeline(our_folder)
        print_pipeline(args.preset, pipeline, ours[0])
        prepare_joey(joey_folder, pipeline, args.updates)
        for turn in range(args.rounds):
            if turn:
                ours.append(train_ours(our_folder, options, args.updates))
            rate = train_joey(args.peers, joey_folder)
            if rate is None:
                break
            theirs.append(rate)
    print_runs(ours, theirs)


if __name__ == "__main__":
    main()
