"""The peer torch.nn.Transformer: training steps that do the work of ours, or with `as_it_is` a little more. Run by `training_step.py`.

Post-norm, ReLU, sinusoidal positions, embedding x sqrt(d), one table for embeddings and logits, dropout 0.1, label smoothing 0.1, Adam,
padding and causal masks.
"""

import json
import math
import os
import sys
import time

import torch
from torch import nn

SIZES = {
    "d_model": 512,
    "nhead": 8,
    "num_encoder_layers": 6,
    "num_decoder_layers": 6,
    "dim_feedforward": 2048,
    "dropout": 0.1,
}


class Model(nn.Module):
    """Source and target ids `[B, S]`, `[B, T]` -> logits `[B, T, V]`."""

    def __init__(self, vocab_size, as_it_is, width=512):
        super().__init__()
        self.table = nn.Embedding(vocab_size, width, padding_idx=0)
        nn.init.normal_(self.table.weight, std=width**-0.5)
        self.transformer, self.dropout = nn.Transformer(**SIZES, batch_first=True), nn.Dropout(0.1)
        if not as_it_is:
            self._leave_out_what_the_paper_has_not()
        angles = torch.arange(1024)[:, None] / 10000 ** (torch.arange(0, width, 2) / width)
        self.register_buffer(
            "positions", torch.stack([angles.sin(), angles.cos()], dim=2).reshape(1, 1024, width)
        )

    def _leave_out_what_the_paper_has_not(self):
        """Dropout on attention weights and inside the feed-forward network, and a last layer norm after each stack."""
        for stack in (self.transformer.encoder, self.transformer.decoder):
            stack.norm = None
            for layer in stack.layers:
                layer.dropout = nn.Identity()
                for attention in (layer.self_attn, getattr(layer, "multihead_attn", None)):
                    if attention is not None:
                        attention.dropout = 0.0

    def embed(self, ids):
        """Ids `[B, T]` -> `[B, T, D]`."""
        return self.dropout(
            self.table(ids) * math.sqrt(self.table.embedding_dim)
            + self.positions[:, : ids.shape[1]]
        )

    def forward(self, inp, tar):
        """As the class says."""
        ahead = torch.ones(tar.shape[1], tar.shape[1], dtype=torch.bool).triu(1)
        masks = {
            "src_key_padding_mask": inp == 0,
            "tgt_key_padding_mask": tar == 0,
            "memory_key_padding_mask": inp == 0,
        }
        return (
            self.transformer(self.embed(inp), self.embed(tar), tgt_mask=ahead, **masks)
            @ self.table.weight.T
        )


def main(vocab_size, rows, length, precision, as_it_is):
    """Makes a step for each line that it reads, and prints its seconds."""
    torch.set_num_threads(os.cpu_count())
    torch.manual_seed(0)
    model = Model(vocab_size, as_it_is).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9)
    loss_of = nn.CrossEntropyLoss(ignore_index=0, label_smoothing=0.1)
    inp, tar = (
        torch.randint(4, vocab_size, (rows, length)),
        torch.randint(4, vocab_size, (rows, length + 1)),
    )
    for _ in sys.stdin:
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "mixed_bfloat16"):
            logits = model(inp, tar[:, :-1])
        loss = loss_of(logits.float().reshape(-1, vocab_size), tar[:, 1:].reshape(-1))
        loss.backward()
        optimizer.step()
        loss.item()
        print(time.perf_counter() - start, flush=True)


if __name__ == "__main__":
    main(*json.loads(sys.argv[-1]), "as_it_is" in sys.argv)
