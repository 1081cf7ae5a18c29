"""The commands translate and parse, which write a line for each line they read."""

from __future__ import annotations

import collections
import contextlib
import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

from absl import flags

from tf_transformer.checkpoints import model_folder
from tf_transformer.checkpoints.model_folder import first_model_dir, model_list
from tf_transformer.cli.command import (
    Flag,
    command,
    control_flags,
    file_flags,
    given,
    is_for,
    model_flags,
    one_of,
    sampling_flags,
    search_flags,
    tag_flag,
)
from tf_transformer.cli.serving import ctranslate2_translator, engine_flags, uses_ctranslate2
from tf_transformer.cli.terminal import open_output, start_tensorflow
from tf_transformer.config import TREES, ControlConfig, DataConfig, DecodeConfig, SamplingConfig
from tf_transformer.data.progress import shows_bars
from tf_transformer.data.tags import add_tag, check_tag, split_tag
from tf_transformer.decoding.scores import is_possible
from tf_transformer.errors import UserError

if TYPE_CHECKING:
    from tf_transformer.decoding.translator import Progress, Translator
    from tf_transformer.export.ctranslate2_translator import CTranslate2Translator

logger = logging.getLogger(__name__)

Item = TypeVar("Item")
Lines = list[tuple[str, str]]  # each with its prefix or its constraints, "" for none
# The flags that can be given with --server.
SERVER_FLAGS = (
    "server", "name", "input", "output", "skip_long_lines", "verbose", "quiet", "debug",
)  # fmt: skip
DEFAULT_SAMPLES = 32  # of --mbr --sampling, for each line
INTERACTIVE_ATTEMPTS = 6  # to reach a server, in about ten seconds
NBest = Callable[[Lines, int, "Progress | None"], list[list[tuple[str, float]]]]


def load_translator(
    values: flags.FlagValues, model_dir: str, checkpoint: str | None = None
) -> Translator:
    """Starts TensorFlow and loads a model or an ensemble, on all GPUs that TensorFlow sees."""
    for folder, _ in model_list(model_dir, checkpoint):
        model_folder.load_config(folder)  # a wrong folder is reported before TensorFlow is loaded
    start_tensorflow()
    import tensorflow as tf

    from tf_transformer.decoding.translator import Translator

    controls = ControlConfig(**given(values, (ControlConfig,)))
    decode = given(values, (DecodeConfig,))
    translator = Translator.load(model_dir, checkpoint, controls, **decode)
    gpus = tf.config.list_logical_devices("GPU")
    if len(gpus) > 1:
        translator.replicate([gpu.name for gpu in gpus])
    return translator


def check_translator_tag(tag: str | None, translator: Translator) -> None:
    """Checks the value of --tag, if any. Raises: UserError when the model has no such tag."""
    if tag:
        check_tag(tag, lambda texts: translator.source.encode(texts).to_list())


@contextlib.contextmanager
def explain_decoding_memory(
    decode: DecodeConfig, samples_flag: str | None = None
) -> Iterator[None]:
    """Turns a device's out-of-memory error into a `UserError` with the flags that help.

    Args:
      decode: the settings of the search.
      samples_flag: the flag with the number of samples, "" for one sample; None for a search.
    """
    import tensorflow as tf

    try:
        yield
    except tf.errors.ResourceExhaustedError as error:
        tokens = decode.decode_batch_tokens
        message = f"out of memory: give a smaller --decode_batch_tokens than {tokens}"
        if samples_flag is None:
            message = f"{message}, or a smaller --beam_size than {decode.beam_size}"
        elif samples_flag:
            message = f"{message}, or a smaller {samples_flag}"
        raise UserError(message) from error


@contextlib.contextmanager
def progress_bar(total: int | None = None, hidden: bool = False) -> Iterator[Progress]:
    """Shows a progress bar of lines on a terminal. Yields: the function that moves it."""
    import tqdm

    disable = hidden or not shows_bars()
    with tqdm.tqdm(total=total, unit="line", disable=disable, leave=False) as bar:
        yield bar.update


