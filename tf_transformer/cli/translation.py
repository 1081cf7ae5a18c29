"""The commands translate, evaluate and parse."""

import os
import sys
import time

from tf_transformer.checkpoints import paths
from tf_transformer.cli.flags import given
from tf_transformer.cli.terminal import open_output, required, start_tensorflow
from tf_transformer.config import TREES, DecodeConfig
from tf_transformer.errors import UserError


def _translator(values):
    model_dir = required(values, "model_dir")
    paths.load_config(model_dir)  # before the seconds that TensorFlow takes
    start_tensorflow()
    from tf_transformer.decoding.translator import Translator

    return Translator.load(model_dir, values.checkpoint, **given(values, (DecodeConfig,)))


def translate(values):
    """Translates lines."""
    from tf_transformer.data.corpus import read_lines

    translator = _translator(values)
    if not values.input and not values.output and sys.stdin.isatty() and sys.stdout.isatty():
        return _converse(translator, values.n_best)
    lines = list(read_lines(values.input))
    with open_output(values.output) as output:  # before the work, so that a wrong path costs none
        found = translator.n_best(lines, values.n_best, progress=sys.stderr.isatty())
        for number, best in enumerate(found, start=1):
            for text, score in best:
                output.write(
                    f"{text}\n" if values.n_best == 1 else f"{number}\t{score:.4f}\t{text}\n"
                )
        output.flush()


def _converse(translator, n_best):
    """Translates what is typed, line by line, until Ctrl-D."""
    while True:
        try:
            line = input("> ")
        except EOFError:
            print()
            return
        try:
            for text, score in translator.n_best([line], n_best)[0]:
                print(text if n_best == 1 else f"{score:.4f}\t{text}")
        except UserError as error:
            print(f"error: {error}", file=sys.stderr)


def evaluate(values):
    """Translates a test set and scores it."""
    translator = _translator(values)
    from tf_transformer.data.sources import open_corpus
    from tf_transformer.evaluation.bleu import compound_split_bleu, has_papers_bleu, score

    data = paths.load_config(values.model_dir).data
    corpus = open_corpus(values.data or data.data, data.source, data.target)
    split = values.split or corpus.default_test(seen=not values.data)
    pairs = list(corpus.read(split))[: values.max_pairs or None]
    output = values.output or os.path.join(values.model_dir, "evaluation", f"{split}.{data.target}")
    with open_output(output) as file:
        start = time.monotonic()
        found = translator.n_best([source for source, _ in pairs], 1, progress=sys.stderr.isatty())
        seconds = time.monotonic() - start
        translations = [best[0][0] for best in found]
        file.writelines(f"{translation}\n" for translation in translations)
    print(f"{split} of {corpus.name}: {len(pairs):,} pairs, beam {translator.decode.beam_size}")
    references = [reference for _, reference in pairs]
    if data.target == TREES:
        _score_parses(pairs, translations, output)
    else:
        print(score(translations, references))
    if has_papers_bleu(data):
        print(
            "tokenised, compound-split BLEU {:.2f}, of the paper's kind  ({})".format(
                *compound_split_bleu(translations, references)
            )
        )
    what = "trees" if data.target == TREES else "translations"
    print(f"{len(pairs) / seconds:,.1f} sentences/s; {what} in {output}")


def _score_parses(pairs, outputs, output):
    """Writes the trees over the outputs as they came, and EVALB's table beside them."""
    from tf_transformer.data.treebank import restore
    from tf_transformer.parsing.parser import evaluate_parses

    evaluation = evaluate_parses(
        [restore(tree, words.split(" ")) for words, tree in pairs], outputs
    )
    with open_output(output) as trees, open_output(f"{output}.evalb") as table:
        trees.writelines(f"{tree}\n" for tree in evaluation.trees)
        table.write(evaluation.table)
    print(f"{evaluation}\nEVALB's table in {output}.evalb")


def parse(values):
    """Parses lines."""
    from tf_transformer.data.corpus import read_lines

    model_dir = required(values, "model_dir")
    if paths.load_config(model_dir).data.target != TREES:
        raise UserError(
            f"the model in {model_dir} was not trained on trees: train one with --preset=parsing-pocket, or use translate"
        )
    translator = _translator(values)
    from tf_transformer.parsing.parser import Parser

    lines = list(read_lines(values.input))
    with open_output(values.output) as output:
        for tree in Parser(translator).parse(lines, progress=sys.stderr.isatty()):
            output.write(f"{tree or ''}\n")
        output.flush()
