"""Makes the built-in model of a finished run. `make pretrained` runs this after the training.

    python tools/pretrained_model.py RUN FOLDER

RUN is the model folder of the run. FOLDER gets its configuration, its vocabulary, its averaged
weights in float16, a model card with the scores of both types, and SHA256SUMS.
"""

import os
import shutil
import sys

import numpy as np

from tf_transformer.checkpoints.checkpoint import MODEL
from tf_transformer.data.readers import open_corpus
from tf_transformer.data.tokenizer import load_tokenizers, save_tokenizers
from tf_transformer.decoding.translator import Translator
from tf_transformer.evaluation.bleu import score
from tf_transformer.files import atomic_write, write_checksums

OTHER_SENTENCES = [
    "The government wants to lower taxes next year.",
    "Please read the instructions before you use the device.",
]  # not of the corpus


def copy_in_float16(run, folder):
    """Copies configuration, vocabulary and averaged weights of a run; the weights as float16."""
    shutil.copy(os.path.join(run, "config.json"), folder)
    save_tokenizers(load_tokenizers(run), folder)
    with np.load(os.path.join(run, "averaged.npz")) as file:
        arrays = {name: file[name] for name in file.files}
    for name, array in arrays.items():
        if name.startswith(MODEL):
            arrays[name] = array.astype(np.float16)
    with atomic_write(os.path.join(folder, "averaged.npz"), "wb") as file:
        np.savez(file, **arrays)


def write_card(run, folder):
    """Translates the test set with the weights in both types, and writes the model card."""
    pairs = list(open_corpus("pocket", "en", "de").read("test"))
    sources = [source for source, _ in pairs]
    references = [reference for _, reference in pairs]
    float32 = Translator.load(run, "averaged")
    float16 = Translator.load(folder)
    translations = float16(sources)
    originals = float32(sources)
    config = float16.model.get_config()
    lines = [
        f"| float32 | {_size(run)} | {_scores(originals, references)} |",
        f"| float16, this model | {_size(folder)} | {_scores(translations, references)} |",
    ]
    different = sum(a != b for a, b in zip(originals, translations))
    scores = score(translations, references)
    rows = list(zip(sources, references, translations))
    examples = [
        *[f"| {source} | {translation} |" for source, _, translation in rows[:3]],
        *[f"| {source} | {translation} |" for source, translation in zip(
            OTHER_SENTENCES, float16(OTHER_SENTENCES)
        )],
    ]  # fmt: skip
    card = CARD.format(
        layers=f"{float16.model.encoder.num_layers} + {float16.model.decoder.num_layers}",
        d_model=config["d_model"],
        heads=config["num_heads"],
        dff=config["dff"],
        parameters=float16.model.count_params(),
        vocabulary=float16.source.vocab_size,
        scores="\n".join(lines),
        sentences=len(sources),
        different=different,
        bleu_signature=scores.bleu_signature,
        chrf_signature=scores.chrf_signature,
        examples="\n".join(examples),
    )
    with atomic_write(os.path.join(folder, "README.md")) as file:
        file.write(card)


def _size(folder):
    return f"{os.path.getsize(os.path.join(folder, 'averaged.npz')) / 1e6:.1f} MB"


def _scores(translations, references):
    scores = score(translations, references)
    return f"{scores.bleu:.2f} | {scores.chrf:.2f}"


CARD = """\
# pocket-en-de

A small English-German Transformer, installed with `tf_transformer`. It is the model that
`make train` trains.

    echo "Anna knows the man who gave the child a red ball." | tf-transformer translate

| | |
|---|---|
| model | {layers} layers, d_model {d_model}, {heads} heads, d_ff {dff}, {parameters:,} \
parameters |
| vocabulary | {vocabulary:,} sub-words, shared by both languages (`*.model`, SentencePiece) |
| weights | `averaged.npz`: the mean of the last five checkpoints, stored as float16; computation \
is in float32 |

## Data

The built-in corpus (`--data=pocket`): 200,000 training, 1,000 validation and 1,000 test pairs,
which a synchronous grammar generates. No sentence is in two of these splits. No other text was
used.

## Training

`make pretrained` trains it again, from seed 1, and writes this folder. The training is

    tf-transformer train --preset=pocket --data=pocket --source=en --target=de

`config.json` has all settings. Two trainings on the same computer give the same bits. On another
CPU, the order of float32 sums and so the last bits can differ.

## Scores

The test set of the corpus, {sentences:,} sentences, beam size 4, length penalty 0.6:

| weights | size | BLEU | chrF |
|---|---|---|---|
{scores}

The two types give different translations of {different} of the {sentences:,} sentences.
Signatures of sacreBLEU:

- BLEU `{bleu_signature}`
- chrF `{chrf_signature}`

These scores say nothing about other text: the test sentences are of the same grammar.

## Use and limits

Use it to try the commands, the server, the exports and the attention plots without a training. It
is not a translator for real text. It knows only the words and constructions of the grammar, in
sentences of at most 30 words. Its output for any other sentence is wrong, without a warning. The
first three sentences below are of the test set, the others are not of the corpus:

| English | translation |
|---|---|
{examples}

## License

Apache-2.0, that of `tf_transformer`.
"""


def main():
    """Writes the folder of the built-in model."""
    run, folder = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    copy_in_float16(run, folder)
    write_card(run, folder)
    write_checksums(folder)
    print(f"wrote {folder}")


if __name__ == "__main__":
    main()
