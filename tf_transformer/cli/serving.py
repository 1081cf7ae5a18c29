"""The command serve."""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
from collections.abc import Iterator

from absl.flags import FlagValues

from tf_transformer.checkpoints import model_folder, pretrained
from tf_transformer.cli.command import Flag, command, given, settings_flags
from tf_transformer.cli.engine import ctranslate2_versions, engine_flags, loader, uses_ctranslate2
from tf_transformer.errors import UserError, explain_missing_package
from tf_transformer.export.versions import check_model_name, find_versions
from tf_transformer.serving.serve_config import ServeConfig

logger = logging.getLogger(__name__)


@command(
    "serve",
    "serve an exported model over HTTP, with TensorFlow Serving's REST API",
    lambda: [
        Flag(
            "model_dir", str,
            "model folder, whose export is served (default: the built-in model "
            f"{pretrained.DEFAULT}, which is exported first)",
        ),
        Flag(
            "export_dir", str,
            "folder of the exported versions (default: MODEL_DIR/export/saved_model; for "
            "ctranslate2, an export in the cache)",
        ),
        Flag("name", str, "the model's name in URLs", "transformer"),
        *engine_flags(),
        *settings_flags(ServeConfig, "Server"),
    ],
)  # fmt: skip
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
