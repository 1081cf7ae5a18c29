"""Packages of the extra "serving" that are not installed."""

import sys

import pytest

from tf_transformer.errors import UserError, explain_missing_package
from tf_transformer.export.saved_model import import_messages

MESSAGE = r"the package {} is missing: pip install 'tf_transformer\[serving\]'"


def test_the_messages_of_tensorflow_serving_are_missing(monkeypatch):
    for name in ("tensorflow_serving", "tensorflow_serving.apis"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UserError, match=MESSAGE.format("tensorflow-serving-api")):
        import_messages()


def test_only_other_packages_are_missing():
    with pytest.raises(UserError, match=MESSAGE.format("fastapi")), explain_missing_package():
        raise ModuleNotFoundError(name="fastapi")
    with pytest.raises(ModuleNotFoundError), explain_missing_package():
        raise ModuleNotFoundError(name="tf_transformer.serving.nothing")  # a bug of this package
