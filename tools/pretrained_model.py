"""Makes a built-in model. `make pretrained` runs this.

    python tools/pretrained_model.py NAME [--data=DATA] [--run=RUN] [--output=FOLDER]

NAME is a name of `RECIPES`. Its model is trained on DATA in models/pretrained-NAME. With --run, a
model folder is used that was trained elsewhere, with `config.json`, vocabulary and `averaged.npz`.
FOLDER, by default that of the built-in model, gets configuration, vocabulary, averaged weights in
the type of the recipe, a model card with the scores of all types, and SHA256SUMS.
"""

import argparse
import hashlib
import os
import pathlib
import shutil
import tempfile
from typing import NamedTuple

from tf_transformer.checkpoints.checkpoint import STORAGE_TYPES, store
from tf_transformer.checkpoints.model_folder import (
    AVERAGED,
    BUILT_IN_FOLDER,
    CARD,
    CONFIG,
    load_config,
)
from tf_transformer.cli.main import main as tf_transformer
from tf_transformer.data.readers import open_corpus
from tf_transformer.data.tokenizer import load_tokenizers, save_tokenizers
from tf_transformer.decoding.translator import Translator
from tf_transformer.evaluation.bleu import score
from tf_transformer.files import atomic_write, write_checksums

CARDS = pathlib.Path(__file__).with_name("model_cards")  # the templates
N_BEST = 4


class Recipe(NamedTuple):
    """How a built-in model is made."""

    card: str  # name of the template of the model card
    flags: str  # of `tf-transformer train`, without those of data and folder
    storage: str  # the type of the weights
    fine_tuning: str = ""  # flags that differ in a second training, from the weights of the first
    data: str = ""  # "" where the user gives it
    n_best: tuple[str, ...] = ()  # sentences whose hypotheses the card shows
    limits: tuple[str, ...] = ()  # sentences that the model cannot translate, not of the data
    examples: tuple[str, ...] = ()  # sentences to click on the server's page
    words: dict[str, str] = {}  # what else the template says of this model


