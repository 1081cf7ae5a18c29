"""The flags --engine and --compute_type of serve and translate, and the engine CTranslate2.

CTranslate2 runs without TensorFlow, which is imported only where a model must be exported first.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING

from absl.flags import FlagValues

from tf_transformer.checkpoints.model_folder import first_model_dir, model_list
from tf_transformer.cli.flags import given
from tf_transformer.cli.terminal import start_tensorflow
from tf_transformer.config import DataConfig, DecodeConfig
from tf_transformer.data.tags import check_tag
from tf_transformer.errors import UserError
from tf_transformer.export.versions import find_versions, read_description
from tf_transformer.host import number_of_cores

if TYPE_CHECKING:
    from tf_transformer.export.ctranslate2_translator import CTranslate2Translator
    from tf_transformer.serving.model_interface import LoadModel

logger = logging.getLogger(__name__)

CTRANSLATE2 = "ctranslate2"


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
