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


def of_export(folder):
    """The ids and logits of the pairs in `pairs.json`, and the translations of the sources."""
    sources, targets = json.loads((folder / "pairs.json").read_text("utf-8"))
    model = MarianMTModel.from_pretrained(folder).eval()
    tokenizer = MarianTokenizer.from_pretrained(folder)
    encoded = tokenizer(sources, text_target=targets, padding=True)
    inp, tar = encoded["input_ids"], encoded["labels"]
    start = torch.full((len(tar), 1), model.config.decoder_start_token_id)
    batch = tokenizer(sources, return_tensors="pt", padding=True)
    with torch.no_grad():  # teacher forcing
        tar_inp = torch.cat([start, torch.tensor(tar)[:, :-1]], dim=1)
        logits = model(**batch, decoder_input_ids=tar_inp).logits.numpy()
    results = {"inp": inp, "tar": tar, "logits": logits}
    for name, search in (
        ("greedy", {"num_beams": 1}),
        ("beam", {"num_beams": 4, "length_penalty": 0.0}),
    ):
        found = model.generate(**batch, **search)
        results[name] = tokenizer.batch_decode(found, skip_special_tokens=True)
    return results


if __name__ == "__main__":
    np.savez(sys.argv[2], **of_export(pathlib.Path(sys.argv[1])))
