"""Exports that cannot be written: one clear error, and nothing unfinished stays."""

import errno
import os
import resource

import pytest
import tensorflow as tf

from tf_transformer.errors import UserError
from tf_transformer.export import saved_model
from tf_transformer.export.ctranslate2_folder import write_ctranslate2_folder
from tf_transformer.export.formats import export_keras
from tf_transformer.export.output_folder import unfinished_folder
from tf_transformer.export.saved_model import export_saved_model


@pytest.fixture
def raise_in_context(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def raise_in_context(error):
        with unfinished_folder("folder", "folder/export"):
            raise error

    return raise_in_context


def test_an_error_of_the_file_system_names_path_and_reason(raise_in_context):
    full_disk = r"^folder/export could not be written \(No space left on device\): choose another"
    with pytest.raises(UserError, match=full_disk):
        raise_in_context(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "folder/.unfinished-x"))
    message = "{{function_node x}} variables/part-0; No space left on device [Op:SaveV2]"
    with pytest.raises(UserError, match=full_disk):
        raise_in_context(tf.errors.ResourceExhaustedError(None, None, message))


def test_other_errors_pass(raise_in_context):
    for error in (
        tf.errors.ResourceExhaustedError(None, None, "OOM when allocating a tensor"),
        tf.errors.InvalidArgumentError(None, None, "shapes differ"),
        KeyError("a bug"),
    ):
        with pytest.raises(type(error)) as caught:
            raise_in_context(error)
        assert caught.value is error


@pytest.fixture
def small_files():
    """Makes writing fail beyond 10 kB, like a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def make_quick_signatures(model, tokenizers, decode):
    """Stands for the signatures, whose graphs take seconds to trace."""
    module = tf.Module()
    module.weights = [tf.Variable(tf.zeros([10_000]))]
    return module, {}


@pytest.mark.parametrize(
    "export, name",
    [
        (export_saved_model, "versions"),
        (write_ctranslate2_folder, "engine"),
        (export_keras, "model.keras"),
    ],
)
def test_nothing_unfinished_stays(export, name, model_dir, tmp_path, small_files, monkeypatch):
    monkeypatch.setattr(saved_model, "make_signatures", make_quick_signatures)
    output = tmp_path / name
    with pytest.raises(UserError, match=r"could not be written \(File too large\): choose"):
        export(str(model_dir), str(output))
    if output.is_dir():
        assert os.listdir(output) == []
    else:
        assert os.listdir(tmp_path) == []