def write_results(
    values: flags.FlagValues,
    windows: Iterable[list[Item]],
    format_results: Callable[[list[Item], int, Progress], Iterable[str]],
) -> None:
    """Writes the results of each window of lines as soon as they are known.

    Args:
      values: with --output. A file appears when it is complete.
      windows: of lines, or of pairs of lines.
      format_results: returns the results of a window, lines of text; it takes the window, the
        number of its first line and a function that shows progress.
    Raises: UserError for a line that cannot be processed. On standard output the lines of earlier
      windows are written by then, and the message has their number.
    """
    written = 0  # lines of the input whose results are written
    on_terminal = not values.output and sys.stdout.isatty()
    with open_output(values.output) as output, progress_bar(hidden=on_terminal) as progress:
        try:
            for window in windows:
                results = format_results(window, written + 1, progress)
                output.writelines(f"{result}\n" for result in results)
                output.flush()
                written += len(window)
        except UserError as error:
            if values.output or not written:
                raise
            raise UserError(
                f"{error} (the results of lines 1 to {written:,} are written)"
            ) from None


def _flags() -> list[Flag]:
    from tf_transformer.evaluation.metrics import METRICS

    return [
        *model_flags(optional=True),
        *engine_flags(),
        Flag("server", str, "URL of a server that translates, such as http://127.0.0.1:8501"),
        Flag("name", str, "--server: the model's name in its URLs", "transformer"),
        *file_flags("lines to translate", "translations"),
        tag_flag(),
        Flag(
            "n_best", int,
            "translations of each line; with more than 1, each is written as "
            "LINE NUMBER<tab>SCORE<tab>TRANSLATION", 1, minimum=1,
        ),
        Flag(
            "split_sentences", bool,
            "split each line into sentences, translate each of them, and join the translations to "
            "a line again", False,
        ),
        Flag(
            "target_prefix", str,
            "file with the beginning of the translation of each line, complete words; an empty "
            "line where the translation is free",
        ),
        Flag(
            "constraints", str,
            "file with the phrases that the translation of each line must contain, separated by "
            "tabs; an empty line where there are none",
        ),
        *sampling_flags("; --n_best is their number"),
        Flag(
            "pairs",
            bool,
            "write training pairs (back-translation), TSV: translation, line; lines that are "
            "blank, too long or without a translation are left out",
            False,
        ),
        Flag(
            "mbr", tuple(name for name, metric in METRICS.items() if metric.sentence),
            "minimum Bayes risk decoding: write the candidate with the highest mean sentence "
            "score against the others; the candidates are those of the beam, or --sampling",
        ),
        Flag(
            "mbr_samples", int,
            "--mbr --sampling: candidates of each line (default: 32); the time grows with N^2",
            minimum=2,
        ),
        Flag(
            "skip_long_lines", bool,
            "write an empty line and a warning for a line with more sub-words than the model has "
            "positions, instead of stopping there", False,
        ),
        *search_flags(),
        *control_flags(),
    ]  # fmt: skip


@command("translate", "translate lines of text with a trained model, or with a server", _flags)
def translate(values: flags.FlagValues) -> None:
    """Translates lines of text."""
    from tf_transformer.decoding.text_batches import check_n_best

    if values.server:
        _check_server_flags(values)
        _translate_input(values, _n_best_of_server(values), "")
        return
    is_for(values, "server", "name")
    model_dir = values.model_dir or model_folder.default_model()
    _check_combination(values)
    if values.sampling or values.target_prefix or values.constraints:
        sampling = SamplingConfig(**given(values, (SamplingConfig,)))
        with _translator(values, model_dir) as (translator, data):
            number = number_of_candidates(values, translator.decode.beam_size)
            if not values.sampling:
                check_n_best(number, translator.decode.beam_size)
            n_best = _complete_or_sample(values, translator, sampling, number)
            _translate_input(values, n_best, data.target)
        return
    open_translator = ctranslate2_translator if uses_ctranslate2(values) else _translator
    with open_translator(values, model_dir) as (any_translator, data):
        number = number_of_candidates(values, any_translator.decode.beam_size)
        check_n_best(number, any_translator.decode.beam_size)
        _translate_input(values, _n_best(values, any_translator, data, number), data.target)


