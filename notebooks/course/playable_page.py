"""Writes the paper as one playable page, `notebooks/transformer.html`.

`make page` runs it. The page holds a built-in model, with its int8 weights, and computes everything
in the browser: sub-words, layers, search. Its parts are beside this file: `playable_page.html`,
`.css`, `.model.js` (the Transformer), `.view.js` and `.steps.js` (what is shown).
"""

# first: it starts TensorFlow silently
from course import ROOT

import base64
import dataclasses
import gzip
import json
import pathlib
import re
from typing import Any

import numpy as np
from sentencepiece import sentencepiece_model_pb2 as messages

from tf_transformer import Config, Tokenizer
from tf_transformer.checkpoints.checkpoint import INT8, MODEL, SCALE
from tf_transformer.checkpoints.model_folder import find, find_model_dir, load_config
from tf_transformer.data.tokenizer import load_tokenizers

MODEL_NAME = "tatoeba-en-es"
EXAMPLES = [  # the first one is translated when the page opens
    "She gave him the money.",
    "Where is the station?",
    "My brother learns to swim.",
    "We lost the keys.",
]
# The encoder has to know what "it" is; as in Figure 4 of the paper.
COREFERENCE = "The animal did not cross the street because it was too tired."
PAGE = ROOT / "notebooks" / "transformer.html"
PARTS = pathlib.Path(__file__)


def arrays_of(folder: str, tokenizers: tuple[Tokenizer, Tokenizer]) -> dict[str, np.ndarray]:
    """Returns what the page holds in bytes, by name.

    These are the weights as the checkpoint stores them, where a kernel is transposed, so that each
    row of a matrix has one scale; the scores of the sub-words; and the rules of normalization.

    Args:
      folder: of a model.
      tokenizers: of the source and of the target.
    Raises: ValueError for weights that are not int8.
    """
    with np.load(find(folder)) as file:
        weights = {name.removeprefix(MODEL): file[name] for name in file.files if name != "state"}
    if not any(name.endswith(INT8) for name in weights):
        raise ValueError(f"the weights of {folder} are not int8")
    source, target = (messages.ModelProto.FromString(each.model) for each in tokenizers)
    scores = np.array([piece.score for piece in target.pieces], np.float32)
    rules = {"source_charsmap": source.normalizer_spec, "target_charsmap": target.normalizer_spec}
    return {
        **{
            name: array.T if name.endswith(f"kernel{INT8}") else array.reshape(-1)
            if name.endswith(SCALE) else array
            for name, array in weights.items()
        },
        "scores": scores,
        **{
            name: np.frombuffer(spec.precompiled_charsmap, np.uint8)
            for name, spec in rules.items()
        },
    }  # fmt: skip


def pack(arrays: dict[str, np.ndarray]) -> str:
    """Packs arrays as text: base64 of gzip of their bytes, one after the other."""
    data = b"".join(array.tobytes() for array in arrays.values())
    return base64.b64encode(gzip.compress(data, mtime=0)).decode()


def unpack(text: str) -> bytes:
    """Returns the bytes of `pack` before the compression."""
    return gzip.decompress(base64.b64decode(text))


def data_of(
    arrays: dict[str, np.ndarray], tokenizers: tuple[Tokenizer, Tokenizer], config: Config
) -> dict[str, Any]:
    """Returns a dict for JSON with all but the bytes of the arrays.

    Raises: ValueError for a model that the page cannot compute.
    """
    sizes, target = config.model, tokenizers[1]
    if not tokenizers[0].same_vocabulary(target) or config.data.subword_model != "unigram":
        raise ValueError("the page needs a unigram vocabulary that both languages share")
    variant = (sizes.norm, sizes.activation, sizes.positional_encoding, sizes.shared_embeddings)
    if variant != ("pre", "relu", "sinusoidal", True):
        raise ValueError(f"the page computes pre-norm, ReLU, sinusoids, one embedding: {variant}")
    layers = {
        name: getattr(sizes, name) or sizes.num_layers
        for name in ("num_encoder_layers", "num_decoder_layers")
    }
    return {
        "model": MODEL_NAME,
        "languages": [config.data.source, config.data.target],
        "config": dataclasses.asdict(sizes) | layers,
        "decode": dataclasses.asdict(config.decode),
        "examples": EXAMPLES,
        "coreference": COREFERENCE,
        "vocabulary": target.pieces(range(target.vocab_size)),
        "arrays": {name: [str(array.dtype), array.shape] for name, array in arrays.items()},
    }


def compute() -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Returns the data of the page and its arrays."""
    folder = find_model_dir(MODEL_NAME)
    tokenizers = load_tokenizers(folder)
    arrays = arrays_of(folder, tokenizers)
    return data_of(arrays, tokenizers, load_config(folder)), arrays


def render(data: dict[str, Any], weights: str) -> str:
    """Returns the page with these data and packed arrays."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    text = text.replace("<", "\\u003c")  # no text can close the script element
    page = PARTS.with_suffix(".html").read_text("utf-8")
    for name in ("css", "model.js", "steps.js", "view.js"):
        page = page.replace(f"PART({name})", PARTS.with_suffix(f".{name}").read_text("utf-8"))
    return page.replace("DATA_AS_JSON", text).replace("WEIGHTS_AS_BASE64", weights)


def read(page: str) -> tuple[dict[str, Any], str]:
    """Returns the data and the packed arrays of a page."""
    data, weights = re.findall(r'<script type="[a-z/]+" id="(?:data|weights)">(.*?)</script>', page)
    return json.loads(data), weights


def main() -> None:
    """Writes the page."""
    data, arrays = compute()
    PAGE.write_text(render(data, pack(arrays)), "utf-8")


if __name__ == "__main__":
    main()
