"""`Translator`: tokenizer, model and search; text in, text out."""

import functools
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import tensorflow as tf

from tf_transformer.checkpoints.model_folder import DEFAULT_MODEL
from tf_transformer.config import DEFAULT_GENERATION, DecodeConfig, GenerationConfig, SamplingConfig
from tf_transformer.data.text_files import check_list
from tf_transformer.data.tokenizer import Tokenizer
from tf_transformer.decoding.beam_search import SearchResult
from tf_transformer.decoding.ensemble import Model, load_models, members, single_model
from tf_transformer.decoding.inference import (
    align_tokens,
    detokenize,
    max_output_lengths,
    sample_translations,
    search_translations,
    target_log_probs,
    teacher_forcing,
)
from tf_transformer.decoding.scores import is_possible, length_penalty
from tf_transformer.decoding.text_batches import (
    SCORED_TOKENS,
    Translation,
    check_n_best,
    encode,
    find_long,
    length_batches,
    pad,
    padded_length,
    word_indices,
)
from tf_transformer.errors import UserError
from tf_transformer.gpus import missing_machine_code

logger = logging.getLogger(__name__)

GPU_BATCHES = 8  # a batch of a GPU is as large as so many of a CPU
# Of one text, after which XLA's compilation of a few shapes has paid for itself (estimated: 20 s
# for each of five shapes, and half a second of a batch).
XLA_BATCHES = 200

Progress = Callable[[int], object]  # is called with the number of texts of each finished batch
Texts = TypeVar("Texts", str, list[str])
Rows = list[list[int]]  # integers of each text, such as its ids


