"""Training on real text: the input pipeline alone against what the trainer eats, and whole runs against Joey NMT.

    python benchmarks/training_run.py                                            # the built-in corpus, a quarter of an hour on two cores
    python benchmarks/training_run.py --data=FOLDER --source=en --target=de      # your own, such as Multi30k

Both train the model of a preset on the same sub-words in batches of as many tokens, padding included: 3 + 3 post-norm layers for `small`,
one table for embeddings and logits, dropout, label smoothing and Adam. What is compared are the real target tokens a second that each
writes into its log, without reading, vocabulary, tracing, validation and checkpoints. Joey NMT drops attention weights and inner
feed-forward values too, and forms its batches without regard to length. They take turns; medians over the rounds are printed. Joey NMT is
measured where it is installed (`benchmarks/requirements.txt`; `--peers=PYTHON` names the interpreter that has it).
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

from training_step import FOR_TORCH

NEVER = 10**9


def train_ours(folder, options, updates):
    """Goes on with our run for some updates -> real target tokens a second."""
    lines = _metrics(folder)
    steps = updates + (lines[-1]["step"] if lines else 0)
    flags = {
        **options,
        "model_dir": folder,
        "train_steps": steps,
        "log_steps": updates // 4,
        "bleu_sentences": 0,
    }
    flags |= dict.fromkeys(("eval_steps", "save_steps"), NEVER)
    command = [
        sys.executable,
        "-m",
        "tf_transformer",
        "train",
        *(f"--{name}={value}" for name, value in flags.items()),
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    new = [
        line["target_tokens_per_second"] for line in _metrics(folder) if line["kind"] == "train"
    ][-4:]
    return statistics.median(
        new[1:]
    )  # the graphs of the first shapes are built in the first quarter


def _metrics(folder):
    from tf_transformer.checkpoints.paths import read_metrics

    return (
        [line for line in read_metrics(str(folder)) if line["kind"] == "train"]
        if folder.exists()
        else []
    )


def feed(folder, seconds=5.0):
    """The input pipeline alone: sentence pairs a second from ids to batches, and from text to ids."""
    from tf_transformer.checkpoints import paths as model_folder
    from tf_transformer.data.batching import Batches
    from tf_transformer.data.encoding import encode_pairs
    from tf_transformer.data.sources import open_corpus
    from tf_transformer.data.tokenizer import load_tokenizers

    config = model_folder.load_config(str(folder))
    data = config.data
    tokenizers = load_tokenizers(str(folder), data.shared_vocab)
    texts = list(open_corpus(data.data, data.source, data.target).read("train"))
    start = time.perf_counter()
    pairs = encode_pairs(iter(texts), tokenizers, data.max_length, data.max_length_ratio)
    encoding = len(texts) / (time.perf_counter() - start)
    batches = Batches(pairs, data.batch_tokens, config.train.seed)
    done, epoch, start = 0, 0, time.perf_counter()
    while time.perf_counter() < start + seconds:
        for _ in batches.epoch(epoch):
            pass
        done, epoch = done + len(pairs), epoch + 1
    target_tokens = len(pairs.target.values) / len(pairs)
    return done / (time.perf_counter() - start), encoding, target_tokens, pairs, tokenizers, config


def prepare_joey(folder, pairs, tokenizers, config, updates):
    """Writes the training pairs as sub-words between blanks, a vocabulary of these, and the settings of Joey NMT."""
    folder.mkdir()
    for side, ids, tokenizer in zip(("source", "target"), (pairs.source, pairs.target), tokenizers):
        with open(folder / f"train.{side}", "w", encoding="utf-8") as file:
            for begin, end in zip(ids.splits, ids.splits[1:]):
                file.write(
                    " ".join(tokenizer.pieces(ids.values[begin : end - 1])) + "\n"
                )  # it adds the end symbol itself
        words = tokenizer.pieces(range(4, tokenizer.vocab_size))
        (folder / f"{side}.vocabulary").write_text(
            "\n".join(["<unk>", "<pad>", "<s>", "</s>", *words]) + "\n", encoding="utf-8"
        )
    model, train = config.model, config.train
    stack = {
        "type": "transformer", "num_layers": model.num_layers, "num_heads": model.num_heads, "hidden_size": model.d_model,
        "ff_size": model.dff, "dropout": model.dropout_rate, "layer_norm": "post",
        "embeddings": {"embedding_dim": model.d_model, "scale": True, "dropout": model.dropout_rate},
    }  # fmt: skip
    sides = {key: {"lang": side, "level": "word", "voc_file": str(folder / f"{side}.vocabulary")}
             for key, side in (("src", "source"), ("trg", "target"))}  # fmt: skip
    settings = {
        "name": "peer", "joeynmt_version": "2.3.0", "model_dir": str(folder / "model"), "use_cuda": False,
        "data": {"train": str(folder / "train"), "dev": str(folder / "train"), "sample_dev_subset": 8, "dataset_type": "plain", **sides},
        "testing": {"beam_size": 1},
        "training": {
            "optimizer": "adam", "adam_betas": [train.beta_1, train.beta_2], "label_smoothing": train.label_smoothing,
            "scheduling": "noam", "learning_rate_factor": train.learning_rate_scale, "learning_rate_warmup": train.warmup_steps,
            "normalization": "tokens", "batch_type": "token", "batch_size": config.data.batch_tokens, "epochs": 1000,
            "updates": updates, "logging_freq": updates // 4, "validation_freq": NEVER, "overwrite": True, "keep_best_ckpts": 1,
        },
        "model": {"initializer": "xavier_uniform", "tied_embeddings": model.shared_embeddings, "tied_softmax": model.shared_embeddings,
                  "encoder": stack, "decoder": stack},
    }  # fmt: skip
    (folder / "settings.yaml").write_text(json.dumps(settings))  # JSON is YAML


def train_joey(peers, folder):
    """A run of Joey NMT -> real target tokens a second, or None where it cannot run."""
    command = [peers, "-m", "joeynmt", "train", str(folder / "settings.yaml"), "--skip-test"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **FOR_TORCH})
    rates = [int(rate) for rate in re.findall(r"Tokens per Sec: +(\d+)", done.stdout + done.stderr)]
    if not rates:
        lines = (done.stdout + done.stderr).strip().splitlines() or ["no message"]
        print(f"(left out: Joey NMT: {lines[-1]})", file=sys.stderr)
        return None
    return statistics.median(rates[1:])


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
        "--updates",
        type=int,
        default=200,
        help="of each run in a round; the first quarter warms up",
    )
    parser.add_argument("--rounds", type=int, default=3, help="turns, of which the median is taken")
    parser.add_argument(
        "--peers", default=sys.executable, help="the Python interpreter that has Joey NMT"
    )
    args = parser.parse_args()
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    options = {name: getattr(args, name) for name in ("preset", "data", "source", "target")}
    with tempfile.TemporaryDirectory() as folder:
        run, joey = pathlib.Path(folder, "ours"), pathlib.Path(folder, "joey")
        ours, theirs = [train_ours(run, options, args.updates)], []
        batches, encoding, target_tokens, pairs, tokenizers, config = feed(run)
        eaten = ours[0] / target_tokens
        print(
            f"{args.preset}, {args.data}, {len(pairs):,} pairs, {config.data.batch_tokens:,} tokens a batch, {os.cpu_count()} cores"
        )
        print(f"{'':<26} {'pairs/s':>10} {'of what the trainer eats':>25}")
        for name, rate in (
            ("the trainer", eaten),
            ("ids -> batches", batches),
            ("text -> ids, once", encoding),
        ):
            print(f"{name:<26} {rate:>10,.0f} {rate / eaten:>25.1f}", flush=True)
        prepare_joey(joey, pairs, tokenizers, config, args.updates)
        for turn in range(args.rounds):
            ours += [train_ours(run, options, args.updates)] if turn else []
            if (rate := train_joey(args.peers, joey)) is None:
                break
            theirs.append(rate)
    print(
        f"\n{'':<26} {'target tokens/s':>16} {'ours is faster by':>18}\n{'ours':<26} {statistics.median(ours):>16,.0f} {1:>18.2f}"
    )
    if theirs:
        ratio = statistics.median([one / other for one, other in zip(ours, theirs)])
        print(f"{'Joey NMT':<26} {statistics.median(theirs):>16,.0f} {ratio:>18.2f}")


if __name__ == "__main__":
    main()
