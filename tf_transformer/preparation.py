"""What each machine of a run does before the first update: it gets the vocabulary, and makes ids and batches of its copy of the text."""

import dataclasses
import os

from tf_transformer.batching import Batches
from tf_transformer.config import Config, UserError
from tf_transformer.encoding import cached_pairs
from tf_transformer.run_folder import check_same
from tf_transformer.tokenizer import Tokenizer
from tf_transformer.whole_file import whole_file


def share_vocabulary(config, corpus, folder, machines):
    """The chief learns or reads the vocabulary and gives it to the other machines, whose settings must be the chief's.

    Args:
      config: a `Config`.
      corpus: of `datasets.open_corpus`.
      folder: a `RunFolder`.
      machines: the `Machines`.
    Returns: the `Config` with the sizes of the vocabularies, the tokenizers of source and target.
    Raises: UserError for other settings than those of the chief, or of the run in the folder.
    """
    chiefs, tokenizers = folder.prepare(config, corpus) if machines.chief else (config, ())
    models = machines.from_chief([tokenizer.model.decode("latin-1") for tokenizer in tokenizers])
    chiefs = Config.from_dict(machines.from_chief(dataclasses.asdict(chiefs)))
    if not machines.chief:
        one, other = (Tokenizer(model.encode("latin-1")) for model in models)
        tokenizers = (one, one) if chiefs.data.shared_vocab else (one, other)
        config = config.with_vocabularies(*(tokenizer.vocab_size for tokenizer in tokenizers))
        config = config.replace(data=chiefs.data.data)  # which may stand elsewhere on this machine
        check_same(chiefs, config, f"{machines.name} has other settings than the chief:")
    return chiefs, tokenizers


def make_batches(config, corpus, tokenizers, folder, machines, say):
    """The training batches, and those of the validation split, which have no micro-steps and so are no larger than the replicas take.

    Args:
      config, corpus, tokenizers, folder, machines: as above.
      say: prints a line.
    Returns: two `Batches`.
    Raises: UserError for text that cannot be used, or is not the chief's.
    """
    whole = config.data.tokens_per_step
    sizes = {"train": whole, "validation": min(whole, machines.replicas * config.train.max_tokens_per_replica)}
    found = []
    for split in sizes:
        pairs = cached_pairs(corpus, split, tokenizers, config.data, os.path.join(folder.path, "cache"))
        if machines.from_chief(pairs.checksum) != pairs.checksum:
            raise UserError(f"{machines.name} has another {split} text in {config.data.data} than the chief: copy the chief's there")
        dropped = ", ".join(f"{count:,} for {reason}" for reason, count in pairs.dropped.items() if count)
        batches = Batches(pairs, sizes[split], config.train.seed)
        found.append(batches)
        say(
            f"{split}: {len(pairs):,} pairs, {batches.per_epoch:,} batches of {len(batches.buckets)} shapes, "
            f"{batches.useful_share:.1%} of their tokens useful; dropped: {dropped or 'none'}"
        )
    return found


def write_sentences(path, batches, step, tokenizers):
    """Writes the pairs of the batch of one update to a TSV file.

    Args:
      path: of the file.
      batches: the training `Batches`.
      step: the update, counted from 0.
      tokenizers: of source and target.
    """
    sides = [t.decode(ids).numpy() for t, ids in zip(tokenizers, batches.sentences(*divmod(step, batches.per_epoch)))]
    with whole_file(path, "wb") as file:
        file.writelines(b"\t".join(pair) + b"\n" for pair in zip(*sides))
