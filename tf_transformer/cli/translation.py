"""The commands translate, parse and score, which write a line for each line they read."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

from absl import flags

from tf_transformer.checkpoints import model_folder
from tf_transformer.checkpoints.model_folder import first_model_dir, model_list
from tf_transformer.cli.engine import ctranslate2_translator, uses_ctranslate2
from tf_transformer.cli.flags import given
from tf_transformer.cli.minimum_bayes_risk import (
    check_mbr_flags,
    number_of_candidates,
    with_minimum_bayes_risk,
)
from tf_transformer.cli.terminal import open_output, required, start_tensorflow
from tf_transformer.config import TREES, ControlConfig, DataConfig, DecodeConfig, SamplingConfig
from tf_transformer.data.tags import add_tag, check_tag
from tf_transformer.errors import UserError

if TYPE_CHECKING:
    from tf_transformer.decoding.translator import PairScore, Progress, Translator
    from tf_transformer.export.ctranslate2_translator import CTranslate2Translator

Item = TypeVar("Item")
Lines = list[tuple[str, str]]  # each with its prefix or its constraints, "" for none
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
def explain_scoring_memory() -> Iterator[None]:
    """The same for forced decoding, whose batches have no flag."""
    import tensorflow as tf

    try:
        yield
    except tf.errors.ResourceExhaustedError as error:
        raise UserError(
            "out of memory: leave out the longest pairs, or compute on the CPU with "
            "CUDA_VISIBLE_DEVICES=-1"
        ) from error


@contextlib.contextmanager
def progress_bar(total: int | None = None, hidden: bool = False) -> Iterator[Progress]:
    """Shows a progress bar of lines on a terminal. Yields: the function that moves it."""
    import tqdm

    disable = hidden or not sys.stderr.isatty()
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


def translate(values: flags.FlagValues) -> None:
    """Translates lines of text."""
    from tf_transformer.decoding.text_batches import check_n_best

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


def _check_combination(values: flags.FlagValues) -> None:
    """Raises: UserError for flags of translate that cannot be given together."""
    if values.split_sentences and values.n_best > 1:
        raise UserError(
            "--n_best and --split_sentences: give one of them; there is no list of the best "
            "translations of several sentences"
        )
    check_mbr_flags(values)
    for flag in ("target_prefix", "constraints", "sampling"):
        if values[flag].value and values.split_sentences:
            raise UserError(f"--{flag} and --split_sentences: give one of them")
    check_diversity(values)
    for flag in ("target_prefix", "sampling"):
        if values[flag].value and values.constraints:
            raise UserError(f"--constraints and --{flag}: give one of them")
    if values.constraints and values.diverse_groups not in (None, 1):
        raise UserError("--constraints and --diverse_groups: give one of them")
    for flag in ("target_prefix", "constraints", "sampling", *given(values, (ControlConfig,))):
        if values[flag].value and uses_ctranslate2(values):
            raise UserError(f"--{flag} is for --engine=tensorflow")
    if values.sampling and values["diverse_groups"].present:
        raise UserError("--sampling and --diverse_groups: give one of them; sampling has no beam")
    if values.sampling and values["beam_size"].present:
        raise UserError("--sampling and --beam_size: give one of them; sampling has no beam")
    for flag in ("temperature", "top_k", "top_p", "seed"):
        if values[flag].present and not values.sampling:
            raise UserError(f"--{flag} is for --sampling")


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
    files = values.input or values.output or values.target_prefix or values.constraints
    if not files and sys.stdin.isatty() and sys.stdout.isatty():
        _translate_interactively(n_best, values.n_best)
    else:
        _translate_windows(values, n_best)


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

    if second := values.target_prefix or values.constraints:
        windows: Iterable[Lines] = read_two_file_windows(values.input, second)
    else:
        windows = ([(line, "") for line in window] for window in read_windows(values.input))
    write_results(values, windows, format_window)


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
        options = progress, numbers, values.skip_long_lines
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
        skip = values.skip_long_lines
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


def parse(values: flags.FlagValues) -> None:
    """Parses lines of text."""
    from tf_transformer.data.text_files import read_windows

    model_dir = required(values, "model_dir")
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


def score(values: flags.FlagValues) -> None:
    """Computes the probability of given translations."""
    from tf_transformer.data.text_files import read_pair_windows

    translator = load_translator(values, required(values, "model_dir"), values.checkpoint)

    def format_window(
        window: list[tuple[str, str]], first_line: int, progress: Progress
    ) -> Iterator[str]:
        results = translator.score(window, progress, first_line, values.skip_long_lines)
        for result in results:
            yield _format_score(result, values)

    with explain_scoring_memory():
        write_results(values, read_pair_windows(values.input), format_window)


def _format_score(result: PairScore, values: flags.FlagValues) -> str:
    columns = [f"{result.normalized if values.normalize else result.log_prob:.4f}"]
    if values.tokens:
        columns.append(" ".join(result.pieces))
        columns.append(" ".join(f"{log_prob:.4f}" for log_prob in result.token_log_probs))
    return "\t".join(columns)
