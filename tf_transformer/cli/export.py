"""The commands export and import."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator

from absl.flags import FlagValues

from tf_transformer.checkpoints import model_folder
from tf_transformer.checkpoints.model_folder import model_list
from tf_transformer.cli.command import Flag, command, language_flags, model_flags, search_flags
from tf_transformer.cli.terminal import start_tensorflow
from tf_transformer.errors import UserError
from tf_transformer.export.formats import EXPORT_FORMATS, EXPORT_OPTIONS


def _users(option: str, separator: str) -> str:
    """The formats that take one of `EXPORT_OPTIONS`."""
    return separator.join(name for name, form in EXPORT_FORMATS.items() if option in form.options)


def _option_flags() -> Iterator[Flag]:
    for name, (kind, meaning) in EXPORT_OPTIONS.items():
        choices = tuple(kind) if isinstance(kind, list) else ()
        default, minimum = next(iter(choices), None), 1 if kind is int else None
        yield Flag(name, choices or kind, f"{_users(name, ', ')}: {meaning}", default, minimum)


@command("export", lambda: [
    *model_flags(),
    Flag("format", tuple(EXPORT_FORMATS),
         "; ".join(f"{name}: {each.meaning}" for name, each in EXPORT_FORMATS.items()),
         next(iter(EXPORT_FORMATS))),
    Flag("output", str,
         "folder or file to write, for saved_model the folder of all versions (default: "
         "MODEL_DIR/export/FORMAT; for a built-in model in models/NAME)"),
    *_option_flags(),
    *search_flags(),
])  # fmt: skip
def export(values: FlagValues) -> None:
    """Export a trained model for another program, such as TensorFlow Serving."""
    models = model_list(values.model_dir, values.checkpoint)
    form = EXPORT_FORMATS[values.format]
    if len(models) > 1 and not form.ensembles:
        raise UserError(f"--format={values.format} has no ensembles: give one model")
    if len(models) > 1 and not values.output:
        raise UserError("give the folder for the export of the ensemble with --output")
    for name in {option for each in EXPORT_FORMATS.values() for option in each.options}:
        if values[name].present and name not in form.options:
            raise UserError(f"--{name} is for --format={_users(name, ' or ')}")
    for each, _ in models:
        model_folder.load_config(each)
    model_dir = models[0][0] if len(models) == 1 else values.model_dir
    flags = {name: values[name].value for name in form.options}
    options = {name: value for name, value in flags.items() if value is not None}
    folder = os.path.join(model_folder.writable_folder(models[0][0]), "export")
    output = values.output or os.path.join(folder, form.output.format(**options))
    start_tensorflow()
    print(form.export(model_dir, output.rstrip("/") or "/", values.checkpoint, **options))


@command("import", lambda: [
    Flag("format", ("huggingface",), "a MarianMTModel of transformers", "huggingface"),
    Flag("input", str,
         "folder with config.json, model.safetensors, source.spm, target.spm and vocab.json",
         required=True),
    Flag("output", str, "model folder to write", required=True),
    *language_flags(" (default: the model's, or en and de)"),
])  # fmt: skip
def import_model(values: FlagValues) -> None:
    """Make a model folder of a Hugging Face model, such as an OPUS-MT model."""
    output = values.output.rstrip("/") or "/"
    start_tensorflow()
    from tf_transformer.export.huggingface import import_huggingface

    import_huggingface(values.input, output, values.source, values.target)
    print(f"wrote the model folder {output}; translate with it:")
    print(f"  tf-transformer translate --model_dir={shlex.quote(output)}")
