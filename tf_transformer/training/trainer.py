"""The training loop (Sec. 5): updates, validation, checkpoints, and exact resume."""

import collections
import contextlib
import dataclasses
import functools
import itertools
import logging
import math
import os
import time
from collections.abc import Iterator
from typing import Any, NoReturn

import keras
import numpy as np
import tensorflow as tf

from tf_transformer.checkpoints.initial_model import absolute_model_dir, check_other_folder
from tf_transformer.checkpoints.loading import check_same_vocabularies
from tf_transformer.checkpoints.model_folder import CONFIG, step_checkpoints
from tf_transformer.config import Config
from tf_transformer.data.batching import Batches
from tf_transformer.data.corpus import Corpus
from tf_transformer.data.sources import corpus_of_run
from tf_transformer.data.tokenizer import Tokenizer
from tf_transformer.decoding.translator import Translator
from tf_transformer.errors import UserError
from tf_transformer.evaluation.bleu import score
from tf_transformer.model.transformer import Transformer
from tf_transformer.training.compilation import compile_updates, compiled_shapes
from tf_transformer.training.distribution import (
    Workers,
    on_all_replicas,
    strategy_of_run,
    worker_failures,
)
from tf_transformer.training.fine_tuning import load_initial_weights
from tf_transformer.training.memory_plan import (
    accumulation_hint,
    describe_devices,
    describe_plan,
    largest_bucket,
    learning_rate_warning,
    max_accumulation_steps,
)
from tf_transformer.training.optimizer import FusedAdam
from tf_transformer.training.precision import (
    LossScale,
    NoLossScale,
    choose_jit_compile,
    choose_precision,
)
from tf_transformer.training.preemption import Handler, PreemptionHandler
from tf_transformer.training.prepare_data import (
    prepare_batches,
    prepare_vocabulary,
    write_sentences,
)
from tf_transformer.training.run_directory import (
    BATCH_ORDER,
    RunDirectory,
    check_same_batches,
)
from tf_transformer.training.run_log import MetricsAccumulator, Progress, RunLog, memory_gb
from tf_transformer.training.schedule import make_schedule
from tf_transformer.training.train_step import eval_step
from tf_transformer.training.update import IDS, TrainingState, Update, make_state, make_update

logger = logging.getLogger(__name__)

STEPS_IN_FLIGHT = 2  # updates started before the result of an earlier one is read
NOT_SAVED = (0, 0)

# The step, the result and the padded tokens of each started update.
InFlight = collections.deque[tuple[int, dict[str, tf.Tensor], int]]


class _Interrupted(Exception):
    """The run is to stop during the translation of the validation text."""


