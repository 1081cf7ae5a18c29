"""A vocabulary of whole words, for notebook I."""

import tensorflow as tf


class WordTokenizer:
    """Whole words; a word that is not in the list becomes [UNK]."""

    def __init__(self, words):
        self.words = ["[UNK]", *words]

    def encode(self, texts):
        """Texts to lists of ids."""
        ids = {word: i for i, word in enumerate(self.words)}
        return [[ids.get(word, 0) for word in text.split()] for text in texts]

    def decode(self, rows):
        """Lists of ids to texts."""
        return tf.constant([" ".join(self.words[i] for i in row) for row in rows])

    def normalize(self, text):
        """The text that `decode` should give."""
        return " ".join(text.split())
