"""Sub-word tokenization (Sec. 5.1) with SentencePiece, in and out of graphs."""

import collections
import functools
import hashlib
import io
import logging
import os
import re
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import regex
import sentencepiece
import tensorflow as tf
import tensorflow_text as tf_text
from sentencepiece import sentencepiece_model_pb2 as messages

from tf_transformer.config import DataConfig
from tf_transformer.data.normalization import normalize_by, normalizer_spec
from tf_transformer.data.progress import Progress
from tf_transformer.data.tags import split_tag, tag_pattern, vocabulary_tags
from tf_transformer.data.text_files import check_list
from tf_transformer.errors import UserError
from tf_transformer.files import atomic_write
from tf_transformer.host import number_of_cores
from tf_transformer.special_tokens import BLANK, END, PAD, START, UNK

logger = logging.getLogger(__name__)

MAX_SENTENCES = 2_000_000  # a vocabulary is learned from a random sample of at most this size
MAX_SENTENCE_BYTES = 4192  # longer ones are left out of the sample
# A unigram vocabulary depends on the number of threads that learn it, so all hosts have the same.
LEARNING_THREADS = 16
# The candidates of a unigram vocabulary.
MAX_WORDS = 1_000_000  # that are kept, the most frequent ones
MAX_STRINGS = 5_000_000  # of them that are counted
MAX_SEEDS = 1_000_000  # as SentencePiece's `seed_sentencepiece_size`
MAX_CHARACTERS = 16  # as SentencePiece's `max_sentencepiece_length`
VOCABULARIES = ("shared", "source", "target")  # the files of a model folder, with `.model`


@functools.cache
def _graph_tokenizer(model: bytes) -> tf_text.SentencepieceTokenizer:
    """Returns the TensorFlow tokenizer of a SentencePiece model.

    It is cached because all tokenizers of a model share one resource, and the first of them to be
    deleted frees it.
    """
    # A process that loads SavedModels has one kernel for each name, so each model needs its own.
    name = f"sentencepiece_{_fingerprint(model)}"
    # Otherwise a tokenizer that is first used in a graph belongs to that graph, and no other graph
    # can use it.
    with tf.init_scope():
        return tf_text.SentencepieceTokenizer(model=model, out_type=tf.int32, name=name)


def _fingerprint(model: bytes) -> str:
    return hashlib.sha256(model).hexdigest()[:16]


