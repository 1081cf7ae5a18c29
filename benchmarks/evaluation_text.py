"""Source sentences of the test set of a model's corpus."""

import itertools


def read_test_sources(model_dir, number):
    """Reads the first source sentences of the default test split of a model's corpus.

    Args:
      model_dir: a model folder.
      number: how many sentences.
    Returns: a list of strings.
    """
    from tf_transformer.checkpoints.model_folder import load_config
    from tf_transformer.data.readers import open_corpus

    data = load_config(model_dir).data
    corpus = open_corpus(data.data, data.source, data.target, hold_out=data.hold_out)
    pairs = corpus.read(corpus.default_test(seen=True))
    return [source for source, _ in itertools.islice(pairs, number)]
