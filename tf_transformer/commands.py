"""What each command does. Each takes the values of its flags and raises UserError for a mistake of the user's.

TensorFlow is imported by the commands that need it, so that help and errors in flags come at once.
"""

import os
import shlex
import signal
import sys
import time

from tf_transformer import config as settings
from tf_transformer import model_folder
from tf_transformer.command_flags import PARTS, given
from tf_transformer.config import TREES, UserError
from tf_transformer.presets import preset
from tf_transformer.terminal import memory_explained, open_output, quiet, required


def train(values):
    """Trains, or goes on with a run; then shows five translations and the commands that go on from there."""
    config = preset(values.preset).replace(**given(values, PARTS))
    model_dir = values.model_dir or model_folder.default_model_dir(values.preset, config.data)
    quiet()
    from tf_transformer.replicas import divide_processor
    from tf_transformer.train import Trainer

    divide_processor(config.train.virtual_replicas)
    with memory_explained(config.train.max_tokens_per_replica):
        trainer = Trainer(config, model_dir, say=lambda line: print(line, flush=True))
        if values.dry_run:
            return trainer.dry_run()
        finished = trainer.run(second_interrupt=signal.SIG_DFL)
    if not trainer.machines.chief:
        return
    program = f"{os.path.relpath(sys.executable) if os.getcwd() in sys.executable else sys.executable} -m tf_transformer"
    if not finished:
        print(f"\nstopped and saved after {trainer.step:,} updates; the same command goes on from there:")
        print(f"  {program} {shlex.join(sys.argv[1:])}")
        return
    _show(trainer, model_dir, program)


def _show(trainer, model_dir, program):
    """Prints five translations, and the commands that go on from there."""
    from tf_transformer.translate import Translator

    config = trainer.config
    pairs = trainer.samples("validation", 5)
    translations = Translator(trainer.model, trainer.tokenizers, config.decode)([source for source, _ in pairs])
    for (source, reference), translation in zip(pairs, translations):
        print(f"\n  source     {source}\n  model      {translation}\n  reference  {reference}")
    print(f"\nThe model is in {model_dir} (averaged weights first). Next:")
    quoted = shlex.quote(model_dir)
    if config.data.target == TREES:
        print(f"  echo 'The dog barks .' | {program} parse --model_dir={quoted}")
        print(f"  {program} evaluate --model_dir={quoted}    # bracket F1 on held-out trees")
        return
    print(f"  {program} translate --model_dir={quoted}   # type a sentence, Ctrl-D ends")
    print(f"  {program} evaluate --model_dir={quoted}    # BLEU on held-out text")
    print(f"  {program} export --model_dir={quoted}      # for TensorFlow Serving, or for:")
    print(f"  {program} serve --model_dir={quoted}       # answers at http://127.0.0.1:8501, with a page to try it")
    source, target = ("de", "en") if (config.data.source, config.data.target) == ("en", "de") else ("en", "de")
    print(f"  {program} train --data=pocket --source={source} --target={target} --model_dir=models/pocket-{source}-{target}")
    print("  or --data=A_FOLDER_OF_YOURS with train.en, train.de, val.en, ...; the README lists what else")


def _translator(values):
    model_dir = required(values, "model_dir")
    model_folder.load_config(model_dir)  # before the seconds that TensorFlow takes
    quiet()
    from tf_transformer.translate import Translator

    return Translator.load(model_dir, values.checkpoint, **given(values, (settings.DecodeConfig,)))


def translate(values):
    """Translates lines."""
    from tf_transformer.corpus import read_lines

    translator = _translator(values)
    if not values.input and not values.output and sys.stdin.isatty() and sys.stdout.isatty():
        return _converse(translator, values.n_best)
    lines = list(read_lines(values.input))
    with open_output(values.output) as output:  # before the work, so that a wrong path costs none
        found = translator.n_best(lines, values.n_best, progress=sys.stderr.isatty())
        for number, best in enumerate(found, start=1):
            for text, score in best:
                output.write(f"{text}\n" if values.n_best == 1 else f"{number}\t{score:.4f}\t{text}\n")
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
    from tf_transformer.datasets import open_corpus
    from tf_transformer.evaluate import compound_split_bleu, has_papers_bleu, score

    data = model_folder.load_config(values.model_dir).data
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
        print("tokenised, compound-split BLEU {:.2f}, of the paper's kind  ({})".format(*compound_split_bleu(translations, references)))
    what = "trees" if data.target == TREES else "translations"
    print(f"{len(pairs) / seconds:,.1f} sentences/s; {what} in {output}")


def _score_parses(pairs, outputs, output):
    """Writes the trees over the outputs as they came, and EVALB's table beside them."""
    from tf_transformer.parsing import evaluate_parses
    from tf_transformer.treebank import restore

    evaluation = evaluate_parses([restore(tree, words.split(" ")) for words, tree in pairs], outputs)
    with open_output(output) as trees, open_output(f"{output}.evalb") as table:
        trees.writelines(f"{tree}\n" for tree in evaluation.trees)
        table.write(evaluation.table)
    print(f"{evaluation}\nEVALB's table in {output}.evalb")


