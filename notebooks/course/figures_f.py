"""For notebook F: files, stored results, and kinds of errors."""

from course.plots import COLORS

import collections
import csv
import lzma
import pathlib
import re

from matplotlib.figure import Figure

DATA = pathlib.Path(__file__).parents[1] / "data"
PROGRAM_OF_2021 = {  # columns: its sentences, and what it printed
    "English": (
        "She handed him the money.",
        "Tom has never heard Mary sing.",
        "Perhaps she will come tomorrow.",
        "I love to write.",
        "His French is improving little by little.",
        "My hotel told me to call you.",
    ),
    "the program, 2021": (
        "ella le pasó el dinero",
        "tom nunca ha oído cantar a mary",
        "tal vez ella vendrá mañana",
        "me encanta escribir",
        "su francés va a [UNK] sólo un poco",
        "mi hotel me dijo que te [UNK]",
    ),
    "the program, our layers": (  # benchmarks/peers/keras_program.py --updates=7276
        "ella le pasó el dinero",
        "tom nunca ha oído cantar a mary",
        "quizá ella vendrá mañana",
        "me encanta escribir",
        "su francés está bien",
        "mi hotel me dijo que te llame",
    ),
}


def write_splits(folder, train, validation, test):
    """Writes FOLDER/{train,validation,test}.tsv."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, pairs in {"train": train, "validation": validation, "test": test}.items():
        lines = [f"{source}\t{target}\n" for source, target in pairs]
        (folder / f"{name}.tsv").write_text("".join(lines), encoding="utf-8")


def long_runs():
    """The stored results of the notebook's commands.

    Returns: the validation losses, in nats per sentence, a dict from the run to percents of its
      updates and losses; and a dict from "validation" and "test" to the sources, the references
      and a dict from the run to its translations.
    """
    losses = collections.defaultdict(lambda: ([], []))
    with open(DATA / "learning-curves.csv", encoding="utf-8") as file:
        for line in csv.DictReader(file):
            done, values = losses[f"{line['start']}, {int(line['pairs']):,}"]
            done.append(100 * int(line["update"]) / int(line["updates"]))
            values.append(float(line["validation loss"]) * float(line["sub-words"]))
    with lzma.open(DATA / "learning-curves.tsv.xz", "rt", encoding="utf-8") as file:
        (_, _, _, *names), *rows = [line.rstrip("\n").split("\t") for line in file]
    texts = {}
    for split in ("validation", "test"):
        columns = zip(*(row[1:] for row in rows if row[0] == split))
        sources, references, *translations = map(list, columns)
        texts[split] = sources, references, dict(zip(names, translations))
    return losses, texts


def kinds_of_error(source, translation, reference, known):
    """The classes of a wrong translation, by comparing its words with the reference.

    Args:
      known: the set of words of the training text, in lower case.
    """
    find_words = re.compile(r"\w+").findall
    ours, right = (find_words(text.lower()) for text in (translation, reference))
    our_counts, right_counts = collections.Counter(ours), collections.Counter(right)
    extra, missing = set(our_counts - right_counts), set(right_counts - our_counts)
    equal = missing & set(find_words(source.lower()))  # names, and words such as hotel
    beginnings = {word[:3] for word in missing - equal if len(word) > 3}
    classes = {
        "a word that is nowhere in the training text": set(ours) - known,
        "a name or shared word is missing": equal,
        "another form of a word (first 3 letters equal)": {w[:3] for w in extra} & beginnings,
        "fewer words than the reference": len(ours) < len(right),
        "more words than the reference": len(ours) > len(right),
        "same words in another order": not extra and not missing,
    }
    return [name for name, applies in classes.items() if applies]


def plot_kinds(sources, translations, references, known):
    """Plots how many of the wrong translations are in each class, as horizontal bars."""
    triples = zip(sources, translations, references)
    kinds = [kinds_of_error(*triple, known) for triple in triples if triple[1] != triple[2]]
    counts = dict(collections.Counter(kind for each in kinds for kind in each).most_common())
    figure = Figure(figsize=(8.0, 0.5 * len(counts) + 0.9), dpi=90)
    figure.set_layout_engine("constrained")
    panel = figure.subplots()
    bars = panel.barh(list(counts), list(counts.values()), color=COLORS[0], height=0.6)
    beside = [f"{number} ({number / len(kinds):.0%})" for number in counts.values()]
    panel.bar_label(bars, beside, padding=4)
    panel.set(xlabel=f"of {len(kinds)} wrong translations", title="Kinds of errors, by rough rules",
              xlim=(0, 1.3 * max([1, *counts.values()])))  # fmt: skip
    panel.invert_yaxis()
    panel.grid(axis="x", alpha=0.3)
    return figure
