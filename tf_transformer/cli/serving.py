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
from typing import TYPE_CHECKING, Any

from absl.flags import FlagValues

from tf_transformer.checkpoints import model_folder
from tf_transformer.checkpoints.model_folder import model_list
from tf_transformer.cli.command import Flag, command, given, one_of, settings_flags
from tf_transformer.cli.terminal import start_tensorflow
from tf_transformer.config import DecodeConfig, ServeConfig
from tf_transformer.data.tags import check_tag
from tf_transformer.errors import UserError, explain_missing_package
from tf_transformer.export.versions import check_model_name, find_versions, read_description
from tf_transformer.host import number_of_cores

if TYPE_CHECKING:
    from tf_transformer.export.ctranslate2_translator import CTranslate2Translator
    from tf_transformer.serving.model_interface import LoadModel

logger = logging.getLogger(__name__)

CTRANSLATE2 = "ctranslate2"


@command("serve", lambda: [
    Flag("model_dir", str,
         "model folders, whose exports are served, separated by commas (default: the built-in "
         f"models {' and '.join(model_folder.SERVED_MODELS)}, which are exported first)"),
    Flag("export_dir", str,
         "folders of the exported versions, separated by commas (default: "
         "MODEL_DIR/export/saved_model; for ctranslate2, an export in the cache)"),
    Flag("name", str,
         "names in URLs, separated by commas (default: transformer; of several, their folders')"),
    *engine_flags(),
    *settings_flags(ServeConfig, "Server"),
])  # fmt: skip
def serve(values: FlagValues) -> None:
    """Serve exported models over HTTP, with TensorFlow Serving's REST API."""
    config = ServeConfig(**given(values, (ServeConfig,)))
    one_of(values, "export_dir", "model_dir")
    exports = model_folder.folder_list(values.export_dir or "")
    for folder in exports:
        if not os.path.isdir(folder):
            raise UserError(f"{folder} is not a folder: export a model into it first")
    models = [*map(model_folder.find_model_dir, model_folder.folder_list(values.model_dir or ""))]
    for folder in models:
        model_folder.load_config(folder)  # a wrong folder is reported before a long start
    if not exports and not models:
        models = [*map(model_folder.default_model, model_folder.SERVED_MODELS)]
    names = _model_names(values.name, exports or models)
    with explain_missing_package():
        from tf_transformer.serving.server import Server, bind_address
    # A wrong setting is reported before TensorFlow, the export and the model are loaded.
    with bind_address(config) as bound, contextlib.ExitStack() as stack:
        load: LoadModel
        if uses_ctranslate2(values):
            from tf_transformer.export.cache import ctranslate2_export
            from tf_transformer.export.ctranslate2_translator import installed_version
            from tf_transformer.serving.ctranslate2_model import CTranslate2Model

            installed_version()
            kind = values.compute_type
            batches = 2 * config.concurrent_batches  # of short rows and of long ones
            load = functools.partial(CTranslate2Model, compute_type=kind, parallel=batches)
            folders = [stack.enter_context(_exported_versions(folder)) for folder in exports]
            folders += [ctranslate2_export(folder, None) for folder in models]
        else:
            start_tensorflow(for_search=True)
            from tf_transformer.serving.tensorflow_model import TensorFlowModel

            load = TensorFlowModel
            folders = exports or [_saved_model_versions(folder) for folder in models]
        Server(dict(zip(names, folders)), config, load).run(bound)


def _model_names(names: str | None, folders: list[str]) -> list[str]:
    """The names in URLs of the models in these folders. Raises: UserError."""
    default = [os.path.basename(os.path.abspath(folder)) for folder in folders]
    found = names.split(",") if names else default if len(folders) > 1 else ["transformer"]
    for name in found:
        check_model_name(name)
    if len(set(found)) < len(folders) or len(found) > len(folders):
        numbers = f"number of models: {len(folders)}, names: {', '.join(found)}"
        raise UserError(f"{numbers}; give each model a name of its own with --name")
    return found


def _saved_model_versions(model_dir: str) -> str:
    """The folder of a model's exported versions; a built-in model is exported first."""
    if model_folder.is_built_in(model_dir):
        from tf_transformer.export.cache import built_in_export

        return built_in_export(model_dir)
    export = f"`tf-transformer export --model_dir={shlex.quote(model_dir)}`"
    # `export` cannot write into a read-only folder.
    folders = [model_dir, model_folder.writable_folder(model_dir)]
    folders = [os.path.join(folder, "export", "saved_model") for folder in folders]
    folder = next(filter(os.path.isdir, folders), "")
    if not folder:
        raise UserError(f"{model_dir} has no export: write one with {export}")
    newest = next(iter(find_versions(folder).values()), None)
    # The model may have no weights any more, and files may be removed just now.
    with contextlib.suppress(OSError, UserError):
        if newest and model_folder.is_older_than_model(newest, model_dir):
            message = "%s is older than the files of the model; to export it again: %s"
            logger.warning(message, newest, export)
    return folder


def engine_flags() -> list[Flag]:
    """--engine and --compute_type."""
    faster = "ctranslate2: a faster engine for CPUs; the model is exported for it first"
    compute = "ctranslate2: type of the weights in memory; default: as in the export, float32"
    return [
        Flag("engine", ("tensorflow", CTRANSLATE2), faster, "tensorflow"),
        Flag("compute_type", ("default", "float32", "int8"), compute, "default"),
    ]


def uses_ctranslate2(values: FlagValues) -> bool:
    """Whether --engine is ctranslate2. Raises: UserError for --compute_type without it."""
    if values.engine != CTRANSLATE2 and values["compute_type"].present:
        raise UserError(f"--compute_type is for --engine={CTRANSLATE2}")
    return values.engine == CTRANSLATE2


@contextlib.contextmanager
def _exported_versions(export_dir: str) -> Iterator[str]:
    """Yields a folder of versions; of one export for CTranslate2, one in which it is version 1."""
    if not _is_export(export_dir):
        yield export_dir
        return
    with tempfile.TemporaryDirectory(prefix="tf_transformer-") as folder:
        os.symlink(os.path.abspath(export_dir), os.path.join(folder, "1"))
        yield folder


def _is_export(folder: str) -> bool:
    return os.path.exists(os.path.join(folder, "model.bin"))


def ctranslate2_translator(
    values: FlagValues, model_dir: str
) -> tuple[CTranslate2Translator, dict[str, Any]]:
    """Loads a model folder, whose export is in the cache, or an export, on all cores.

    Returns: the translator, and the description of its export.
    """
    from tf_transformer.export.cache import ctranslate2_export
    from tf_transformer.export.ctranslate2_translator import CTranslate2Translator

    (folder, checkpoint), *others = model_list(model_dir, values.checkpoint)
    if others:
        raise UserError(f"--engine={CTRANSLATE2} has no ensembles: give one model")
    if not _is_export(folder):
        export = ctranslate2_export(folder, checkpoint)
        folder = next(iter(find_versions(export).values()))
    elif checkpoint:
        raise UserError(f"--checkpoint: {folder} is an export, which has no checkpoints")
    options = values.compute_type, number_of_cores(), values.min_length or 0
    translator = CTranslate2Translator(folder, *options, **given(values, (DecodeConfig,)))
    if values.tag:
        check_tag(values.tag, translator.tags)
    return translator, read_description(folder)
