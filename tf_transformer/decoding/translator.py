"""`Translator`: tokenizer, model and search; text in, text out."""

import concurrent.futures
import contextlib
import dataclasses
import functools
import queue
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar, overload

import numpy as np
import tensorflow as tf

from tf_transformer.config import NO_CONTROLS, ControlConfig, DecodeConfig, SamplingConfig
from tf_transformer.data.tokenizer import Tokenizer
from tf_transformer.decoding.beam_search import SearchResult
from tf_transformer.decoding.ensemble import Model, copy_model, load_models, single_model
from tf_transformer.decoding.extras.constraints import encode_phrases, pad_phrases
from tf_transformer.decoding.extras.diverse_beam import check_groups
from tf_transformer.decoding.inference import (
    Alternatives,
    alternative_translations,
    detokenize,
    forced_decoding,
    forced_log_probs,
    max_output_lengths,
    sample_translations,
    search_translations,
)
from tf_transformer.decoding.scores import is_possible, length_penalty
from tf_transformer.decoding.text_batches import (
    SCORED_TOKENS,
    check_n_best,
    encode,
    find_long,
    length_batches,
    pad,
)
from tf_transformer.errors import UserError

Progress = Callable[[int], object]  # is called with the number of texts of each finished batch
Result = TypeVar("Result")


class Replica:
    """A model on one device, with its compiled functions.

    Args:
      model: a built `Transformer`, or an `Ensemble`.
      device: a name such as "GPU:1"; None for TensorFlow's choice.
    """

    def __init__(self, model: Model, device: str | None = None) -> None:
        self._model = model
        self._device = device
        self._compiled: dict[tuple, tf.types.experimental.ConcreteFunction] = {}

    def run(
        self, function: Callable[..., Any], arrays: dict[str, np.ndarray], **options: Any
    ) -> Any:
        """Calls a function of `decoding.inference`, as a graph.

        Args:
          function: its first argument is the model.
          arrays: its further arguments that are arrays of int32, by name.
          **options: its other arguments, each of which makes a graph of its own. XLA compiles those
            with `for_xla`, once for each shape of the arrays.
        Returns: what the function returns, with numpy arrays.
        """
        key = function, tuple(arrays), tuple(options.items())
        if key not in self._compiled:
            compiled = tf.function(
                functools.partial(function, self._model, **options),
                autograph=False,
                jit_compile=options.get("for_xla") or None,
            )
            specs = {x: tf.TensorSpec([None] * y.ndim, tf.int32, x) for x, y in arrays.items()}
            self._compiled[key] = compiled.get_concrete_function(**specs)
        with tf.device(self._device):
            tensors = {name: tf.constant(array, tf.int32) for name, array in arrays.items()}
            return tf.nest.map_structure(lambda x: x.numpy(), self._compiled[key](**tensors))


# Makes an argument of a search for the texts with these indices.
MakeArray = Callable[[list[int]], np.ndarray]


class PairScore(NamedTuple):
    """The probability of a translation, of forced decoding."""

    log_prob: float  # in nats, the sum over the sub-words; -inf for a text that is too long
    normalized: float  # divided by the length penalty, like the scores of the search
    pieces: list[str]  # the sub-words, the end token included
    token_log_probs: list[float]  # of each sub-word


class Alternative(NamedTuple):
    """A translation with another sub-word after the prefix."""

    translation: str  # the whole one, with the prefix
    score: float  # as of `Translator.n_best`
    probability: float  # of the sub-word after the prefix


