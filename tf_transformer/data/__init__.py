"""Text to batches: corpora, tokenizer, encoding, bucketed batches, trees."""
