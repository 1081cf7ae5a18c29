"""Random examples for tests of the attention viewer, with two heads of depth 4."""

import numpy as np

SOURCE = ["▁Anna", "▁sees", "[END]"]
TARGET = ["▁Anna", "</script><img src=x onerror=document.title='caught'>", "▁sieht&amp;", "[END]"]
KINDS = {  # kind of attention -> name of its weights
    "encoder self-attention": "encoder_layer{}",
    "decoder self-attention": "decoder_layer{}_block1",
    "encoder-decoder attention": "decoder_layer{}_block2",
}


def lengths(source, target, layers):
    """Name of the weights of each layer -> numbers of queries and keys."""
    pairs = (source, source), (target, target), (target, source)
    return {
        name.format(layer): (len(queries), len(keys))
        for layer in range(1, layers + 1)
        for name, (queries, keys) in zip(KINDS.values(), pairs)
    }


def random_queries_and_keys(source=SOURCE, target=TARGET, layers=2):
    rng = np.random.default_rng(3)
    return {
        name: tuple(rng.normal(0, 2, (2, length, 4)) for length in pair)
        for name, pair in lengths(source, target, layers).items()
    }


RANDOM = np.random.default_rng(0)
WEIGHTS = {  # of two layers for `SOURCE` and `TARGET`
    name: RANDOM.dirichlet(np.ones(keys), (2, queries))
    for name, (queries, keys) in lengths(SOURCE, TARGET, 2).items()
}
