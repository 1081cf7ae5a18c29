"""`Translator`: tokenizer, model and search; text in, text out."""

import concurrent.futures
import dataclasses
import queue
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar, overload

import numpy as np
import tensorflow as tf

from tf_transformer.config import NO_CONTROLS, ControlConfig, DecodeConfig, SamplingConfig
from tf_transformer.data.tokenizer import Tokenizer
from tf_transformer.decoding.ensemble import Model, copy_model, load_models, single_model
from tf_transformer.decoding.extras.constraints import PhraseIds, encode_phrases, pad_phrases
from tf_transformer.decoding.extras.diverse_beam import check_groups
from tf_transformer.decoding.inference import (
    SCORED_TOKENS,
    alternative_translations,
    detokenize,
    forced_decoding,
    forced_log_probs,
    max_output_lengths,
    sample_translations,
    search_translations,
)
from tf_transformer.decoding.scores import is_possible, length_penalty
from tf_transformer.decoding.text_batches import encode, find_long, length_batches, pad
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
        self._compiled: dict[tuple, tf.types.experimental.PolymorphicFunction] = {}

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
        names = tuple(arrays)
        key = function, names, tuple(options.items())
        if key not in self._compiled:

            def call(*tensors: tf.Tensor) -> Any:
                return function(self._model, **dict(zip(names, tensors)), **options)

            signature = [tf.TensorSpec([None] * array.ndim, tf.int32) for array in arrays.values()]
            self._compiled[key] = tf.function(
                call,
                input_signature=signature,
                autograph=False,
                jit_compile=options.get("for_xla") or None,
            )
        with tf.device(self._device):
            result = self._compiled[key](*arrays.values())
        return tf.nest.map_structure(lambda x: x.numpy(), result)


