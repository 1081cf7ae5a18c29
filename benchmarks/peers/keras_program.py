"""A small English-Spanish Transformer in Keras' functional API, with our layers or with KerasHub's.

    python benchmarks/peers/keras_program.py --data=FOLDER [--layers=keras_hub] [--updates=20000]

The program is the one whose output is known from presentations of the paper (F. Chollet, 2021):
one layer on each side, d_model 256, d_ff 2048, 8 heads, lower-case words without punctuation, a
vocabulary of 15,000 words for each side, 20 words, dropout 0.5 before the softmax. FOLDER has
`train`, `val` and `test` as English (.en) and Spanish (.es) lines.

Both kinds of layers get the same text, seed, batches, optimizer and updates. The script prints the
time of the training, the translations of the first sentences of the test text, and BLEU and chrF of
all of it against the references, which are lower-cased and stripped of punctuation like the text.
With --translations=FILE, it scores the translations of another system in the same form instead.
With --backup=FOLDER, a training that was stopped goes on after its last full epoch.
"""

import argparse
import json
import os
import re
import string
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["KERAS_BACKEND"] = "tensorflow"
import keras
import numpy as np
import sacrebleu
import tensorflow as tf
from keras import layers

from tf_transformer import DecoderLayer, Embedding, EncoderLayer, PositionalEncoding, open_corpus

vocab_size = 15000
sequence_length = 20
embed_dim = 256
latent_dim = 2048
num_heads = 8
BATCH_SIZE = 64
EXAMPLES = 6
PUNCTUATION = re.compile(f"[{re.escape(string.punctuation + '¿¡')}]")
START, END = "[start]", "[end]"


def standardize(text):
    """Lower case without punctuation."""
    return " ".join(PUNCTUATION.sub("", text.lower()).split())


def our_layers():
    """Returns three functions: of an embedding with positions, an encoder and a decoder layer."""

    def positional_embedding(ids):
        x = Embedding(vocab_size, embed_dim, mask_zero=True)(ids)
        return PositionalEncoding(sequence_length, embed_dim, kind="learned")(x)

    def decoder(x, encoder_outputs):
        return DecoderLayer(embed_dim, num_heads, latent_dim, rate=0.0)(x, encoder_outputs)[0]

    return positional_embedding, EncoderLayer(embed_dim, num_heads, latent_dim, rate=0.0), decoder


def keras_hub_layers():
    """The same three functions."""
    import keras_hub

    def positional_embedding(ids):
        return keras_hub.layers.TokenAndPositionEmbedding(
            vocab_size, sequence_length, embed_dim, mask_zero=True
        )(ids)

    return (
        positional_embedding,
        keras_hub.layers.TransformerEncoder(latent_dim, num_heads),
        keras_hub.layers.TransformerDecoder(latent_dim, num_heads),
    )


def make_program(positional_embedding, encoder_layer, decoder_layer):
    """Returns the model of these layers: source and target ids -> probabilities."""
    encoder_inputs = keras.Input(shape=(None,), dtype="int64", name="encoder_inputs")
    x = positional_embedding(encoder_inputs)
    encoder_outputs = encoder_layer(x)

    decoder_inputs = keras.Input(shape=(None,), dtype="int64", name="decoder_inputs")
    encoded_seq_inputs = keras.Input(shape=(None, embed_dim), name="decoder_state_inputs")
    x = positional_embedding(decoder_inputs)
    x = decoder_layer(x, encoded_seq_inputs)
    x = layers.Dropout(0.5)(x)
    decoder_outputs = layers.Dense(vocab_size, activation="softmax")(x)
    decoder = keras.Model([decoder_inputs, encoded_seq_inputs], decoder_outputs)

    decoder_outputs = decoder([decoder_inputs, encoder_outputs])
    return keras.Model([encoder_inputs, decoder_inputs], decoder_outputs, name="transformer")


def word_ids(texts, length):
    """Returns `ids`, a function of texts -> int64 `[N, length]`, and the list of words."""
    vectorization = layers.TextVectorization(
        max_tokens=vocab_size, standardize=None, output_sequence_length=length
    )
    vectorization.adapt(tf.data.Dataset.from_tensor_slices(texts).batch(1024))
    return vectorization, vectorization.get_vocabulary()


