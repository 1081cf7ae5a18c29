"""The commands translate, evaluate and parse."""

import os
import sys
import time

from tf_transformer.checkpoints import paths
from tf_transformer.cli.flags import given
from tf_transformer.cli.terminal import open_output, required, start_tensorflow
from tf_transformer.config import TREES, DecodeConfig
from tf_transformer.errors import UserError


def _load_translator(values):
    model_dir = required(values, "model_dir")
    paths.load_config(model_dir)  # a wrong folder is reported before TensorFlow is loaded
    start_tensorflow()
    from tf_transformer.decoding.translator import Translator

    return Translator.load(model_dir, values.checkpoint, **given(values, (DecodeConfig,)))


def translate(values):
    """Translates lines of text."""
    from tf_transformer.data.corpus import read_lines

    translator = _load_translator(values)
    if not values.input and not values.output and sys.stdin.isatty() and sys.stdout.isatty():
        _translate_interactively(translator, values.n_best)
        return
    lines = list(read_lines(values.input))
    with open_output(values.output) as output:  # a wrong path is reported before the translation
        results = translator.n_best(lines, values.n_best, progress=sys.stderr.isatty())
        for number, hypotheses in enumerate(results, start=1):
            for text, score in hypotheses:
                prefix = "" if values.n_best == 1 else f"{number}\t{score:.4f}\t"
                output.write(f"{prefix}{text}\n")
        output.flush()


def _translate_interactively(translator, n_best):
    """Translates each line that the user types, until Ctrl-D."""
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
    """Translates or parses a test set, and scores it."""
    translator = _load_translator(values)
    from tf_transformer.data.sources import open_corpus

    data = paths.load_config(values.model_dir).data
    corpus = open_corpus(values.data or data.data, data.source, data.target)
    split = values.split or corpus.default_test(seen=not values.data)
    pairs = list(corpus.read(split))[: values.max_pairs or None]
    output = values.output or os.path.join(values.model_dir, "evaluation", f"{split}.{data.target}")
    with open_output(output) as file:
        start = time.monotonic()
        sources = [source for source, _ in pairs]
        results = translator.n_best(sources, 1, progress=sys.stderr.isatty())
        seconds = time.monotonic() - start
        outputs = [hypotheses[0][0] for hypotheses in results]
        file.writelines(f"{text}\n" for text in outputs)
    print(f"{split} of {corpus.name}: {len(pairs):,} pairs, beam {translator.decode.beam_size}")
    if data.target == TREES:
        kind = "trees"
        _score_parses(pairs, outputs, output)
    else:
        kind = "translations"
        _score_translations(data, pairs, outputs)
    print(f"{len(pairs) / seconds:,.1f} sentences/s; {kind} in {output}")


def _score_translations(data, pairs, translations):
    """Prints sacreBLEU and chrF, and where the paper reports it, compound-split BLEU."""
    from tf_transformer.evaluation.bleu import compound_split_bleu, has_papers_bleu, score

    references = [reference for _, reference in pairs]
    print(score(translations, references))
    if has_papers_bleu(data):
        bleu, signature = compound_split_bleu(translations, references)
        print(f"tokenised, compound-split BLEU {bleu:.2f}, as in the paper  ({signature})")


def _score_parses(pairs, outputs, path):
    """Replaces the raw outputs in a file by trees, and writes EVALB's table beside it."""
    from tf_transformer.data.treebank import restore
    from tf_transformer.parsing.parser import evaluate_parses

    gold = [restore(tree, words.split(" ")) for words, tree in pairs]
    evaluation = evaluate_parses(gold, outputs)
    with open_output(path) as trees:
        trees.writelines(f"{tree}\n" for tree in evaluation.trees)
    with open_output(f"{path}.evalb") as table:
        table.write(evaluation.table)
    print(f"{evaluation}\nEVALB's table in {path}.evalb")


def parse(values):
    """Parses lines of text."""
    from tf_transformer.data.corpus import read_lines

    model_dir = required(values, "model_dir")
    if paths.load_config(model_dir).data.target != TREES:
        raise UserError(
            f"the model in {model_dir} was not trained on trees: train one with "
            "--preset=parsing-pocket, or use translate"
        )
    translator = _load_translator(values)
    from tf_transformer.parsing.parser import Parser

    lines = list(read_lines(values.input))
    with open_output(values.output) as output:
        for tree in Parser(translator).parse(lines, progress=sys.stderr.isatty()):
            output.write(f"{tree or ''}\n")
        output.flush()