class Tokenizer(tf.Module):
    """Converts text to ids of one vocabulary and back.

    Ids 0 to 3 are the special tokens: padding, unknown, start, end. Tags, bytes and sub-words
    follow, and then those that have been added to the vocabulary.
    A character that is not in the vocabulary is encoded as its UTF-8 bytes, so encoding loses no
    text: `decode(encode(text))` is `normalize(text)`.

    Args:
      model: a SentencePiece model, bytes.
      with_tags: whether the tags of the vocabulary can begin a text.

    Attributes:
      vocab_size: number of ids.
      tags: with their ids.
      fingerprint: of the model.
    """

    def __init__(self, model: bytes, with_tags: bool = True) -> None:
        super().__init__()
        if not model:  # SentencePiece accepts it
            raise RuntimeError("a SentencePiece model of no bytes")
        self.model = model
        self._python = sentencepiece.SentencePieceProcessor(model_proto=model)
        self.vocab_size = self._python.get_piece_size()
        self.tags = vocabulary_tags(self._python) if with_tags else {}
        self.fingerprint = _fingerprint(model)

    def __reduce__(self) -> tuple[Any, ...]:
        # TensorFlow's tokenizer cannot be pickled.
        return Tokenizer, (self.model, bool(self.tags))

    @classmethod
    def learn(
        cls,
        sentences: Iterable[str],
        vocab_size: int,
        tags: Sequence[str] = (),
        subword_model: str = "bpe",
        normalization: str = "identity",
    ) -> "Tokenizer":
        """Learns a vocabulary.

        Args:
          vocab_size: number of sub-words. The vocabulary of a small text can be smaller; see
            `vocab_size` of the result.
          tags: of the vocabulary.
          subword_model: "bpe" for byte-pair encoding (Sennrich et al. 2016), as in the paper, or
            "unigram" for a unigram language model (Kudo 2018).
          normalization: the rule by which text is normalised, as of `normalizer_spec`.
        Raises: UserError when there is no text, `vocab_size` is too small for its characters, or
          there is no such rule.
        """
        learn = _train_unigram if subword_model == "unigram" else _train_sentencepiece
        spec = normalizer_spec(normalization)
        model = learn(
            map(normalize_by(spec), sentences),
            vocab_size,
            model_type=subword_model,
            normalization_rule_name="identity",
            byte_fallback=True,
            pad_id=PAD,
            unk_id=UNK,
            bos_id=START,
            eos_id=END,
            pad_piece="[PAD]",
            unk_piece="[UNK]",
            bos_piece="[START]",
            eos_piece="[END]",
            control_symbols=list(tags),
        )
        tokenizer = cls(model).with_normalizer(spec)
        if tokenizer.vocab_size < vocab_size:
            size = f"{tokenizer.vocab_size:,}"
            logger.info("the vocabulary has %s sub-words: this text has no more", size)
        return tokenizer

    @classmethod
    def load(cls, path: str) -> "Tokenizer":
        """Loads what `save` wrote. Raises: UserError when the file is missing or damaged."""
        try:
            with open(path, "rb") as file:
                return cls(file.read())
        except (FileNotFoundError, RuntimeError) as error:
            raise UserError(
                f"no vocabulary at {path} ({error}): restore it from a backup, or train the "
                "model again"
            ) from None

    def save(self, path: str) -> None:
        """Writes the SentencePiece model, atomically."""
        with atomic_write(path, "wb") as file:
            file.write(self.model)

    def for_targets(self) -> "Tokenizer":
        """Returns a tokenizer of the same vocabulary, in whose texts a tag is text like any other.

        Tags begin sources only, but a shared vocabulary has them too.
        """
        return Tokenizer(self.model, with_tags=False)

    @property
    def subword_model(self) -> str:
        """The kind of the vocabulary: "bpe" or "unigram", or another one of SentencePiece."""
        spec = messages.ModelProto.FromString(self.model).trainer_spec
        return str(messages.TrainerSpec.ModelType.Name(spec.model_type)).lower()

    @property
    def normalizer_spec(self) -> messages.NormalizerSpec:
        """What SentencePiece does to text before it divides it."""
        return messages.ModelProto.FromString(self.model).normalizer_spec

    def with_normalizer(self, spec: messages.NormalizerSpec) -> "Tokenizer":
        """Returns a tokenizer of the same vocabulary with another `normalizer_spec`."""
        proto = messages.ModelProto.FromString(self.model)
        proto.normalizer_spec.CopyFrom(spec)
        return Tokenizer(proto.SerializeToString(deterministic=True), bool(self.tags))

    def same_vocabulary(self, other: "Tokenizer") -> bool:
        """Whether another tokenizer has the same sub-words; the normalizers can differ."""
        spec = self.normalizer_spec
        return self.with_normalizer(spec).model == other.with_normalizer(spec).model

    def encode(self, texts: str | list[str] | tf.Tensor) -> tf.RaggedTensor | tf.Tensor:
        """Encodes text; also runs in a graph.

        Args:
          texts: strings `[N]`, or one string; a tag of the vocabulary, and a blank, can begin them.
        Returns: ragged int32 `[N, (length)]`, or int32 `[length]`, ending with the end token.
        """
        texts = tf.convert_to_tensor(texts, tf.string)
        if texts.shape.rank == 0:
            return self.encode(texts[tf.newaxis])[0]
        if self.tags:
            tag, texts = self._split_tags(texts)
            ids = tf.concat([tag, self.resource.tokenize(texts)], axis=1)
        else:
            ids = self.resource.tokenize(texts)
        end = tf.fill([ids.nrows(), 1], END)
        return tf.concat([ids, end], axis=1)

    def encode_lists(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the ids of `encode` of one or more texts, on all cores and without a graph.

        Raises: TypeError for a string in place of a list.
        """
        check_list(texts, '["Anna sleeps."]')
        tags, sentences = zip(*(split_tag(text, self.tags) for text in texts))
        rows = self._python.encode(list(sentences), add_eos=True, num_threads=number_of_cores())
        return [[self.tags[tag], *row] if tag else row for tag, row in zip(tags, rows)]

    def _split_tags(self, texts: list[str] | tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor]:
        """Strings `[N]` -> ids of their tags, ragged `[N, (0 or 1)]`, and the sentences `[N]`."""
        pattern = tag_pattern(self.tags)
        tagged = tf.strings.regex_full_match(texts, pattern)  # (N)
        names = tf.boolean_mask(texts, tagged)
        ids = self.resource.string_to_id(tf.strings.regex_replace(names, pattern, r"\1"))
        sentences = tf.where(tagged, tf.strings.regex_replace(texts, pattern, r"\2"), texts)
        return tf.RaggedTensor.from_row_lengths(ids, tf.cast(tagged, tf.int64)), sentences

    def decode(self, ids: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
        """Decodes integers `[N, T]`, ragged or padded, to strings `[N]`, or `[T]` to one.

        Start, end and padding tokens add no text. Also runs in a graph.
        """
        return self.resource.detokenize(tf.cast(ids, tf.int32))

    @property
    def resource(self) -> tf_text.SentencepieceTokenizer:
        """The TensorFlow tokenizer. It is an attribute too, so that a SavedModel contains it.

        `tf.random.set_seed` frees the resources of all tokenizers. A new one is then made.
        """
        try:
            with tf.init_scope():
                _graph_tokenizer(self.model).vocab_size()
        except tf.errors.NotFoundError:
            _graph_tokenizer.cache_clear()
        self._resource = _graph_tokenizer(self.model)
        return self._resource

    def pieces_of(self, ids: tf.Tensor) -> tf.Tensor:
        """Returns the sub-words of ids `[N, T]`, "" for padding; also runs in a graph."""
        return tf.where(ids == PAD, "", self.resource.id_to_string(ids))

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Returns the sub-words of ids as strings, for display."""
        return [self._python.id_to_piece(int(i)) for i in ids]

    def normalize(self, text: str) -> str:
        """Returns the normal form of a string: `decode(encode(text))`.

        The rule of the vocabulary applies, and blanks are single, with none at the ends.
        """
        return self._python.normalize(text).replace(BLANK, " ").lstrip(" ")


def _train_sentencepiece(texts: Iterable[str], vocab_size: int, **options: Any) -> bytes:
    """Learns a SentencePiece model of at most `vocab_size` sub-words, and shows the progress.

    Python handles Ctrl-C in the main thread only, between two steps of Python code. The trainer is
    one step, of C++ code, so it runs in a thread.

    Raises: UserError when no vocabulary can be learned; and what `texts` raises.
    """
    model = io.BytesIO()
    errors: list[BaseException] = []  # of the texts; then of the trainer, which hides the first
    number = 0  # of texts that were read

    def sentences() -> Iterator[str]:
        nonlocal number
        try:
            for text in texts:
                number += 1
                yield text
        except BaseException as error:
            errors.append(error)
            raise

    def train() -> None:
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=sentences(),
                model_writer=model,
                vocab_size=vocab_size,
                hard_vocab_limit=False,
                input_sentence_size=MAX_SENTENCES,
                max_sentence_length=MAX_SENTENCE_BYTES,
                shuffle_input_sentence=True,
                num_threads=LEARNING_THREADS,
                minloglevel=2,
                **options,
            )
        except RuntimeError as error:
            errors.append(_learning_error(str(error).strip(), vocab_size))
        except Exception as error:
            errors.append(error)

    # A daemon thread does not keep the process alive after Ctrl-C.
    thread = threading.Thread(target=train, daemon=True)
    thread.start()
    with Progress("learning the vocabulary", "sentences") as progress:
        while thread.is_alive():
            thread.join(0.5)
            progress.show(number)
    if errors:
        raise errors[0] from None
    return model.getvalue()