class Trainer:
    """A training run. `build_trainer` makes its parts.

    Args:
      config: a `Config` with the sizes of its vocabularies.
      workers: the `Workers`.
      directory: the `RunDirectory`.
      corpus: of `data.sources.open_corpus`.
      tokenizers: of source and target.
      train_batches, validation_batches: two `Batches`.
      model: a built `Transformer`.
      optimizer: a built `FusedAdam`.
      loss_scale: a `LossScale` or `NoLossScale`.
      jit_compile: whether XLA compiles the gradients.
      started: `time.monotonic()` from which `train_minutes` are counted.
    """

    def __init__(
        self, *, config: Config, workers: Workers, directory: RunDirectory, corpus: Corpus,
        tokenizers: tuple[Tokenizer, Tokenizer], train_batches: Batches,
        validation_batches: Batches, model: Transformer, optimizer: FusedAdam,
        loss_scale: LossScale | NoLossScale, jit_compile: bool, started: float,
    ) -> None:  # fmt: skip
        self.config = config
        self.workers = workers
        self.directory = directory
        self.corpus = corpus
        self.tokenizers = tokenizers
        self.train_batches = train_batches
        self.validation_batches = validation_batches
        self.model = model
        self.optimizer = optimizer
        self.loss_scale = loss_scale
        self.progress = Progress()
        self.first_step = 0  # updates before this run, with `init_optimizer`
        self._started = started
        self._saved = NOT_SAVED  # step, and step of the last validation, of the last checkpoint
        self._accumulator = MetricsAccumulator()
        self._schedule = make_schedule(config.model, config.train)
        self._preemption = PreemptionHandler()
        self._update_state = TrainingState(model, optimizer, loss_scale)
        self._train_step = self._make_train_step(jit_compile)
        self._eval_step = on_all_replicas(
            workers.strategy, functools.partial(eval_step, model), [IDS, IDS]
        )
        greedy = dataclasses.replace(config.decode, beam_size=1)
        self._translator = Translator(model, tokenizers, greedy)
        self._bleu_pairs = self.samples("validation", config.train.bleu_sentences)

    def _make_train_step(self, jit_compile: bool) -> Update:
        """Composes the update, and describes it in the log."""
        settings, strategy = self.config.train, self.workers.strategy
        sizes = self.train_batches.buckets, self.workers.replicas, settings.micro_batch_tokens
        steps = max_accumulation_steps(*sizes)
        self._to_compile = compiled_shapes(*sizes) if jit_compile else []
        precision = self.model.dtype_policy.name
        devices = describe_devices(strategy, steps, precision, len(self._to_compile))
        logger.info("%s parameters; %s", f"{self.model.count_params():,}", devices)
        if hint := accumulation_hint(strategy, steps, settings.micro_batch_tokens):
            logger.info(hint)
        if warning := learning_rate_warning(self.config, self.train_batches):
            logger.warning(warning)
        weighted = self.train_batches.weighted
        return make_update(self._update_state, settings, strategy, steps > 1, jit_compile, weighted)

    @property
    def step(self) -> int:
        """Updates made so far, including skipped ones."""
        return int(self.optimizer.iterations.numpy())

    def restore(self) -> bool:
        """Restores the newest checkpoint of the directory.

        Returns: whether there is one.
        Raises: UserError when all checkpoints are damaged, or the text or the vocabulary is not
          that of the run.
        """
        state = None
        if self.workers.is_chief:
            state = self.directory.restore(self.model, self.optimizer)
        state = self.workers.broadcast(state)
        if not state:
            return False
        check_same_vocabularies(state, self.tokenizers, self.directory.path)
        check_same_batches(state, self.train_batches.checksum, self.directory.path)
        self.train_batches.restore(state.get("batches", {}))
        self.progress = Progress(**state["progress"])
        self._accumulator = MetricsAccumulator(state["metrics"])
        self.first_step = state.get("first_step", 0)
        self._saved = (state["step"], self.progress.validated[0])
        moments = [variable for variable in self.optimizer.variables if variable.dtype == "float32"]
        self.workers.broadcast_weights([*self.model.weights, *moments])
        self.optimizer.iterations.assign(state["step"])
        self.loss_scale.restore(state["loss_scale"])
        return True

    def run(self, second_interrupt: Handler = None) -> bool:
        """Trains until the wanted number of updates or minutes, or until Ctrl-C, SIGTERM or SIGHUP.

        At the end, the last checkpoints are averaged, unless the run has a moving average.

        Args:
          second_interrupt: the effect of a second Ctrl-C, as for `PreemptionHandler`.
        Returns: True when the run is complete, False when it was interrupted (and saved).
        Raises: UserError when training diverges, a checkpoint cannot be written, or another worker
          has stopped.
        """
        settings = self.config.train
        self.directory.begin()
        self.config.save(os.path.join(self.directory.path, CONFIG))
        minutes = settings.train_minutes
        deadline = self._started + minutes * 60 if minutes else None
        validated = self.progress.validated[0] == self.step
        path = self.directory.path
        with contextlib.closing(self.directory), contextlib.closing(self.train_batches):
            metrics = RunLog(
                path,
                self.step,
                settings.train_steps,
                deadline,
                validated,
                progress=self.workers.is_chief,
            )
            preemption = PreemptionHandler(second_interrupt)
            with contextlib.closing(metrics), worker_failures(), preemption as self._preemption:
                complete = self._train(metrics, deadline)
                self._save()
                if complete:
                    self._average(metrics)
                return complete

    def dry_run(self) -> str:
        """Makes two updates of the largest batch, without saving them.

        Returns: the plan of the run, and time and memory of an update, as text.
        """
        replicas, precision = self.workers.replicas, self.model.dtype_policy.name
        on_gpus = "GPU" in self.workers.strategy.extended.worker_devices[0]
        cpu_replicas = 0 if on_gpus else replicas // self.workers.count
        plan = describe_plan(self.config, self.train_batches, replicas, precision, cpu_replicas)
        bucket, _ = largest_bucket(self.config, self.train_batches, replicas, precision)
        epoch, _ = self.train_batches.position(self.step)
        order = self.train_batches.order(epoch)
        # An epoch of sub-word regularisation may lack the largest batch.
        index = max(range(len(order)), key=lambda i: (order[i][1] is bucket, order[i][1].length))
        _, bucket = order[index]
        inp, tar, *weights = next(iter(self.train_batches.epoch(epoch, index)))
        seconds = []
        with worker_failures():
            for _ in range(2):  # the first one builds the graph
                before = time.monotonic()
                sums = self._train_step(inp, tar, tf.zeros([2]), *weights)["sums"].numpy()
                seconds.append(time.monotonic() - before)
        self.train_batches.close()
        self.directory.close()
        return (
            f"plan for {self.directory.path}\n{plan}\n"
            f"  an update      of {bucket.rows} x {bucket.length}: {seconds[1]:.2f} s, "
            f"{sums[1] / seconds[1]:,.0f} target tokens/s (the first {seconds[0]:.1f} s); "
            f"memory {memory_gb():.1f} GB; loss {sums[0] / sums[1]:.3f}"
        )

    def samples(self, split: str, number: int) -> list[tuple[str, str]]:
        """The first `number` pairs of a split, without sources longer than `max_length`."""
        pairs = list(itertools.islice(self.corpus.read(split), number))
        if not pairs:
            return []
        lengths = self.tokenizers[0].encode([source for source, _ in pairs]).row_lengths()
        return [p for p, length in zip(pairs, lengths) if length <= self.config.data.max_length]

    def validate(self) -> dict[str, Any] | None:
        """Computes the metrics of the validation split.

        Returns: a dict with loss (nats a token), perplexity, accuracy, and BLEU of greedy
          translations of the first `bleu_sentences`, with its signature; None when interrupted
          meanwhile.
        """
        sums = np.zeros(3)
        for inp, tar, *_ in self.validation_batches.epoch(0):
            sums += self._eval_step(inp, tar).numpy()
            if self._interrupted_alone():
                return None
        loss, accuracy = sums[0] / sums[1], sums[2] / sums[1]
        values = {"loss": loss, "perplexity": math.exp(min(loss, 50.0)), "accuracy": accuracy}
        if self._bleu_pairs and self.workers.is_chief:
            sources, references = zip(*self._bleu_pairs)
            try:
                translations = self._translator.n_best(sources, 1, self._check_interrupted)
            except _Interrupted:
                return None
            outputs = [best[0][0] for best in translations]
            bleu = score(outputs, references, self.config.data.target)
            values |= {"BLEU": bleu.bleu, "signature": bleu.bleu_signature}
        return self.workers.broadcast(values)

    def _check_interrupted(self, translated: int) -> None:
        """Ends the translation of the validation text when the run is to stop."""
        if self._interrupted_alone():
            raise _Interrupted

    def _interrupted_alone(self) -> bool:
        """Whether to save and stop now. Several workers agree through `train_step`'s votes."""
        return self.workers.count == 1 and self._preemption.requested

    def _train(self, metrics: RunLog, deadline: float | None) -> bool:
        """The training loop. Returns: False when interrupted."""
        settings = self.config.train
        step = self.step
        in_flight: InFlight = collections.deque()
        validation_seconds = 0.0
        if self.progress.validated[0] < step and self._eval_due(step):
            self._validate(metrics)  # the run was interrupted before this validation
            if self._interrupted_alone():
                return False
            self._save()
        if 0 < len(self._to_compile) <= settings.train_steps - step:
            shapes, weighted = self._to_compile, self.train_batches.weighted
            stopped = self._interrupted_alone
            compile_updates(self._train_step, self._update_state, shapes, weighted, stopped)
        self._accumulator.start()
        while step < settings.train_steps and not self._stops_early():
            epoch, start = self.train_batches.position(step)
            for inp, tar, *weights in self.train_batches.epoch(epoch, start):
                late = deadline and time.monotonic() + 2 * validation_seconds >= deadline
                votes = tf.constant([float(self._preemption.requested), float(bool(late))])
                result = self._train_step(inp, tar, votes, *weights)
                in_flight.append((step, result, inp.shape[0] * inp.shape[1]))
                step += 1

                log_due = step % settings.log_steps == 0
                save_due = step % settings.save_steps == 0
                due = log_due or save_due or self._eval_due(step)
                interrupted, late = self._read_results(in_flight, 0 if due else STEPS_IN_FLIGHT)
                last = step == settings.train_steps or late
                if last:
                    self._read_results(in_flight, 0)
                metrics.advance(step)
                if log_due or last:
                    learning_rate = float(self._schedule(step - 1))  # of the last update
                    skipped = self.progress.skipped_steps
                    metrics.train(step, learning_rate, skipped, self._accumulator.take())
                if not interrupted and (last or self._eval_due(step)):
                    validation_seconds = self._accumulator.exclude(lambda: self._validate(metrics))
                if interrupted or self._interrupted_alone():
                    self._read_results(in_flight, 0)  # for the metrics in the checkpoint
                    return False
                if save_due:  # after the validation, so that it includes the best score
                    self._save()
                if last or self._stops_early():
                    return True
        return not self._interrupted_alone()

    def _eval_due(self, step: int) -> bool:
        settings = self.config.train
        return step % settings.eval_steps == 0 or step >= settings.train_steps

    def _stops_early(self) -> bool:
        patience = self.config.train.early_stopping_patience
        return 0 < patience <= self.progress.validations_since_best

    def _read_results(self, in_flight: InFlight, remaining: int) -> tuple[bool, bool]:
        """Reads the results of all but the last `remaining` updates.

        Returns: whether a worker asked to save and stop; whether one has reached its deadline.
        """
        stop = np.zeros(2)
        while len(in_flight) > remaining:
            step, result, padded = in_flight.popleft()
            result = {name: value.numpy() for name, value in result.items()}
            stop += result["stop"]
            self._accumulator.add(result, padded)
            self.progress.record_update(int(result["skipped"]))
            in_a_row = self.progress.skipped_in_a_row
            if in_a_row >= self.config.train.max_skipped_steps:
                self._diverged(step, f"the gradients of {in_a_row} updates in a row")
        return stop[0] > 0 or self._interrupted_alone(), stop[1] > 0

    def _validate(self, metrics: RunLog) -> None:
        """Validates, and saves the weights when their score is the best so far."""
        if self._saved == NOT_SAVED:
            self._save()  # a folder that has `best.npz` always has a checkpoint to resume from
        self._check_finite()
        with averaged_weights(self.model, self.optimizer):
            values = self.validate()
            if values is None:
                return
            is_best = self.progress.record_validation(self.step, values)
            metrics.validation(self.step, values)
            if is_best and self.workers.is_chief:
                self.directory.save_best(self.model, self._state())

    def _average(self, metrics: RunLog) -> None:
        """Averages the last checkpoints (Sec. 6.1), or the weights of all updates.

        The average is then on disk and in the model.
        """
        if self.optimizer.use_ema:
            assign_averages(self.model, self.optimizer)
            if self.workers.is_chief:
                self.directory.save_average(self.model, self._state())
        elif self.workers.is_chief:
            self.directory.average(self.model, self.config.train, self.first_step)
        self.workers.broadcast_weights(self.model.trainable_variables)
        if values := self.validate():
            metrics.validation(self.step, values, kind="average")

    def _state(self) -> dict[str, Any]:
        return {
            "step": self.step,
            "first_step": self.first_step,
            "progress": dataclasses.asdict(self.progress),
            "metrics": self._accumulator.state(),
            "loss_scale": self.loss_scale.state(),
            "vocabularies": [tokenizer.fingerprint for tokenizer in self.tokenizers],
            "data": self.train_batches.checksum,
            "batches": self.train_batches.state(),
            "batch_order": BATCH_ORDER,
        }

    def _save(self) -> None:
        """Writes a checkpoint, unless the last one has this step and the last validation."""
        state = (self.step, self.progress.validated[0])
        if state == self._saved:
            return
        self._check_finite()
        self._saved = state
        if self.workers.is_chief:
            self.directory.save(self.model, self.optimizer, self._state(), self.config.train)

    def _check_finite(self) -> None:
        """Raises: UserError for weights that are not finite, before they replace good ones."""
        for variable in self.model.trainable_variables:
            if not bool(tf.reduce_all(tf.math.is_finite(variable))):
                self._diverged(self.step - 1, f"the weights {variable.path}")

    def _diverged(self, step: int, values: str) -> NoReturn:
        """Writes the sentences of the batch of an update to a file.

        Args:
          step: the update, counted from 0.
          values: what is not finite.
        Raises: UserError.
        """
        problem = f"training diverged at update {step + 1:,}: {values} are not finite"
        if not self.workers.is_chief:
            raise UserError(f"{problem}; see the chief's message")
        folder = self.directory.path
        path = os.path.join(folder, f"batch-of-update-{step + 1}.tsv")
        write_sentences(path, self.train_batches, step, self.tokenizers)
        checkpoints = step_checkpoints(folder)
        float16 = self.model.dtype_policy.name == "mixed_float16"  # its largest number is 65,504
        rate = "learning_rate" if self.config.train.learning_rate else "learning_rate_scale"
        raise UserError(
            f"{problem}. See its sentences in {path}, or start in another --model_dir with "
            f"{'--precision=mixed_bfloat16, ' if float16 else ''}a smaller --{rate} "
            "or a larger --warmup_steps (last good checkpoint: "
            f"{checkpoints[-1] if checkpoints else 'none'})"
        )


