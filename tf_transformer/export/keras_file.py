"""Export of a trained model as a Keras file."""

import os

from tf_transformer.atomic_io import atomic_folder
from tf_transformer.checkpoints.loading import load_model
from tf_transformer.errors import UserError
from tf_transformer.export.errors import explain_write_errors


def export_keras(model_dir: str, output: str, checkpoint: str | None = None) -> None:
    """Writes a model in the Keras format.

    After `from tf_transformer import Transformer`, which registers the layers,
    `keras.models.load_model(output)` reads it.

    Args:
      model_dir: a model folder, or the name of a built-in model.
      output: the file to write. It must not exist, and its name must end with `.keras`.
      checkpoint: a name or a path, as for `checkpoints.model_folder.find`.
    Raises: UserError when the output exists or has another ending, when the model cannot be
      read, or the output cannot be written.
    """
    if not output.endswith(".keras"):
        raise UserError(f"{output}: give the name of a file that ends with .keras")
    if os.path.exists(output):
        raise UserError(f"{output} already exists: remove it, or give another output")
    model, _, _ = load_model(model_dir, checkpoint)
    parent = os.path.dirname(os.path.abspath(output))
    with explain_write_errors(output), atomic_folder(parent) as folder:
        path = os.path.join(folder, "model.keras")
        model.save(path)
        os.rename(path, output)
