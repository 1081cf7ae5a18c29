"""The export of a built-in model, which `tf-transformer serve` makes when it is first used."""

import contextlib
import functools
import os
from collections.abc import Iterator

import tensorflow as tf

from tf_transformer.checkpoints import checksums
from tf_transformer.export.cache import cached_export, fingerprint_of
from tf_transformer.export.saved_model import export_saved_model


@contextlib.contextmanager
def built_in_export(model_dir: str) -> Iterator[str]:
    """Exports a built-in model as a SavedModel, unless it is in the cache.

    Args:
      model_dir: the folder of the built-in model.
    Yields: the folder of the exported versions.
    Raises: UserError when the export cannot be written.
    """
    fingerprint = fingerprint_of([tf.__version__], [os.path.join(model_dir, checksums.NAME)])
    with cached_export(
        model_dir, fingerprint, functools.partial(export_saved_model, model_dir)
    ) as folder:
        yield folder
