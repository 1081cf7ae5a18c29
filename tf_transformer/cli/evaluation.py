"""The command evaluate, and the test set of evaluate and compare."""

from __future__ import annotations

import dataclasses
import itertools
import logging
import os
import re
import time
from typing import TYPE_CHECKING

from absl import flags

from tf_transformer.checkpoints import model_folder
from tf_transformer.checkpoints.model_folder import model_list
from tf_transformer.cli.command import (
    Flag,
    command,
    given,
    model_flags,
    one_of,
    search_flags,
    setting_flag,
    tag_flag,
)
from tf_transformer.cli.terminal import open_output
from tf_transformer.cli.translation import load_translator, progress_bar
from tf_transformer.config import TREES, ComputeConfig, DataConfig, DecodeConfig, GenerationConfig
from tf_transformer.data import readers
from tf_transformer.data.corpus import digest
from tf_transformer.data.tags import TagWarnings, add_tag
from tf_transformer.data.text_files import read_lines
from tf_transformer.decoding.text_batches import warn_of_truncated
from tf_transformer.errors import UserError

if TYPE_CHECKING:
    from tf_transformer.decoding.translator import Translator

logger = logging.getLogger(__name__)

MANY_PAIRS = 100_000  # from which on a warning names --max_pairs


def _flags() -> list[Flag]:
    from tf_transformer.evaluation.metrics import metrics_help

    return [
        *model_flags(),
        Flag("data", str, "sentence pairs, as for train (default: the model's own)"),
        tag_flag("the tag of its first corpus with these languages"),
        Flag("split", str, "test, validation or another (default: test; of files: all)"),
        Flag("output", str, "file for the translations (default: one in MODEL_DIR/evaluation)"),
        Flag("translations", str, "file of translations to score, line by line for the sources"),
        Flag("max_pairs", int, "pairs to score, from the start; 0: all", 0, minimum=0),
        Flag("references", str, "files of references, separated by commas (default: the targets)"),
        Flag("test_set", str, "test set of sacreBLEU, such as wmt14/full"),
        Flag("metrics", str, metrics_help(), "bleu,chrf,chrf++"),
        setting_flag("bleu_tokenizer"),
        Flag("baseline", str, "file of other translations, or evaluated model, to compare with"),
        *search_flags(GenerationConfig, ComputeConfig),
    ]


@command("evaluate", _flags)
def evaluate(values: flags.FlagValues) -> None:
    """Translate or parse a test set, and score it with sacreBLEU or bracket F1."""
    from tf_transformer.evaluation.bleu import bleu_tokenizer, make_bleu
    from tf_transformer.evaluation.metrics import corpus_metrics, parse_metrics, published_scores

    searching = given(values, (DecodeConfig, GenerationConfig, ComputeConfig))
    one_of(values, "translations", "checkpoint", "output", *searching)
    for name in ("data", "split", "references"):
        one_of(values, "test_set", name)
    models = model_list(values.model_dir, values.checkpoint)
    model_dir = models[0][0]  # its data and languages hold for an ensemble
    config = model_folder.load_config(model_dir)
    data = config.data
    tokenizer = values.bleu_tokenizer or config.train.bleu_tokenizer
    metrics = parse_metrics(values.metrics)
    if "bleu" in metrics:
        make_bleu(bleu_tokenizer(data.target, tokenizer))  # what it lacks is said before the search
    if data.target == TREES and (values.references or values.baseline or values.translations):
        names = "--references, --baseline and --translations"
        raise UserError(f"{names} are for translations; this model is a parser")
    translator = None
    if not values.translations:
        translator = load_translator(values, values.model_dir, values.checkpoint)
    test = read_published(values, data) if values.test_set else read_test_set(values, data)
    number, baseline = len(test.pairs), None
    if values.baseline and os.path.isfile(values.baseline):
        baseline = read_aligned(values.baseline, test.size, "translation")[:number]
    elif values.baseline:
        other = model_folder.find_model_dir(values.baseline)
        text = None if values.test_set else values.data or data.data
        baseline = read_translations(other, text, test.split, test.size, number)
    if translator is None:
        outputs = read_aligned(values.translations, test.size, "translation")[:number]
        print(f"{test}, translations in {values.translations}")
    else:
        output = values.output or translations_path(model_dir, data, values.data, test.split)
        if len(models) > 1 and not values.output:  # the name without it is the first model's
            output = os.path.join(os.path.dirname(output), f"ensemble.{os.path.basename(output)}")
        with open_output(output) as file:  # a wrong path is reported before the translation
            start = time.monotonic()
            outputs = _translate(translator, test.sources, data)
            seconds = time.monotonic() - start
            file.writelines(f"{text}\n" for text in outputs)
        print(f"{test}, beam {translator.decode.beam_size}")
    if data.target == TREES:
        _score_parses(test.pairs, outputs, output)
    else:
        others = test.references, baseline, test.data.target, tokenizer
        print(*corpus_metrics(metrics, outputs, *others), sep="\n")
        if len(test.references) == 1:  # the tokenised BLEU of published scores
            print(*published_scores(outputs, test.references[0], test.data), sep="\n")
    if translator:
        print(f"{number / seconds:,.1f} sentences/s; the results are in {output}")


