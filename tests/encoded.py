"""What encoded pairs and batches contain, without padding."""

import itertools

from tf_transformer.special_tokens import PAD, START


def sequences(pairs):
    """The ids of an `EncodedPairs` or of a `Shard`, as tuples: source, target, source, ..."""
    return [
        tuple(shard.ids[a:b].tolist())
        for shard in getattr(pairs, "shards", [pairs])
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
