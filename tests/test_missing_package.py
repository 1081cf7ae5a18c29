"""Packages of the extra "serving" that are not installed."""

import pytest

from tf_transformer.errors import UserError, explain_missing_package

MESSAGE = r"the package {} is missing: pip install 'tf_transformer\[serving\]'"


def test_only_other_packages_are_missing():
    with pytest.raises(UserError, match=MESSAGE.format("fastapi")), explain_missing_package():
        raise ModuleNotFoundError(name="fastapi")
    with pytest.raises(ModuleNotFoundError), explain_missing_package():
        raise ModuleNotFoundError(name="tf_transformer.serving.nothing")  # a bug of this package