# Takes a replica, the indices of texts, and their ids [B, S] and prefixes [B, P] by name; returns
# the ids [B, n, L] and the scores of their hypotheses, and further numbers about each.
Decode = Callable[[Replica, list[int], dict[str, np.ndarray]], Sequence[np.ndarray]]


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
        self.check_number(number)
        if constraints and (target_prefixes or self.controls.diverse_groups > 1):
            raise UserError("constraints and prefixes or diverse groups: give one of them")
        phrases: list[PhraseIds] = [[] for _ in texts]
        if constraints is not None:
            phrases = self._phrases(texts, constraints, line_numbers)

        options = {"decode": self.decode, "n_best": number, "controls": self.controls}

        def search(
            replica: Replica, batch: list[int], arrays: dict[str, np.ndarray]
        ) -> Sequence[np.ndarray]:
            if any(phrases[i] for i in batch):
                arrays = {"inp": arrays["inp"], "phrases": pad_phrases(phrases, batch)}
            return replica.run(search_translations, arrays, **options)[:2]

        rows = self.decode.beam_size
        return self._decode_texts(
            search, texts, rows, progress, line_numbers, skip_long, target_prefixes
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
        options = {"decode": self.decode, "n_best": number, "controls": self.controls}
        options |= dataclasses.asdict(sampling or SamplingConfig())
        lines = line_numbers or range(1, len(texts) + 1)

        def draw(
            replica: Replica, batch: list[int], arrays: dict[str, np.ndarray]
        ) -> Sequence[np.ndarray]:
            arrays["seeds"] = np.array([[seed, lines[i]] for i in batch], np.int32)
            return replica.run(sample_translations, arrays, **options)[:2]

        return self._decode_texts(draw, texts, number, progress, lines, skip_long, target_prefixes)

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

        def complete(
            replica: Replica, batch: list[int], arrays: dict[str, np.ndarray]
        ) -> Sequence[np.ndarray]:
            options = {"decode": self.decode, "number": number}
            return replica.run(alternative_translations, arrays, **options)

        options = None, None, skip_long, target_prefixes
        # One position for the next sub-word, and one for the end token or another sub-word.
        found = self._decode_texts(complete, texts, number, *options, following=2)
        return [[Alternative(*each) for each in row if len(each) == 3] for row in found]

    def _decode_texts(
        self,
        decode: Decode,
        texts: Sequence[str],
        rows_per_text: int,
        progress: Progress | None,
        line_numbers: Sequence[int] | None,
        skip_long: bool,
        target_prefixes: Sequence[str] | None,
        following: int = 1,
    ) -> list[list[tuple]]:
        """Calls a function for batches of texts.

        Args:
          decode: the function.
          rows_per_text: hypotheses of each text that are computed at the same time.
          texts, progress, line_numbers, skip_long, target_prefixes: as for `n_best`.
          following: positions that the model needs after a prefix.
        Returns: as `n_best`; each tuple also has the further numbers of the function.
        """
        if target_prefixes is not None and len(target_prefixes) != len(texts):
            raise UserError(f"{len(target_prefixes)} prefixes of {len(texts)} texts: give one each")
        rows = encode(self.source, texts)
        line_numbers = line_numbers or range(1, len(rows) + 1)
        long = find_long(rows, self.model.pe_input, line_numbers, skip_long)
        prefixes = [row[:-1] for row in encode(self.target, target_prefixes or [])]
        longest = self.model.pe_target - following
        long |= find_long(prefixes, longest, line_numbers, skip_long, True)
        results: list[list[tuple]] = [[("", 0.0)] for _ in rows]
        for i in long:
            results[i] = [("", float("-inf"))]
        lengths = {i: len(row) for i, row in enumerate(rows) if len(row) > 1 and i not in long}
        batches = length_batches(lengths, self.decode.decode_batch_tokens // rows_per_text)

        def decode_batch(replica: Replica, batch: list[int]) -> list[list[tuple]]:
            arrays = {
                "inp": pad([rows[i] for i in batch]),
                "prefix": pad([prefixes[i] if prefixes else [] for i in batch]),
            }
            return decode_hypotheses(self.target, *decode(replica, batch, arrays))

        for batch, hypotheses in self._map(decode_batch, batches):
            for i, pairs in zip(batch, hypotheses):
                results[i] = pairs
            if progress:
                progress(len(batch))
        return results

    @property
    def tags(self) -> dict[str, int]:
        """The tags of the source vocabulary, with their ids."""
        return self.source.tags

    def check_number(self, number: int) -> None:
        """Raises: UserError for a number of translations above the beam size."""
        if not 1 <= number <= self.decode.beam_size:
            size = self.decode.beam_size
            raise UserError(f"{number} translations of a beam of {size}: give a larger --beam_size")

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

        for batch, log_probs in self._map(force, length_batches(lengths, SCORED_TOKENS)):
            for i, row in zip(batch, log_probs):
                results[i] = self._pair_score(targets[i], row[: len(targets[i])])
            if progress:
                progress(len(batch))
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

    def _phrases(
        self,
        texts: Sequence[str],
        constraints: Sequence[Sequence[str]],
        line_numbers: Sequence[int] | None,
    ) -> list[PhraseIds]:
        """The ids of the phrases of each text. Raises: UserError for those that cannot be met."""
        lengths = np.array([len(row) - 1 for row in encode(self.source, texts)], np.int32)
        limits = max_output_lengths(self.model, lengths, self.decode).numpy().tolist()
        return encode_phrases(self.target, constraints, limits, line_numbers)

    def _map(
        self, function: Callable[[Replica, list[int]], Result], batches: Iterable[list[int]]
    ) -> Iterator[tuple[list[int], Result]]:
        """Calls a function of a replica and a batch for each batch, on all replicas.

        Yields: each batch with its result, in order.
        """
        free: queue.SimpleQueue[Replica] = queue.SimpleQueue()
        for replica in self._replicas:
            free.put(replica)

        def call(batch: list[int]) -> tuple[list[int], Result]:
            replica = free.get()
            try:
                return batch, function(replica, batch)
            finally:
                free.put(replica)

        if len(self._replicas) == 1:
            yield from map(call, batches)
            return
        with concurrent.futures.ThreadPoolExecutor(len(self._replicas)) as threads:
            yield from threads.map(call, batches)

    def _pair_score(self, ids: list[int], log_probs: np.ndarray) -> PairScore:
        total = float(np.sum(log_probs, dtype=np.float64))
        penalty = length_penalty(len(ids), self.decode.length_penalty)
        return PairScore(total, total / penalty, self.target.pieces(ids), log_probs.tolist())


def decode_hypotheses(
    tokenizer: Tokenizer, ids: np.ndarray, *numbers: np.ndarray
) -> list[list[tuple]]:
    """The tuples (translation, score, further numbers) of each sentence of a search."""
    batch_size, n_best, length = ids.shape
    texts = detokenize(tokenizer, ids.reshape(batch_size * n_best, length)).numpy()
    texts = texts.reshape(batch_size, n_best)
    return [
        [
            (text.decode("utf-8"), float(score), *map(float, others))
            for text, score, *others in zip(*row)
            if is_possible(score)
        ]
        or [("", float("-inf"))]  # a model whose logits are not finite
        for row in zip(texts, *numbers)
    ]
