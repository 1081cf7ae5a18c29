"""The commands export, serve and client."""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import sys
from collections.abc import Iterator

from absl.flags import FlagValues

from tf_transformer.checkpoints import paths, pretrained
from tf_transformer.checkpoints.model_lists import model_list
from tf_transformer.cli.engine import ctranslate2_versions, loader, uses_ctranslate2
from tf_transformer.cli.flags import given
from tf_transformer.cli.terminal import open_output, required, start_tensorflow
from tf_transformer.config import DecodeConfig
from tf_transformer.decoding.scores import is_possible
from tf_transformer.errors import UserError, explain_missing_package
from tf_transformer.export.model_name import check_model_name
from tf_transformer.export.versions import (
    find_versions,
    is_version_number,
    remove_old_versions,
)
from tf_transformer.serving.serve_config import ServeConfig

logger = logging.getLogger(__name__)

INTERACTIVE_ATTEMPTS = 6  # in about ten seconds
MAX_LISTED_LINES = 20  # line numbers in an error message


def export(values: FlagValues) -> None:
    """Writes a trained model in the format of another engine."""
    models = model_list(required(values, "model_dir"), values.checkpoint)
    _check_format_flags(values, len(models))
    for each, _ in models:
        paths.load_config(each)
    model_dir = models[0][0] if len(models) == 1 else values.model_dir
    defaults = {
        "saved_model": "saved_model",
        "ctranslate2": f"ctranslate2-{values.quantization}",
        "keras": "model.keras",
        "huggingface": "huggingface",
    }
    folder = pretrained.writable_folder(models[0][0])
    output = values.output or os.path.join(folder, "export", defaults[values.format])
    output = output.rstrip("/") or "/"
    if values.format == "ctranslate2" and values.keep_versions:
        _check_version(output)
    start_tensorflow()
    _export(values, model_dir, output)


def _export(values: FlagValues, model_dir: str, output: str) -> None:
    if values.format == "saved_model":
        from tf_transformer.export.saved_model import export_saved_model

        decode = given(values, (DecodeConfig,))
        path = export_saved_model(model_dir, output, values.checkpoint, values.name, **decode)
        if values.keep_versions:
            remove_old_versions(output, values.keep_versions, path)
        print(f"wrote {path} for TensorFlow Serving")
        print(f"{path}/README.md explains how to start a server and what to send to it")
    elif values.format == "ctranslate2":
        from tf_transformer.export.ctranslate2_folder import write_ctranslate2_folder

        decode = given(values, (DecodeConfig,))
        write_ctranslate2_folder(
            model_dir, output, values.checkpoint, values.quantization, **decode
        )
        if values.keep_versions:
            remove_old_versions(os.path.dirname(output) or ".", values.keep_versions, output)
        print(f"wrote {output}; load it with ctranslate2.Translator({output!r})")
    elif values.format == "huggingface":
        from tf_transformer.interchange.huggingface_export import export_huggingface

        decode = given(values, (DecodeConfig,))
        export_huggingface(model_dir, output, values.checkpoint, **decode)
        print(f"wrote {output}; load it with MarianMTModel.from_pretrained({output!r})")
    else:
        from tf_transformer.export.keras_file import export_keras

        export_keras(model_dir, output, values.checkpoint)
        print(
            f"wrote {output}; after `from tf_transformer import Transformer`, load it with "
            f"keras.models.load_model({output!r})"
        )


def _check_format_flags(values: FlagValues, models: int) -> None:
    """Raises: UserError for a flag that --format does not use, or for several models."""
    if models > 1 and values.format != "saved_model":
        raise UserError(f"--format={values.format} has no ensembles: give one model")
    if models > 1 and not values.output:
        raise UserError(
            "give the folder for the export of the ensemble with --output: the export folder of "
            "each model is for its own versions"
        )
    formats = {
        "quantization": ["ctranslate2"],
        "name": ["saved_model"],
        "keep_versions": ["saved_model", "ctranslate2"],
        "beam_size": ["saved_model", "ctranslate2", "huggingface"],
        "length_penalty": ["saved_model", "ctranslate2", "huggingface"],
        "extra_decode_length": ["saved_model", "ctranslate2"],
        "decode_batch_tokens": ["saved_model"],
    }
    for name, only in formats.items():
        if values[name].present and values.format not in only:
            raise UserError(f"--{name} is for --format={' or '.join(only)}")