class Translator:
    """Translates text with a trained model.

    Args:
      model: a built `Transformer`, or an `Ensemble`.
      tokenizers: of the source and of the target.
      decode: a `DecodeConfig`.
      controls: a `ControlConfig`, of `n_best` and of a call; also of `sample`, which has no groups.

    Raises: UserError for groups into which the beam cannot be divided.
    """

    def __init__(
        self,
        model: Model,
        tokenizers: tuple[Tokenizer, Tokenizer],
        decode: DecodeConfig,
        controls: ControlConfig = NO_CONTROLS,
    ) -> None:
        check_groups(controls, decode.beam_size)
        self.model = model
        self.decode = decode
        self.controls = controls
        self.source, self.target = tokenizers[0], tokenizers[1].for_targets()
        self._replicas = [Replica(model)]

    @classmethod
    def load(
        cls,
        model_dir: str,
        checkpoint: str | None = None,
        controls: ControlConfig = NO_CONTROLS,
        **decode: object,
    ) -> "Translator":
        """Loads a model folder, or several as an ensemble.

        Args:
          model_dir: a folder written by `tf-transformer train`, or the name of a built-in model
            such as "pocket-en-de"; or several, separated by commas.
          checkpoint: "averaged", "best", "latest", or a path; None for the first of these that
            exists. Several, separated by commas, are an ensemble too: see `model_list`.
          controls: a `ControlConfig`.
          **decode: fields of `DecodeConfig` to change, such as `beam_size=1`.
        Raises: UserError for no model, a damaged one, or models of different vocabularies.
        """
        model, tokenizers, config = load_models(model_dir, checkpoint)
        return cls(model, tokenizers, config.replace(**decode).decode, controls)

    def replicate(self, devices: Sequence[str]) -> None:
        """Uses several devices. Each has a copy of the model and takes the next batch when free.

        Args:
          devices: names such as "GPU:0", of which the first has the model already.
        """
        first, *others = devices
        self._replicas = [Replica(self.model, first)]
        for device in others:
            with tf.device(device):
                self._replicas.append(Replica(copy_model(self.model), device))

    @overload
    def __call__(self, text: str) -> str: ...

    @overload
    def __call__(self, text: list[str] | tuple[str, ...]) -> list[str]: ...

    def __call__(self, text: str | list[str] | tuple[str, ...]) -> str | list[str]:
        """Translates a string, or a list of strings. Blank text stays empty."""
        texts = [text] if isinstance(text, str) else list(text)
        translations = [best[0][0] for best in self.n_best(texts, 1)]
        return translations[0] if isinstance(text, str) else translations

    def n_best(
        self,
        texts: Sequence[str],
        number: int,
        progress: Progress | None = None,
        line_numbers: Sequence[int] | None = None,
        skip_long: bool = False,
        target_prefixes: Sequence[str] | None = None,
        constraints: Sequence[Sequence[str]] | None = None,
    ) -> list[list[tuple[str, float]]]:
        """Translates texts, with several translations of each, best first.

        Args:
          texts: a list of strings.
          number: translations of each, at most the beam size.
          progress: a function that is called with the number of texts of each finished batch.
          line_numbers: the line number of each text, for messages; None for 1, 2, ...
          skip_long: whether a text with more sub-words than the model has positions gets the
            result `[("", -inf)]` and a warning.
          target_prefixes: for each text the beginning of its translations, "" where they are free;
            None for all free. It ends with a complete word: the model can only append sub-words to
            those of the prefix, and those of an incomplete word are often others.
          constraints: for each text the phrases that its translations must contain, an empty list
            where they are free; not together with prefixes or diverse groups.
        Returns: a list; for each text `number` pairs (translation, score), or fewer where the
          search found fewer. A translation is one line: a blank replaces each line separator that
          the model writes. The score is the log-probability in nats divided by the length penalty.
          Blank text gives `[("", 0.0)]`.
        Raises: UserError for a text or a prefix with too many sub-words, unless `skip_long`; for a
          number above the beam size; for another number of prefixes or constraints than texts; or
          for constraints that cannot be met.
        """
        check_n_best(number, self.decode.beam_size)
        if constraints and (target_prefixes or self.controls.diverse_groups > 1):
            raise UserError("constraints and prefixes or diverse groups: give one of them")
        arrays: dict[str, MakeArray] = {}
        encoded = self._encode(texts, line_numbers, skip_long, target_prefixes)
        if constraints is not None:
            lengths = np.array([len(row) - 1 for row in encoded[0]], np.int32)
            limits = max_output_lengths(self.model, lengths, self.decode).numpy().tolist()
            phrases = encode_phrases(self.target, constraints, limits, line_numbers)
            arrays["phrases"] = lambda batch: pad_phrases([phrases[i] for i in batch])
        options: dict[str, Any] = {"n_best": number, "controls": self.controls}
        rows_per_text = self.decode.beam_size
        return self._decode(
            search_translations, *encoded, rows_per_text, arrays, progress, **options
        )

    def sample(
        self,
        texts: Sequence[str],
        number: int,
        sampling: SamplingConfig | None = None,
        seed: int = 0,
        progress: Progress | None = None,
        line_numbers: Sequence[int] | None = None,
        skip_long: bool = False,
        target_prefixes: Sequence[str] | None = None,
    ) -> list[list[tuple[str, float]]]:
        """Draws translations from the model's distribution.

        The samples of a text depend on the seed and on its line number, not on the other texts.

        Args:
          texts, progress, skip_long, target_prefixes: as for `n_best`.
          number: samples of each text.
          sampling: a `SamplingConfig`; None for the distribution of the model, unchanged.
          seed: of the random numbers.
          line_numbers: as for `n_best`.
        Returns: as `n_best`, in the order of drawing; a translation can occur several times. The
          scores are those of `n_best`, at temperature 1 with all sub-words.
        Raises: UserError for a text or a prefix with too many sub-words, unless `skip_long`.
        """
        lines = line_numbers or range(1, len(texts) + 1)
        arrays: dict[str, MakeArray] = {
            "seeds": lambda batch: np.array([[seed, lines[i]] for i in batch], np.int32)
        }
        encoded = self._encode(texts, lines, skip_long, target_prefixes)
        options: dict[str, Any] = {"n_best": number, "controls": self.controls}
        options |= dataclasses.asdict(sampling or SamplingConfig())
        return self._decode(sample_translations, *encoded, number, arrays, progress, **options)

    def alternatives(
        self,
        texts: Sequence[str],
        target_prefixes: Sequence[str],
        number: int = 10,
        skip_long: bool = False,
    ) -> list[list[Alternative]]:
        """Proposes how translations can continue after their beginnings.

        The most probable next sub-words are taken, and greedy search completes each of them.

        Args:
          texts, target_prefixes, skip_long: as for `n_best`.
          number: next sub-words of each text, at most the target vocabulary - 2.
        Returns: a list; for each text its alternatives, the most probable next sub-word first; none
          for blank text.
        Raises: UserError for a text or a prefix with too many sub-words, unless `skip_long`; for a
          number that is not possible; or for another number of prefixes than texts.
        """
        most = self.model.target_vocab_size - 2
        if not 1 <= number <= most:
            raise UserError(f"{number} alternatives: the vocabulary allows 1 to {most:,}")

        # One position for the next sub-word, and one for the end token or another sub-word.
        encoded = self._encode(texts, None, skip_long, target_prefixes, following=2)
        found = self._decode(alternative_translations, *encoded, number, number=number)
        return [[Alternative(*each) for each in row if len(each) == 3] for row in found]

    def _encode(
        self,
        texts: Sequence[str],
        line_numbers: Sequence[int] | None,
        skip_long: bool,
        target_prefixes: Sequence[str] | None,
        following: int = 1,
    ) -> tuple[list[list[int]], list[list[int]], set[int]]:
        """Encodes texts and prefixes; the arguments are those of `n_best`.

        Args:
          following: positions that the model needs after a prefix.
        Returns: the ids of the texts, with the end token; those of the prefixes; the indices of the
          texts that the model cannot take.
        """
        if target_prefixes is not None and len(target_prefixes) != len(texts):
            raise UserError(f"{len(target_prefixes)} prefixes of {len(texts)} texts: give one each")
        sources = encode(self.source, texts)
        line_numbers = line_numbers or range(1, len(sources) + 1)
        long = find_long(sources, self.model.pe_input, line_numbers, skip_long)
        prefixes = [row[:-1] for row in encode(self.target, target_prefixes or [])]
        longest = self.model.pe_target - following
        long |= find_long(prefixes, longest, line_numbers, skip_long, True)
        return sources, prefixes or [[] for _ in sources], long

    def _decode(
        self,
        function: Callable[..., tuple],
        sources: list[list[int]],
        prefixes: list[list[int]],
        long: set[int],
        rows_per_text: int,
        arrays: dict[str, MakeArray] | None = None,
        progress: Progress | None = None,
        **options: Any,
    ) -> list[list[tuple]]:
        """Calls a function of `decoding.inference` for batches of texts.

        Args:
          function: it returns a `SearchResult` or `Alternatives`.
          sources, prefixes, long: of `_encode`.
          rows_per_text: hypotheses of each text that are computed at the same time.
          arrays: its further arguments that differ between texts, by name.
          progress: as for `n_best`.
          **options: its other arguments.
        Returns: as `n_best`; the tuples of `Alternatives` have a probability too.
        """
        results: list[list[tuple]] = [[("", 0.0)] for _ in sources]
        for i in long:
            results[i] = [("", float("-inf"))]
        lengths = {i: len(row) for i, row in enumerate(sources) if len(row) > 1 and i not in long}
        batch_tokens = self.decode.decode_batch_tokens // rows_per_text
        make_arrays: dict[str, MakeArray] = {
            "inp": lambda batch: pad([sources[i] for i in batch]),
            "prefix": lambda batch: pad([prefixes[i] for i in batch]),
            **(arrays or {}),
        }

        def decode_batch(replica: Replica, batch: list[int]) -> list[list[tuple]]:
            made = {name: make(batch) for name, make in make_arrays.items()}
            found = replica.run(function, made, decode=self.decode, **options)
            return self._hypotheses(found)

        for i, hypotheses in self._map(decode_batch, lengths, batch_tokens, progress):
            results[i] = hypotheses
        return results

    def _hypotheses(self, found: SearchResult | Alternatives) -> list[list[tuple]]:
        """The tuples of the hypotheses of each text, with numpy arrays of a batch."""
        batch_size, number, length = found.ids.shape
        texts = detokenize(self.target, found.ids.reshape(batch_size * number, length)).numpy()
        columns = [texts.reshape(batch_size, number), found.scores]
        if isinstance(found, Alternatives):
            columns.append(found.probabilities)
        return [
            [
                (text.decode("utf-8"), *map(float, numbers))
                for text, *numbers in zip(*row)
                if is_possible(numbers[0])
            ]
            or [("", float("-inf"))]  # a model whose logits are not finite
            for row in zip(*columns)
        ]

    @property
    def tags(self) -> dict[str, int]:
        """The tags of the source vocabulary, with their ids."""
        return self.source.tags

    def score(
        self,
        pairs: Sequence[tuple[str, str]],
        progress: Progress | None = None,
        first_line: int = 1,
        skip_long: bool = False,
    ) -> list[PairScore]:
        """Computes the probability of given translations by forced decoding.

        For a translation of the search whose sub-words are those that `Tokenizer.encode` chooses,
        `normalized` is the search's score.

        Args:
          pairs: (source, target) texts.
          progress, skip_long: as for `n_best`.
          first_line: the line number of the first pair, for messages.
        Returns: a `PairScore` for each pair.
        Raises: UserError for a text with too many sub-words on either side, unless `skip_long`.
        """
        sources = encode(self.source, [source for source, _ in pairs])
        targets = encode(self.target, [target for _, target in pairs])
        numbers = range(first_line, first_line + len(pairs))
        long = find_long(sources, self.model.pe_input, numbers, skip_long)
        long |= find_long(targets, self.model.pe_target, numbers, skip_long)
        results = [PairScore(float("-inf"), float("-inf"), [], []) for _ in pairs]
        lengths = {
            i: max(len(sources[i]), len(targets[i])) for i in range(len(pairs)) if i not in long
        }

        def force(replica: Replica, batch: list[int]) -> np.ndarray:
            tar_real = pad([targets[i] for i in batch])
            inp = pad([sources[i] for i in batch])
            return replica.run(forced_log_probs, {"inp": inp, "tar_real": tar_real})

        for i, row in self._map(force, lengths, SCORED_TOKENS, progress):
            token_log_probs = row[: len(targets[i])]
            total = float(np.sum(token_log_probs, dtype=np.float64))
            penalty = length_penalty(len(targets[i]), self.decode.length_penalty)
            pieces = self.target.pieces(targets[i])
            results[i] = PairScore(total, total / penalty, pieces, token_log_probs.tolist())
        return results

    def attention(
        self, text: str, translation: str | None = None
    ) -> tuple[list[str], list[str], dict[str, np.ndarray]]:
        """Computes the attention weights of a sentence and its translation.

        Args:
          text: a string.
          translation: a string; None for the model's own translation.
        Returns: source sub-words (S), target sub-words (T), and the attention weights as numpy
          arrays by name: `encoder_layer1 [H, S, S]`, `decoder_layer1_block1 [H, T, T]` over the
          target, `decoder_layer1_block2 [H, T, S]` over the source, and so on. Row t of the
          decoder's weights is where the model attends when it predicts target sub-word t.
        """
        translation = self(text) if translation is None else translation
        inp = self.source.encode([text]).to_tensor()  # (1, S)
        tar = self.target.encode([translation]).to_tensor()  # (1, T)
        model = single_model(self.model)
        _, weights = forced_decoding(model, inp, tar)
        weights = {**model.encoder.attention_weights(inp), **weights}
        source, target = self.source.pieces(inp[0]), self.target.pieces(tar[0])
        return source, target, {name: weight[0].numpy() for name, weight in weights.items()}

    def _map(
        self,
        function: Callable[[Replica, list[int]], Iterable[Result]],
        lengths: dict[int, int],
        batch_tokens: int,
        progress: Progress | None,
    ) -> Iterator[tuple[int, Result]]:
        """Calls a function of a replica and a batch for batches of texts, on all replicas.

        Args:
          function: returns the result of each text of the batch.
          lengths, batch_tokens: as for `length_batches`.
          progress: as for `n_best`.
        Yields: the index of each text with its result.
        """
        batches = length_batches(lengths, batch_tokens)
        free: queue.SimpleQueue[Replica] = queue.SimpleQueue()
        for replica in self._replicas:
            free.put(replica)

        def call(batch: list[int]) -> tuple[list[int], Iterable[Result]]:
            replica = free.get()
            try:
                return batch, function(replica, batch)
            finally:
                free.put(replica)

        with contextlib.ExitStack() as stack:
            parallel: Callable = map
            if len(self._replicas) > 1:
                threads = concurrent.futures.ThreadPoolExecutor(len(self._replicas))
                parallel = stack.enter_context(threads).map
            for batch, results in parallel(call, batches):
                yield from zip(batch, results)
                if progress:
                    progress(len(batch))
