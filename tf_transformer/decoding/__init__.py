"""From the logits of a model to translations (Sec. 6.1): step function -> search -> `Translator`.

- `kv_cache` makes the step function of a model, `ensemble` the step function of several models.
- `beam_search` and `sampling` search and draw outputs with any step function; `scores` ranks them,
  and `logits_processors` change the probabilities of each step.
- `inference` gives the step function of a model to a search, for batches of ids.
- `translator` does so for texts, in batches of `text_batches`.
- `reranking` chooses among translations that are there.
"""