class Replicas:
    """A built model on all devices of its strategy, with its compiled functions."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._strategy = members(model)[0].distribute_strategy
        several = self._strategy.num_replicas_in_sync > 1
        self.number = len(self._strategy.extended.worker_devices) if several else 1  # of this host
        self._compiled: dict[tuple, tf.types.experimental.ConcreteFunction] = {}

    def run(
        self,
        function: Callable[..., Any],
        arrays: dict[str, np.ndarray],
        number: int | None = None,
        **options: Any,
    ) -> list[Any]:
        """Calls a function of `decoding.inference` on the rows of each replica, as a graph.

        Args:
          function: its first argument is the model.
          arrays: its further arguments that are arrays of int32, by name. Replica i of n takes the
            rows i, i + n, i + 2n and so on.
          number: n, 1 for the first device alone; None for all.
          **options: its other arguments, each of which makes a graph of its own. XLA compiles those
            with `for_xla`, once for each shape of the arrays.
        Returns: for each replica what the function returns, with numpy arrays.
        """
        number = number or self.number
        key = function, number, *arrays, *options.items()

        def compute(**tensors: tf.Tensor) -> Any:
            jit_compile = options.get("for_xla") or None
            part = functools.partial(function, self._model, **options)
            return tf.function(part, autograph=False, jit_compile=jit_compile)(**tensors)

        def of_replica(**tensors: tf.Tensor) -> Any:  # each replica has its own weights
            replica = tf.distribute.get_replica_context().replica_id_in_sync_group
            first = replica % number  # the ids of a host follow the ids of the host before
            return compute(**{name: x[first::number] for name, x in tensors.items()})

        def of_all(**tensors: tf.Tensor) -> Any:
            if number == 1:  # also on the first of several devices
                return [compute(**tensors)]
            result = self._strategy.run(of_replica, kwargs=tensors)
            local_results = self._strategy.experimental_local_results
            parts = zip(*map(local_results, tf.nest.flatten(result)))
            return [tf.nest.pack_sequence_as(result, part) for part in parts]

        if key not in self._compiled:
            specs = {x: tf.TensorSpec([None] * y.ndim, tf.int32, x) for x, y in arrays.items()}
            graph = tf.function(of_all, autograph=False)
            self._compiled[key] = graph.get_concrete_function(**specs)
        tensors = {name: tf.constant(array, tf.int32) for name, array in arrays.items()}
        return tf.nest.map_structure(lambda x: x.numpy(), self._compiled[key](**tensors))


class PairScore(NamedTuple):
    """The probability of a given translation."""

    log_prob: float  # in nats, the sum over the sub-words; -inf for a text that is too long
    normalized: float  # divided by the length penalty, like the scores of the search
    pieces: list[str]  # the sub-words, the end token included
    token_log_probs: list[float]  # of each sub-word
    truncated: bool  # whether it has the longest length of the search, or more


class Translator:
    """Translates text with a trained model.

    Args:
      model: a built one.
      tokenizers: of the source and of the target.
      generation: settings of searches and samples.
      jit_compile: whether XLA compiles the searches of `n_best`, each for a few shapes of batches:
        "on", "off", or "auto": on GPUs, for texts that are long enough to pay for it.

    All devices of the strategy in whose scope the model was built decode parts of each batch, where
    the text has more than one batch.
    """

    def __init__(
        self,
        model: Model,
        tokenizers: tuple[Tokenizer, Tokenizer],
        decode: DecodeConfig,
        generation: GenerationConfig = DEFAULT_GENERATION,
        jit_compile: str = "auto",
    ) -> None:
        self.model = model
        self.decode = decode
        self.generation = generation
        self.source, self.target = tokenizers[0], tokenizers[1].for_targets()
        self.tags = self.source.tags  # of the source vocabulary, with their ids
        self._replicas = Replicas(model)
        self._gpus = tf.config.get_visible_devices("GPU")
        self._min_xla_batches: float = {"on": 0, "off": math.inf}.get(jit_compile, XLA_BATCHES)
        if jit_compile == "auto" and (not self._gpus or missing_machine_code(self._gpus)):
            self._min_xla_batches = math.inf

    @classmethod
    def load(
        cls,
        model_dir: str = DEFAULT_MODEL,
        checkpoint: str | None = None,
        generation: GenerationConfig = DEFAULT_GENERATION,
        precision: str = "float32",
        jit_compile: str = "auto",
        **decode: object,
    ) -> "Translator":
        """Loads a model folder, or several as an ensemble.

        Args:
          model_dir: a folder written by `tf-transformer train`, or the name of a built-in model
            such as "pocket-en-de"; or several, separated by commas.
          checkpoint: "averaged", "best", "latest", or a path; None for the first of these that
            exists. Several, separated by commas, are an ensemble too: see `model_list`.
          generation, jit_compile: as for `Translator`.
          precision: as for `build_model`.
          **decode: fields of `DecodeConfig` to change, such as `beam_size=1`.
        Raises: UserError for no model, a damaged one, or models of different vocabularies.
        """
        model, tokenizers, config = load_models(model_dir, checkpoint, precision)
        return cls(model, tokenizers, config.replace(**decode).decode, generation, jit_compile)

    def __call__(self, text: Texts) -> Texts:
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
    ) -> list[list[Translation]]:
        """Translates texts, with several translations of each, best first.

        Args:
          texts: a list of strings.
          number: translations of each, at most the beam size.
          progress: is called with the number of texts of each finished batch.
          line_numbers: the line number of each text, for messages; None for 1, 2, ...
          skip_long: whether a text with more sub-words than the model has positions gets the
            result `[("", -inf)]` and a warning.
          target_prefixes: for each text the beginning of its translations, "" where they are free;
            None for all free. It ends with a complete word: the model can only append sub-words,
            and an incomplete word is often divided into others.
        Returns: a list; for each text `number` pairs (translation, score), of type `Translation`,
          or fewer where the search found fewer. A translation is one line: a blank replaces each
          line separator that the model writes. The score is the log-probability in nats divided by
          the length penalty. Blank text gives `[("", 0.0)]`.
        Raises: UserError for a text or a prefix with too many sub-words, unless `skip_long`; for a
          number above the beam size; or for another number of prefixes than texts.
        """
        beam_size = self.decode.beam_size
        check_n_best(number, beam_size)
        rows = self._encode(texts, target_prefixes, line_numbers, skip_long)
        return self._decode(search_translations, rows, beam_size, progress, n_best=number)

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
    ) -> list[list[Translation]]:
        """Draws translations from the model's distribution.

        The samples of a text depend on the seed and on its line number, not on the other texts.

        Args:
          texts, progress, line_numbers, skip_long, target_prefixes: as for `n_best`.
          number: samples of each text.
          sampling: a `SamplingConfig`; None for the distribution of the model, unchanged.
          seed: of the random numbers.
        Returns: as `n_best`, in the order of drawing; a translation can occur several times. The
          scores are as in `n_best`, at temperature 1 with all sub-words.
        Raises: UserError for a text or a prefix with too many sub-words, unless `skip_long`.
        """
        rows = self._encode(texts, target_prefixes, line_numbers, skip_long)
        rows["seeds"] = [[seed, line] for line in line_numbers or range(1, len(texts) + 1)]
        options = {"n_best": number, **vars(sampling or SamplingConfig())}
        return self._decode(sample_translations, rows, number, progress, **options)

    def _encode(
        self,
        texts: Sequence[str],
        target_prefixes: Sequence[str] | None,
        line_numbers: Sequence[int] | None,
        skip_long: bool,
    ) -> dict[str, Rows]:
        """Returns the ids of each text and of its prefix; none where one of them is too long."""
        lines = line_numbers or range(1, len(texts) + 1)
        if target_prefixes is not None and len(target_prefixes) != len(texts):
            raise UserError(f"{len(target_prefixes)} prefixes of {len(texts)} texts: give one each")
        sources = encode(self.source, texts)
        prefixes = [row[:-1] for row in encode(self.target, target_prefixes or [])]
        prefixes = prefixes or [[] for _ in sources]
        limit = self.model.pe_target - 1
        long = find_long(sources, self.model.pe_input, lines, skip_long)
        long |= find_long(prefixes, limit, lines, skip_long, "a prefix of ")
        return {"inp": [[] if i in long else x for i, x in enumerate(sources)], "prefix": prefixes}

    def _decode(
        self,
        search: Callable[..., SearchResult],
        rows: dict[str, Rows],
        rows_per_text: int,
        progress: Progress | None,
        **options: Any,
    ) -> list[list[Translation]]:
        """Translates encoded texts.

        Args:
          search: a function of `decoding.inference`, which is given the settings and the options.
          rows: by the names of its arguments, what it takes for each text.
          rows_per_text: hypotheses of each text that are computed at the same time.
        """
        impossible = Translation(("", float("-inf")))
        results = [[Translation(("", 0.0)) if row else impossible] for row in rows["inp"]]
        lengths = {i: len(row) for i, row in enumerate(rows["inp"]) if len(row) > 1}  # not blank
        batch_tokens = self.decode.decode_batch_tokens // rows_per_text
        options |= {"decode": self.decode, "generation": self.generation}
        for batch, (ids, scores, counts, truncated) in self._run(
            search, rows, lengths, batch_tokens, progress, **options
        ):
            found = detokenize(self.target, ids.reshape(scores.size, ids.shape[2])).numpy()
            for i, *row in zip(batch, found.reshape(scores.shape), scores, counts, truncated):
                results[i] = [
                    Translation((text.decode("utf-8"), float(score)), int(count) - 1, bool(cut))
                    for text, score, count, cut in zip(*row)
                    if is_possible(score)
                ] or [impossible]  # where logits are not finite
        return results

    def _run(
        self,
        function: Callable[..., Any],
        rows: dict[str, Rows],
        lengths: dict[int, int],
        batch_tokens: int,
        progress: Progress | None,
        **options: Any,
    ) -> Iterator[tuple[list[int], Any]]:
        """Calls a function of `decoding.inference` for batches of texts.

        Where the memory of a GPU is too short for a batch, the batches become smaller. Where XLA
        fails, the search goes on without it.

        Args:
          function, **options: as for `Replicas.run`.
          rows: its arrays, by name: integers of each text.
          lengths, batch_tokens: as for `length_batches`; of one replica on a CPU.
        Yields: the indices of the texts of a batch, and the result, which may have further rows.
        """
        batch_tokens = max(batch_tokens, 1) * (GPU_BATCHES if self._gpus else 1)
        batches = sum(lengths.values()) / batch_tokens
        number = self._replicas.number if batches > 1 else 1
        if function is search_translations and batches > number * self._min_xla_batches:
            options["for_xla"] = True
        left = dict(lengths)
        while left:
            try:
                for batch, arrays in self._batches(rows, left, batch_tokens, number, **options):
                    results = self._replicas.run(function, arrays, number, **options)
                    for i, result in enumerate(results):
                        yield batch[i::number], result
                    for i in batch:
                        del left[i]
                    if progress:
                        progress(len(batch))
            except tf.errors.ResourceExhaustedError:
                if batch_tokens <= max(left.values()):  # one text for each replica
                    raise
                batch_tokens //= 2
                logger.warning(f"out of memory: going on with batches of {batch_tokens:,} tokens")
            except tf.errors.OpError as error:
                if not options.pop("for_xla", False):
                    raise
                self._min_xla_batches = math.inf
                reason = str(error).strip().partition("\n")[0][:300]
                logger.warning(f"XLA cannot compile the search, which goes on without it: {reason}")

    def _batches(
        self,
        rows: dict[str, Rows],
        lengths: dict[int, int],
        batch_tokens: int,
        number: int,
        for_xla: bool = False,
        **_: Any,
    ) -> Iterator[tuple[list[int], dict[str, np.ndarray]]]:
        """Yields the indices of the texts of each batch for `number` replicas, and its arrays.

        With `for_xla`, XLA has few shapes to compile: the longest text of a batch counts as one of
        `padded_length`, and the last text is repeated until the batch is full.
        """
        limits = {"inp": self.model.pe_input, "prefix": self.model.pe_target - 1}
        if for_xla:  # texts of one padded length stay in the order of their own
            order = sorted(lengths, key=lambda i: -lengths[i])
            lengths = {i: padded_length(lengths[i], limits["inp"]) for i in order}
        for batch in length_batches(lengths, batch_tokens * number):
            full = batch_tokens * number // lengths[batch[0]] if for_xla else 0
            size = math.ceil(max(full, len(batch)) / number) * number
            padded = batch + batch[-1:] * (size - len(batch))
            arrays = {}
            for name, of_texts in rows.items():
                longest = max(len(of_texts[i]) for i in padded)
                length = padded_length(longest, limits[name]) if for_xla else longest
                arrays[name] = pad([of_texts[i] for i in padded], length)
            yield batch, arrays

    def score(
        self,
        pairs: Sequence[tuple[str, str]],
        progress: Progress | None = None,
        first_line: int = 1,
        skip_long: bool = False,
    ) -> list[PairScore]:
        """Computes the probability of given translations by teacher forcing.

        `normalized` is the search's score, for a translation whose sub-words `Tokenizer.encode`
        chooses too.

        Args:
          pairs: (source, target) texts.
          progress, skip_long: as for `n_best`.
          first_line: the line number of the first pair, for messages.
        Raises: UserError for a text with too many sub-words on either side, unless `skip_long`.
        """
        sources, targets = self._encode_pairs(pairs)
        numbers = range(first_line, first_line + len(pairs))
        long = find_long(sources, self.model.pe_input, numbers, skip_long)
        long |= find_long(targets, self.model.pe_target, numbers, skip_long)
        results = [PairScore(float("-inf"), float("-inf"), [], [], False) for _ in pairs]
        lengths = {
            i: max(len(sources[i]), len(targets[i])) for i in range(len(pairs)) if i not in long
        }

        rows = {"inp": sources, "tar_real": targets}
        for batch, found in self._run(target_log_probs, rows, lengths, SCORED_TOKENS, progress):
            for i, row in zip(batch, found):
                token_log_probs = row[: len(targets[i])]
                total = float(np.sum(token_log_probs, dtype=np.float64))
                normalized = total / length_penalty(len(targets[i]), self.decode.length_penalty)
                pieces = self.target.pieces(targets[i])
                longest = max_output_lengths(self.model, len(sources[i]) - 1, self.decode)
                truncated = len(targets[i]) >= int(longest)
                log_probs = token_log_probs.tolist()
                results[i] = PairScore(total, normalized, pieces, log_probs, truncated)
        return results

    def _encode_pairs(self, pairs: Sequence[tuple[str, str]]) -> tuple[Rows, Rows]:
        """Returns the ids of the sources and of the targets."""
        for pair in (pairs, *pairs):
            check_list(pair, '[("Anna sleeps.", "Anna schläft.")]')
        sources, targets = ([pair[side] for pair in pairs] for side in (0, 1))
        return encode(self.source, sources), encode(self.target, targets)

    def align(
        self, pairs: Sequence[tuple[str, str]], progress: Progress | None = None
    ) -> list[list[tuple[int, int]]]:
        """Aligns the words of texts and given translations by the attention of the model.

        Each target sub-word is linked to the source sub-word of `inference.align_tokens`. Words are
        linked where a sub-word of one is linked to a sub-word of the other. A word is what stands
        between blanks; the tag of a source is none.

        Args:
          pairs, progress: as for `score`.
        Returns: for each pair the sorted links (index of the source word, of the target word), from
          0; none for a pair with too many sub-words on a side, or a blank one.
        Raises: UserError for an ensemble.
        """
        single_model(self.model)
        sources, targets = self._encode_pairs(pairs)
        sizes = {i: (len(sources[i]), len(targets[i])) for i in range(len(pairs))}
        lengths = {
            i: max(size)
            for i, size in sizes.items()
            if size[0] <= self.model.pe_input and size[1] <= self.model.pe_target and min(size) > 1
        }
        results: list[list[tuple[int, int]]] = [[] for _ in pairs]
        rows = {"inp": sources, "tar_real": targets}
        for batch, found in self._run(align_tokens, rows, lengths, SCORED_TOKENS, progress):
            for i, row in zip(batch, found):
                source = ["" if x in self.tags else x for x in self.source.pieces(sources[i])]
                words = word_indices(source), word_indices(self.target.pieces(targets[i]))
                linked = enumerate(row[: len(targets[i]) - 1])
                results[i] = sorted({(words[0][s], words[1][t]) for t, s in linked if s >= 0})
        return results

    def attention(
        self, text: str, translation: str | None = None
    ) -> tuple[list[str], list[str], dict[str, np.ndarray]]:
        """Computes the attention weights of a sentence and its translation.

        Args:
          translation: None for the model's own translation.
        Returns: source sub-words (S), target sub-words (T), and the attention weights as numpy
          arrays by name: `encoder_layer1 [H, S, S]`, `decoder_layer1_block1 [H, T, T]` over the
          target, `decoder_layer1_block2 [H, T, S]` over the source, and so on. Row t of the
          decoder's weights is where the model attends when it predicts target sub-word t.
        """
        if not isinstance(text, str) or not isinstance(translation, str | None):
            raise TypeError("give one text, and one translation or None, each as a string")
        translation = self(text) if translation is None else translation
        inp = self.source.encode([text]).to_tensor()  # (1, S)
        tar = self.target.encode([translation]).to_tensor()  # (1, T)
        model = single_model(self.model)
        _, weights = teacher_forcing(model, inp, tar)
        weights = {**model.encoder.attention_weights(inp), **weights}
        source, target = self.source.pieces(inp[0]), self.target.pieces(tar[0])
        return source, target, {name: weight[0].numpy() for name, weight in weights.items()}