def _translate(translator: Translator, sources: list[str], data: DataConfig) -> list[str]:
    """The best translation of each source; `data` has the settings of the model."""
    TagWarnings(translator.tags, data.tag).check(sources, itertools.count(1))
    with progress_bar(total=len(sources)) as progress:
        best = [hypotheses[0] for hypotheses in translator.n_best(sources, 1, progress)]
    truncated = [line for line, each in enumerate(best, start=1) if each.truncated]
    warn_of_truncated(truncated, translator.decode.extra_decode_length)
    return [text for text, _ in best]


def _score_parses(pairs: list[tuple[str, str]], outputs: list[str], path: str) -> None:
    """Replaces the raw outputs in a file by trees, and prints their scores."""
    from tf_transformer.data.trees import parse_output
    from tf_transformer.evaluation.parser import evaluate_parses

    gold = [parse_output(tree, words.split(" ")) for words, tree in pairs]
    evaluation = evaluate_parses(gold, outputs)
    with open_output(path) as trees:
        trees.writelines(f"{tree}\n" for tree in evaluation.trees)
    print(evaluation)


@dataclasses.dataclass(frozen=True)
class TestSet:
    """The pairs that are scored."""

    split: str
    description: str  # the split and the name of its corpus
    pairs: list[tuple[str, str]]  # at most --max_pairs; the sources have the tags of the model
    size: int  # without this limit
    references: list[list[str]]  # one or more for each pair
    data: DataConfig  # the settings of the model's data, with the languages and tags of these pairs

    def __str__(self) -> str:
        return f"{self.description}: {len(self.pairs):,} pairs"

    @property
    def sources(self) -> list[str]:
        """The texts to translate."""
        return [source for source, _ in self.pairs]


def read_test_set(values: flags.FlagValues, data: DataConfig) -> TestSet:
    """Reads the pairs of --data and --split, or the test set of the model's own text, `data`.

    Raises: UserError for no pairs, too many for --baseline, or another number of references.
    """
    name = values.data or data.data
    texts, own_texts = _texts(name, data), _texts(data.data, data)
    _, source, target = texts[0]
    tag = data.tag
    if values.tag or texts != own_texts:
        tags = [values.tag or tag_for(data, *languages) for _, *languages in texts]
        tag = ",".join(tags) if any(tags) else ""
    corpus = readers.open_corpus(name, data.source, data.target, tag, data.hold_out)
    trained = {path for path, *_ in own_texts}
    split = values.split or corpus.default_test(seen=any(path in trained for path, *_ in texts))
    read = iter(corpus.read(split))
    pairs = list(itertools.islice(read, values.max_pairs or MANY_PAIRS))
    if not values.max_pairs and len(pairs) == MANY_PAIRS:
        logger.warning(
            f"{corpus.describe(split)} has {MANY_PAIRS:,} pairs or more, which are all read into "
            "memory: give --max_pairs for the first ones"
        )
        pairs += read
    size = len(pairs)
    if values.references or values.translations or values.baseline:  # files of the whole split
        size += sum(1 for _ in read)
    if not pairs:
        raise UserError(f"nothing to score: {corpus.describe(split)} has no pairs")
    references = [[target for _, target in pairs]]
    if values.references:
        files = values.references.split(",")
        references = [read_aligned(file, size, "reference") for file in files]
    data = dataclasses.replace(data, source=source, target=target, tag=tag)
    return _limited(values, TestSet(split, corpus.describe(split), pairs, size, references, data))


