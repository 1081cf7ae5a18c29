"""A training run (Sec. 5) on every device of one machine or several, which can be stopped at any moment and goes on as if it never was."""

import collections
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
from tf_transformer.config import UserError
from tf_transformer.datasets import open_corpus
from tf_transformer.evaluate import score
from tf_transformer.interruption import Interruption
from tf_transformer.logbook import Logbook, Tally, memory_gb
from tf_transformer.model_folder import step_checkpoints
from tf_transformer.optimizer import make_optimizer
from tf_transformer.plan import describe_devices, describe_plan, largest_bucket, learning_rate_warning, most_micro_steps
from tf_transformer.precision import LossScale, choose_jit, choose_precision
from tf_transformer.preparation import make_batches, share_vocabulary, write_sentences
from tf_transformer.replicas import Machines, make_strategy, on_all_replicas, together
from tf_transformer.run_folder import RunFolder
from tf_transformer.train_step import eval_step, train_step
from tf_transformer.translate import Translator

AHEAD = 2  # updates that are begun before the result of an earlier one is looked at, so that the devices never wait
IDS = tf.TensorSpec([None, None], tf.int32)


class Trainer:
    """A training run in a model folder, which goes on from the newest checkpoint there.

    Args:
      config: a `Config`; the vocabulary sizes of its model are set by the vocabularies that are learnt.
      model_dir: the model folder, made when it is not there. Where `TF_CONFIG` names several machines, the chief's.
      say: prints a line.
    Raises: UserError for data that cannot be used, a folder begun with other settings, or one in which another training is at work.
    """

    def __init__(self, config, model_dir, say=print):
        self.started = time.monotonic()
        self.strategy = make_strategy(on_processor=bool(config.train.virtual_replicas))
        self.machines = Machines(self.strategy)
        self._say, self._interruption = say if self.machines.chief else lambda line: None, Interruption()
        keras.utils.set_random_seed(config.train.seed)
        self.corpus = open_corpus(config.data.data, config.data.source, config.data.target)
        self.folder = RunFolder(model_dir if self.machines.chief else None, self._say)
        try:
            with together():
                self._prepare(config)
        except BaseException:
            self.folder.close()
            raise

    def _prepare(self, config):
        self.config, self.tokenizers = share_vocabulary(config, self.corpus, self.folder, self.machines)
        self.batches, self.validation = make_batches(self.config, self.corpus, self.tokenizers, self.folder, self.machines, self._say)
        self._references = self.samples("validation", self.config.train.bleu_sentences)
        self._build()
        self._restore()
        devices = describe_devices(self.strategy, self._micro, self.precision, self.jit)
        self._say(f"{self.model.count_params():,} parameters; {devices}")
        if warning := learning_rate_warning(self.config, self.batches):
            self._say(f"warning: {warning}")

    def _build(self):
        settings = self.config.train
        gpus = [] if settings.virtual_replicas else tf.config.get_visible_devices("GPU")
        self.precision = self.machines.from_chief(choose_precision(settings.precision, gpus))
        self.jit = choose_jit(settings.jit, gpus)
        with self.strategy.scope():
            self.model = checkpoint.build_model(self.config.model, self.precision)
            self.optimizer = make_optimizer(self.config.model, settings)
            self.optimizer.build(self.model.trainable_variables)
            self.loss_scale = LossScale() if self.precision == "mixed_float16" else None
        self._micro = most_micro_steps(self.batches.buckets, self.machines.replicas, settings.max_tokens_per_replica)
        how = {"loss_scale": self.loss_scale, "jit": self.jit, "accumulate": self._micro > 1}
        update = functools.partial(train_step, self.model, self.optimizer, settings, **how)
        self._train_step = on_all_replicas(self.strategy, update, [IDS, IDS, tf.TensorSpec([2], tf.float32)])
        self._eval_step = on_all_replicas(self.strategy, functools.partial(eval_step, self.model), [IDS, IDS])
        self._translator = Translator(self.model, self.tokenizers, dataclasses.replace(self.config.decode, beam_size=1))

    def _restore(self):
        """Goes on from the newest checkpoint, or begins."""
        state = self.folder.restore(self.model, self.optimizer) if self.machines.chief else None
        state = self.machines.from_chief(state) or {}
        self.best = state.get("best")  # of the validations so far: ["BLEU", score] or ["loss", -loss]
        self._waited = state.get("waited", 0)  # validations since then
        self._validated = state.get("validated", [0, {}])  # the last validation: its step, its figures
        self._skipped, self._in_a_row = state.get("skipped", (0, 0))  # updates without finite gradients
        self._tally = Tally(state.get("tally"))
        self._saved = state.get("step", 0)
        if state:
            checkpoint.check_same_words(state, self.tokenizers, self.folder.path)
            if state.get("data") not in (None, self.batches.checksum):
                raise UserError(f"the training text is not that with which {self.folder.path} was begun: give another --model_dir")
            means = [variable for variable in self.optimizer.variables if variable.dtype == "float32"]  # all but the count
            self.machines.share_weights([*self.model.trainable_variables, *means])
            self.optimizer.iterations.assign(state["step"])
        if self.loss_scale:
            self.loss_scale.restore(state.get("loss_scale"))

    @property
    def step(self):
        """Updates made so far, those that were skipped included."""
        return int(self.optimizer.iterations.numpy())

    def run(self, second_interrupt=None):
        """Trains until the wanted number of updates or minutes, or Ctrl-C or SIGTERM; then averages the last checkpoints.

        Args:
          second_interrupt: what a second Ctrl-C does, as for `Interruption`.
        Returns: True when the run came to its end, False when it was interrupted (it has been saved).
        Raises: UserError when training diverges, a checkpoint cannot be written, or another machine has stopped.
        """
        settings = self.config.train
        self.config.save(os.path.join(self.folder.path, "config.json"))
        deadline = self.started + settings.minutes * 60 if settings.minutes else None
        logbook = Logbook(self.folder.path, self.step, settings.steps, deadline, self._validated[0] == self.step, not self.machines.chief)
        try:
            with together(), Interruption(second_interrupt) as self._interruption:
                finished = self._updates(logbook, deadline)
                self._save()
                if finished:
                    self._average(logbook)
                return finished
        finally:
            logbook.close()
            self.folder.close()

    def dry_run(self):
        """Prints the plan, makes one update of the largest batch, which is not saved, and prints its time and memory."""
        run = self.config, self.batches, self.machines.replicas, self.precision
        self._say(f"plan for {self.folder.path}\n{describe_plan(*run)}")
        bucket, _ = largest_bucket(*run)
        place = next(i for i, (_, of_batch) in enumerate(self.batches.order(0)) if of_batch is bucket)
        inp, tar = next(iter(self.batches.epoch(0, place)))
        times = []
        with together():
            for _ in range(2):  # the first one builds the graph
                before = time.monotonic()
                result = self._train_step(inp, tar, tf.zeros([2]))["sums"].numpy()
                times.append(time.monotonic() - before)
        self._say(
            f"  an update      of {bucket.rows} x {bucket.length}: {times[1]:.2f} s, {result[1] / times[1]:,.0f} target tokens/s "
            f"(the first {times[0]:.1f} s); memory {memory_gb():.1f} GB; loss {result[0] / result[1]:.3f}"
        )
        self.folder.close()

    def samples(self, split, number):
        """The first `number` pairs of a split, without those whose source is longer than the model may be given."""
        pairs = list(itertools.islice(self.corpus.read(split), number))
        lengths = self.tokenizers[0].encode([source for source, _ in pairs]).row_lengths() if pairs else []
        return [pair for pair, length in zip(pairs, lengths) if length <= self.config.data.max_length]

    def validate(self):
        """The model's figures on the validation split.

        Returns: a dict with loss (nats a token), perplexity, accuracy, and BLEU of greedy translations of the first
          `bleu_sentences` with its signature; None when interrupted meanwhile.
        """
        totals = np.zeros(3)
        for inp, tar in self.validation.epoch(0):
            totals += self._eval_step(inp, tar).numpy()
            if self._asked_alone():
                return None
        loss, accuracy = totals[0] / totals[1], totals[2] / totals[1]
        values = {"loss": loss, "perplexity": math.exp(min(loss, 50.0)), "accuracy": accuracy}
        if self._references and self.machines.chief:
            sources, targets = zip(*self._references)
            bleu = score(self._translator(sources), list(targets))
            values |= {"BLEU": bleu.bleu, "signature": bleu.bleu_signature}
        return self.machines.from_chief(values)

    def _asked_alone(self):
        """Whether to save and stop; several machines must be of one mind, and know of each other from the results of updates alone."""
        return self.machines.count == 1 and self._interruption.asked

    def _updates(self, logbook, deadline):
        """Returns: False when interrupted."""
        settings, step, waiting, validation_seconds = self.config.train, self.step, collections.deque(), 0.0
        if self._validated[0] < step and (step % settings.validate_every == 0 or step >= settings.steps):
            self._validate(logbook)  # the run was interrupted before that
            self._save(again=True)
        self._tally.start()
        while step < settings.steps and not self._out_of_patience():
            epoch, skip = divmod(step, self.batches.per_epoch)
            for inp, tar in self.batches.epoch(epoch, skip):
                late = deadline and time.monotonic() + 2 * validation_seconds >= deadline
                votes = tf.constant([float(self._interruption.asked), float(bool(late))])
                waiting.append((step, self._train_step(inp, tar, votes), inp.shape[0] * inp.shape[1]))
                step += 1
                log, validate, keep = (step % n == 0 for n in (settings.log_every, settings.validate_every, settings.checkpoint_every))
                due = log or validate or keep or step == settings.steps
                interrupted, late = self._settle(waiting, 0 if due else AHEAD)
                last = step == settings.steps or late
                if interrupted or last:
                    self._settle(waiting, 0)
                logbook.advance(step)
                if log or last:
                    logbook.train(step, float(self.optimizer.learning_rate), self._skipped, self._tally.take())
                if not interrupted and (validate or last):
                    validation_seconds = self._tally.without(lambda: self._validate(logbook))
                if interrupted or self._asked_alone():
                    return False
                if keep:  # after the validation, so that it holds the best score
                    self._save()
                if last or self._out_of_patience():
                    return True
        return not self._asked_alone()

    def _out_of_patience(self):
        return 0 < self.config.train.patience <= self._waited

    def _settle(self, waiting, ahead):
        """Takes in the results of updates but for the last few, which may still be on their way.

        Returns: whether a machine asked to save and stop; whether one is at its last minute.
        """
        stop = np.zeros(2)
        while len(waiting) > ahead:
            step, result, padded = waiting.popleft()
            result = {name: value.numpy() for name, value in result.items()}
            stop += result["stop"]
            self._tally.add(result, padded)
            self._in_a_row = self._in_a_row + 1 if result["skipped"] else 0
            self._skipped += int(result["skipped"])
            if self._in_a_row >= self.config.train.most_skipped:
                self._diverged(step)
        return stop[0] > 0 or self._asked_alone(), stop[1] > 0

    def _validate(self, logbook):
        """Validates, and keeps the weights when they are the best so far."""
        self._check_sound()
        if (values := self.validate()) is None:
            return
        self._validated = [self.step, values]
        logbook.validation(self.step, **values)
        measure, new = checkpoint.validation_score(values)
        self._waited += 1
        if self.best is None or self.best[0] != measure or new > self.best[1]:
            self.best, self._waited = [measure, new], 0
            if self.machines.chief:
                self.folder.save_best(self.model, self._state())

    def _average(self, logbook):
        """Puts the mean of the last checkpoints into the model and on disk (Sec. 6.1)."""
        settings, number = self.config.train, 0
        if self.machines.chief:
            number = self.folder.average(self.model, settings)
        self.machines.share_weights(self.model.trainable_variables)
        logbook.say(f"averaged the last {number} checkpoints (Sec. 6.1):")
        if values := self.validate():
            logbook.validation(self.step, kind="average", **values)

    def _state(self):
        return {
            "step": self.step,
            "best": self.best,
            "waited": self._waited,
            "validated": self._validated,
            "skipped": [self._skipped, self._in_a_row],
            "tally": self._tally.state(),
            "loss_scale": self.loss_scale.state() if self.loss_scale else None,
            "vocabularies": [tokenizer.fingerprint for tokenizer in self.tokenizers],
            "data": self.batches.checksum,
        }

    def _save(self, again=False):
        if self.step == self._saved and not again:
            return
        self._check_sound()
        self._saved = self.step
        if self.machines.chief:
            self.folder.save(self.model, self.optimizer, self._state(), self.config.train)

    def _check_sound(self):
        """Raises: UserError when weights have diverged, before they can take the place of good ones."""
        if not all(bool(tf.reduce_all(tf.math.is_finite(variable))) for variable in self.model.trainable_variables):
            self._diverged(self.step - 1)

    def _diverged(self, step):
        """Raises: UserError, after writing the sentences of the batch of an update, counted from 0, to a file."""
        what = f"training diverged at update {step + 1:,}: gradients or weights are no finite numbers ({self._in_a_row} skipped in a row)"
        if not self.machines.chief:
            raise UserError(f"{what}; the chief tells more")
        path, paths = os.path.join(self.folder.path, f"batch-of-update-{step + 1}.tsv"), step_checkpoints(self.folder.path)
        write_sentences(path, self.batches, step, self.tokenizers)
        raise UserError(
            f"{what}. Look at its sentences in {path}, or begin in another --model_dir with a smaller --learning_rate_scale or a longer "
            f"--warmup_steps (last good checkpoint: {paths[-1] if paths else 'none'})"
        )
