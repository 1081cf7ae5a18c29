"""Trains the model of a preset with this package and with Joey NMT, and scores both.

    python benchmarks/peers/joey_nmt.py --data=FOLDER --folder=models/joey --peer=PYTHON

PYTHON is the interpreter of an environment with `pip install joeynmt importlib_metadata`. (Version
2.3.0 imports the second and does not declare it.) The text, its sub-words, the sizes, the updates,
the learning rate, the dropout rate, label smoothing, Adam and the tokens of a batch (padding
included) are the same, and so is the search: beam 4, length penalty 0.6, the weights of the last
update. Different are:

- Joey NMT has dropout on attention weights and inside the feed-forward network too.
- It does not sort its batches by length, so that they have more padding and fewer pairs.

The table has the CPU time of both trainings, and sacreBLEU's scores of their translations of one
test text. `taskset -c 0` before the command keeps both on one core. What is in --folder is not made
again, so that a stopped command can be repeated. `training_run.py` compares the speed alone.
"""

import argparse
import json
import os
import pathlib
import resource
import subprocess
import sys

NEVER = 10**9
SPECIAL_TOKENS = ["<unk>", "<pad>", "<s>", "</s>"]  # of Joey NMT's vocabularies
# The best allocator settings for torch.
TORCH_ALLOCATOR = {
    "MALLOC_MMAP_THRESHOLD_": "100000000000",
    "MALLOC_TRIM_THRESHOLD_": "100000000000",
}
# A dropout that rises is a setting of ours alone.
RECIPE = {"dropout_rate": 0.1, "dropout_warmup_steps": 0}


def write_vocabularies(folder, tokenizers):
    """Writes the files `source.vocabulary` and `target.vocabulary`."""
    for side, tokenizer in zip(("source", "target"), tokenizers):
        vocabulary = [*SPECIAL_TOKENS, *tokenizer.pieces(range(4, tokenizer.vocab_size))]
        path = folder / f"{side}.vocabulary"
        path.write_text("\n".join(vocabulary) + "\n", encoding="utf-8")


def write_split(folder, split, pairs, tokenizers):
    """Writes the files `SPLIT.source` and `SPLIT.target`: sub-words between blanks.

    Args:
      folder: where.
      split: "train", "dev" or "test".
      pairs: of strings.
      tokenizers: of source and target.
    """
    for side, texts, tokenizer in zip(("source", "target"), zip(*pairs), tokenizers):
        with open(folder / f"{split}.{side}", "w", encoding="utf-8") as file:
            for ids in tokenizer.encode_lists(texts):
                # Joey NMT appends the end token itself.
                file.write(" ".join(tokenizer.pieces(ids[:-1])) + "\n")


def write_settings(folder, config, updates, dev="train"):
    """Writes `settings.yaml`, Joey NMT's settings for the same model and recipe.

    Args:
      folder: where `write_vocabularies` and `write_split` wrote.
      config: a `Config`.
      updates: how many.
      dev: the split to validate on. There is one validation, of 8 pairs: with it comes the
        checkpoint. With "train" there is none.
    """
    model = config.model
    train = config.train
    stack = {
        "type": "transformer",
        "num_layers": model.num_layers,
        "num_heads": model.num_heads,
        "hidden_size": model.d_model,
        "ff_size": model.dff,
        "dropout": model.dropout_rate,
        "layer_norm": "post",
        "embeddings": {
            "embedding_dim": model.d_model,
            "scale": True,
            "dropout": model.dropout_rate,
        },
    }
    source = {"lang": "source", "level": "word", "voc_file": str(folder / "source.vocabulary")}
    target = {"lang": "target", "level": "word", "voc_file": str(folder / "target.vocabulary")}
    settings = {
        "name": "peer",
        "joeynmt_version": "2.3.0",
        "model_dir": str(folder / "model"),
        "use_cuda": False,
        "random_seed": train.seed,
        "data": {
            "train": str(folder / "train"),
            "dev": str(folder / dev),
            "test": str(folder / "test") if (folder / "test.source").exists() else None,
            "sample_dev_subset": 8,
            "dataset_type": "plain",
            "src": source,
            "trg": target,
        },
        "testing": {
            "beam_size": config.decode.beam_size,
            "beam_alpha": config.decode.length_penalty,
            "max_output_length": 100,
            "batch_size": 32,
        },
        "training": {
            "optimizer": "adam",
            "adam_betas": [train.beta_1, train.beta_2],
            "label_smoothing": train.label_smoothing,
            "scheduling": "noam",
            "learning_rate_factor": train.learning_rate_scale,
            "learning_rate_warmup": train.warmup_steps,
            "learning_rate_min": 0,
            "normalization": "tokens",
            "batch_type": "token",
            "batch_size": config.data.batch_tokens,
            "epochs": 1000,
            "updates": updates,
            "logging_freq": updates // 4,
            "validation_freq": updates if dev != "train" else NEVER,
            "overwrite": True,
            "keep_best_ckpts": 1,
        },
        "model": {
            "initializer": "xavier_uniform",
            "tied_embeddings": model.shared_embeddings,
            "tied_softmax": model.shared_embeddings,
            "encoder": stack,
            "decoder": stack,
        },
    }
    (folder / "settings.yaml").write_text(json.dumps(settings, indent=2))  # JSON is YAML


