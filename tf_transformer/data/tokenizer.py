"""Sub-word tokenization (Sec. 5.1): byte-pair encoding with SentencePiece, in and out of graphs."""

import functools
import hashlib
import io
import os

import sentencepiece
import tensorflow as tf
import tensorflow_text as tf_text

from tf_transformer.atomic_io import atomic_write
from tf_transformer.errors import UserError
from tf_transformer.special_tokens import END, PAD, START, UNK

MAX_SENTENCES = 4_000_000  # a vocabulary is learned from a random sample of at most this size


@functools.cache
def _graph_tokenizer(model):
    """Returns the TensorFlow tokenizer of a SentencePiece model.

    It is cached because all tokenizers of a model share one resource, and the first of them to be
    deleted frees it.
    """
    # Otherwise a tokenizer that is first used in a graph belongs to that graph, and no other graph
    # can use it.
    with tf.init_scope():
        return tf_text.SentencepieceTokenizer(model=model, out_type=tf.int32)


class Tokenizer:
    """Converts text to ids of one vocabulary and back.

    Ids 0 to 3 are the special tokens: padding, unknown, start, end. Bytes and sub-words follow.
    A character that is not in the vocabulary is encoded as its UTF-8 bytes, so encoding never
    loses text.

    Args:
      model: a SentencePiece model, bytes.

    Attributes:
      vocab_size: number of ids.
      fingerprint: a hash of the model.
    """

    def __init__(self, model):
        self.model = model
        self._python = sentencepiece.SentencePieceProcessor(model_proto=model)
        self.vocab_size = self._python.get_piece_size()
        self.fingerprint = hashlib.sha256(model).hexdigest()[:16]

    @classmethod
    def learn(cls, sentences, vocab_size):
        """Learns a vocabulary.

        Args:
          sentences: an iterator of strings.
          vocab_size: number of sub-words. The vocabulary of a small text can be smaller; see
            `vocab_size` of the result.
        Returns: a `Tokenizer`.
        Raises: UserError when there is no text, or `vocab_size` is too small for its characters.
        """
        model = io.BytesIO()
        errors = []

        def checked():
            try:
                yield from sentences
            except BaseException as error:  # SentencePiece would hide it, even Ctrl-C
                errors.append(error)
                raise

        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=checked(),
                model_writer=model,
                model_type="bpe",
                vocab_size=vocab_size,
                hard_vocab_limit=False,
                byte_fallback=True,
                pad_id=PAD,
                unk_id=UNK,
                bos_id=START,
                eos_id=END,
                pad_piece="[PAD]",
                unk_piece="[UNK]",
                bos_piece="[START]",
                eos_piece="[END]",
                input_sentence_size=MAX_SENTENCES,
                shuffle_input_sentence=True,
                num_threads=os.cpu_count(),
                minloglevel=2,
            )
        except RuntimeError as error:
            if errors:
                raise errors[0] from None
            reason = str(error).strip().split("] ")[-1]
            raise UserError(
                f"no vocabulary of {vocab_size} sub-words can be learned from this text: {reason}"
            ) from None
        return cls(model.getvalue())

    @classmethod
    def load(cls, path):
        """Loads a vocabulary that `save` wrote.

        Raises: UserError when the file is missing or damaged.
        """
        try:
            with open(path, "rb") as file:
                return cls(file.read())
        except FileNotFoundError:
            raise UserError(f"no vocabulary at {path}: train a model first") from None
        except RuntimeError:
            raise UserError(f"{path} is not a SentencePiece model: train the model again") from None

    def save(self, path):
        """Writes the SentencePiece model, atomically."""
        with atomic_write(path, "wb") as file:
            file.write(self.model)

    def encode(self, texts):
        """Encodes text; also runs in a graph.

        Args:
          texts: strings `[N]`.
        Returns: ragged int32 `[N, (length)]`; each row ends with the end token.
        """
        ids = self._in_graph("tokenize", texts)
        end = tf.fill([ids.nrows(), 1], END)
        return tf.concat([ids, end], axis=1)

    def decode(self, ids):
        """Decodes ids; also runs in a graph.

        Args:
          ids: int32, ragged or padded, `[N, T]`. Start, end and padding tokens add no text.
        Returns: strings `[N]`.
        """
        return self._in_graph("detokenize", ids)

    def _in_graph(self, method, argument):
        """Calls a method of the TensorFlow tokenizer.

        `tf.random.set_seed` frees the tokenizer's resource with all other kernels. This then makes
        a new tokenizer.
        """
        try:
            return getattr(self.resource, method)(argument)
        except tf.errors.NotFoundError:
            _graph_tokenizer.cache_clear()
            return getattr(self.resource, method)(argument)

    @property
    def resource(self):
        """The TensorFlow tokenizer. A `tf.Module` that is to be saved must have it as attribute."""
        return _graph_tokenizer(self.model)

    def pieces_of(self, ids):
        """Returns the sub-words of ids as strings; also runs in a graph.

        Args:
          ids: int32 `[N, T]`.
        Returns: strings `[N, T]`, "" for padding.
        """
        return tf.where(ids == PAD, "", self.resource.id_to_string(ids))

    def pieces(self, ids):
        """Returns the sub-words of ids as a list of strings, for display.

        Args:
          ids: a list of int.
        """
        return [self._python.id_to_piece(int(i)) for i in ids]

    def normalize(self, text):
        """Returns the normal form of a string (NFKC, single blanks): `decode(encode(text))`."""
        return self._python.normalize(text).removeprefix("\u2581").replace("\u2581", " ")


def learn_tokenizers(pairs, vocab_size, shared):
    """Learns one shared vocabulary, or one for each language (Sec. 5.1).

    Args:
      pairs: a function that returns an iterator of (source, target) strings.
      vocab_size: number of sub-words in each vocabulary.
      shared: whether both languages have the same vocabulary.
    Returns: the source's and the target's `Tokenizer`; one object twice when shared.
    """
    if shared:
        tokenizer = Tokenizer.learn((sentence for pair in pairs() for sentence in pair), vocab_size)
        return tokenizer, tokenizer
    source = Tokenizer.learn((source for source, _ in pairs()), vocab_size)
    target = Tokenizer.learn((target for _, target in pairs()), vocab_size)
    return source, target


def save_tokenizers(tokenizers, folder):
    """Writes `shared.model`, or `source.model` and `target.model`, to a folder.

    Args:
      tokenizers: of the source and of the target; one object twice when they are shared.
      folder: an existing folder.
    """
    source, target = tokenizers
    if source is target:
        source.save(os.path.join(folder, "shared.model"))
        return
    source.save(os.path.join(folder, "source.model"))
    target.save(os.path.join(folder, "target.model"))


def load_tokenizers(folder, shared):
    """Loads the tokenizers that `save_tokenizers` wrote.

    Raises: UserError when a file is missing or damaged.
    """
    if shared:
        tokenizer = Tokenizer.load(os.path.join(folder, "shared.model"))
        return tokenizer, tokenizer
    source = Tokenizer.load(os.path.join(folder, "source.model"))
    target = Tokenizer.load(os.path.join(folder, "target.model"))
    return source, target
