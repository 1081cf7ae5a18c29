"""Sub-words (Sec. 5.1): byte-pair encoding, learnt by SentencePiece and run inside the TensorFlow graph."""

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

LEARN_FROM = 4_000_000  # sentences that the vocabulary is learnt from at most, drawn at random


@functools.cache
def _graph_tokenizer(model):
    """TensorFlow's tokenizer of a model. Two of them of the same model would share a resource that goes with the first of them."""
    with (
        tf.init_scope()
    ):  # else one that is first used in a graph would belong to that graph, and serve no other
        return tf_text.SentencepieceTokenizer(model=model, out_type=tf.int32)


class Tokenizer:
    """Text to ids and back, for one vocabulary. Ids: 0 padding, 1 unknown, 2 start, 3 end, then bytes and sub-words.

    A character that the vocabulary lacks is written as its UTF-8 bytes, so no text is ever lost.

    Args:
      model: a SentencePiece model, bytes.
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
          vocab_size: sub-words wanted; a small text may have fewer (then `vocab_size` of the result tells).
        Returns: a `Tokenizer`.
        Raises: UserError when there is no text, or vocab_size is too small for its characters.
        """
        model, failures = io.BytesIO(), []

        def checked():
            try:
                yield from sentences
            except (
                BaseException
            ) as error:  # also Ctrl-C: SentencePiece would bury it in one of its own
                failures.append(error)
                raise

        options = {
            "model_type": "bpe", "vocab_size": vocab_size, "hard_vocab_limit": False, "byte_fallback": True,
            "pad_id": PAD, "unk_id": UNK, "bos_id": START, "eos_id": END, "pad_piece": "[PAD]", "unk_piece": "[UNK]",
            "bos_piece": "[START]", "eos_piece": "[END]", "input_sentence_size": LEARN_FROM,
            "shuffle_input_sentence": True, "num_threads": os.cpu_count(), "minloglevel": 2,
        }  # fmt: skip
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=checked(), model_writer=model, **options
            )
        except RuntimeError as error:
            if failures:
                raise failures[0] from None
            reason = str(error).strip().split("] ")[-1]
            raise UserError(
                f"no vocabulary of {vocab_size} sub-words can be learnt from this text: {reason}"
            ) from None
        return cls(model.getvalue())

    @classmethod
    def load(cls, path):
        """Reads what `save` wrote. Raises: UserError when there is no such file or it is damaged."""
        try:
            with open(path, "rb") as file:
                return cls(file.read())
        except FileNotFoundError:
            raise UserError(f"no vocabulary at {path}: train a model first") from None
        except RuntimeError:
            raise UserError(f"{path} is not a SentencePiece model: train the model again") from None

    def save(self, path):
        """Writes the SentencePiece model, whole or not at all."""
        with atomic_write(path, "wb") as file:
            file.write(self.model)

    def encode(self, texts):
        """texts: strings `[N]` -> ragged int32 `[N, (length)]`, each row ending with the end symbol. Runs in a graph too."""
        ids = self._in_graph("tokenize", texts)
        end = tf.fill([ids.nrows(), 1], END)
        return tf.concat([ids, end], axis=1)

    def decode(self, ids):
        """ids: ragged, or padded `[N, T]` -> strings `[N]`. Start, end and padding write nothing. Runs in a graph too."""
        return self._in_graph("detokenize", ids)

    def _in_graph(self, method, argument):
        """Calls TensorFlow's tokenizer, and makes a new one where its resource has gone: `tf.random.set_seed` frees it with all kernels."""
        try:
            return getattr(self.resource, method)(argument)
        except tf.errors.NotFoundError:
            _graph_tokenizer.cache_clear()
            return getattr(self.resource, method)(argument)

    @property
    def resource(self):
        """TensorFlow's tokenizer, which a module that is to be saved must own."""
        return _graph_tokenizer(self.model)

    def pieces_of(self, ids):
        """ids `[N, T]` -> the sub-words themselves, strings `[N, T]`, "" for padding. Runs in a graph too."""
        return tf.where(ids == PAD, "", self.resource.id_to_string(ids))

    def pieces(self, ids):
        """ids: a list of int -> the sub-words themselves, for people to look at."""
        return [self._python.id_to_piece(int(i)) for i in ids]

    def normalize(self, text):
        """The form (NFKC, single blanks) in which `decode(encode(text))` gives a string back."""
        return self._python.normalize(text).removeprefix("\u2581").replace("\u2581", " ")


def learn_tokenizers(pairs, vocab_size, shared):
    """Learns one shared vocabulary, or one for each language (Sec. 5.1).

    Args:
      pairs: a function that returns an iterator of (source, target) strings.
      vocab_size: sub-words in each vocabulary.
      shared: whether both languages have one vocabulary.
    Returns: the source's and the target's `Tokenizer`, the same one when shared.
    """
    if shared:
        tokenizer = Tokenizer.learn((sentence for pair in pairs() for sentence in pair), vocab_size)
        return tokenizer, tokenizer
    return tuple(Tokenizer.learn((pair[side] for pair in pairs()), vocab_size) for side in (0, 1))


def save_tokenizers(tokenizers, folder):
    """Writes `source.model` and `target.model` into a folder, or `shared.model` when the two are one."""
    if tokenizers[0] is tokenizers[1]:
        tokenizers[0].save(os.path.join(folder, "shared.model"))
        return
    for tokenizer, side in zip(tokenizers, ("source", "target")):
        tokenizer.save(os.path.join(folder, f"{side}.model"))


def load_tokenizers(folder, shared):
    """Reads what `save_tokenizers` wrote. Raises: UserError when a file is missing or damaged."""
    if shared:
        tokenizer = Tokenizer.load(os.path.join(folder, "shared.model"))
        return tokenizer, tokenizer
    return tuple(
        Tokenizer.load(os.path.join(folder, f"{side}.model")) for side in ("source", "target")
    )
