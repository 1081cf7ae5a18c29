"""The command serve, and the engines of serve and translate.

CTranslate2 runs without TensorFlow, which is imported only where a model must be exported first.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import shlex
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING

from absl.flags import FlagValues

from tf_transformer.checkpoints import model_folder
from tf_transformer.checkpoints.model_folder import first_model_dir, model_list
from tf_transformer.cli.command import Flag, command, given, one_of, settings_flags
from tf_transformer.cli.terminal import start_tensorflow
from tf_transformer.config import DataConfig, DecodeConfig, ServeConfig
from tf_transformer.data.tags import check_tag
from tf_transformer.errors import UserError, explain_missing_package
from tf_transformer.export.versions import (
    check_model_name,
    find_versions,
    read_description,
)
from tf_transformer.host import number_of_cores

if TYPE_CHECKING:
    from tf_transformer.export.ctranslate2_translator import CTranslate2Translator
    from tf_transformer.serving.model_interface import LoadModel

logger = logging.getLogger(__name__)

CTRANSLATE2 = "ctranslate2"


@command(
    "serve",
    "serve an exported model over HTTP, with TensorFlow Serving's REST API",
    lambda: [
        Flag(
            "model_dir", str,
            "model folder, whose export is served (default: the built-in model "
            f"{model_folder.DEFAULT_MODEL}, which is exported first)",
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
    one_of(values, "export_dir", "model_dir")
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


def engine_flags() -> list[Flag]:
    """--engine and --compute_type."""
    return [
        Flag(
            "engine",
            ("tensorflow", CTRANSLATE2),
            "ctranslate2: a faster engine for CPUs; the model is exported for it first",
            "tensorflow",
        ),
        Flag(
            "compute_type",
            ("default", "float32", "int8"),
            "ctranslate2: type of the weights in memory; default: that of the export, float32",
            "default",
        ),
    ]


def uses_ctranslate2(values: FlagValues) -> bool:
    """Whether --engine is ctranslate2. Raises: UserError for --compute_type without it."""
    if values.engine == CTRANSLATE2:
        return True
    if values["compute_type"].present:
        raise UserError(f"--compute_type is for --engine={CTRANSLATE2}")
    return False


def loader(values: FlagValues) -> LoadModel:
    """Starts the engine. Returns: the function with which the server loads a version.

    Raises: UserError.
    """
    if uses_ctranslate2(values):
        from tf_transformer.export.ctranslate2_translator import installed_version
        from tf_transformer.serving.ctranslate2_model import CTranslate2Model

        installed_version()
        return functools.partial(CTranslate2Model, compute_type=values.compute_type)
    start_tensorflow()
    from tf_transformer.serving.tensorflow_model import TensorFlowModel

    return TensorFlowModel


@contextlib.contextmanager
def ctranslate2_versions(export_dir: str | None, model_dir: str) -> Iterator[str]:
    """Yields the folder of the versions to serve.

    Args:
      export_dir: a folder of versions, or one export, which becomes version 1; None for the model.
      model_dir: a model folder, whose export is in the cache.
    Raises: UserError.
    """
    if not export_dir:
        from tf_transformer.export.cache import ctranslate2_export

        with ctranslate2_export(model_dir, None, start_tensorflow) as folder:
            yield folder
    elif not _is_export(export_dir):
        _check_versions(export_dir)
        yield export_dir
    else:
        with tempfile.TemporaryDirectory(prefix="tf_transformer-") as folder:
            os.symlink(os.path.abspath(export_dir), os.path.join(folder, "1"))
            logger.info("%s is version 1", export_dir)
            yield folder


def _is_export(folder: str) -> bool:
    """Whether a folder is an export for CTranslate2."""
    return os.path.exists(os.path.join(folder, "model.bin"))


def _is_saved_model(folder: str) -> bool:
    return os.path.exists(os.path.join(folder, "saved_model.pb"))


def _check_versions(export_dir: str) -> None:
    """Raises: UserError where the newest version in a folder is for another engine."""
    for version, path in [*find_versions(export_dir).items()][:1]:
        if _is_saved_model(path):
            raise UserError(
                f"--engine={CTRANSLATE2}: version {version} in {export_dir} is a SavedModel: give "
                "a folder that `tf-transformer export --format=ctranslate2` wrote"
            )


@contextlib.contextmanager
def ctranslate2_translator(
    values: FlagValues, model_dir: str
) -> Iterator[tuple[CTranslate2Translator, DataConfig]]:
    """Loads a model for translate, on all cores.

    Args:
      values: the flags.
      model_dir: a model folder, whose export is in the cache, or a folder with an export.
    Yields: the translator, and a `DataConfig` with the languages.
    Raises: UserError.
    """
    from tf_transformer.export.ctranslate2_translator import CTranslate2Translator

    decode = given(values, (DecodeConfig,))
    with _export_folder(values, model_dir) as folder:
        translator = CTranslate2Translator(folder, values.compute_type, number_of_cores(), **decode)
        description = read_description(folder)
    if values.tag:
        check_tag(values.tag, translator.encode)
    yield translator, DataConfig(source=description["source"], target=description["target"])


@contextlib.contextmanager
def _export_folder(values: FlagValues, model_dir: str) -> Iterator[str]:
    """Yields the folder of one export."""
    if len(model_list(model_dir, values.checkpoint)) > 1:
        raise UserError(f"--engine={CTRANSLATE2} has no ensembles: give one model")
    model_dir = first_model_dir(model_dir)
    if _is_export(model_dir):
        if values.checkpoint:
            raise UserError(f"--checkpoint: {model_dir} is an export, which has no checkpoints")
        yield model_dir
        return
    from tf_transformer.export.cache import ctranslate2_export

    with ctranslate2_export(model_dir, values.checkpoint, start_tensorflow) as folder:
        yield next(iter(find_versions(folder).values()))