def parse(values):
    """Parses lines."""
    from tf_transformer.corpus import read_lines

    model_dir = required(values, "model_dir")
    if model_folder.load_config(model_dir).data.target != TREES:
        raise UserError(f"the model in {model_dir} was not trained on trees: train one with --preset=parsing-pocket, or use translate")
    translator = _translator(values)
    from tf_transformer.parsing import Parser

    lines = list(read_lines(values.input))
    with open_output(values.output) as output:
        for tree in Parser(translator).parse(lines, progress=sys.stderr.isatty()):
            output.write(f"{tree or ''}\n")
        output.flush()


def average(values):
    """Averages checkpoints."""
    model_dir = required(values, "model_dir")
    model_folder.load_config(model_dir)
    paths = model_folder.step_checkpoints(model_dir)
    number = len(paths) if values.last is None else values.last
    if values.best is not None and values.last is not None:
        raise UserError("--last and --best: give one of them")
    if values.best is None and not 1 <= number <= len(paths):
        raise UserError(f"--last={number}: {model_dir} keeps {len(paths)} checkpoints (--keep of train says how many)")
    quiet()
    from tf_transformer import checkpoint

    output = values.output or os.path.join(model_dir, "averaged.npz")
    chosen = paths[-number:] if values.best is None else checkpoint.best_checkpoints(paths, values.best)
    checkpoint.average(chosen, output)
    print(f"averaged {', '.join(os.path.basename(path) for path in chosen)} into {output}")


def export(values):
    """Writes a trained model in the form of another engine."""
    model_dir, form = required(values, "model_dir"), values.format
    decode = given(values, (settings.DecodeConfig,))
    for name, owner in {"quantization": "ctranslate2", "name": "saved_model", **dict.fromkeys(decode, "saved_model")}.items():
        if values[name].present and form != owner:
            raise UserError(f"--{name} is for --format={owner}")
    model_folder.load_config(model_dir)
    default = {"saved_model": "saved_model", "ctranslate2": f"ctranslate2-{values.quantization}", "keras": "model.keras"}
    output = (values.output or os.path.join(model_dir, "export", default[form])).rstrip("/")
    quiet()
    if form == "saved_model":
        from tf_transformer.export import export_saved_model

        path = export_saved_model(model_dir, output, values.checkpoint, values.name, **decode)
        print(f"wrote {path} for TensorFlow Serving; {path}/README.md says how to start a server and what to ask")
    elif form == "ctranslate2":
        from tf_transformer.ctranslate2_folder import write_ctranslate2_folder

        write_ctranslate2_folder(model_dir, output, values.checkpoint, values.quantization)
        print(f"wrote {output} for ctranslate2.Translator({output!r})")
    else:
        from tf_transformer.export import export_keras

        export_keras(model_dir, output, values.checkpoint)
        print(f"wrote {output}: from tf_transformer import Transformer, then keras.models.load_model({output!r})")


def serve(values):
    """Answers over HTTP until SIGINT or SIGTERM."""
    folder = values.export_dir or os.path.join(required(values, "model_dir"), "export", "saved_model")
    config = settings.ServeConfig(**given(values, (settings.ServeConfig,)))
    quiet()
    try:
        from tf_transformer.server import Server
    except ImportError as error:
        raise UserError(f"the package {error.name} is missing: pip install 'tf_transformer[serving]'") from None
    Server(folder, values.name, config, say=lambda line: print(line, flush=True)).run()


def client(values):
    """Translates lines by a server."""
    from tf_transformer.client import GrpcClient, RestClient, translate_lines
    from tf_transformer.corpus import read_lines

    if values.grpc:
        quiet()
    kind, address = (GrpcClient, values.grpc) if values.grpc else (RestClient, values.server)
    ask = kind(address, values.name, values.retries, values.timeout)
    typed = not values.input and sys.stdin.isatty()  # then each line is answered at once
    rows, requests = (1, 1) if typed else (values.rows, values.requests)
    with open_output(values.output) as output:
        too_long = []
        for number, (translation, score) in enumerate(translate_lines(ask, read_lines(values.input), rows, requests), start=1):
            output.write(f"{translation}\n")
            if typed:
                output.flush()
            if score <= -1e8:
                too_long.append(str(number))
        output.flush()
    if too_long:
        lines = ", ".join(too_long[:20]) + (", ..." if len(too_long) > 20 else "")
        raise UserError(f"too long for the model, so their translations are empty: line {lines}; divide them")


def info(values):
    """Describes a preset, sentence pairs, or a model folder."""
    quiet()
    from tf_transformer import info

    print(info.describe(values.preset, values.model_dir, values.data, values.source, values.target))


def plot(values):
    """Draws the history of a run."""
    model_dir = required(values, "model_dir")
    model_folder.load_config(model_dir)
    from tf_transformer.history import plot_history

    output = values.output or os.path.join(model_dir, "history.png")
    plot_history(model_dir, output)
    print(f"drew {output}")
