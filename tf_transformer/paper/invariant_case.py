"""A model and text to check the invariants on."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tf_transformer.checkpoints.loading import load_model
from tf_transformer.config import Config
from tf_transformer.data.readers import corpus_of_run
from tf_transformer.data.tokenizer import Tokenizer
from tf_transformer.decoding.translator import Translator
from tf_transformer.errors import UserError
from tf_transformer.model.transformer import Transformer
from tf_transformer.special_tokens import PAD, START

SENTENCES = 12  # of the validation split


class Case(NamedTuple):
    """A model and text to check the invariants on."""

    folder: str  # the model folder
    scratch: str  # a folder for temporary files
    config: Config
    model: Transformer
    tokenizers: tuple[Tokenizer, Tokenizer]  # of source and target
    translator: Translator  # of these
    texts: list[str]  # source sentences
    inp: np.ndarray  # int32 [B, S], their ids, padded
    tar: np.ndarray  # int32 [B, T], ids of target sentences, beginning with the start token, padded


def make_case(model_dir: str, texts: Sequence[str] | None, scratch: str) -> Case:
    """Makes a `Case`.

    Args:
      model_dir: a model folder.
      texts: source sentences; None for some of the validation split of the model's corpus.
      scratch: an empty folder.
    Raises: UserError when there is no model, or the texts cannot be used.
    """
    model, tokenizers, config = load_model(model_dir)
    if texts is None:
        corpus = corpus_of_run(config.data)
        pairs = list(itertools.islice(corpus.read("validation"), SENTENCES))
    else:
        pairs = [(text, text) for text in texts]  # any target will do
    pairs = [(source, target) for source, target in pairs if source.strip() and target.strip()]
    if not pairs:
        raise UserError("no text to check the invariants on: give sentences")
    sources, targets = (list(side) for side in zip(*pairs))
    inp = tokenizers[0].encode(sources).to_tensor(PAD).numpy()  # (B, S)
    tar = tokenizers[1].encode(targets).to_tensor(PAD).numpy()  # (B, T)
    longest = min(model.pe_input, model.pe_target) - 1
    if max(inp.shape[1], tar.shape[1]) > longest:
        raise UserError(f"a text has more than {longest:,} sub-words: give shorter ones")
    return Case(
        folder=model_dir,
        scratch=scratch,
        config=config,
        model=model,
        tokenizers=tokenizers,
        translator=Translator(model, tokenizers, config.decode),
        texts=sources,
        inp=inp,
        tar=np.pad(tar[:, :-1], [(0, 0), (1, 0)], constant_values=START),
    )
