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

    Returns: the validation loss without a start, a dict from the size of the text to updates and
      losses; the sources and the references of the test; and the translations by system.
    """
    losses = collections.defaultdict(lambda: ([], []))
    with open(DATA / "learning-curves.csv", encoding="utf-8") as file:
        for line in csv.DictReader(file):
            updates, values = losses[f"{int(line['pairs']):,} pairs"]
            updates.append(int(line["update"]))
            values.append(float(line["validation loss"]))
    with lzma.open(DATA / "learning-curves.tsv.xz", "rt", encoding="utf-8") as file:
        names, *rows = [line.rstrip("\n").split("\t") for line in file]
    sources, references, *translations = zip(*rows)
    return losses, sources, references, dict(zip(names[2:], translations))


def kinds_of_error(source, translation, reference):
    """The classes of a wrong translation, by comparing its words with the reference."""
    find_words = re.compile(r"\w+").findall
    ours, right = (find_words(text.lower()) for text in (translation, reference))
    our_counts, right_counts = collections.Counter(ours), collections.Counter(right)
    extra, missing = set(our_counts - right_counts), set(right_counts - our_counts)
    equal = missing & set(find_words(source.lower()))  # names, and words such as hotel
    beginnings = {word[:3] for word in missing - equal if len(word) > 3}
    forms = {word for word in extra if word[:3] in beginnings}
    classes = {
        "a word that is equal in both languages": equal,
        "another form of a word (first 3 letters equal)": forms,
        "another word than the reference": extra - forms,
        "fewer words than the reference": len(ours) < len(right),
        "more words than the reference": len(ours) > len(right),
        "same words in another order": not extra and not missing,
    }
    return [name for name, applies in classes.items() if applies]


def plot_kinds(sources, translations, references):
    """Plots how many of the wrong translations are in each class, as horizontal bars."""
    triples = zip(sources, translations, references)
    kinds = [kinds_of_error(*triple) for triple in triples if triple[1] != triple[2]]
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
