"""Presets: small models, the paper's base and big, the rows of Table 3, and parsers (Sec. 6.3)."""

from typing import Any

from tf_transformer.config import TREES, WORDS, Config
from tf_transformer.errors import UserError

# The lines of a preset are its sizes, its text, its training, its checkpoints, and its search.

# For a few minutes of training on two CPU cores. Both pocket and small make many updates on small
# batches, for which the learning rate of Eq. 3 is too high.
POCKET = Config().replace(
    num_layers=2, d_model=128, num_heads=4, dff=512, dropout_rate=0.0,
    vocab_size=2000, max_length=128, batch_tokens=1024,
    train_steps=2000, warmup_steps=400, learning_rate_scale=0.6,
    save_steps=50, eval_steps=1000, bleu_sentences=100,
)  # fmt: skip

PRESETS = {
    "pocket": POCKET,
    # For about 30,000 sentence pairs, such as Multi30k: four narrow layers, high dropout, and a
    # learning rate that ends at 0.
    "tiny": Config().replace(
        num_layers=4, d_model=128, num_heads=4, dff=256, dropout_rate=0.2,
        vocab_size=4000, batch_tokens=2048,
        train_steps=16_000, learning_rate_schedule="linear", learning_rate=0.0025,
        warmup_steps=1000, dropout_warmup_steps=2000,
        save_steps=200, max_checkpoints=10, eval_steps=2000, bleu_sentences=200,
    ),
    # For 30,000 to 200,000 sentence pairs.
    "small": Config().replace(
        num_layers=3, d_model=256, num_heads=4, dff=512, dropout_rate=0.3,
        vocab_size=4000, batch_tokens=1024,
        train_steps=30_000, warmup_steps=400, learning_rate_scale=0.35, dropout_warmup_steps=10_000,
        save_steps=100, eval_steps=1000, bleu_sentences=200,
    ),
    # The paper's two models (Table 3).
    "base": Config(),
    "big": Config().replace(
        d_model=1024, num_heads=16, dff=4096, dropout_rate=0.3,
        train_steps=300_000, save_steps=600, max_checkpoints=20,
    ),
    # The paper's parser (Sec. 6.3) for the 40,000 sentences of the Penn Treebank. With additional
    # text, the paper uses --vocab_size=32000.
    "parsing": Config().replace(
        num_layers=4, d_model=1024,
        data="pocket-trees", source=WORDS, target=TREES, vocab_size=16_000, max_length=512,
        bleu_sentences=0,
        beam_size=21, length_penalty=0.3, extra_decode_length=300,
    ),
    "parsing-pocket": POCKET.replace(
        data="pocket-trees", source=WORDS, target=TREES, vocab_size=8000, shared_vocab=False,
        max_length=256,
        train_steps=5000, bleu_sentences=0,
        length_penalty=0.3, extra_decode_length=300,
    ),
}  # fmt: skip

# The settings that each row of Table 3 changes in base. A name is the paper's letter with the index
# of the row under it. d_k = d_v = d_model / h unless given.
VARIATIONS: dict[str, dict[str, Any]] = {
    "A1": {"num_heads": 1}, "A2": {"num_heads": 4},
    "A3": {"num_heads": 16}, "A4": {"num_heads": 32},
    "B1": {"key_dim": 16}, "B2": {"key_dim": 32},
    "C1": {"num_layers": 2}, "C2": {"num_layers": 4}, "C3": {"num_layers": 8},
    "C4": {"d_model": 256}, "C5": {"d_model": 1024},
    "C6": {"dff": 1024}, "C7": {"dff": 4096},
    "D1": {"dropout_rate": 0.0}, "D2": {"dropout_rate": 0.2},
    "D3": {"label_smoothing": 0.0}, "D4": {"label_smoothing": 0.2},
    "E": {"positional_encoding": "learned"},
}  # fmt: skip


def preset(name: str) -> Config:
    """Returns a preset, or a row of Table 3. Raises: UserError for an unknown name."""
    if name in VARIATIONS:
        return PRESETS["base"].replace(**VARIATIONS[name])
    if name not in PRESETS:
        names = f"{', '.join(PRESETS)}, or a row of Table 3: {', '.join(VARIATIONS)}"
        raise UserError(f"unknown preset {name!r}: give one of {names}")
    return PRESETS[name]
