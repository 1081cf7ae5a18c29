"""The commands train, average and plot."""

import os
import shlex
import signal
import sys

from tf_transformer.checkpoints import paths
from tf_transformer.cli.flags import SETTINGS, given
from tf_transformer.cli.terminal import explain_out_of_memory, required, start_tensorflow
from tf_transformer.config import TREES
from tf_transformer.errors import UserError
from tf_transformer.presets import preset


def train(values):
    """Trains, or resumes a run; then prints five translations and the next commands."""
    config = preset(values.preset).replace(**given(values, SETTINGS))
    model_dir = values.model_dir or paths.default_model_dir(values.preset, config.data)
    start_tensorflow()
    from tf_transformer.training.build import build_trainer
    from tf_transformer.training.distribution import split_cpu

    split_cpu(config.train.logical_devices)
    with explain_out_of_memory(config.train.micro_batch_tokens):
        trainer = build_trainer(config, model_dir)
        if values.dry_run:
            plan = trainer.dry_run()
            if trainer.workers.is_chief:
                print(plan)
            return
        complete = trainer.run(second_interrupt=signal.SIG_DFL)
    if not trainer.workers.is_chief:
        return
    program = f"{_python()} -m tf_transformer"
    if complete:
        _print_samples(trainer)
        _print_next_commands(trainer.config.data, model_dir, program)
        return
    print(f"\nstopped and saved after {trainer.step:,} updates; the same command resumes the run:")
    print(f"  {program} {shlex.join(sys.argv[1:])}")


def _python():
    """The interpreter, relative to the working directory where it is below it."""
    return os.path.relpath(sys.executable) if os.getcwd() in sys.executable else sys.executable


def _print_samples(trainer):
    """Prints five translations of the validation split."""
    from tf_transformer.decoding.translator import Translator

    pairs = trainer.samples("validation", 5)
    translator = Translator(trainer.model, trainer.tokenizers, trainer.config.decode)
    translations = translator([source for source, _ in pairs])
    for (source, reference), translation in zip(pairs, translations):
        print(f"\n  source     {source}\n  model      {translation}\n  reference  {reference}")


def _print_next_commands(data, model_dir, program):
    """Prints what can be done with a trained model; `data` is a `DataConfig`."""
    print(f"\nThe model is in {model_dir} (averaged weights first). Next:")
    quoted = shlex.quote(model_dir)
    if data.target == TREES:
        print(f"  echo 'The dog barks .' | {program} parse --model_dir={quoted}")
        print(f"  {program} evaluate --model_dir={quoted}    # bracket F1 on held-out trees")
        return
    reverse = ("de", "en") if (data.source, data.target) == ("en", "de") else ("en", "de")
    source, target = reverse
    print(f"  {program} translate --model_dir={quoted}   # type a sentence, Ctrl-D ends")
    print(f"  {program} evaluate --model_dir={quoted}    # BLEU on held-out text")
    print(f"  {program} export --model_dir={quoted}      # for TensorFlow Serving, or for:")
    print(f"  {program} serve --model_dir={quoted}       # http://127.0.0.1:8501, with a page")
    print(
        f"  {program} train --data=pocket --source={source} --target={target} "
        f"--model_dir=models/pocket-{source}-{target}"
    )
    print("  or --data=FOLDER with train.en, train.de, val.en, ...; the README lists other forms")


def average(values):
    """Averages checkpoints."""
    model_dir = required(values, "model_dir")
    paths.load_config(model_dir)
    kept = paths.step_checkpoints(model_dir)
    number = len(kept) if values.last is None else values.last
    if values.best is not None and values.last is not None:
        raise UserError("--last and --best: give one of them")
    if values.best is None and not 1 <= number <= len(kept):
        raise UserError(
            f"--last={number}: {model_dir} has {len(kept)} checkpoints (train keeps "
            "--max_checkpoints of them)"
        )
    start_tensorflow()
    from tf_transformer.checkpoints import checkpoint

    output = values.output or os.path.join(model_dir, "averaged.npz")
    if values.best is None:
        chosen = kept[-number:]
    else:
        chosen = checkpoint.best_checkpoints(kept, values.best)
    checkpoint.average(chosen, output)
    print(f"averaged {', '.join(os.path.basename(path) for path in chosen)} into {output}")


def plot(values):
    """Draws the history of a run."""
    model_dir = required(values, "model_dir")
    paths.load_config(model_dir)
    from tf_transformer.visualization.history import plot_history

    output = values.output or os.path.join(model_dir, "history.png")
    plot_history(model_dir, output)
    print(f"drew {output}")
