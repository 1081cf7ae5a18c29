"""The commands translate and parse, which write a line for each line they read."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from absl import flags

from tf_transformer.checkpoints import model_folder
from tf_transformer.checkpoints.model_folder import first_model_dir, model_list
from tf_transformer.cli.command import (
    SEARCH_GROUP,
    Flag,
    command,
    file_flags,
    given,
    is_for,
    model_flags,
    one_of,
    search_flags,
    setting_flag,
    settings_flags,
    tag_flag,
)
from tf_transformer.cli.serving import ctranslate2_translator, engine_flags, uses_ctranslate2
from tf_transformer.cli.terminal import open_output, start_tensorflow
from tf_transformer.config import (
    TREES,
    ComputeConfig,
    DecodeConfig,
    GenerationConfig,
    SamplingConfig,
)
from tf_transformer.data.progress import shows_bars
from tf_transformer.data.tags import TagWarnings, add_tag, check_tag, split_tag
from tf_transformer.data.text_files import read_two_file_windows, read_windows
from tf_transformer.decoding.reranking import mean_utilities
from tf_transformer.decoding.scores import is_possible
from tf_transformer.decoding.text_batches import (
    SplitLines,
    Translation,
    format_alignment,
    format_length,
    warn_of_truncated,
)
from tf_transformer.errors import UserError

if TYPE_CHECKING:
    from tf_transformer.decoding.translator import Progress, Translator

Item = TypeVar("Item")
Line = tuple[str, str]  # with the beginning of its translation, "" for none
Hypotheses = list[Translation]  # of a line, best first

N_BEST_FLAG = Flag(
    "n_best", int,
    "translations of each line; of several, each is LINE NUMBER<tab>SCORE<tab>TRANSLATION",
    1, minimum=1,
)  # fmt: skip
SKIP_FLAG = Flag(
    "skip_long_lines", bool,
    "go on after a line that is too long for the model, with a warning and no result", False,
)  # fmt: skip
# Flags that cannot be given together: the first of a row with one of the others.
EXCLUSIVE = (
    ("split_sentences", "target_prefix", "sampling", "mbr", "pairs", "print_alignment"),
    ("pairs", "target_prefix", "print_scores", "print_length", "print_alignment"),
    ("sampling", "beam_size"),  # sampling has no beam
)
TENSORFLOW_ONLY = ("target_prefix", "sampling", "print_alignment")


def load_translator(
    values: flags.FlagValues,
    model_dir: str,
    checkpoint: str | None = None,
    tag_name: str = "tag",
) -> Translator:
    """Starts TensorFlow and loads a model or an ensemble, on all GPUs that TensorFlow sees.

    Args:
      values: with the settings of the search, and in the flag `tag_name` the tag of the sources.
      model_dir, checkpoint: as for `Translator.load`.
    Raises: UserError, also for a tag that the model does not have.
    """
    folders = [folder for folder, _ in model_list(model_dir, checkpoint)]
    for folder in folders:
        model_folder.load_config(folder)  # a wrong folder is reported before TensorFlow is loaded
    start_tensorflow(for_search=True, model_dir=model_folder.writable_folder(folders[0]))
    import tensorflow as tf

    from tf_transformer.decoding.translator import Translator

    generation = GenerationConfig(**given(values, (GenerationConfig,)))
    options = given(values, (ComputeConfig, DecodeConfig))
    gpus = [gpu.name for gpu in tf.config.list_logical_devices("GPU")]
    with tf.distribute.MirroredStrategy(gpus).scope() if gpus[1:] else contextlib.nullcontext():
        translator = Translator.load(model_dir, checkpoint, generation, **options)
    if tag := values[tag_name].value if tag_name in values else None:
        check_tag(tag, translator.tags, tag_name)
    return translator


@contextlib.contextmanager
def progress_bar(total: int | None = None, hidden: bool = False) -> Iterator[Progress]:
    """Shows a progress bar of texts on a terminal. Yields: the function that moves it."""
    import tqdm

    disable = hidden or not shows_bars()
    with tqdm.tqdm(total=total, unit="text", disable=disable, leave=False) as bar:
        yield bar.update


def write_results(
    values: flags.FlagValues,
    windows: Iterable[list[Item]],
    format_results: Callable[[list[Item], int, Progress], Iterable[str]],
) -> None:
    """Writes the results of each window of lines, or of pairs, to --output when they are known.

    Args:
      format_results: a function of a window, the number of its first line, and a function that
        shows progress; it returns the results, lines of text.
    """
    first_line = 1
    on_terminal = not values.output and sys.stdout.isatty()
    with open_output(values.output) as output, progress_bar(hidden=on_terminal) as progress:
        for window in windows:
            results = format_results(window, first_line, progress)
            output.writelines(f"{result}\n" for result in results)
            output.flush()
            first_line += len(window)


def _flags() -> list[Flag]:
    from tf_transformer.evaluation.metrics import METRICS

    return [
        *model_flags(optional=True),
        *engine_flags(),
        *file_flags("file of lines to translate, plain, .gz, .bz2 or .xz", "translations"),
        tag_flag(),
        N_BEST_FLAG,
        Flag("print_scores", bool, "write TRANSLATION<tab>SCORE", False),
        *print_flags(),
        Flag("split_sentences", bool, "translate the sentences of each line one by one", False),
        Flag("target_prefix", str,
             "file with the beginning of each translation, complete words; an empty line for none"),
        Flag("sampling", bool, "draw --n_best translations from the model's distribution", False),
        *settings_flags(SamplingConfig, note="--sampling: "),
        Flag("seed", int, "--sampling: seed of the random numbers", 0, minimum=0),
        Flag("pairs", bool,
             "write training pairs (back-translation), TSV: translation, line; lines that are "
             "blank, too long or without a translation are left out", False),
        Flag("mbr", tuple(name for name, metric in METRICS.items() if metric.sentence),
             "minimum Bayes risk decoding: write the candidate with the highest mean sentence "
             "score against the others; the candidates come from the beam, or --sampling"),
        setting_flag("bleu_tokenizer", "--mbr=bleu: "),
        Flag("mbr_samples", int, "--mbr --sampling: candidates of each line", 32, minimum=2),
        SKIP_FLAG,
        *search_flags(),
        *settings_flags(GenerationConfig, SEARCH_GROUP),
        *settings_flags(ComputeConfig, SEARCH_GROUP),
    ]  # fmt: skip


@command("translate", _flags)
def translate(values: flags.FlagValues) -> None:
    """Translate lines of text with a trained model."""
    _check_combination(values)
    files = values.input or values.output or values.target_prefix
    interactive = not files and sys.stdin.isatty() and sys.stdout.isatty()
    translator = LineTranslator(values)
    if interactive:
        _translate_interactively(values, translator)
        return

    def format_window(window: list[Line], first_line: int, progress: Progress) -> Iterator[str]:
        results = translator(window, first_line, progress)
        for number, ((line, _), hypotheses) in enumerate(zip(window, results), first_line):
            for each in hypotheses:
                if not values.pairs:
                    yield _format(values, each, str(number))
                elif each[0].strip():
                    columns = each[0], split_tag(line, translator.training_tags)[1]
                    yield "\t".join(column.replace("\t", " ").strip() for column in columns)

    if values.target_prefix:
        windows: Iterable[list[Line]] = read_two_file_windows(values.input, values.target_prefix)
    else:
        windows = ([(line, "") for line in window] for window in read_windows(values.input))
    write_results(values, windows, format_window)
    translator.warn_of_truncated()


def print_flags() -> list[Flag]:
    """--print_length and --print_alignment, which add columns."""
    length = "add a column: the sub-words of the translation, with a + where it is cut off"
    alignment = "add a column: the alignment of the words, SOURCE-TARGET pairs such as 0-0 1-2"
    return [
        Flag("print_length", bool, length, False),
        Flag("print_alignment", bool, alignment, False),
    ]


def _format(values: flags.FlagValues, translation: Translation, line: str = "") -> str:
    """A line of output. In columns, a blank replaces a tab of the translation."""
    text, score = translation[0], f"{translation[1]:.4f}"
    if values.n_best > 1:
        columns = [line, score, text] if line else [score, text]
    else:
        columns = [text, score] if values.print_scores else [text]
    if values.print_length:
        columns.append(format_length(translation.length, translation.truncated))
    if values.print_alignment:
        columns.append(format_alignment(translation.alignment))
    if len(columns) > 1:
        columns = [column.replace("\t", " ") for column in columns]
    return "\t".join(columns)


def _check_combination(values: flags.FlagValues) -> None:
    """Raises: UserError for flags of translate that cannot be given together."""
    for row in EXCLUSIVE:
        one_of(values, *row)
    if values.n_best > 1:
        one_of(values, "n_best", "split_sentences", "pairs")
    is_for(values, "sampling", *given(values, (SamplingConfig,)), "seed", "mbr_samples")
    is_for(values, "mbr", "mbr_samples", "bleu_tokenizer")
    if values.pairs and not values.model_dir:
        raise UserError("--model_dir is missing: --pairs needs a model of the other direction")
    for name in (*TENSORFLOW_ONLY, *given(values, (GenerationConfig, ComputeConfig))):
        if values[name].value and name != "min_length" and uses_ctranslate2(values):
            raise UserError(f"--{name} is for --engine=tensorflow")


class LineTranslator:
    """Translates windows of lines as the flags of translate say.

    Attributes:
      training_tags: the tags that sources of the training text begin with.
    """

    def __init__(self, values: flags.FlagValues) -> None:
        model_dir = values.model_dir or model_folder.default_model()
        translator: Any  # of one of the two engines
        if uses_ctranslate2(values):
            translator, data = ctranslate2_translator(values, model_dir)
        else:
            translator = load_translator(values, model_dir, values.checkpoint)
            if values.print_alignment:
                translator.align([])  # refuses an ensemble
            config = model_folder.load_config(first_model_dir(model_dir))
            data = {**vars(config.data), "bleu_tokenizer": config.train.bleu_tokenizer}
        self._values, self._translator = values, translator
        self._languages, tags = (data["source"], data["target"]), data.get("tag", "")
        self.training_tags = set(tags.split(","))
        self._tag_warnings = TagWarnings(translator.tags, tags)
        self._truncated: list[int] = []  # the line of each of these translations
        number = values.n_best  # translations of each line, or candidates
        if values.mbr:
            from tf_transformer.evaluation.metrics import sentence_scorer

            candidates = values.mbr_samples if values.sampling else translator.decode.beam_size
            number = max(number, candidates)
            tokenizer = values.bleu_tokenizer or data.get("bleu_tokenizer", "auto")
            self._utility_of = sentence_scorer(values.mbr, data["target"], tokenizer)
        options = {"number": number, "skip_long": values.skip_long_lines or values.pairs}
        if values.sampling:
            sampling = SamplingConfig(**given(values, (SamplingConfig,)))
            options |= {"sampling": sampling, "seed": values.seed}
        search = translator.sample if values.sampling else translator.n_best
        self._search = functools.partial(search, **options)

    def __call__(
        self, lines: Sequence[Line], first_line: int = 1, progress: Progress | None = None
    ) -> list[Hypotheses]:
        """Translates lines, at least one, of which the first has the number `first_line`."""
        values, split = self._values, None
        texts, prefixes = map(list, zip(*lines))
        numbers: Sequence[int] = range(first_line, first_line + len(lines))
        prefix_option = {"target_prefixes": prefixes} if values.target_prefix else {}
        if values.split_sentences:
            split = SplitLines(texts, *self._languages, self._translator.tags)
            texts, numbers = split.sentences, [numbers[index] for index in split.line_indices]
        texts = [add_tag(values.tag, text) for text in texts]
        self._tag_warnings.check(texts, numbers)
        results = self._search(texts, progress=progress, line_numbers=numbers, **prefix_option)
        if split:
            results = [[line] for line in split.join([best for (best,) in results])]
        if values.mbr:
            results = [self._rank(candidates) for candidates in results]
        if values.print_alignment:
            flat = [(text, each) for text, best in zip(texts, results) for each in best]
            alignments = self._translator.align([(text, each[0]) for text, each in flat])
            for (_, each), alignment in zip(flat, alignments):
                each.alignment = alignment
        for number, best in enumerate(results, first_line):
            self._truncated += [number for each in best if each.truncated]
        return results

    def _rank(self, candidates: Hypotheses) -> Hypotheses:
        """The best candidates of a line by --mbr, with their utilities as scores."""
        possible = [each for each in candidates if is_possible(each[1])]
        found = {each[0]: each for each in possible}
        ranked = mean_utilities([text for text, _ in possible], self._utility_of)
        return [
            Translation(pair, found[pair[0]].length, found[pair[0]].truncated)
            for pair in ranked[: self._values.n_best]
        ] or candidates  # the empty translation of a line that is too long

    def warn_of_truncated(self) -> None:
        """Warns of translations that have reached the longest output, once."""
        warn_of_truncated(self._truncated, self._translator.decode.extra_decode_length)
        self._truncated.clear()


def _translate_interactively(values: flags.FlagValues, translator: LineTranslator) -> None:
    """Translates each line that the user types, until Ctrl-D."""
    while True:
        try:
            line = input("> ")
        except EOFError:
            print()
            return
        try:
            (translations,) = translator([(line, "")])
            print(*(_format(values, each) for each in translations), sep="\n")
            translator.warn_of_truncated()
        except UserError as error:
            print(f"error: {error}", file=sys.stderr)


@command("parse", lambda: [
    *model_flags(),
    *file_flags("file of sentences, their words separated by spaces", "trees, one per line"),
    *search_flags(),
    *settings_flags(ComputeConfig, SEARCH_GROUP),
])  # fmt: skip
def parse(values: flags.FlagValues) -> None:
    """Parse lines of text with a model that was trained on trees."""
    if model_folder.load_config(first_model_dir(values.model_dir)).data.target != TREES:
        raise UserError(
            f"the model in {values.model_dir} was not trained on trees: train one with "
            "--preset=parsing-pocket, or use translate"
        )
    translator = load_translator(values, values.model_dir, values.checkpoint)
    from tf_transformer.evaluation.parser import Parser

    parser = Parser(translator)

    def format_window(window: list[str], first_line: int, progress: Progress) -> Iterator[str]:
        trees = parser.parse(window, progress, first_line)
        return (str(tree) if tree else "" for tree in trees)

    write_results(values, read_windows(values.input), format_window)
    warn_of_truncated(parser.truncated, translator.decode.extra_decode_length)
