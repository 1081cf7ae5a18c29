"""Exports that cannot be written: one clear error, and nothing unfinished stays."""

import errno
import os

import pytest
import tensorflow as tf

from tf_transformer.errors import UserError
from tf_transformer.export.ctranslate2_folder import write_ctranslate2_folder
from tf_transformer.export.formats import export_keras
from tf_transformer.export.output_folder import unfinished_folder
from tf_transformer.export.saved_model import export_saved_model

SAVE_ERROR = "{{function_node x}} variables/part-0; No space left on device [Op:SaveV2]"


@pytest.mark.parametrize(
    "error, is_reported",
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "folder/.unfinished-x"), True),
        (tf.errors.ResourceExhaustedError(None, None, SAVE_ERROR), True),
        (tf.errors.ResourceExhaustedError(None, None, "OOM when allocating a tensor"), False),
        (tf.errors.InvalidArgumentError(None, None, "shapes differ"), False),
        (KeyError("a bug"), False),
    ],
    ids=["full disk", "SaveV2", "memory", "shapes", "bug"],
)
def test_an_error_of_the_file_system_names_path_and_reason(tmp_path, error, is_reported):
    """Other errors pass."""
    expected = UserError if is_reported else type(error)
    with pytest.raises(expected) as caught, unfinished_folder(str(tmp_path), "the/export"):
        raise error
    if is_reported:
        assert str(caught.value).startswith("the/export could not be written (No space left on")
    else:
        assert caught.value is error


@pytest.mark.parametrize(
    "export, name",
    [
        pytest.param(export_saved_model, "versions", marks=pytest.mark.slow),
        (write_ctranslate2_folder, "engine"),
        (export_keras, "model.keras"),
    ],
)
def test_nothing_unfinished_stays(export, name, model_dir, tmp_path, small_files):
    output = tmp_path / name
    with pytest.raises(UserError, match=r"could not be written \(File too large\): choose"):
        export(str(model_dir), str(output))
    assert os.listdir(output if output.is_dir() else tmp_path) == []
