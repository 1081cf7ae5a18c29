"""The table of the formats that `export` writes, at the end of this module.

The command line takes its choices, its help and its errors from it. The functions import what they
need inside, so that this module does not import TensorFlow.
"""

import os
from collections.abc import Callable
from typing import Any, NamedTuple

from tf_transformer.errors import UserError
from tf_transformer.export.versions import is_version_number, remove_old_versions


class ExportFormat(NamedTuple):
    """A format that `export` writes."""

    meaning: str  # its line of help: what reads it
    output: str  # the file or folder below MODEL_DIR/export where --output does not say another
    options: tuple[str, ...]  # the flags that it takes: of `EXPORT_OPTIONS`, and of `DecodeConfig`
    # (model folder, output, checkpoint or None, **options that are set) -> what to tell the user
    export: Callable[..., str]
    ensembles: bool = False  # whether it can hold several models


def _saved_model(
    model_dir: str, output: str, checkpoint: str | None, keep_versions: int = 0, **options: Any
) -> str:
    from tf_transformer.export.saved_model import export_saved_model

    path = export_saved_model(model_dir, output, checkpoint, **options)
    if keep_versions:
        remove_old_versions(output, keep_versions, path)
    return (
        f"wrote {path} for TensorFlow Serving\n"
        f"{path}/README.md explains how to start a server and what to send to it"
    )


def _ctranslate2(
    model_dir: str, output: str, checkpoint: str | None, keep_versions: int = 0, **options: Any
) -> str:
    if keep_versions and not is_version_number(os.path.basename(output)):
        raise UserError(
            "--keep_versions with --format=ctranslate2: end --output with the number of the "
            f"version, such as {os.path.join(output, '1')}"
        )
    from tf_transformer.export.ctranslate2_folder import write_ctranslate2_folder

    write_ctranslate2_folder(model_dir, output, checkpoint, **options)
    if keep_versions:
        remove_old_versions(os.path.dirname(output) or ".", keep_versions, output)
    return f"wrote {output}; load it with ctranslate2.Translator({output!r})"


def export_keras(model_dir: str, output: str, checkpoint: str | None = None) -> str:
    """Writes a model in the Keras format.

    After `from tf_transformer import Transformer`, which registers the layers,
    `keras.models.load_model(output)` reads it.

    Args:
      model_dir, checkpoint: as for `write_ctranslate2_folder`.
      output: the file to write. It must not exist, and its name must end with `.keras`.
    Returns: what to tell the user.
    Raises: UserError when the output exists or has another ending, when the model cannot be
      read, or the output cannot be written.
    """
    from tf_transformer.checkpoints.loading import load_model
    from tf_transformer.export.output_folder import check_new, new_output

    if not output.endswith(".keras"):
        raise UserError(f"{output}: give the name of a file that ends with .keras")
    check_new(output)
    model, _, _ = load_model(model_dir, checkpoint)
    with new_output(output, "model.keras") as path:
        model.save(path)
    return (
        f"wrote {output}; after `from tf_transformer import Transformer`, load it with "
        f"keras.models.load_model({output!r})"
    )


def _huggingface(model_dir: str, output: str, checkpoint: str | None, **options: Any) -> str:
    from tf_transformer.export.huggingface import export_huggingface

    export_huggingface(model_dir, output, checkpoint, **options)
    return f"wrote {output}; load it with MarianMTModel.from_pretrained({output!r})"


SEARCH = ("beam_size", "length_penalty")  # settings of `DecodeConfig`
EXPORT_OPTIONS: dict[str, tuple[type | list[str], str]] = {  # flag -> type or choices, meaning
    "name": (str, "the model's name on the server (default: transformer)"),
    "keep_versions": (int, "versions to keep; older ones are removed (default: all)"),
    "quantization": (["float32", "int8"], "type of the weights"),
}
EXPORT_FORMATS = {  # the first one is the default
    "saved_model": ExportFormat(
        "for TensorFlow Serving",
        "saved_model",
        ("name", "keep_versions", *SEARCH, "extra_decode_length", "decode_batch_tokens"),
        _saved_model,
        ensembles=True,
    ),
    "ctranslate2": ExportFormat(
        "for ctranslate2.Translator",
        "ctranslate2-{quantization}",
        ("quantization", "keep_versions", *SEARCH, "extra_decode_length"),
        _ctranslate2,
    ),
    "keras": ExportFormat("for keras.models.load_model", "model.keras", (), export_keras),
    "huggingface": ExportFormat(
        "for MarianMTModel of transformers", "huggingface", SEARCH, _huggingface
    ),
}
