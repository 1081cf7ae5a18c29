"""Names of served models."""

import pytest

from tf_transformer.errors import UserError
from tf_transformer.export.model_name import check_model_name


def test_letters_digits_and_punctuation_of_urls_are_accepted():
    check_model_name("wmt14_en-de.v2")


@pytest.mark.parametrize("name", ["", "a b", "a/b", "a:b", "é", "a\n"])
def test_other_names_are_refused(name):
    with pytest.raises(UserError, match="--name is"):
        check_model_name(name)
