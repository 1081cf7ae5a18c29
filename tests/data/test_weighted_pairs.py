"""Weights of pairs, from the text to the batches."""

import numpy as np
import pytest

from tf_transformer.data.batching import Batches
from tf_transformer.data.encoding import Shard, cached_pairs
from tf_transformer.data.readers import open_corpus


@pytest.fixture(scope="module")
def weighted(tmp_path_factory, text):
    """A folder with weights, each of which is a function of its pair."""
    folder = tmp_path_factory.mktemp("weighted")
    for name, part in (("train", text[:300]), ("valid", text[300:320])):
        lines = [f"{source}\t{target}\t{weight_of(target)}\n" for source, target in part]
        (folder / f"{name}.tsv").write_text("".join(lines))
    return folder


def weight_of(target):
    return len(target) / 8


def check_weights(batches, tokenizers, pairs_of_epoch):
    """Each row has the weight of its pair, and unused rows have 0."""
    found = 0
    for _, tar, weights in batches.epoch(0):
        targets = tokenizers[1].decode(tar[:, 1:]).numpy()
        for row, weight in zip(targets, weights.numpy()):
            assert weight == (weight_of(row.decode()) if row else 0.0)
            found += bool(row)
    assert found == pairs_of_epoch


def test_shards_and_batches_keep_the_weights(weighted, tokenizers, tiny_config, tmp_path):
    data = tiny_config.data
    corpus = open_corpus(str(weighted), "en", "de")
    for _ in range(2):  # the second time from the files
        pairs = cached_pairs(corpus, "train", tokenizers, data, str(tmp_path))
        assert pairs.weighted
        check_weights(Batches(pairs, 500, 1), tokenizers, len(pairs))
    (path,) = tmp_path.glob("train-*/*.weights.npy")
    array = np.load(path)
    array[7] += 1
    np.save(path, array)  # damaged: encoded again
    again = cached_pairs(corpus, "train", tokenizers, data, str(tmp_path))
    assert again.checksum == pairs.checksum


def test_pairs_without_weights(weighted, tokenizers, tiny_config, corpus_folder, tmp_path):
    """Beside others, their weights are 1. Weights that are all 1 give the shards of no weights."""

    def encoded(data):
        parts = open_corpus(data, "en", "de").parts("train")
        arguments = "train", tokenizers, tiny_config.data, str(tmp_path)
        return [cached_pairs(part, *arguments) for part in parts]

    first, second = encoded(f"{weighted},{corpus_folder}")
    assert first.weighted and not second.weighted
    joined = Shard.join([*first.shards, *second.shards]).weights
    assert np.all(joined[len(first) :] == 1) and not np.all(joined[: len(first)] == 1)
    assert joined[: len(first)].tolist() == Shard.join(first.shards).weights.tolist()

    text = (weighted / "train.tsv").read_text().splitlines()
    for name, third in (("ones", "\t1"), ("none", "")):
        lines = [line.rpartition("\t")[0] + third for line in text]
        (tmp_path / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    ones, none = (encoded(f"{tmp_path}/{name}.tsv")[0] for name in ("ones", "none"))
    assert ones.checksum == none.checksum