def assign_averages(model: Transformer, optimizer: FusedAdam) -> None:
    """Gives the model the moving averages of its weights, which the optimizer keeps."""
    for variable, average in zip(model.trainable_variables, optimizer.averages):
        variable.assign(average.numpy())


@contextlib.contextmanager
def averaged_weights(model: Transformer, optimizer: FusedAdam) -> Iterator[None]:
    """A context in which the model has these averages; without a moving average, nothing changes.

    Args:
      model: a built `Transformer`. It has its own weights again after the context.
      optimizer: a built `FusedAdam`.
    """
    if not optimizer.use_ema:
        yield
        return
    weights = [variable.numpy() for variable in model.trainable_variables]
    try:
        assign_averages(model, optimizer)
        yield
    finally:
        for variable, value in zip(model.trainable_variables, weights):
            variable.assign(value)


def build_trainer(config: Config, model_dir: str, overwrite: bool = False) -> Trainer:
    """Builds a training run in a model folder, which resumes from the newest checkpoint there.

    Args:
      config: a `Config`; the vocabulary sizes of its model are set by the learned vocabularies.
      model_dir: the model folder, created where it does not exist. Where `TF_CONFIG` names several
        workers, it is the chief's.
      overwrite: whether to remove a run or a model in the folder, and to start a new run.
    Returns: a `Trainer`.
    Raises: UserError for data that cannot be used, a folder with a run of other settings, with a
      model without its checkpoints, or one in which another process trains.
    """
    started = time.monotonic()
    strategy = strategy_of_run(config.train)
    workers = Workers(strategy)
    if not workers.is_chief:
        logging.getLogger("tf_transformer").setLevel(logging.WARNING)
    keras.utils.set_random_seed(config.train.seed)
    if config.train.init_from:
        check_other_folder(config.train.init_from, model_dir)
        config = config.replace(init_from=absolute_model_dir(config.train.init_from))
    corpus = corpus_of_run(config.data)
    directory = RunDirectory(model_dir if workers.is_chief else None, overwrite)
    try:
        with worker_failures():
            config, tokenizers = prepare_vocabulary(config, corpus, directory, workers)
            data = (tokenizers, directory, workers)
            train_batches = prepare_batches(config, corpus, "train", *data)
            validation_batches = prepare_batches(config, corpus, "validation", *data)

            on_cpu = config.train.logical_devices
            gpus = [] if on_cpu else tf.config.get_visible_devices("GPU")
            precision = workers.broadcast(choose_precision(config.train.precision, gpus))
            model, optimizer, loss_scale = make_state(config, precision, strategy)

            trainer = Trainer(
                config=config,
                workers=workers,
                directory=directory,
                corpus=corpus,
                tokenizers=tokenizers,
                train_batches=train_batches,
                validation_batches=validation_batches,
                model=model,
                optimizer=optimizer,
                loss_scale=loss_scale,
                jit_compile=choose_jit_compile(config.train.jit_compile, gpus),
                started=started,
            )
            if not trainer.restore() and config.train.init_from:
                load_initial_weights(model, optimizer, tokenizers, config.train, workers)
                trainer.first_step = trainer.step
            return trainer
    except BaseException:
        directory.close()
        raise
