"""Text of the tiny corpus, and vocabularies of it."""

import pytest


@pytest.fixture(scope="session")
def text(corpus_folder):
    """The 400 pairs for training."""
    from tf_transformer.data.readers import open_corpus

    return list(open_corpus(str(corpus_folder), "en", "de").read("train"))


@pytest.fixture(scope="session")
def tokenizers(text):
    """The shared vocabulary of this text."""
    from tf_transformer.data.tokenizer import learn_tokenizers

    return learn_tokenizers(lambda: text, 500, shared=True)
