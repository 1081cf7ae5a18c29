"""What encoded pairs and batches contain, without padding."""

import itertools

from tf_transformer.data.encoding import EncodedPairs, encode_shards
from tf_transformer.special_tokens import PAD, START


def encode(pairs, tokenizers, max_length, max_length_ratio):
    """The `EncodedPairs` of pairs without weights; arguments as for `encode_shards`."""
    weighted = ((*pair, None) for pair in pairs)
    return EncodedPairs(list(encode_shards(weighted, tokenizers, max_length, max_length_ratio)))


def sequences(pairs):
    """The ids of an `EncodedPairs`, as tuples: source, target, source, ..."""
    return [
        tuple(shard.ids[a:b].tolist())
        for shard in pairs.shards
        for a, b in itertools.pairwise(shard.splits.tolist())
    ]


def all_pairs(pairs):
    """The pairs of an `EncodedPairs`, as `batch_pairs` returns them, sorted."""
    ids = sequences(pairs)
    return sorted((source, (START, *target)) for source, target in zip(ids[::2], ids[1::2]))


def batch_pairs(batch):
    """The pairs of a batch, as tuples of ids."""
    inp, tar = (side.numpy() for side in batch)
    return [
        (tuple(source[source != PAD]), tuple(target[target != PAD]))
        for source, target in zip(inp, tar)
        if source.any()
    ]
