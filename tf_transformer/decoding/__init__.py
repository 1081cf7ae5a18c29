"""Greedy and beam search, the KV cache, and `Translator` (Sec. 6.1)."""