def _check_version(output: str) -> None:
    """Raises: UserError unless the name of a folder is a version."""
    if not is_version_number(os.path.basename(output)):
        raise UserError(
            "--keep_versions with --format=ctranslate2: end --output with the number of the "
            f"version, such as {os.path.join(output, '1')}"
        )


def serve(values: FlagValues) -> None:
    """Serves an exported model over HTTP until SIGINT or SIGTERM."""
    config = ServeConfig(**given(values, (ServeConfig,)))
    if values.export_dir and values.model_dir:
        raise UserError("--export_dir and --model_dir: give one of them")
    check_model_name(values.name)
    if values.export_dir and not os.path.isdir(values.export_dir):
        raise UserError(
            f"{values.export_dir} is not a folder: export a model with `tf-transformer export`, or "
            "give another --export_dir"
        )
    model_dir = "" if values.export_dir else _find_model(values.model_dir)
    with explain_missing_package():
        from tf_transformer.serving.server import Server, bind_address
    # A wrong setting is reported before TensorFlow, the export and the model are loaded.
    with bind_address(config) as bound:
        load = loader(values)
        open_versions = ctranslate2_versions if uses_ctranslate2(values) else _export_to_serve
        with open_versions(values.export_dir, model_dir) as folder:
            Server(values.name, folder, config, load).run(bound)


def _find_model(model_dir: str | None) -> str:
    """Returns the folder of the given model, or of the default one. Raises: UserError."""
    model_dir = pretrained.find_model_dir(model_dir) if model_dir else pretrained.default_model()
    paths.load_config(model_dir)  # a wrong folder is reported before TensorFlow is loaded
    return model_dir


@contextlib.contextmanager
def _export_to_serve(export_dir: str | None, model_dir: str) -> Iterator[str]:
    """Yields the folder of the versions to serve. A built-in model is exported first.

    The export of a read-only model folder is where `export` writes it by default.
    """
    if export_dir:
        yield export_dir
        return
    if not pretrained.is_built_in(model_dir):
        folder = os.path.join(model_dir, "export", "saved_model")
        if not os.path.isdir(folder):
            folder = os.path.join(pretrained.writable_folder(model_dir), "export", "saved_model")
        _warn_of_old_export(folder, model_dir)
        if not os.path.isdir(folder):
            raise UserError(
                f"{model_dir} has no export: write one with `tf-transformer export "
                f"--model_dir={shlex.quote(model_dir)}`"
            )
        yield folder
        return
    from tf_transformer.export.built_in import built_in_export

    with built_in_export(model_dir) as folder:
        yield folder


def _warn_of_old_export(folder: str, model_dir: str) -> None:
    """Warns where a model has been trained since its newest version was exported."""
    version = next(iter(find_versions(folder).values()), None)
    if version is None:
        return
    # The model may have no weights any more, and files may be removed just now.
    with contextlib.suppress(OSError, UserError):
        if paths.is_older_than_model(version, model_dir):
            command = f"tf-transformer export --model_dir={shlex.quote(model_dir)}"
            message = "%s is older than the files of the model; to export it again: `%s`"
            logger.warning(message, version, command)


def client(values: FlagValues) -> None:
    """Translates lines with a server."""
    from tf_transformer.data.corpus import read_lines
    from tf_transformer.serving.client import ATTEMPTS, RestClient, translate_lines

    interactive = not values.input and sys.stdin.isatty()
    attempts = INTERACTIVE_ATTEMPTS if interactive else ATTEMPTS
    server = RestClient(values.server or "", values.name, attempts)
    # In interactive use, each line is answered at once, and a person waits for the answer.
    size = {"batch_size": 1, "concurrency": 1} if interactive else {}
    too_long = []
    with open_output(values.output) as file:
        results = translate_lines(server, read_lines(values.input), **size)
        for number, (translation, score) in enumerate(results, 1):
            file.write(f"{translation}\n")
            if not values.output:
                file.flush()
            if not is_possible(score):
                too_long.append(number)
    if too_long:
        numbers = ", ".join(map(str, too_long[:MAX_LISTED_LINES]))
        if len(too_long) > MAX_LISTED_LINES:
            numbers += ", ..."
        raise UserError(
            "lines too long for the model or the server, with an empty translation: "
            f"{numbers}; split them"
        )