SIX = (  # the sentences of a program of 2021, which docs/guides/keras.md compares with
    "She handed him the money.",
    "Tom has never heard Mary sing.",
    "Perhaps she will come tomorrow.",
    "I love to write.",
    "His French is improving little by little.",
    "My hotel told me to call you.",
)
ENGLISH_LIMITS = (  # sentences that the models from English cannot translate
    "The invoice of 14 March 2019 amounts to 3,471.60 euros.",
    "Her train leaves platform 27 at 6:48 and arrives at 11:05.",
    "Although the committee had promised in spring to publish its report before summer, "
    "nobody was surprised when the chairwoman announced on Friday that the members, who "
    "had met only twice since then, would need at least another year.",
    "The patient was given an anticoagulant to prevent a pulmonary embolism.",
    "The tenant shall indemnify the landlord against all claims of third parties.",
    "The compiler reports a type mismatch in the second argument.",
    "Forget it, that ship has sailed.",
    "The nurse said that the doctor was late. The doctor apologised to the engineer.",
)
EVERYDAY = (
    "--vocab_size=8000 --subword_model=unigram --max_length=40 --norm=pre --num_encoder_layers=6 "
    "--num_decoder_layers=2 --d_model=320 --num_heads=5 --dff=1280 --dropout_rate=0.2 "
    "--learning_rate_schedule=linear --learning_rate=0.001 --warmup_steps=1000 "
    "--batch_tokens=12288 --precision=mixed_bfloat16"
)
GERMAN = {
    "foreign": "German",
    "archive": "deu-eng.zip",
    "licence": "[CC BY 2.0 FR](https://creativecommons.org/licenses/by/2.0/fr/)",
    "pairs": "167,000",
    "named": "24%",
    "rounded": "(The weights came from the GPU as float16, so the first two rows are equal.) ",
    "computed": (
        "On two CPU cores an update takes 17 seconds, so the whole takes about\n"
        "two days: use a GPU. The updates of these weights were computed on one H200, which needs "
        "25 ms for\none, as StableHLO with JAX's runtime. (`benchmarks/step_stablehlo.py` writes "
        "such updates. A batch\nhad 12,280 tokens, padding included, and one of four lengths.)"
    ),
}
RECIPES = {
    "pocket-en-de": Recipe(
        "pocket",
        "--preset=pocket --source=en --target=de",
        "float16",
        data="pocket",
        limits=(
            "The government wants to lower taxes next year.",
            "Please read the instructions before you use the device.",
        ),
    ),
    "tatoeba-en-de": Recipe(
        "tatoeba",
        f"--source=en --target=de {EVERYDAY} --train_steps=9600",
        "int8",
        "--dropout_rate=0.1 --learning_rate=0.0003 --warmup_steps=100 --train_steps=2000",
        n_best=(
            *SIX,
            "Two cups of coffee, please.",
        ),
        limits=(
            "Priyanka and Thorsten met Dr. Oyelaran in Gelsenkirchen.",
            *ENGLISH_LIMITS,
        ),
        examples=(
            "She handed him the money.",
            "Tom has never heard Mary sing.",
            "Perhaps she will come tomorrow.",
            "My hotel told me to call you.",
            "Two cups of coffee, please.",
        ),
        words={
            **GERMAN,
            "languages": "English-German",
            "example": "Tom has never heard Mary sing.",
            "language": "English",
            "other": "German",
            "weights": "the mean of the last checkpoints",
            "note": (
                "\n\nThe French of the fifth sentence improves *wenig*, hardly. A wider beam finds "
                "the right\ntranslation: `translate --beam_size=16 --n_best=4` has *Sein "
                "Französisch verbessert sich\nallmählich.* as the fourth."
            ),
            "pronouns": (
                "It chooses between *du*, *ihr* and *Sie* by what was frequent, not by who speaks "
                "to whom."
            ),
            "bias": (
                "German words for professions have a gender, and most English ones have none.\n"
                "In the training text, *doctor* is *Arzt* in 330 pairs and *Ärztin* in 21, *nurse* "
                "is\n*Krankenschwester* in 37 and *Pfleger* in 1, *engineer* is never "
                "*Ingenieurin*."
            ),
        },
    ),
    "tatoeba-de-en": Recipe(
        "tatoeba",
        f"--source=de --target=en {EVERYDAY} --train_steps=9300",
        "int8",
        n_best=(
            "Sie gab ihm das Geld.",
            "Tom hat Maria noch nie singen hören.",
            "Vielleicht kommt sie morgen.",
            "Ich schreibe gern.",
            "Zwei Tassen Kaffee, bitte.",
        ),
        limits=(
            "Priyanka und Thorsten trafen Dr. Oyelaran in Gelsenkirchen.",
            "Die Rechnung vom 14. März 2019 beläuft sich auf 3.471,60 Euro.",
            "Ihr Zug fährt um 6.48 Uhr von Gleis 27 ab und kommt um 11.05 Uhr an.",
            "Obwohl der Ausschuss im Frühjahr versprochen hatte, seinen Bericht vor dem Sommer zu "
            "veröffentlichen, war niemand überrascht, als die Vorsitzende am Freitag ankündigte, "
            "dass die Mitglieder, die sich seitdem nur zweimal getroffen hatten, noch mindestens "
            "ein Jahr bräuchten.",
            "Dem Patienten wurde ein Gerinnungshemmer gegen eine Lungenembolie gegeben.",
            "Der Mieter stellt den Vermieter von allen Ansprüchen Dritter frei.",
            "Der Übersetzer meldet einen Typfehler im zweiten Argument.",
            "Da steppt der Bär.",
            "Die Ärztin sagte, dass der Pfleger zu spät kam.",
        ),
        examples=(
            "Sie gab ihm das Geld.",
            "Tom hat Maria noch nie singen hören.",
            "Vielleicht kommt sie morgen.",
            "Zwei Tassen Kaffee, bitte.",
        ),
        words={
            **GERMAN,
            "languages": "German-English",
            "example": "Tom hat Maria noch nie singen hören.",
            "language": "German",
            "other": "English",
            "weights": "those of the last update",
            "note": "",
            "pronouns": "It takes *sie* as *she*, *they* or *you* by what was frequent.",
            "bias": (
                "English words for professions have no gender: *Ärztin* becomes *doctor*, and\na "
                "pronoun for her can become *he*."
            ),
        },
    ),
    "tatoeba-en-es": Recipe(
        "tatoeba",
        "--preset=small --source=en --target=es --vocab_size=8000 --subword_model=unigram "
        "--max_length=40 --norm=pre --num_encoder_layers=4 --num_decoder_layers=2 --d_model=256 "
        "--num_heads=4 --dff=1024 --dropout_rate=0.1 --dropout_warmup_steps=0 "
        "--learning_rate_schedule=linear --learning_rate=0.0015 --warmup_steps=1000 "
        "--batch_tokens=3072 --precision=mixed_bfloat16 --train_steps=4000",
        "int8",
        n_best=SIX,
        limits=(
            "Priyanka and Thorsten met Dr. Oyelaran in Salamanca.",
            *ENGLISH_LIMITS,
        ),
        examples=(
            "She handed him the money.",
            "Tom has never heard Mary sing.",
            "Perhaps she will come tomorrow.",
            "My hotel told me to call you.",
        ),
        words={
            "foreign": "Spanish",
            "archive": "spa-eng.zip",
            "licence": "[CC BY 2.0](https://creativecommons.org/licenses/by/2.0/)",
            "pairs": "116,000",
            "named": "18%",
            "rounded": "",
            "computed": (
                "An update takes 0.6 seconds on two CPU cores with AVX-512 instructions for "
                "bfloat16,\nso the whole takes about 40 minutes."
            ),
            "languages": "English-Spanish",
            "example": "Tom has never heard Mary sing.",
            "language": "English",
            "other": "Spanish",
            "weights": "the mean of the last checkpoints",
            "note": (
                "\n\nThe French of the fifth sentence improves *poco*, little, and not little by "
                "little."
            ),
            "pronouns": (
                "It chooses between *tú*, *usted*, *vos* and *vosotros* by what was frequent, not "
                "by who speaks\n  to whom."
            ),
            "bias": (
                "Spanish words for professions have a gender, and most English ones have none.\n"
                "In the training text, *doctor* is *médico* or *doctor* in 297 pairs and *médica* "
                "or *doctora* in 16,\n*nurse* is *enfermera* in 27 and *enfermero* in 5, "
                "*engineer* is never *ingeniera*."
            ),
        },
    ),
}


