"""Model folders with a short history and without weights."""

import json

from tf_transformer.config import Config


def write_run(folder, loss=4.0, bleu=20.0, complete=True, vocabulary="a", **settings):
    """Writes the files of a run of 20 updates, and returns its folder as a string.

    Args:
      folder: a `pathlib.Path` that does not exist.
      loss: of the first validation; the second one has 1 more, the average 2 more.
      bleu: of the validations; the average has 1 more.
      complete: whether the run has reached its end.
      vocabulary: text of the vocabulary's file.
      **settings: of the `Config`.
    """
    folder.mkdir(parents=True)
    Config().replace(train_steps=20, **settings).save(str(folder / "config.json"))
    (folder / "shared.model").write_text(vocabulary)
    (folder / "averaged.npz").write_text("")
    lines = [
        {"step": 10, "kind": "train", "loss": 6.0, "steps_per_second": 0.5},
        {"step": 10, "kind": "validation", "loss": loss, "perplexity": 9.0, "BLEU": bleu},
        {"step": 20, "kind": "train", "loss": 5.0, "steps_per_second": 0.25},
        {"step": 20, "kind": "validation", "loss": loss + 1, "perplexity": 9.0, "BLEU": bleu},
    ]
    if complete:
        average = {"step": 20, "kind": "average", "loss": loss + 2, "perplexity": 8.0}
        lines.append(average | {"BLEU": bleu + 1})
    text = "".join(json.dumps({"time": 1e9, **line}) + "\n" for line in lines)
    (folder / "metrics.jsonl").write_text(text)
    return str(folder)