def read_published(values: flags.FlagValues, data: DataConfig) -> TestSet:
    """Reads the test set of --test_set; arguments as for `read_test_set`."""
    from tf_transformer.evaluation.bleu import read_segments

    name = values.test_set
    sources, references = read_segments(name, data.source, data.target)
    tag = values.tag or data.tag.split(",")[0]
    pairs = [(add_tag(tag, source), first) for source, first in zip(sources, references[0])]
    test = TestSet(_file_name(name), f"test set {name}", pairs, len(pairs), references, data)
    return _limited(values, test)


def _limited(values: flags.FlagValues, test: TestSet) -> TestSet:
    """The first --max_pairs of a test set; for --baseline, no more than can be compared."""
    from tf_transformer.evaluation.metrics import check_resampling

    number = min(test.size, values.max_pairs or test.size)
    if values.baseline:
        check_resampling(number)
    references = [lines[:number] for lines in test.references]
    return dataclasses.replace(test, pairs=test.pairs[:number], references=references)


def read_aligned(path: str, number: int, kind: str) -> list[str]:
    """Reads a file that has a line for each pair. Raises: UserError when it has not."""
    lines = list(read_lines(path))
    if len(lines) != number:
        raise UserError(
            f"{path} has {len(lines):,} lines, and the test set {number:,} pairs: give one {kind} "
            "on each line"
        )
    return lines


def tag_for(data: DataConfig, source: str, target: str) -> str:
    """Returns the tag, or "", of the model's first corpus with these languages, or else of all."""
    names = data.data.split(",") if "," in data.tag else readers.corpus_names(data.data)
    tags = data.tag.split(",") if data.tag else [""] * len(names)
    for name, tag in zip(names, tags):
        if readers.split_languages(name, data.source, data.target)[1:] == (source, target):
            return tag
    return tags[0]


def translations_path(model_dir: str, data: DataConfig, test_data: str | None, split: str) -> str:
    """Returns where evaluate writes the translations of a split of `test_data`, else of `data`."""
    name = test_data or data.data
    texts = _texts(name, data)
    corpora = None if split == "train" else 1  # whose text the split has
    if texts[:corpora] != _texts(data.data, data)[:corpora]:
        split = f"{_file_name(readers.absolute_path(name))}.{split}"
    folder = os.path.join(model_folder.writable_folder(model_dir), "evaluation")
    return os.path.join(folder, f"{split}.{texts[0][2]}")


def read_translations(
    model_dir: str, test_data: str | None, split: str, pairs: int, number: int
) -> list[str]:
    """Reads the translations of the first `number` of `pairs` pairs that evaluate wrote.

    Raises: UserError when there are none, or of another number of pairs.
    """
    data = model_folder.load_config(model_dir).data
    path = translations_path(model_dir, data, test_data, split)
    own = path == translations_path(model_dir, data, None, split)
    text = "" if own else f" --data={test_data}"
    command = f"`tf-transformer evaluate --model_dir={model_dir}{text} --split={split}`"
    if not os.path.isfile(path):
        raise UserError(f"{model_dir} has no translations of {split}: run {command}")
    lines = list(read_lines(path))
    if not min(number, pairs) <= len(lines) <= pairs:
        raise UserError(
            f"{path} has translations of {len(lines):,} pairs, and {split} has {pairs:,}: run "
            f"{command}, or give --max_pairs"
        )
    if model_folder.is_older_than_model(path, model_dir):
        logger.warning("%s is older than the model; to translate again: %s", path, command)
    return lines[:number]


def _file_name(text: str) -> str:
    """Returns what stands for a text in the name of a file; a long one ends with a hash of it."""
    name = re.sub(r"[^\w.+-]+", "-", text).strip("-")
    return name if len(name) <= 100 else f"{name[:80]}-{digest(text)}"


def _texts(name: str, data: DataConfig) -> list[tuple[str, str, str]]:
    """Path, source and target of each corpus of a text; `data` has the languages of the model."""
    return readers.corpora_of(readers.absolute_path(name), data.source, data.target)
