"""The commands translate, parse and score, which write a line for each line they read."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

from absl import flags

from tf_transformer.checkpoints import paths, pretrained
from tf_transformer.cli.flags import given
from tf_transformer.cli.terminal import open_output, required, start_tensorflow
from tf_transformer.config import TREES, DecodeConfig
from tf_transformer.errors import UserError

if TYPE_CHECKING:
    from tf_transformer.decoding.translator import PairScore, Progress, Translator

Item = TypeVar("Item")


def load_translator(
    values: flags.FlagValues, model_dir: str, checkpoint: str | None = None
) -> Translator:
    """Starts TensorFlow and loads a model, on all GPUs that TensorFlow sees."""
    paths.load_config(model_dir)  # a wrong folder is reported before TensorFlow is loaded
    start_tensorflow()
    import tensorflow as tf

    from tf_transformer.decoding.translator import Translator

    translator = Translator.load(model_dir, checkpoint, **given(values, (DecodeConfig,)))
    gpus = tf.config.list_logical_devices("GPU")
    if len(gpus) > 1:
        translator.replicate([gpu.name for gpu in gpus])
    return translator


@contextlib.contextmanager
def explain_decoding_memory(decode: DecodeConfig) -> Iterator[None]:
    """Turns a device's out-of-memory error into a `UserError` with the flags that help."""
    import tensorflow as tf

    try:
        yield
    except tf.errors.ResourceExhaustedError as error:
        raise UserError(
            f"out of memory: give a smaller --decode_batch_tokens than {decode.decode_batch_tokens}"
            f", or a smaller --beam_size than {decode.beam_size}"
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
    from tf_transformer.data.line_windows import read_windows

    model_dir = pretrained.find_model_dir(values.model_dir or pretrained.default_model())
    translator = load_translator(values, model_dir, values.checkpoint)
    translator.check_number(values.n_best)
    if not values.input and not values.output and sys.stdin.isatty() and sys.stdout.isatty():
        _translate_interactively(translator, values.n_best)
        return

    def format_window(window: list[str], first_line: int, progress: Progress) -> Iterator[str]:
        results = translator.n_best(
            window, values.n_best, progress, first_line, values.skip_long_lines
        )
        for number, hypotheses in enumerate(results, start=first_line):
            for text, score in hypotheses:
                yield text if values.n_best == 1 else f"{number}\t{score:.4f}\t{text}"

    with explain_decoding_memory(translator.decode):
        write_results(values, read_windows(values.input), format_window)


def _translate_interactively(translator: Translator, n_best: int) -> None:
    """Translates each line that the user types, until Ctrl-D."""
    while True:
        try:
            line = input("> ")
        except EOFError:
            print()
            return
        try:
            for text, score in translator.n_best([line], n_best)[0]:
                print(text if n_best == 1 else f"{score:.4f}\t{text}")
        except UserError as error:
            print(f"error: {error}", file=sys.stderr)


def parse(values: flags.FlagValues) -> None:
    """Parses lines of text."""
    from tf_transformer.data.line_windows import read_windows

    model_dir = pretrained.find_model_dir(required(values, "model_dir"))
    if paths.load_config(model_dir).data.target != TREES:
        raise UserError(
            f"the model in {model_dir} was not trained on trees: train one with "
            "--preset=parsing-pocket, or use translate"
        )
    translator = load_translator(values, model_dir, values.checkpoint)
    from tf_transformer.parsing.parser import Parser

    parser = Parser(translator)

    def format_window(window: list[str], first_line: int, progress: Progress) -> Iterator[str]:
        for tree in parser.parse(window, progress, first_line):
            yield str(tree) if tree else ""

    with explain_decoding_memory(translator.decode):
        write_results(values, read_windows(values.input), format_window)


def score(values: flags.FlagValues) -> None:
    """Computes the probability of given translations."""
    from tf_transformer.data.line_windows import read_pair_windows

    model_dir = pretrained.find_model_dir(required(values, "model_dir"))
    translator = load_translator(values, model_dir, values.checkpoint)

    def format_window(
        window: list[tuple[str, str]], first_line: int, progress: Progress
    ) -> Iterator[str]:
        results = translator.score(window, progress, first_line, values.skip_long_lines)
        for result in results:
            yield _format_score(result, values)

    with explain_decoding_memory(translator.decode):
        write_results(values, read_pair_windows(values.input), format_window)


def _format_score(result: PairScore, values: flags.FlagValues) -> str:
    columns = [f"{result.normalized if values.normalize else result.log_prob:.4f}"]
    if values.tokens:
        columns.append(" ".join(result.pieces))
        columns.append(" ".join(f"{log_prob:.4f}" for log_prob in result.token_log_probs))
    return "\t".join(columns)
