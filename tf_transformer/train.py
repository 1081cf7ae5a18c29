"""Training (Sec. 5): the reference's explicit `train_step`, on every visible device.

The loss is the sum over all replicas of the token losses, divided by the number of target tokens of the whole batch, so an update is
the same function of the batch whatever the number of replicas.
"""

import dataclasses
import functools
import itertools
import math
import os
import time

import keras
import numpy as np
import tensorflow as tf

from tf_transformer import checkpoint
from tf_transformer.batching import Batches
from tf_transformer.config import PAD, Config, UserError
from tf_transformer.datasets import open_corpus
from tf_transformer.dropout import dropout_key
from tf_transformer.encoding import cached_pairs
from tf_transformer.evaluate import score
from tf_transformer.logbook import Logbook, Tally
from tf_transformer.loss import label_smoothed_cross_entropy, token_accuracy
from tf_transformer.model_folder import all_checkpoints, checkpoint_step, step_checkpoints, step_path
from tf_transformer.optimizer import FusedAdam
from tf_transformer.replicas import make_strategy, my_rows, on_all_replicas
from tf_transformer.schedule import CustomSchedule
from tf_transformer.tokenizer import learn_tokenizers, load_tokenizers, save_tokenizers
from tf_transformer.translate import Translator

# Settings that may differ from those with which a model folder was begun.
MAY_CHANGE = {"steps", "minutes", "checkpoint_every", "keep", "validate_every", "bleu_sentences", "log_every"}


def make_optimizer(model_config, train_config):
    """Adam with the schedule of Eq. 3 (Sec. 5.3)."""
    learning_rate = CustomSchedule(model_config.d_model, train_config.warmup_steps, train_config.learning_rate_scale)
    return FusedAdam(learning_rate, train_config.beta_1, train_config.beta_2, train_config.epsilon)


def rate_strength(step, rate_warmup_steps):
    """The factor on the dropout rate at an update: it rises linearly from 0 to 1 and stays there (after Morerio et al. 2017).

    A model that knows nothing yet cannot overfit, and learns faster without noise.
    """
    return tf.minimum(1.0, tf.cast(step, tf.float32) / rate_warmup_steps) if rate_warmup_steps else 1.0


def train_step(model, optimizer, train_config, inp, tar):
    """One update; runs in each replica.

    Args:
      model: a `Transformer`.
      optimizer: its number of updates is the step; it also keys the dropout.
      train_config: a `TrainConfig`.
      inp: source ids of the whole batch `[B, S]`.
      tar: target ids of the whole batch `[B, T + 1]`, with start and end symbol.
    Returns: float32 `[4]` of this replica: loss in nats, target tokens, right target tokens, source tokens; sums.
    """
    replica = tf.distribute.get_replica_context()
    inp, tar = my_rows(inp), my_rows(tar)
    tar_inp, tar_real = tar[:, :-1], tar[:, 1:]
    number = tf.reduce_sum(tf.cast(tar_real != PAD, tf.float32))
    all_tokens = tf.maximum(replica.all_reduce("sum", number), 1.0)
    key = tf.stack([tf.cast(optimizer.iterations, tf.int32), train_config.seed * 1024 + replica.replica_id_in_sync_group])
    with tf.GradientTape() as tape:
        with dropout_key(key, rate_strength(optimizer.iterations, train_config.rate_warmup_steps)):
            predictions, _ = model(inp, tar_inp, training=True)
        loss_sum, _ = label_smoothed_cross_entropy(tar_real, predictions, train_config.label_smoothing)
        loss = loss_sum / all_tokens
    gradients = tape.gradient(loss, model.trainable_variables)
    # Adam would square the parts of a sparse gradient one by one where a word occurs twice: it gets dense ones.
    gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))  # sums over the replicas
    right, _ = token_accuracy(tar_real, predictions)
    return tf.stack([loss_sum, number, right, tf.reduce_sum(tf.cast(inp != PAD, tf.float32))])


def eval_step(model, inp, tar):
    """The loss without smoothing (so that its exponential is the perplexity) and the accuracy; runs in each replica.

    Args:
      model: a `Transformer`.
      inp, tar: as for `train_step`.
    Returns: float32 `[3]` of this replica: loss in nats, target tokens, right target tokens; sums.
    """
    inp, tar = my_rows(inp), my_rows(tar)
    predictions, _ = model(inp, tar[:, :-1], training=False)
    loss_sum, number = label_smoothed_cross_entropy(tar[:, 1:], predictions, 0.0)
    right, _ = token_accuracy(tar[:, 1:], predictions)
    return tf.stack([loss_sum, number, right])


