"""Draws the diagrams of docs/architecture.md: `.venv/bin/python tools/docs/diagrams.py`.

A box stands in a grid cell. An arrow leads from the side of one box to the side of another.
"""

import pathlib

FOLDER = pathlib.Path(__file__).parents[2] / "docs"
WIDTH, HEIGHT = 150, 46  # of a box of one column
COLUMN, ROW = 176, 92  # distances between the boxes
FONT = "font-family='sans-serif' text-anchor='middle'"

# Name: (column, row, columns, text below the name).
PACKAGES = {
    "cli": (1, 0, 1, "command line"),
    "paper": (2, 1, 1, "Tables 2, 3"),
    "visualization": (1, 2, 1, "plots, viewer"),
    "serving": (3, 1, 1, "server, its page"),
    "export": (3, 2, 1, "SavedModel, CTranslate2"),
    "training": (2, 2, 1, "Sec. 5"),
    "evaluation": (0, 3, 1, "BLEU, EVALB, parser"),
    "decoding": (2, 3, 1, "search, KV cache"),
    "checkpoints": (2, 4, 1, "save, restore"),
    "data": (1, 5, 1, "text to batches"),
    "model": (2.5, 5, 1, "Sec. 3"),
    "errors, config, presets": (0, 7, 5, "and the other top-level modules"),
}  # fmt: skip
IMPORTS = [
    ("cli", "paper"), ("cli", "evaluation"), ("evaluation", "decoding"),
    ("paper", "visualization"), ("paper", "training"),
    ("cli", "serving"), ("serving", "export"),
    ("visualization", "decoding"), ("training", "evaluation"),
    ("export", "decoding"), ("decoding", "checkpoints"),
    ("checkpoints", "data"), ("checkpoints", "model"),
]  # fmt: skip

TRAINING = {
    "Corpus": (0, 0, 1, "sentence pairs"),
    "Tokenizer": (1, 0, 1, "sub-word ids"),
    "Batches": (2, 0, 1, "inp, tar [rows, length]"),
    "Update": (2, 1, 1, "in each replica"),
    "micro_batch_gradients": (1, 1, 1, "Transformer, loss"),
    "FusedAdam": (3, 1, 1, "sum over replicas, Eq. 3"),
    "Trainer": (2, 2, 1, "steps, preemption"),
    "RunDirectory": (1, 2, 1, "checkpoints, average"),
    "RunLog": (3, 2, 1, "metrics, TensorBoard"),
}
TRAINING_FLOW = [
    ("Corpus", "Tokenizer"), ("Tokenizer", "Batches"), ("Batches", "Update"),
    ("Update", "micro_batch_gradients"), ("Update", "FusedAdam"), ("Update", "Trainer"),
    ("Trainer", "RunDirectory"), ("Trainer", "RunLog"),
]  # fmt: skip

REQUEST = {
    "HTTP request": (0, 0, 1, "texts"),
    "Server": (1, 0, 1, "REST, limits"),
    "dynamic batching": (2, 0, 1, "one batch"),
    "SavedModel": (3, 0, 1, "a signature"),
    "tokenizer": (3, 1, 1, "ids [B, S]"),
    "Encoder": (2, 1, 1, "enc_output [B, S, D]"),
    "beam_search": (1, 1, 1, "one token a step"),
    "decode_step": (1, 2, 1, "KV cache"),
    "detokenizer": (0, 1, 1, "texts, scores"),
}
REQUEST_FLOW = [
    ("HTTP request", "Server"), ("Server", "dynamic batching"), ("dynamic batching", "SavedModel"),
    ("SavedModel", "tokenizer"), ("tokenizer", "Encoder"), ("Encoder", "beam_search"),
    ("beam_search", "decode_step"), ("beam_search", "detokenizer"),
]  # fmt: skip


def rectangle(place):
    """Left, top, width and height of a box."""
    column, row, columns, _ = place
    return 20 + column * COLUMN, 20 + row * ROW, WIDTH + (columns - 1) * COLUMN, HEIGHT


def ends(start, end):
    """The points between which an arrow is drawn: vertical between rows, else horizontal."""
    x1, y1, w1, h1 = rectangle(start)
    x2, y2, w2, h2 = rectangle(end)
    if y1 == y2:
        middle = y1 + h1 / 2
        return (x1 + w1, middle, x2, middle) if x1 < x2 else (x1, middle, x2 + w2, middle)
    return x1 + w1 / 2, y1 + h1, x2 + w2 / 2, y2


def draw(boxes, arrows, label):
    """The SVG text of a diagram."""
    rectangles = [rectangle(place) for place in boxes.values()]
    width = max(x + w for x, _, w, _ in rectangles) + 20
    height = max(y + h for _, y, _, h in rectangles) + 20
    lines = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width:g} {height:g}' role='img' "
        f"aria-label='{label}'>",
        "<defs><marker id='head' viewBox='0 0 10 10' refX='9' refY='5' markerWidth='7' "
        "markerHeight='7' orient='auto'><path d='M0 0 10 5 0 10z' fill='#5c6370'/></marker></defs>",
        f"<rect width='{width:g}' height='{height:g}' rx='8' fill='#ffffff'/>",
    ]
    for start, end in arrows:
        x1, y1, x2, y2 = ends(boxes[start], boxes[end])
        lines.append(
            f"<line x1='{x1:g}' y1='{y1:g}' x2='{x2:g}' y2='{y2:g}' stroke='#5c6370' "
            "stroke-width='1.5' marker-end='url(#head)'/>"
        )
    for name, place in boxes.items():
        x, y, w, h = rectangle(place)
        middle = x + w / 2
        lines += [
            f"<rect x='{x:g}' y='{y:g}' width='{w:g}' height='{h:g}' rx='6' fill='#e8eaf6' "
            "stroke='#3f51b5'/>",
            f"<text x='{middle:g}' y='{y + 20:g}' {FONT} font-size='14' "
            f"font-weight='bold' fill='#1a237e'>{name}</text>",
            f"<text x='{middle:g}' y='{y + 37:g}' {FONT} font-size='11' "
            f"fill='#37474f'>{place[3]}</text>",
        ]
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    for name, boxes, arrows, label in (
        ("packages", PACKAGES, IMPORTS, "The subpackages and their imports"),
        ("training", TRAINING, TRAINING_FLOW, "The data flow of a training run"),
        ("request", REQUEST, REQUEST_FLOW, "The data flow of a request"),
    ):
        (FOLDER / f"{name}.svg").write_text(draw(boxes, arrows, label), "utf-8")
