"""Text of the tiny corpus, and vocabularies of it."""

import pytest

from tf_transformer.data.readers import open_corpus
from tf_transformer.data.tokenizer import learn_tokenizers


@pytest.fixture(scope="session")
def text(corpus_folder):
    """The 400 pairs for training."""
    return list(open_corpus(str(corpus_folder), "en", "de").read("train"))


@pytest.fixture(scope="session")
def tokenizers(text):
    """The shared vocabulary of this text."""
    return learn_tokenizers(lambda: text, 500, shared=True)
