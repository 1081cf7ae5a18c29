"""Writes a corpus as lower-cased, normalised, tokenised text, as papers on Multi30k use it.

    python benchmarks/lowercased_text.py DATA OUTPUT

DATA is a folder with train.en.gz, train.de.gz, val.en.gz, ..., or the same files without .gz.
OUTPUT gets them without compression.
"""

import argparse
import gzip
import pathlib

from tf_transformer.evaluation.bleu import lowercase_tokenizer


def convert(path, folder):
    """Converts one file.

    Args:
      path: `SPLIT.LANGUAGE` or `SPLIT.LANGUAGE.gz`.
      folder: the output folder.
    """
    name = path.name.removesuffix(".gz")
    tokenize = lowercase_tokenizer(name.rpartition(".")[2])
    open_text = gzip.open if path.suffix == ".gz" else open
    with open_text(path, "rt", encoding="utf-8") as lines:
        with open(folder / name, "w", encoding="utf-8") as file:
            file.writelines(tokenize(line.rstrip("\n")) + "\n" for line in lines)


def main():
    """Converts the files of all splits."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--languages", nargs=2, default=["en", "de"])
    arguments = parser.parse_args()
    names = [f"*.{language}{end}" for language in arguments.languages for end in ("", ".gz")]
    paths = [path for name in names for path in sorted(arguments.data.glob(name))]
    if not paths:
        parser.error(f"no files {', '.join(names)} in {arguments.data}")
    arguments.output.mkdir(parents=True, exist_ok=True)
    for path in paths:
        convert(path, arguments.output)


if __name__ == "__main__":
    main()