def write_files(run: str, folder: str, storage: str) -> None:
    """Writes configuration, vocabulary and averaged weights of a run to a folder."""
    os.makedirs(folder, exist_ok=True)
    for path in pathlib.Path(folder).glob("*.model"):
        path.unlink()  # an earlier vocabulary can have other names
    config = load_config(run)
    names = (os.path.basename(path.rstrip("/")) for path in config.data.data.split(","))
    # Nobody else has the paths.
    first = os.path.basename(config.train.init_from)
    config.replace(data=",".join(names), init_from=first).save(os.path.join(folder, CONFIG))
    save_tokenizers(load_tokenizers(run), folder)
    store(os.path.join(run, AVERAGED), os.path.join(folder, AVERAGED), storage)


def write_card(name: str, run: str, folder: str, data: str) -> None:
    """Translates the test set with the weights in each type, and writes the model card.

    Args:
      name: of the model.
      run: the model folder of its run.
      folder: its own.
      data: its text.
    """
    recipe, config = RECIPES[name], load_config(folder)
    languages = config.data.source, config.data.target
    corpus = open_corpus(data, *languages)
    sources, references = map(list, zip(*corpus.read("test")))
    outputs, rows = {}, []
    with tempfile.TemporaryDirectory() as scratch:
        for storage in STORAGE_TYPES:
            path = os.path.join(scratch, f"{storage}.npz")
            store(os.path.join(run, AVERAGED), path, storage)
            outputs[storage] = Translator.load(folder, path)(sources)
            scores = score(outputs[storage], references, languages[1])
            different = sum(map(str.__ne__, outputs[storage], outputs["float32"]))
            label = storage + ", this model" * (storage == recipe.storage)
            size = f"{os.path.getsize(path) / 1e6:.1f} MB"
            values = label, size, f"{scores.bleu:.2f}", f"{scores.chrf:.2f}", f"{different:,}"
            rows.append(_row(*values))
    translator, translations = Translator.load(folder), outputs[recipe.storage]
    model, sizes = translator.model, config.model
    known = {source for source, _ in corpus.read("train")} if recipe.n_best else set()
    limits = [*(sources[:3] if data == "pocket" else []), *recipe.limits]
    weights = pathlib.Path(folder, AVERAGED)
    card = (CARDS / f"{recipe.card}.md").read_text("utf-8").format(
        layers=f"{model.encoder.num_layers} + {model.decoder.num_layers}",
        d_model=sizes.d_model,
        heads=sizes.num_heads,
        dff=sizes.dff,
        parameters=f"{model.count_params():,}",
        vocabulary=f"{translator.source.vocab_size:,}",
        files=" and ".join(f"`{path.name}`" for path in sorted(weights.parent.glob("*.model"))),
        storage=recipe.storage,
        name=name,
        source=languages[0],
        target=languages[1],
        tags=", ".join(languages),
        training=_training(recipe),
        widget="\n".join(f"- text: {text}" for text in recipe.examples),
        **recipe.words,
        sentences=f"{len(sources):,}",
        scores="\n".join(rows),
        lengths="\n".join(_by_length(sources, translations, references, languages[1])),
        bleu_signature=scores.bleu_signature,
        chrf_signature=scores.chrf_signature,
        n_best="\n".join(_n_best(translator, recipe.n_best, known)),
        limits="\n".join(_row(*pair) for pair in zip(limits, translator(limits))),
        checksum=hashlib.sha256(weights.read_bytes()).hexdigest(),
    )  # fmt: skip
    with atomic_write(os.path.join(folder, CARD)) as file:
        file.write(card)