class Trainer:
    """A training run in a model folder, which goes on from the newest checkpoint there.

    Args:
      config: a `Config`; the vocabulary sizes of its model are set by the vocabularies that are learnt.
      model_dir: the model folder, made when it is not there.
      say: prints a line.
    Raises: UserError for data that cannot be used, or a folder begun with other settings.
    """

    def __init__(self, config, model_dir, say=print):
        self.model_dir, self.started = model_dir, time.monotonic()
        self._averaged = os.path.join(model_dir, "averaged.npz")
        keras.utils.set_random_seed(config.train.seed)
        self.corpus = open_corpus(config.data.data, config.data.source, config.data.target)
        self.config, self.tokenizers = _prepare_folder(config, model_dir, self.corpus, say)
        data = self.config.data
        self.batches, self.validation = (
            self._make_batches(split, data, say) if split in self.corpus.splits else None for split in ("train", "validation")
        )
        self._references = self.samples("validation", config.train.bleu_sentences) if self.validation else []
        self.config.save(os.path.join(model_dir, "config.json"))  # now that the data has proved good
        self.strategy = make_strategy()
        with self.strategy.scope():
            self.model = checkpoint.build_model(self.config.model)
            self.optimizer = make_optimizer(self.config.model, self.config.train)
            self.optimizer.build(self.model.trainable_variables)
        update = functools.partial(train_step, self.model, self.optimizer, self.config.train)
        self._train_step = on_all_replicas(self.strategy, update)
        self._eval_step = on_all_replicas(self.strategy, functools.partial(eval_step, self.model))
        self._translator = Translator(self.model, self.tokenizers, dataclasses.replace(self.config.decode, beam_size=1))
        self.best = None  # of the validations so far: ["BLEU", score] or ["loss", -loss]
        paths = step_checkpoints(model_dir)
        if paths:
            state = checkpoint.restore(paths[-1], self.model, self.optimizer)
            checkpoint.check_same_words(state, self.tokenizers, paths[-1])
            self.best = state["best"]
            say(f"going on from {paths[-1]}")
        devices = ", ".join(device.split("/")[-1] for device in self.strategy.extended.worker_devices)
        say(f"{self.model.count_params():,} parameters; devices: {devices}")

    @property
    def step(self):
        """Updates made so far."""
        return int(self.optimizer.iterations.numpy())

    def run(self):
        """Trains until the wanted number of updates or minutes, or Ctrl-C; then averages the last checkpoints.

        Returns: True when the run came to its end, False when it was interrupted (it has been saved).
        """
        settings = self.config.train
        deadline = self.started + settings.minutes * 60 if settings.minutes else None
        logbook = Logbook(self.model_dir, self.step, settings.steps, deadline)
        try:
            try:
                self._updates(logbook, deadline)
            except KeyboardInterrupt:
                return False
            finally:  # also after an error, unless that came before the first update
                if self.step and self._is_sound():
                    self._save()
            self._average(logbook)
            return True
        finally:
            logbook.close()

    def samples(self, split, number):
        """The first `number` pairs of a split, without those whose source is longer than the model may be given."""
        pairs = list(itertools.islice(self.corpus.read(split), number))
        lengths = self.tokenizers[0].encode([source for source, _ in pairs]).row_lengths() if pairs else []
        return [pair for pair, length in zip(pairs, lengths) if length <= self.config.data.max_length]

    def validate(self):
        """The model's figures on the validation split.

        Returns: a dict with loss (nats a token), perplexity, accuracy, and BLEU of greedy translations of the first
          `bleu_sentences`; empty without a validation split.
        """
        if self.validation is None:
            return {}
        totals = sum(self._eval_step(inp, tar).numpy().astype(np.float64) for inp, tar in self.validation.epoch(0))
        loss, accuracy = totals[0] / totals[1], totals[2] / totals[1]
        values = {"loss": loss, "perplexity": math.exp(min(loss, 50.0)), "accuracy": accuracy}
        if self._references:
            sources, targets = zip(*self._references)
            values["BLEU"] = score(self._translator(sources), list(targets)).bleu
        return values

    def _average(self, logbook):
        """Puts the mean of the last checkpoints into the model and on disk (Sec. 6.1)."""
        paths = step_checkpoints(self.model_dir)
        checkpoint.average(paths, self._averaged)
        checkpoint.restore(self._averaged, self.model)
        logbook.say(f"averaged the last {len(paths)} checkpoints (Sec. 6.1):")
        logbook.validation(self.step, **self.validate())

    def _make_batches(self, split, data, say):
        pairs = cached_pairs(self.corpus, split, self.tokenizers, data, os.path.join(self.model_dir, "cache"))
        dropped = ", ".join(f"{count:,} for {reason}" for reason, count in pairs.dropped.items() if count)
        batches = Batches(pairs, data.tokens_per_step, self.config.train.seed)
        say(
            f"{split}: {len(pairs):,} pairs, {batches.per_epoch:,} batches of {len(batches.buckets)} shapes, "
            f"{batches.useful_share:.1%} of their tokens useful; dropped: {dropped or 'none'}"
        )
        return batches

    def _updates(self, logbook, deadline):
        settings = self.config.train
        tally, validation_seconds, step = Tally(), 0.0, self.step  # counted here, so that nothing waits for the device
        while step < settings.steps:
            epoch, skip = divmod(step, self.batches.per_epoch)
            for inp, tar in self.batches.epoch(epoch, skip):
                tally.add(self._train_step(inp, tar), inp.shape[0] * inp.shape[1])
                step += 1
                logbook.advance(step)
                last = step >= settings.steps
                log, validate, keep = (step % n == 0 for n in (settings.log_every, settings.validate_every, settings.checkpoint_every))
                if log or validate or keep or last:
                    self._check_sound()
                if log or last:
                    logbook.train(step, learning_rate=float(self.optimizer.learning_rate), **tally.take())
                if validate or last:
                    before = time.monotonic()
                    self._validate_and_keep_best(logbook)
                    validation_seconds = time.monotonic() - before
                    tally.skip(validation_seconds)
                if keep:  # after the validation, so that it holds the best score
                    self._save()
                if last or (deadline and time.monotonic() + 2 * validation_seconds >= deadline):
                    return

    def _validate_and_keep_best(self, logbook):
        values = self.validate()
        if not values:
            return
        logbook.validation(self.step, **values)
        measure = "BLEU" if "BLEU" in values else "loss"
        new = values[measure] if measure == "BLEU" else -values[measure]
        if self.best is None or self.best[0] != measure or new > self.best[1]:
            self.best = [measure, new]
            checkpoint.save(os.path.join(self.model_dir, "best.npz"), self.model, state={**self._state(), **values})

    def _state(self):
        return {"step": self.step, "vocabularies": [tokenizer.fingerprint for tokenizer in self.tokenizers]}

    def _save(self):
        path = step_path(self.model_dir, self.step)
        checkpoint.save(path, self.model, self.optimizer, {**self._state(), "best": self.best})
        if os.path.exists(self._averaged):
            os.remove(self._averaged)  # of earlier checkpoints: it would hide this one from translate
        # One that an interruption left behind would make the average another than that of a run in one go.
        every, keep = self.config.train.checkpoint_every, self.config.train.keep
        paths = [old for old in step_checkpoints(self.model_dir) if old == path or checkpoint_step(old) % every == 0]
        for old in set(step_checkpoints(self.model_dir)) - set(paths[-keep:]):
            os.remove(old)

    def _is_sound(self):
        return all(bool(tf.reduce_all(tf.math.is_finite(variable))) for variable in self.model.trainable_variables)

    def _check_sound(self):
        """Raises: UserError when training has diverged, before the weights can take the place of good ones."""
        if not self._is_sound():
            paths = step_checkpoints(self.model_dir)
            raise UserError(
                f"after {self.step:,} updates some weights are no finite numbers: give a smaller --learning_rate_scale or a longer "
                f"--warmup_steps (last good checkpoint: {paths[-1] if paths else 'none'})"
            )


