"""A trained model as a Keras file."""

import os

from tf_transformer.atomic_io import atomic_folder
from tf_transformer.checkpoints.loading import load_model
from tf_transformer.errors import UserError


def export_keras(model_dir, output, choice=None):
    """Writes a model as Keras does: `keras.models.load_model(output)`, after `from tf_transformer import Transformer`, gives one.

    Args:
      model_dir: a model folder.
      output: the file, which must not be there; its name ends with .keras.
      choice: which checkpoint, as for `model_folder.find`.
    Raises: UserError when the output is there or has another ending, or the model cannot be read.
    """
    if not output.endswith(".keras"):
        raise UserError(f"{output}: Keras wants a file whose name ends with .keras")
    if os.path.exists(output):
        raise UserError(f"{output} is there already: remove it, or give another")
    model, _, _ = load_model(model_dir, choice)
    with atomic_folder(os.path.dirname(os.path.abspath(output))) as folder:
        path = os.path.join(folder, "model.keras")
        model.save(path)
        os.rename(path, output)