def greedy(transformer, rows, words):
    """The most probable word at each position, up to [end].

    The whole model computes each step: only so does the decoder get the mask of the source.

    Args:
      transformer: the model.
      rows: source ids `[N, S]`.
      words: of the target's vocabulary.
    Returns: N texts.
    """
    start, end = words.index(START), words.index(END)
    texts = []
    step = tf.function(lambda *ids: transformer(ids), reduce_retracing=True)
    for first in range(0, len(rows), 250):
        inp = rows[first : first + 250]
        ids = np.full((len(inp), 1), start)
        for position in range(sequence_length - 1):
            probabilities = step(inp, tf.constant(ids))[:, position]  # (B, V)
            ids = np.append(ids, np.argmax(probabilities, axis=-1)[:, np.newaxis], axis=1)
        for row in ids[:, 1:]:
            found = np.flatnonzero(row == end)
            texts.append(" ".join(words[id_] for id_ in row[: found[0] if len(found) else None]))
    return texts


def report(outputs, sources, references):
    """Prints the first sentences, and BLEU and chrF against the standardized references."""
    for source, output in list(zip(sources, outputs))[:EXAMPLES]:
        print(f"{source}\n    {output}")
    references = [[standardize(reference) for reference in references]]
    for metric in (sacrebleu.BLEU(), sacrebleu.CHRF()):
        print(f"{metric.corpus_score(outputs, references)}  {metric.get_signature()}")


def main():
    """Trains, translates and scores; or scores given translations."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--layers", choices=("tf_transformer", "keras_hub"))
    parser.add_argument("--updates", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--backup", help="a folder for the state of the training")
    parser.add_argument("--output", help="a file for the translations and the losses, as JSON")
    parser.add_argument("--translations", help="a file of another system's translations")
    args = parser.parse_args()
    corpus = open_corpus(args.data, "en", "es")
    sources, references = map(list, zip(*corpus.read("test")))
    if args.translations:
        with open(args.translations, encoding="utf-8") as file:
            outputs = [standardize(line) for line in file.read().split("\n")[: len(sources)]]
        report(outputs, sources, references)
        return
    pairs = {
        split: [
            (standardize(source), f"{START} {standardize(target)} {END}")
            for source, target in corpus.read(split)
        ]
        for split in ("train", "validation")
    }
    vectorize_source, _ = word_ids([source for source, _ in pairs["train"]], sequence_length)
    vectorize_target, words = word_ids(
        [target for _, target in pairs["train"]], sequence_length + 1
    )
    data = {}
    for split, members in pairs.items():
        inp, tar = (
            vectorize(tf.constant(texts)).numpy()
            for vectorize, texts in zip((vectorize_source, vectorize_target), zip(*members))
        )
        data[split] = {"encoder_inputs": inp, "decoder_inputs": tar[:, :-1]}, tar[:, 1:]
    keras.utils.set_random_seed(args.seed)
    keras.mixed_precision.set_global_policy(args.precision)
    make_layers = keras_hub_layers if args.layers == "keras_hub" else our_layers
    transformer = make_program(*make_layers())
    transformer.compile("rmsprop", "sparse_categorical_crossentropy", weighted_metrics=["accuracy"])
    print(f"{transformer.count_params():,} weights")
    (inputs, labels), validation = data["train"], data["validation"]
    train = tf.data.Dataset.from_tensor_slices((inputs, labels, (labels != 0).astype("float32")))
    train = train.shuffle(len(labels), seed=args.seed).repeat().batch(BATCH_SIZE).prefetch(2)
    per_epoch = max(1, len(labels) // BATCH_SIZE)
    start, cpu = time.perf_counter(), time.process_time()
    history = transformer.fit(
        train,
        steps_per_epoch=min(per_epoch, args.updates),
        epochs=max(1, round(args.updates / per_epoch)),
        validation_data=(*validation, (validation[1] != 0).astype("float32")),
        validation_batch_size=250,
        callbacks=[keras.callbacks.BackupAndRestore(args.backup)] if args.backup else [],
        verbose=2,
    )
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    print(f"{len(history.epoch)} epochs, {seconds / 60:.1f} minutes, {cpu / 60:.1f} CPU minutes")
    rows = vectorize_source(tf.constant([standardize(source) for source in sources]))
    outputs = greedy(transformer, rows, words)
    report(outputs, sources, references)
    if args.output:
        with open(args.output, "w", encoding="utf-8") as file:
            json.dump({"translations": outputs, "history": history.history}, file)


if __name__ == "__main__":
    main()