def _train_unigram(texts: Iterable[str], vocab_size: int, **options: Any) -> bytes:
    """Learns a unigram model from candidates of ours; arguments as of `_train_sentencepiece`."""
    with tempfile.TemporaryDirectory(prefix="tf_transformer-") as folder:
        path = os.path.join(folder, "seeds.tsv")
        model = _train_sentencepiece(
            _write_seeds(texts, path), vocab_size, seed_sentencepieces_file=path, **options
        )
    proto = messages.ModelProto.FromString(model)
    proto.trainer_spec.ClearField("seed_sentencepieces_file")  # equal text, equal model
    return bytes(proto.SerializeToString(deterministic=True))


def _write_seeds(texts: Iterable[str], path: str) -> Iterator[str]:
    """Writes the candidates of a text in the form of SentencePiece's `seed_sentencepieces_file`.

    SentencePiece 0.2.3 would take the repeated strings of the text, but misses those that are
    always followed by the same character, such as a word that always has a blank after it
    (https://github.com/google/sentencepiece/issues/1047). In tokenised text these are most words.
    So the candidates are given: the repeated strings within words, as in Kudo 2018, Sec. 3.2.

    Args:
      texts: normalised ones. Memory does not depend on their number.
      path: of the file, which is written after the last text.
    Yields: the texts.
    """
    # A word with the blank before it. Punctuation is apart from letters: no sub-word has both.
    # No sub-word has a tab or a line separator, which the file cannot contain.
    marks = rf"[\p{{P}}\p{{S}}--{BLANK}]+"
    words_of = regex.compile(rf"{BLANK}?(?:[^\s{BLANK}\p{{P}}\p{{S}}]+|{marks})", regex.V1).findall
    words: collections.Counter[str] = collections.Counter()
    for text in texts:
        words.update(words_of(BLANK + text.replace(" ", BLANK)))
        if len(words) > 2 * MAX_WORDS:
            words = collections.Counter(dict(words.most_common(MAX_WORDS)))
        yield text
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(f"{seed}\t{score}\n" for seed, score in _seeds(words))