def _check_server_flags(values: flags.FlagValues) -> None:
    """Raises: UserError for flags of the search: the server's export has its own."""
    for name in values:
        if values[name].present and name not in SERVER_FLAGS:
            raise UserError(
                f"--{name} has no effect with --server, whose export has its own settings: leave "
                "out one of them"
            )


def _n_best_of_server(values: flags.FlagValues) -> NBest:
    """Returns a function that translates lines with --server, which gives one translation each.

    It waits and tries again while the server is busy or away: for about five minutes, and for ten
    seconds where a person waits.
    """
    from tf_transformer.serving.client import ATTEMPTS, RestClient, translate_lines

    attempts = INTERACTIVE_ATTEMPTS if _is_interactive(values) else ATTEMPTS
    client = RestClient(values.server, values.name, attempts)

    def n_best(
        lines: Lines, first_line: int, progress: Progress | None
    ) -> list[list[tuple[str, float]]]:
        results = []
        texts = [text for text, _ in lines]
        translations = translate_lines(client, texts, first_line)
        for number, (translation, score) in enumerate(translations, first_line):
            if not is_possible(score):
                message = f"line {number} is too long for the model or the server: split the line"
                if not values.skip_long_lines:
                    raise UserError(message)
                logger.warning("%s; its translation is empty", message)
            results.append([(translation, score)])
            if progress:
                progress(1)
        return results

    return n_best


def _check_combination(values: flags.FlagValues) -> None:
    """Raises: UserError for flags of translate that cannot be given together."""
    if values.n_best > 1:
        one_of(values, "n_best", "split_sentences", "pairs")
    if values.diverse_groups not in (None, 1):
        one_of(values, "diverse_groups", "constraints", "sampling")
    one_of(values, "split_sentences", "target_prefix", "constraints", "sampling", "mbr", "pairs")
    one_of(values, "pairs", "target_prefix", "constraints")
    one_of(values, "constraints", "target_prefix", "sampling")
    one_of(values, "sampling", "beam_size")  # sampling has no beam
    is_for(values, "sampling", "temperature", "top_k", "top_p", "seed", "mbr_samples")
    is_for(values, "mbr", "mbr_samples")
    if values.pairs and not values.model_dir:
        raise UserError("--model_dir is missing: --pairs needs a model of the other direction")
    if values.mbr and values.sampling and values.n_best > number_of_samples(values):
        raise UserError(
            f"--n_best={values.n_best} of {number_of_samples(values)} samples: give a larger "
            "--mbr_samples"
        )
    check_diversity(values)
    for flag in ("target_prefix", "constraints", "sampling", *given(values, (ControlConfig,))):
        if values[flag].value and uses_ctranslate2(values):
            raise UserError(f"--{flag} is for --engine=tensorflow")


def check_diversity(values: flags.FlagValues) -> None:
    """Raises: UserError for --diversity_strength without groups that could differ."""
    if values["diversity_strength"].present and values.diverse_groups in (None, 1):
        raise UserError("--diversity_strength is for --diverse_groups of 2 or more")


@contextlib.contextmanager
def _translator(
    values: flags.FlagValues, model_dir: str
) -> Iterator[tuple[Translator, DataConfig]]:
    """Loads a model into TensorFlow. Yields: the translator, and the settings of its data."""
    translator = load_translator(values, model_dir, values.checkpoint)
    check_translator_tag(values.tag, translator)
    samples_flag = ("--mbr_samples" if values.mbr else "--n_best") if values.sampling else None
    with explain_decoding_memory(translator.decode, samples_flag):
        yield translator, model_folder.load_config(first_model_dir(model_dir)).data


def _translate_input(values: flags.FlagValues, n_best: NBest, language: str) -> None:
    """Translates the lines of the input, or those that the user types."""
    n_best = with_minimum_bayes_risk(values, n_best, language)
    if _is_interactive(values):
        _translate_interactively(n_best, values.n_best)
    else:
        _translate_windows(values, n_best)


