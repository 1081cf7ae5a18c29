"""Training steps of `torch.nn.Transformer` that do the work of ours. Run by `training_step.py`.

On a GPU, compiled by `torch.compile`, with PyTorch's fused Adam:

    yes | head -n 70 | python benchmarks/peers/torch_step.py cuda '[37000, 1000, 25, "tf32"]'

Post-norm, ReLU, sinusoidal positions, embedding x sqrt(d), one table for embeddings and logits,
dropout 0.1, label smoothing 0.1, Adam, padding and causal masks. With the argument `defaults` it
keeps what the paper does not have: dropout on attention weights and inside the feed-forward
network, and a layer norm after each stack.
"""

import json
import math
import os
import sys
import time

import torch
from torch import nn

D_MODEL = 512
MAX_LENGTH = 1024
SIZES = {
    "d_model": D_MODEL,
    "nhead": 8,
    "num_encoder_layers": 6,
    "num_decoder_layers": 6,
    "dim_feedforward": 2048,
    "dropout": 0.1,
}


class Model(nn.Module):
    """Source and target ids `[B, S]`, `[B, T]` -> logits `[B, T, V]`."""

    def __init__(self, vocab_size, defaults):
        super().__init__()
        self.table = nn.Embedding(vocab_size, D_MODEL, padding_idx=0)
        nn.init.normal_(self.table.weight, std=D_MODEL**-0.5)
        self.transformer = nn.Transformer(**SIZES, batch_first=True)
        self.dropout = nn.Dropout(0.1)
        if not defaults:
            self._follow_the_paper()
        positions = torch.arange(MAX_LENGTH)[:, None]
        angles = positions / 10000 ** (torch.arange(0, D_MODEL, 2) / D_MODEL)
        encoding = torch.stack([angles.sin(), angles.cos()], dim=2)
        self.register_buffer("positions", encoding.reshape(1, MAX_LENGTH, D_MODEL))

    def _follow_the_paper(self):
        """Removes two kinds of dropout, and the layer norm after each stack."""
        for stack in (self.transformer.encoder, self.transformer.decoder):
            stack.norm = None
            for layer in stack.layers:
                layer.dropout = nn.Identity()
                for attention in (layer.self_attn, getattr(layer, "multihead_attn", None)):
                    if attention is not None:
                        attention.dropout = 0.0

    def embed(self, ids):
        """Ids `[B, T]` -> `[B, T, D]`."""
        scaled = self.table(ids) * math.sqrt(D_MODEL)
        return self.dropout(scaled + self.positions[:, : ids.shape[1]])

    def forward(self, inp, tar):
        """Ids `[B, S]`, `[B, T]` -> logits `[B, T, V]`."""
        look_ahead_mask = torch.ones(
            tar.shape[1], tar.shape[1], dtype=torch.bool, device=tar.device
        ).triu(1)
        output = self.transformer(
            self.embed(inp),
            self.embed(tar),
            tgt_mask=look_ahead_mask,
            src_key_padding_mask=inp == 0,
            tgt_key_padding_mask=tar == 0,
            memory_key_padding_mask=inp == 0,
        )
        return output @ self.table.weight.T


def main(vocab_size, rows, length, precision, defaults, device):
    """Makes a step for each line of standard input, and prints its seconds."""
    torch.set_num_threads(os.cpu_count())
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    torch.manual_seed(0)
    model = Model(vocab_size, defaults).train().to(device)
    on_gpu = device == "cuda"
    optimizer = torch.optim.Adam(
        model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=on_gpu
    )
    cross_entropy = nn.CrossEntropyLoss(ignore_index=0, label_smoothing=0.1)
    inp = torch.randint(4, vocab_size, (rows, length), device=device)
    tar = torch.randint(4, vocab_size, (rows, length + 1), device=device)

    def loss_of(inp, tar):
        with torch.autocast(device, torch.bfloat16, enabled=precision == "mixed_bfloat16"):
            logits = model(inp, tar[:, :-1])
        logits = logits.float().reshape(-1, vocab_size)
        return cross_entropy(logits, tar[:, 1:].reshape(-1))

    if on_gpu:
        loss_of = torch.compile(loss_of)
    for _ in sys.stdin:
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(inp, tar)
        loss.backward()
        optimizer.step()
        loss.item()
        print(time.perf_counter() - start, flush=True)


if __name__ == "__main__":
    *options, values = sys.argv[1:]
    main(*json.loads(values), "defaults" in options, "cuda" if "cuda" in options else "cpu")
