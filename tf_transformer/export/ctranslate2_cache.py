"""The export for CTranslate2 that `serve` and `translate` make when they first use a model."""

import contextlib
import glob
import os
from collections.abc import Callable, Iterator

from tf_transformer.checkpoints import model_folder
from tf_transformer.export.cache import cached_export, fingerprint_of
from tf_transformer.export.ctranslate2_translator import installed_version


@contextlib.contextmanager
def ctranslate2_export(
    model_dir: str, checkpoint: str | None, start_tensorflow: Callable[[], None]
) -> Iterator[str]:
    """Exports a model for CTranslate2 in float32, unless the export is in the cache.

    Args:
      model_dir: a model folder.
      checkpoint: a name or a path, as for `checkpoints.model_folder.find`.
      start_tensorflow: is called before TensorFlow is imported, which is for an export only.
    Yields: the folder of the exported versions.
    Raises: UserError when ctranslate2 is not installed, there is no such model, or the export
      cannot be written.
    """
    version = installed_version()
    model_folder.load_config(model_dir)
    vocabularies = sorted(glob.glob(os.path.join(glob.escape(model_dir), "*.model")))
    config = os.path.join(model_dir, model_folder.CONFIG)
    files = [config, *vocabularies, model_folder.find(model_dir, checkpoint)]

    def export(folder: str) -> None:
        start_tensorflow()
        from tf_transformer.export.ctranslate2_folder import write_ctranslate2_folder

        write_ctranslate2_folder(model_dir, os.path.join(folder, "1"), checkpoint)

    with cached_export(model_dir, fingerprint_of([version], files), export) as folder:
        yield folder
