"""The commands serve and client."""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import sys
from collections.abc import Iterator

from absl.flags import FlagValues

from tf_transformer.checkpoints import model_folder
from tf_transformer.cli.engine import ctranslate2_versions, loader, uses_ctranslate2
from tf_transformer.cli.flags import given
from tf_transformer.cli.terminal import open_output
from tf_transformer.decoding.scores import is_possible
from tf_transformer.errors import UserError, explain_missing_package
from tf_transformer.export.versions import check_model_name, find_versions
from tf_transformer.serving.serve_config import ServeConfig

logger = logging.getLogger(__name__)

INTERACTIVE_ATTEMPTS = 6  # in about ten seconds
MAX_LISTED_LINES = 20  # line numbers in an error message


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
    model_dir = (
        model_folder.find_model_dir(model_dir) if model_dir else model_folder.default_model()
    )
    model_folder.load_config(model_dir)  # a wrong folder is reported before TensorFlow is loaded
    return model_dir


@contextlib.contextmanager
def _export_to_serve(export_dir: str | None, model_dir: str) -> Iterator[str]:
    """Yields the folder of the versions to serve. A built-in model is exported first.

    The export of a read-only model folder is where `export` writes it by default.
    """
    if export_dir:
        yield export_dir
        return
    if not model_folder.is_built_in(model_dir):
        folder = os.path.join(model_dir, "export", "saved_model")
        if not os.path.isdir(folder):
            folder = os.path.join(model_folder.writable_folder(model_dir), "export", "saved_model")
        _warn_of_old_export(folder, model_dir)
        if not os.path.isdir(folder):
            raise UserError(
                f"{model_dir} has no export: write one with `tf-transformer export "
                f"--model_dir={shlex.quote(model_dir)}`"
            )
        yield folder
        return
    from tf_transformer.export.cache import built_in_export

    with built_in_export(model_dir) as folder:
        yield folder


def _warn_of_old_export(folder: str, model_dir: str) -> None:
    """Warns where a model has been trained since its newest version was exported."""
    version = next(iter(find_versions(folder).values()), None)
    if version is None:
        return
    # The model may have no weights any more, and files may be removed just now.
    with contextlib.suppress(OSError, UserError):
        if model_folder.is_older_than_model(version, model_dir):
            command = f"tf-transformer export --model_dir={shlex.quote(model_dir)}"
            message = "%s is older than the files of the model; to export it again: `%s`"
            logger.warning(message, version, command)


def client(values: FlagValues) -> None:
    """Translates lines with a server."""
    from tf_transformer.data.text_files import read_lines
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