def _is_interactive(values: flags.FlagValues) -> bool:
    """Whether a person types the lines."""
    files = values.input or values.output or values.target_prefix or values.constraints
    return not files and sys.stdin.isatty() and sys.stdout.isatty()


def _translate_windows(values: flags.FlagValues, n_best: NBest) -> None:
    """Translates the lines of the input.

    Args:
      values: the flags.
      n_best: of `_n_best`.
    """
    from tf_transformer.data.text_files import read_two_file_windows, read_windows

    def format_window(window: Lines, first_line: int, progress: Progress) -> Iterator[str]:
        results = n_best(window, first_line, progress)
        for number, hypotheses in enumerate(results, start=first_line):
            for text, score in hypotheses:
                yield text if values.n_best == 1 else f"{number}\t{score:.4f}\t{text}"

    if values.pairs:
        _write_pairs(values, n_best)
        return

    if second := values.target_prefix or values.constraints:
        windows: Iterable[Lines] = read_two_file_windows(values.input, second)
    else:
        windows = ([(line, "") for line in window] for window in read_windows(values.input))
    write_results(values, windows, format_window)


def _write_pairs(values: flags.FlagValues, n_best: NBest) -> None:
    """Writes a TSV line for each line of the input: its translation, a tab, the line.

    A model of the opposite direction makes training text so (Sennrich et al. 2016, "Improving
    Neural Machine Translation Models with Monolingual Data"). Samples are better training text than
    the best translations (Edunov et al. 2018, "Understanding Back-Translation at Scale"). The tag
    of a line, which chooses the language of the translation, is not written.
    """
    from tf_transformer.data.text_files import read_windows

    tags = set(model_folder.load_config(first_model_dir(values.model_dir)).data.tag.split(","))
    count: collections.Counter[str] = collections.Counter()

    def format_window(window: list[str], first_line: int, progress: Progress) -> Iterator[str]:
        lines = [line.replace("\t", " ").strip() for line in window]
        results = n_best([(line, "") for line in lines], first_line, progress)
        for line, [(text, _)] in zip(lines, results):
            translation = text.replace("\t", " ").strip()  # a sampled character can be a tab too
            kind = "blank" if not line else "pairs" if translation else "left out"
            count[kind] += 1
            if kind == "pairs":
                yield f"{translation}\t{split_tag(line, tags)[1]}"

    write_results(values, read_windows(values.input), format_window)
    logger.info(
        "%s pairs; left out: %s blank lines, %s that are too long or have an empty translation",
        *(f"{count[kind]:,}" for kind in ("pairs", "blank", "left out")),
    )


def _complete_or_sample(
    values: flags.FlagValues, translator: Translator, sampling: SamplingConfig, number: int
) -> NBest:
    """Returns a function for lines with prefixes or constraints, or whose translations are drawn.

    It returns `number` translations of each line.
    """

    def n_best(
        lines: Lines, first_line: int, progress: Progress | None
    ) -> list[list[tuple[str, float]]]:
        texts, seconds = map(list, zip(*lines))
        texts = [add_tag(values.tag, text) for text in texts]
        numbers = range(first_line, first_line + len(lines))
        options = progress, numbers, values.skip_long_lines or values.pairs
        if values.constraints:
            phrases = [line.split("\t") if line.strip() else [] for line in seconds]
            return translator.n_best(texts, number, *options, constraints=phrases)
        if values.sampling:
            seed = values.seed or 0
            return translator.sample(texts, number, sampling, seed, *options, seconds)
        return translator.n_best(texts, number, *options, seconds)

    return n_best