def _training(recipe: Recipe) -> str:
    """The flags of both trainings, as a part of the card."""
    text = f"    tf-transformer train --data={recipe.data or 'FOLDER'} {recipe.flags}"
    if recipe.fine_tuning:
        text += "\n\nand a second one from the weights of the first, with these flags changed:\n\n"
        text += f"    {recipe.fine_tuning}"
    return text


def _row(*values: str) -> str:
    """A row of a Markdown table."""
    return f"| {' | '.join(value.replace('|', chr(92) + '|') for value in values)} |"


def _by_length(sources, translations, references, language):
    """Yields rows: words of the source, sentences, BLEU."""
    bounds = [1, 6, 9, 13, 10**9]
    for first, end in zip(bounds, bounds[1:]):
        chosen = [i for i, text in enumerate(sources) if first <= len(text.split()) < end]
        if chosen:
            texts = ([texts[i] for i in chosen] for texts in (translations, references))
            words = f"{first} to {end - 1}" if end < bounds[-1] else f"{first} or more"
            yield _row(words, f"{len(chosen):,}", f"{score(*texts, language).bleu:.1f}")


def _n_best(translator, texts, known):
    """Yields rows: sentence, whether it is in the training text, hypothesis, score."""
    for text, hypotheses in zip(texts, translator.n_best(list(texts), N_BEST)):
        for rank, (translation, value) in enumerate(hypotheses):
            first = (text, "yes" if text in known else "no") if rank == 0 else ("", "")
            yield _row(*first, translation, f"{value:.2f}")


def _train(run: str, flags: str) -> None:
    """Trains in a new folder; the last of several values of a flag counts."""
    shutil.rmtree(run, ignore_errors=True)
    if code := tf_transformer(["train", *flags.split(), f"--model_dir={run}"]):
        raise SystemExit(code)


def main() -> None:
    """Writes the folder of a built-in model."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("name", choices=RECIPES)
    parser.add_argument("--data", default="", help="the text of the recipe")
    parser.add_argument("--run", help="a model folder (default: it is trained first)")
    parser.add_argument("--output", help="default: the folder of the built-in model")
    args = parser.parse_args()
    recipe = RECIPES[args.name]
    data = args.data or recipe.data
    if not data:
        parser.error(f"{args.name} is trained on text that you have: give --data=FOLDER")
    run = args.run or os.path.join("models", f"pretrained-{args.name}")
    folder = args.output or os.path.join(BUILT_IN_FOLDER, args.name)
    if not args.run:
        _train(run, f"{recipe.flags} --data={data}")
        if recipe.fine_tuning:
            first, run = run, f"{run}-fine-tuned"
            _train(run, f"{recipe.flags} {recipe.fine_tuning} --data={data} --init_from={first}")
    write_files(run, folder, recipe.storage)
    write_card(args.name, run, folder, data)
    write_checksums(folder)
    print(f"wrote {folder}")


if __name__ == "__main__":
    main()