def _seeds(words: collections.Counter[str]) -> list[tuple[str, int]]:
    """The strings that occur at least twice within words, and their scores.

    The score is the number of occurrences times the number of characters, as in SentencePiece.
    """
    strings: collections.Counter[str] = collections.Counter()
    for word, count in words.most_common():
        if len(strings) > MAX_STRINGS:
            break
        for start in range(len(word)):
            for end in range(start + 2, min(len(word), start + MAX_CHARACTERS) + 1):
                strings[word[start:end]] += count
    scores = {string: n * len(string) for string, n in strings.items() if n > 1}
    return collections.Counter(scores).most_common(MAX_SEEDS)


def _learning_error(reason: str, vocab_size: int) -> UserError:
    if required := re.search(r"required_chars\. \d+ vs (\d+)", reason):
        return UserError(
            f"vocab_size {vocab_size} is too small: this text needs at least {required[1]} "
            "sub-words, for its characters, all bytes and the special tokens"
        )
    if "all_chars_count" in reason or "sentences_.empty()" in reason:
        return UserError(
            "no vocabulary can be learned: the text is blank, or each line has more than "
            f"{MAX_SENTENCE_BYTES:,} bytes: give text with one sentence on each line"
        )
    return UserError(
        f"no vocabulary of {vocab_size} sub-words can be learned from this text: {reason}"
    )


def learn_tokenizers(
    pairs: Callable[[], Iterable[tuple[str, str]]],
    vocab_size: int,
    shared: bool,
    tags: Sequence[str] = (),
    subword_model: str = "bpe",
    normalization: tuple[str, str] = DataConfig().normalization,
) -> tuple[Tokenizer, Tokenizer]:
    """Learns one shared vocabulary, or one for each language (Sec. 5.1).

    Args:
      vocab_size: number of sub-words in each vocabulary.
      tags: which begin sources, and are added to their vocabulary.
      subword_model: of `Tokenizer.learn`.
      normalization: the rules of the sources and of the targets.
    Returns: the source's and the target's `Tokenizer`; one object twice when shared, with one rule.
    """
    if shared:
        specs = [normalizer_spec(rule) for rule in normalization]
        texts = _texts_of(pairs(), tags, *map(normalize_by, specs))
        tokenizer = Tokenizer.learn(texts, vocab_size, tags, subword_model)
        source, target = map(tokenizer.with_normalizer, specs)
        return source, source if source.model == target.model else target
    sources, targets = (_texts_of(pairs(), tags, *sides) for sides in ((str, None), (None, str)))
    return (
        Tokenizer.learn(sources, vocab_size, tags, subword_model, normalization[0]),
        Tokenizer.learn(targets, vocab_size, (), subword_model, normalization[1]),
    )