def _prepare_folder(config, model_dir, corpus, say):
    """Learns the vocabularies, or reads those of a run that is there, whose settings must be the same.

    Returns: the `Config` with the vocabulary sizes, the tokenizers.
    """
    path = os.path.join(model_dir, "config.json")
    begun = Config.load(path) if all_checkpoints(model_dir) else None
    if begun:
        tokenizers = load_tokenizers(model_dir, begun.data.shared_vocab)
        checkpoint.check_vocabularies(begun, tokenizers, model_dir)
    else:
        os.makedirs(model_dir, exist_ok=True)
        say(f"learning a vocabulary of {config.data.vocab_size:,} sub-words from {corpus.name}")
        tokenizers = learn_tokenizers(lambda: corpus.read("train"), config.data.vocab_size, config.data.shared_vocab)
        save_tokenizers(tokenizers, model_dir)
    sizes = {f"{side}_vocab_size": t.vocab_size for side, t in zip(("input", "target"), tokenizers)}
    shared = config.model.shared_embeddings and config.data.shared_vocab
    config = config.replace(**sizes, shared_embeddings=shared)
    if begun:
        _check_same(begun, config, model_dir)
    return config, tokenizers


def _check_same(old, new, model_dir):
    differences = []
    for part in ("model", "data", "train"):
        before, after = (dataclasses.asdict(getattr(config, part)) for config in (old, new))
        differences += [f"{n} {before[n]} (now {after[n]})" for n in before if before[n] != after[n] and n not in MAY_CHANGE]
    if differences:
        raise UserError(f"{model_dir} was begun with {', '.join(differences)}: use those settings, or another --model_dir")