def run(command, **options):
    """Runs a program. Returns: its output, and its seconds of CPU time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(done.stdout)
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def train_ours(folder, args):
    """Trains with this package.

    Args:
      folder: the model folder.
      args: flags of this program.
    Returns: seconds of CPU time.
    """
    flags = {
        **{name: getattr(args, name) for name in ("preset", "data", "source", "target")},
        **RECIPE,
        "model_dir": folder,
        "train_steps": args.updates,
        "save_steps": args.updates,
        "eval_steps": NEVER,
        "bleu_sentences": 0,
    }
    command = [sys.executable, "-m", "tf_transformer", "train", "--overwrite"]
    return run([*command, *(f"--{name}={value}" for name, value in flags.items())])[1]


def translate_ours(folder, sources):
    """Translates with the weights of the last update."""
    from tf_transformer import Translator

    return Translator.load(str(folder), "latest")(sources)


def train_joey(folder, peer):
    """Trains with Joey NMT.

    Args:
      folder: has `settings.yaml`.
      peer: the interpreter that has it.
    Returns: seconds of CPU time.
    """
    command = [peer, "-m", "joeynmt", "train", str(folder / "settings.yaml"), "--skip-test"]
    return run(command, env={**os.environ, **TORCH_ALLOCATOR})[1]


def translate_joey(folder, peer, tokenizer):
    """Translates the split "test" with the weights of the last update.

    Args:
      folder, peer: as for `train_joey`.
      tokenizer: of the targets.
    Returns: a list of strings.
    """
    import tensorflow as tf

    settings = json.loads((folder / "settings.yaml").read_text())
    settings["data"]["dev"] = None  # it would be translated too
    (folder / "test.yaml").write_text(json.dumps(settings, indent=2))
    command = [peer, "-m", "joeynmt", "test", str(folder / "test.yaml"), "-o"]
    run([*command, str(folder / "output")], env={**os.environ, **TORCH_ALLOCATOR})
    ids = {piece: i for i, piece in enumerate(tokenizer.pieces(range(tokenizer.vocab_size)))}
    lines = (folder / "output.test").read_text("utf-8").splitlines()
    rows = [[ids[piece] for piece in line.split()] for line in lines]
    decoded = tokenizer.decode(tf.ragged.constant(rows, tf.int32))
    return [text.decode() for text in decoded.numpy()]


def measure_ours(args, sources):
    """Returns: seconds of CPU time of our training, and translations."""
    seconds = train_ours(args.folder / "ours", args)
    return seconds, translate_ours(args.folder / "ours", sources)


def measure_joey(args, pairs):
    """Returns: seconds of CPU time of Joey NMT's training, and translations.

    Args:
      args: flags of this program.
      pairs: of the test text.
    """
    from tf_transformer.checkpoints.model_folder import load_config
    from tf_transformer.data.readers import open_corpus
    from tf_transformer.data.tokenizer import load_tokenizers

    ours, folder = args.folder / "ours", args.folder / "joey"
    folder.mkdir(exist_ok=True)
    config, tokenizers = load_config(str(ours)), load_tokenizers(str(ours))
    corpus = open_corpus(args.data, args.source, args.target)
    write_vocabularies(folder, tokenizers)
    write_split(folder, "train", list(corpus.read("train")), tokenizers)
    write_split(folder, "dev", list(corpus.read("validation")), tokenizers)
    write_split(folder, "test", pairs, tokenizers)
    write_settings(folder, config, args.updates, dev="dev")
    seconds = train_joey(folder, args.peer)
    return seconds, translate_joey(folder, args.peer, tokenizers[1])


def main():
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True, help="a folder of text")
    parser.add_argument("--source", default="en")
    parser.add_argument("--target", default="de")
    parser.add_argument("--split", default="test_2016_flickr", help="the test text")
    parser.add_argument("--preset", default="small")
    parser.add_argument("--updates", type=int, default=600)
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="what is written")
    parser.add_argument("--peer", default=sys.executable, help="interpreter of Joey NMT")
    args = parser.parse_args()
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

    from tf_transformer.data.readers import open_corpus
    from tf_transformer.evaluation.bleu import score

    args.folder.mkdir(parents=True, exist_ok=True)
    pairs = list(open_corpus(args.data, args.source, args.target).read(args.split))
    sources, references = map(list, zip(*pairs))
    systems = {
        "ours": lambda: measure_ours(args, sources),
        "Joey NMT": lambda: measure_joey(args, pairs),
    }
    print(f"{args.preset}, {args.updates:,} updates, {args.split} of {args.data}")
    print(f"{'':<10} {'CPU minutes':>12} {'BLEU':>6} {'chrF':>6}")
    for name, measure in systems.items():
        result = args.folder / f"{name}.json"
        if not result.exists():
            result.write_text(json.dumps(measure()))
        seconds, translations = json.loads(result.read_text())
        scores = score(translations, references, args.target)
        row = f"{seconds / 60:>12.1f} {scores.bleu:>6.1f} {scores.chrf:>6.1f}"
        print(f"{name:<10} {row}", flush=True)
    print(scores.bleu_signature)


if __name__ == "__main__":
    main()