def _texts_of(
    pairs: Iterable[tuple[str, str]],
    tags: Sequence[str],
    *functions: Callable[[str], str] | None,
) -> Iterator[str]:
    """Yields sources, without tags, and targets.

    Args:
      tags: which can begin sources.
      *functions: of a source and of a target, such as normalizers; None leaves them out.
    """
    for source, target in pairs:
        sentences = split_tag(source, tags)[1], target
        yield from (call(text) for call, text in zip(functions, sentences) if call)


def read_vocabularies(vocab_model: str, shared: bool) -> tuple[Tokenizer, Tokenizer]:
    """Loads SentencePiece models that were learned elsewhere.

    Args:
      vocab_model: a file, or the files of source and target, separated by a comma.
      shared: whether both must have the same sub-words.
    Returns: the source's and the target's `Tokenizer`; one object twice for one file.
    Raises: UserError for a file that is not such a model, or has other special tokens.
    """
    paths = vocab_model.split(",")
    tokenizers = [_read_vocabulary(path) for path in paths]
    if len(paths) > 2:
        raise UserError(f"vocab_model {vocab_model!r}: give one file, or two")
    if shared and not tokenizers[0].same_vocabulary(tokenizers[-1]):
        raise UserError(
            f"{' and '.join(paths)} have other sub-words, or other scores of them: give "
            "--shared_vocab=false, or one file"
        )
    return tokenizers[0], tokenizers[-1]


def _read_vocabulary(path: str) -> Tokenizer:
    try:
        tokenizer = Tokenizer.load(path)
    except UserError:
        raise UserError(f"vocab_model {path!r}: no such file, or no SentencePiece model") from None
    proto = messages.ModelProto.FromString(tokenizer.model)
    special = {"pad_id": PAD, "unk_id": UNK, "bos_id": START, "eos_id": END}
    found = [getattr(proto.trainer_spec, name) for name in special]
    if found != list(special.values()):
        options = " ".join(f"--{name}={token}" for name, token in special.items())
        raise UserError(
            f"{path}: padding, unknown, start and end have the ids {', '.join(map(str, found))}, "
            f"not 0, 1, 2, 3: learn it with spm_train {options} --byte_fallback"
        )
    if all(piece.type != messages.ModelProto.SentencePiece.BYTE for piece in proto.pieces):
        logger.warning(
            "%s has no bytes: characters that are not in it become the unknown token, and are "
            "lost; learn it with spm_train --byte_fallback",
            path,
        )
    return tokenizer


def save_tokenizers(tokenizers: tuple[Tokenizer, Tokenizer], folder: str) -> None:
    """Writes `shared.model`, or `source.model` and `target.model`, to a folder.

    Args:
      tokenizers: of the source and of the target; one object twice when they are the same.
    """
    names = VOCABULARIES[:1] if tokenizers[0] is tokenizers[1] else VOCABULARIES[1:]
    for name, tokenizer in zip(names, tokenizers):
        tokenizer.save(os.path.join(folder, f"{name}.model"))


def load_tokenizers(folder: str) -> tuple[Tokenizer, Tokenizer]:
    """Loads what `save_tokenizers` wrote. Raises: as `Tokenizer.load`."""
    shared, *both = (os.path.join(folder, f"{name}.model") for name in VOCABULARIES)
    paths = both if any(map(os.path.exists, both)) else [shared]
    tokenizers = [Tokenizer.load(path) for path in paths]
    return tokenizers[0], tokenizers[-1]
