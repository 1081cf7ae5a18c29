"""Writes what Hugging Face transformers computes, for `transformers_parity.py`.

A process of its own, since PyTorch and TensorFlow do not always run in one:

    marian_results.py FOLDER RESULTS.npz     of the pairs and the model in a folder
"""

import json
import pathlib
import sys

import numpy as np
import torch
from transformers import MarianMTModel, MarianTokenizer


def logits(model, inp, tar):
    """Teacher forcing with ids of transformers, padded.

    Args:
      model: a `MarianMTModel`.
      inp: int `[batch, source length]`.
      tar: int `[batch, target length]`, without the start token.
    Returns: float `[batch, target length, ids]`.
    """
    inp, tar = torch.tensor(inp), torch.tensor(tar)
    start = torch.full((len(tar), 1), model.config.decoder_start_token_id)
    with torch.no_grad():
        return model(
            input_ids=inp,
            attention_mask=(inp != model.config.pad_token_id).long(),
            decoder_input_ids=torch.cat([start, tar[:, :-1]], dim=1),
        ).logits.numpy()


def of_export(folder):
    """The ids and logits of the pairs in `pairs.json`, and the translations of the sources."""
    sources, targets = json.loads((folder / "pairs.json").read_text("utf-8"))
    model = MarianMTModel.from_pretrained(folder).eval()
    tokenizer = MarianTokenizer.from_pretrained(folder)
    encoded = tokenizer(sources, text_target=targets, padding=True)
    inp, tar = encoded["input_ids"], encoded["labels"]
    results = {"inp": inp, "tar": tar, "logits": logits(model, inp, tar)}
    batch = tokenizer(sources, return_tensors="pt", padding=True)
    for name, search in (
        ("greedy", {"num_beams": 1}),
        ("beam", {"num_beams": 4, "length_penalty": 0.0}),
    ):
        found = model.generate(**batch, **search)
        results[name] = tokenizer.batch_decode(found, skip_special_tokens=True)
    return results


if __name__ == "__main__":
    np.savez(sys.argv[2], **of_export(pathlib.Path(sys.argv[1])))
