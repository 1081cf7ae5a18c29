"""The tool that makes the built-in models."""

import shutil

import pytest
from pretrained_model import write_files

from tf_transformer.checkpoints.checkpoint import STORAGE_TYPES
from tf_transformer.checkpoints.model_folder import load_config
from tf_transformer.decoding.translator import Translator


@pytest.mark.parametrize("storage", STORAGE_TYPES)
def test_the_folder_is_complete_and_has_no_path_of_this_host(model_dir, tmp_path, storage):
    folder = tmp_path / "built-in"
    write_files(str(model_dir), str(folder), storage)
    assert (
        load_config(str(folder)).data.data == load_config(str(model_dir)).data.data.split("/")[-1]
    )
    moved = shutil.move(folder, tmp_path / "moved")
    assert len(Translator.load(str(moved), beam_size=1)(["Anna sleeps."])) == 1