def _n_best(
    values: flags.FlagValues,
    translator: Translator | CTranslate2Translator,
    data: DataConfig,
    number: int,
) -> NBest:
    """Returns a function that translates lines, or their sentences, as the flags say.

    It returns `number` translations of each line. Its arguments are the lines, the number of the
    first one, and a function that shows progress. The lines have no prefixes or constraints.
    """
    from tf_transformer.decoding.text_batches import SplitLines

    def n_best(
        lines_and_prefixes: Lines, first_line: int, progress: Progress | None
    ) -> list[list[tuple[str, float]]]:
        lines = [line for line, _ in lines_and_prefixes]
        numbers = range(first_line, first_line + len(lines))
        skip = values.skip_long_lines or values.pairs
        if not values.split_sentences:
            texts = [add_tag(values.tag, line) for line in lines]
            return translator.n_best(texts, number, progress, numbers, skip)
        split = SplitLines(lines, data.source, data.target, translator.tags)
        sentences = [add_tag(values.tag, sentence) for sentence in split.sentences]
        numbers_of_sentences = [numbers[index] for index in split.line_indices]
        results = translator.n_best(sentences, 1, None, numbers_of_sentences, skip)
        if progress:
            progress(len(lines))
        return [[pair] for pair in split.join([best[0] for best in results])]

    return n_best


def _translate_interactively(n_best: NBest, number: int) -> None:
    """Translates each line that the user types, until Ctrl-D.

    Args:
      n_best: of `_n_best`.
      number: translations of each line.
    """
    while True:
        try:
            line = input("> ")
        except EOFError:
            print()
            return
        try:
            for text, score in n_best([(line, "")], 1, None)[0]:
                print(text if number == 1 else f"{score:.4f}\t{text}")
        except UserError as error:
            print(f"error: {error}", file=sys.stderr)


def number_of_samples(values: flags.FlagValues) -> int:
    """The samples that --mbr draws for each line."""
    return values.mbr_samples or DEFAULT_SAMPLES


def number_of_candidates(values: flags.FlagValues, beam_size: int) -> int:
    """The translations of each line that the search or the sampler gives.

    Raises: UserError where --mbr has nothing to compare.
    """
    if not values.mbr:
        return values.n_best
    number = number_of_samples(values) if values.sampling else max(beam_size, values.n_best)
    if number == 1:
        raise UserError(
            "--mbr compares the candidates of the beam, and a beam of 1 has only one: give a "
            "larger --beam_size, or --sampling"
        )
    return number


def with_minimum_bayes_risk(values: flags.FlagValues, n_best: NBest, language: str) -> NBest:
    """Returns a function that ranks the candidates of `n_best` as --mbr says; itself without it.

    All scores are utilities, except -inf for a line that is too long.

    Args:
      values: the flags.
      n_best: returns the candidates of lines.
      language: code of the target language.
    """
    if not values.mbr:
        return n_best
    from tf_transformer.decoding.extras.reranking import mean_utilities
    from tf_transformer.evaluation.metrics import sentence_scorer

    utility_of = sentence_scorer(values.mbr, language)

    def ranked(
        lines: list[tuple[str, str]], first_line: int, progress: Progress | None
    ) -> list[list[tuple[str, float]]]:
        results = []
        for pairs in n_best(lines, first_line, progress):
            possible = [text for text, score in pairs if score > float("-inf")]
            best = mean_utilities(possible, utility_of)[: values.n_best]
            results.append(best or pairs)  # the pair of a line that is too long
        return results

    return ranked


@command(
    "parse",
    "parse lines of text with a model that was trained on trees",
    lambda: [
        *model_flags(),
        *file_flags("sentences, their words separated by spaces", "trees, one per line"),
        *search_flags(),
    ],
)
def parse(values: flags.FlagValues) -> None:
    """Parses lines of text."""
    from tf_transformer.data.text_files import read_windows

    model_dir = values.model_dir
    if model_folder.load_config(first_model_dir(model_dir)).data.target != TREES:
        raise UserError(
            f"the model in {model_dir} was not trained on trees: train one with "
            "--preset=parsing-pocket, or use translate"
        )
    translator = load_translator(values, model_dir, values.checkpoint)
    from tf_transformer.evaluation.parser import Parser

    parser = Parser(translator)

    def format_window(window: list[str], first_line: int, progress: Progress) -> Iterator[str]:
        for tree in parser.parse(window, progress, first_line):
            yield str(tree) if tree else ""

    with explain_decoding_memory(translator.decode):
        write_results(values, read_windows(values.input), format_window)
