"""Packages of the extra "serving" that are not installed."""

import sys

import pytest

from tf_transformer.errors import UserError, explain_missing_package
from tf_transformer.export.saved_model import import_messages
from tf_transformer.serving.grpc_client import GrpcClient
from tf_transformer.serving.model_config import read_model_config

MESSAGE = r"the package {} is missing: pip install 'tf_transformer\[serving\]'"


def test_the_messages_of_tensorflow_serving_are_missing(monkeypatch):
    for name in ("tensorflow_serving", "tensorflow_serving.apis", "tensorflow_serving.config"):
        monkeypatch.setitem(sys.modules, name, None)
    for function in (
        lambda: read_model_config("models.config"),
        import_messages,
        lambda: GrpcClient("127.0.0.1:1", "anna"),
    ):
        with pytest.raises(UserError, match=MESSAGE.format("tensorflow-serving-api")):
            function()


def test_only_other_packages_are_missing():
    with pytest.raises(UserError, match=MESSAGE.format("starlette")), explain_missing_package():
        raise ModuleNotFoundError(name="starlette")
    with pytest.raises(ModuleNotFoundError), explain_missing_package():
        raise ModuleNotFoundError(name="tf_transformer.serving.nothing")  # a bug of this package
