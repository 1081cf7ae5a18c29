"""Trains the parser of notebook E on the short sentences of the built-in treebank."""

import logging
import os
import pathlib
import tempfile

from tf_transformer import build_trainer, open_corpus, preset
from tf_transformer.data.trees import parse_output
from tf_transformer.evaluation.parser import Parser


def trees_of(split):
    """The trees of a split of the built-in treebank."""
    corpus = open_corpus("pocket-trees", "words", "trees")
    return (parse_output(target, words.split()) for words, target in corpus.read(split))


def train_small_parser(words_at_most, updates):
    """Trains 2 + 2 layers on the short sentences, with the trainer of the package.

    Returns: a `Parser`; a dict from each split to its short trees.
    """
    trees = {
        split: [tree for tree in trees_of(split) if len(tree.words()) <= words_at_most]
        for split in ("train", "validation", "test")
    }
    home = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # so that no output names it
        try:
            pathlib.Path("trees").mkdir()
            for split, chosen in trees.items():
                text = "\n".join(map(str, chosen))
                pathlib.Path("trees", f"{split}.mrg").write_text(text, encoding="utf-8")
            config = preset("parsing-pocket").replace(
                data="trees",
                vocab_size=2000,
                train_steps=updates,
                warmup_steps=updates // 4,
                learning_rate_scale=0.3,
                save_steps=15,
                eval_steps=updates,
            )
            logging.getLogger("tf_transformer").setLevel("WARNING")  # no log of the training
            build_trainer(config, "parser").run()
            return Parser.load("parser"), trees
        finally:
            os.chdir(home)
