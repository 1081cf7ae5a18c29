"""What `my_transformer.py` needs from the package: texts, vocabularies, trained weights."""

from course import SENTENCE, TRANSLATION
from course.blanks import BrokenFile, delegation, read, unfinished

import datetime
import html
import pathlib
import sys

import keras
import numpy as np
import sentencepiece
import tensorflow as tf

from tf_transformer import open_corpus
from tf_transformer.checkpoints.checkpoint import named_weights
from tf_transformer.checkpoints.loading import load_model
from tf_transformer.checkpoints.model_folder import find_model_dir
from tf_transformer.data.tokenizer import load_tokenizers

CERTIFICATE = pathlib.Path("certificate.html")  # in the working directory
RIGHT_BLEU = 82, 91  # of a right file; notebook 06 says where it comes from


def require_all_blanks(file):
    """Ends the program if a blank of a file is empty, or lets a function of others compute."""
    try:
        empty = unfinished(read(file))
    except BrokenFile as error:
        sys.exit(f"{error}")
    if empty:
        sys.exit(f"Still empty in {file}: {', '.join(empty)}. Fill them in, and start again.")
    print("Looking whether all lines are yours (about a minute)", flush=True)
    theirs = delegation(file)
    if theirs:
        sys.exit(f"No certificate. {theirs}: write these lines yourself, and start again.")


def corpus(test_size=200):
    """The built-in corpus: lists of (English, German) pairs, of the training and of the test."""
    pairs = open_corpus("pocket", "en", "de")
    return list(pairs.read("train")), list(pairs.read("test"))[:test_size]


def vocabularies(name):
    """The SentencePiece vocabularies of a built-in model: source, target."""
    tokenizers = load_tokenizers(find_model_dir(name))
    return [sentencepiece.SentencePieceProcessor(model_proto=each.model) for each in tokenizers]


def my_weights(model):
    """The variables of `my_transformer.Transformer` by their names in the package."""
    named = {"embedding/table": model.embedding.table}
    for stack, layers in (("encoder", "enc_layers"), ("decoder", "dec_layers")):
        half = getattr(model, stack)
        parts = {"layernorm": half.layernorm}
        for i, layer in enumerate(getattr(half, layers)):
            path = f"layer{i + 1}"
            ffn = [part for part in layer.ffn.layers if part.weights]  # not an Input or a ReLU
            parts |= {f"{path}/ffn/{name}": part for name, part in zip(("inner", "outer"), ffn)}
            for name in ("mha", "mha1", "mha2"):
                mha = getattr(layer, name, None)
                for matrix in ("wq", "wk", "wv", "dense") if mha else ():
                    parts[f"{path}/{name}/{matrix}"] = getattr(mha, matrix)
            for name in ("layernorm1", "layernorm2", "layernorm3"):
                if hasattr(layer, name):
                    parts[f"{path}/{name}"] = getattr(layer, name)
        for name, part in parts.items():
            named |= {f"{stack}/{name}/{variable.name}": variable for variable in part.weights}
    return named


def load_weights(model, name):
    """Copies the weights of a built-in model into `my_transformer.Transformer`.

    Returns: the model of the package
    """
    packaged, _, _ = load_model(name)
    model(tf.constant([[3]]), tf.constant([[2]]))  # creates the variables
    theirs, mine = named_weights(packaged), my_weights(model)
    missing = sorted(theirs.keys() ^ mine.keys())
    assert not missing, f"the two models have different weights: {missing[:3]}"
    for path, variable in mine.items():
        variable.assign(theirs[path])
    return packaged


def load_and_compare(model, name):
    """Loads weights, and returns the largest difference of the logits to those of the package."""
    packaged = load_weights(model, name)
    random = np.random.default_rng(1)
    inp, tar = random.integers(4, 2000, (2, 3, 12)).astype("int32")  # (B, S), (B, T)
    inp[0, 7:], tar[1, 9:] = 0, 0  # padding
    difference = np.abs(model(inp, tar)[0] - packaged(inp, tar)[0]).max()
    print(f"largest difference to the package's logits: {difference:.1e}")
    if difference > 1e-4:
        print("It should be below 1e-4: which `check` fails?")
    return float(difference)


def ask(question):
    """Asks for a line in the terminal; outside of one, returns an example."""
    example = "I would like to learn how this works."
    return sys.stdin.isatty() and input(question).strip() or example


PAGE = """<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>My Transformer</title>
<style>body {{ font: 12pt/1.5 Georgia, serif; max-width: 40em; margin: 3em auto; padding: 2em;
border: 3px double; }} td {{ padding: .3em 1em .3em 0; vertical-align: top }}</style>
<h1>My Transformer</h1>
<p>A Transformer for translation, with its own attention, training loop, beam search and BLEU,
written blank by blank after <em>Attention Is All You Need</em>. {date}, Keras {keras}.</p>
<table>{rows}</table></html>
"""


def certificate(losses, score, example, difference, own):
    """Writes a page to print, and prints its lines.

    Args:
      losses: of all updates.
      score: BLEU of the test sentences.
      example: the model's translation of the example of the course.
      difference: to the package's logits.
      own: the learner's sentence and its translation.
    """
    right = "as the reference" if example == TRANSLATION else f"the reference: {TRANSLATION}"
    low, high = RIGHT_BLEU
    same = "the same model" if difference < 1e-4 else "not yet the same model"
    lines = {
        "Updates": f"{len(losses):,}",
        "Loss": f"{np.mean(losses[:100]):.2f} at the beginning, {np.mean(losses[-100:]):.2f} "
        "at the end",
        "BLEU": f"{score:.1f} on sentences of the built-in corpus that it had not seen "
        f"(a right file: {low} to {high}; notebook 06 says what another number means)",
        SENTENCE: f"{example} ({right})",
        "Difference to the package": f"{difference:.1e}, weights of everyday language ({same})",
        own[0]: own[1],
    }
    rows = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{html.escape(text)}</td></tr>\n"
        for name, text in lines.items()
    )
    date = datetime.date.today().isoformat()
    page = PAGE.format(date=date, keras=keras.__version__, rows=rows)
    CERTIFICATE.write_text(page, "utf-8")
    for name, text in lines.items():
        print(f"  {name}: {text}")
    print(f"A page to print: {CERTIFICATE}")
