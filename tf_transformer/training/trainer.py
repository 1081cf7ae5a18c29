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

from tf_transformer.checkpoints.loading import check_same_vocabularies
from tf_transformer.checkpoints.model_folder import AVERAGED, BEST, CONFIG, step_checkpoints
from tf_transformer.config import Config
from tf_transformer.data.batching import IDS, Batches
from tf_transformer.data.corpus import Corpus
from tf_transformer.data.readers import corpus_of_run
from tf_transformer.data.tokenizer import Tokenizer
from tf_transformer.decoding.translator import Translator
from tf_transformer.errors import UserError
from tf_transformer.evaluation.bleu import score
from tf_transformer.model.transformer import Transformer
from tf_transformer.training.distribution import (
    Workers,
    make_strategy,
    on_all_replicas,
    worker_failures,
)
from tf_transformer.training.fine_tuning import load_initial_weights, recorded_init_from
from tf_transformer.training.memory_plan import (
    Plan,
    accumulation_hint,
    describe_devices,
    learning_rate_warning,
)
from tf_transformer.training.optimizer import FusedAdam
from tf_transformer.training.precision import choose_jit_compile, choose_precision
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
from tf_transformer.training.update import Update, eval_step

logger = logging.getLogger(__name__)

STEPS_IN_FLIGHT = 2  # updates started before the result of an earlier one is read
NOT_SAVED = (0, 0)

# The step, counted from 0, the result and the padded tokens of each started update.
InFlight = collections.deque[tuple[int, dict[str, tf.Tensor], int]]


class _Interrupted(Exception):
    """The run is to stop during the translation of the validation text."""


class Trainer:
    """A training run. `build_trainer` makes its parts.

    Args:
      config: a `Config` with the sizes of its vocabularies.
      workers: the `Workers`.
      directory: the `RunDirectory`.
      corpus: of `data.readers.open_corpus`.
      tokenizers: of source and target.
      train_batches, validation_batches: two `Batches`.
      update: the `Update`, with the model and its optimizer.
      started: `time.monotonic()` from which `train_minutes` are counted.
    """

    def __init__(
        self, config: Config, workers: Workers, directory: RunDirectory, corpus: Corpus,
        tokenizers: tuple[Tokenizer, Tokenizer], train_batches: Batches,
        validation_batches: Batches, update: Update, started: float,
    ) -> None:  # fmt: skip
        self.config = config
        self.workers = workers
        self.directory = directory
        self.corpus = corpus
        self.tokenizers = tokenizers
        self.train_batches = train_batches
        self.validation_batches = validation_batches
        self.update = update
        self.model = update.model
        self.optimizer = update.optimizer
        self.progress = Progress()
        self.preemption = PreemptionHandler()
        self.first_step = 0  # updates before this run, with `init_optimizer`
        minutes = config.train.train_minutes
        self._deadline = started + minutes * 60 if minutes else math.inf
        self._saved = NOT_SAVED  # step, and step of the last validation, of the last checkpoint
        self._accumulator = MetricsAccumulator()
        self._in_flight: InFlight = collections.deque()
        self._schedule = make_schedule(config.model, config.train)
        evaluate = functools.partial(eval_step, self.model)
        self._eval_step = on_all_replicas(workers.strategy, evaluate, [IDS, IDS])
        greedy = dataclasses.replace(config.decode, beam_size=1)
        self._translator = Translator(self.model, tokenizers, greedy)
        self._bleu_pairs = self.samples("validation", config.train.bleu_sentences)

    @property
    def step(self) -> int:
        """Updates made so far, including skipped ones."""
        return int(self.optimizer.iterations.numpy())

    @property
    def plan(self) -> Plan:
        """How its batches are divided, and what they need."""
        precision = self.model.dtype_policy.name
        return Plan(self.config, self.train_batches, self.workers.replicas, precision)

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
        self.update.loss_scale.restore(state["loss_scale"])
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
        path, step = self.directory.path, self.step
        self.directory.begin()
        self.config.save(os.path.join(path, CONFIG))
        self.preemption = PreemptionHandler(second_interrupt)
        validated = self.progress.validated[0] == step
        end = (self.config.train.train_steps, self._deadline)
        with contextlib.closing(self.directory), contextlib.closing(self.train_batches):
            log = RunLog(path, step, *end, validated, progress=self.workers.is_chief)
            with contextlib.closing(log), worker_failures(), self.preemption:
                complete = self._train(log)
                self._save()
                if complete:
                    self._average(log)
                return complete

    def _train(self, log: RunLog) -> bool:
        """The training loop. Returns: False when interrupted."""
        step, validation_seconds = self.step, 0.0
        if step > self.progress.validated[0] and "validate" in self._due(step):
            self._validate(log)  # the run was interrupted before this validation
            if self._interrupted():
                return False
            self._save()
        if self._ended(step):
            return not self._interrupted()
        self._compile(step)
        self._accumulator.start()
        for step, (inp, tar, *weights) in self._batches(self.step):
            late = time.monotonic() + 2 * validation_seconds >= self._deadline
            votes = tf.constant([float(self.preemption.requested), float(late)])
            result = self.update(inp, tar, votes, *weights)
            self._in_flight.append((step - 1, result, inp.shape[0] * inp.shape[1]))

            due = self._due(step)
            interrupted, late = self._read_results(0 if due else STEPS_IN_FLIGHT)
            if late:
                due |= {"log", "validate", "stop"}
                self._read_results(0)
            log.advance(step)
            if "log" in due:
                rate = float(self._schedule(step - 1))  # of the last update
                log.train(step, rate, self.progress.skipped_steps, self._accumulator.take())
            if "validate" in due and not interrupted:
                validation_seconds = self._accumulator.exclude(lambda: self._validate(log))
            if interrupted or self._interrupted():
                self._read_results(0)  # for the metrics in the checkpoint
                return False
            if "save" in due:  # after the validation, so that it includes the best score
                self._save()
            if "stop" in due or self._ended(step):
                break
        return True

    def _batches(self, step: int) -> Iterator[tuple[int, tuple[tf.Tensor, ...]]]:
        """The batches after a number of updates, epoch after epoch, each with its step."""
        while True:
            for batch in self.train_batches.epoch(*self.train_batches.position(step)):
                step += 1
                yield step, batch

    def _due(self, step: int) -> set[str]:
        """What follows an update: "log", "validate", "save", "stop"."""
        settings = self.config.train
        last = step >= settings.train_steps
        periods = {
            "log": settings.log_steps, "validate": settings.eval_steps, "save": settings.save_steps,
        }  # fmt: skip
        due = {name for name, period in periods.items() if step % period == 0}
        return due | {"log", "validate", "stop"} if last else due

    def _ended(self, step: int) -> bool:
        """Whether a run has made its updates, or has not become better for too long."""
        settings = self.config.train
        patience = settings.early_stopping_patience
        stops_early = 0 < patience <= self.progress.validations_since_best
        return step >= settings.train_steps or stops_early

    def _compile(self, step: int) -> None:
        """Compiles the update for all shapes of batches, if the run uses XLA and all of them."""
        settings = self.config.train
        if not self.update.jit_compile:
            return
        shapes = self.plan.compiled_shapes()
        if len(shapes) <= settings.train_steps - step:
            self.update.compile(shapes, self._interrupted)

    def _interrupted(self) -> bool:
        """Whether to save and stop now. Several workers agree through the votes of an update."""
        return self.workers.count == 1 and self.preemption.requested

    def _read_results(self, remaining: int) -> tuple[bool, bool]:
        """Reads the results of all but the last `remaining` updates.

        Returns: whether a worker asked to save and stop; whether one has reached its deadline.
        """
        stop = np.zeros(2)
        while len(self._in_flight) > remaining:
            step, result, padded = self._in_flight.popleft()
            result = {name: value.numpy() for name, value in result.items()}
            stop += result["stop"]
            self._accumulator.add(result, padded)
            self.progress.record_update(int(result["skipped"]))
            in_a_row = self.progress.skipped_in_a_row
            if in_a_row >= self.config.train.max_skipped_steps:
                self._diverged(step, f"the gradients of {in_a_row} updates in a row")
        return stop[0] > 0 or self._interrupted(), stop[1] > 0

    def dry_run(self) -> str:
        """Makes two updates of the largest batch, without saving them.

        Returns: the plan of the run, and time and memory of an update, as text.
        """
        replicas = self.workers.replicas
        on_gpus = "GPU" in self.workers.strategy.extended.worker_devices[0]
        cpu_replicas = 0 if on_gpus else replicas // self.workers.count
        plan = self.plan.describe(cpu_replicas)
        bucket, _ = self.plan.largest()
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
                sums = self.update(inp, tar, tf.zeros([2]), *weights)["sums"].numpy()
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
            if self._interrupted():
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
        if self._interrupted():
            raise _Interrupted

    def _validate(self, log: RunLog) -> None:
        """Validates, and saves the weights when their score is the best so far."""
        if self._saved == NOT_SAVED:
            self._save()  # a folder that has `best.npz` always has a checkpoint to resume from
        self._check_finite()
        with averaged_weights(self.model, self.optimizer):
            values = self.validate()
            if values is None:
                return
            is_best = self.progress.record_validation(self.step, values)
            log.validation(self.step, values)
            if is_best and self.workers.is_chief:
                self.directory.save_weights(BEST, self.model, self._state())

    def _average(self, log: RunLog) -> None:
        """Averages the last checkpoints (Sec. 6.1), or the weights of all updates.

        The average is then on disk and in the model.
        """
        if self.optimizer.use_ema:
            self.optimizer.finalize_variable_values(self.model.trainable_variables)
            if self.workers.is_chief:
                self.directory.save_weights(AVERAGED, self.model, self._state())
        elif self.workers.is_chief:
            self.directory.average(self.model, self.config.train, self.first_step)
        self.workers.broadcast_weights(self.model.trainable_variables)
        if values := self.validate():
            log.validation(self.step, values, kind="average")

    def _state(self) -> dict[str, Any]:
        return {
            "step": self.step,
            "first_step": self.first_step,
            "progress": dataclasses.asdict(self.progress),
            "metrics": self._accumulator.state(),
            "loss_scale": self.update.loss_scale.state(),
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

        Raises: UserError, which says what `values` are not finite. The step is counted from 0.
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


@contextlib.contextmanager
def averaged_weights(model: Transformer, optimizer: FusedAdam) -> Iterator[None]:
    """A context in which the model has the moving averages of its weights, where there are any.

    It has its own weights again after the context.
    """
    weights = model.trainable_variables if optimizer.use_ema else []
    values = [variable.numpy() for variable in weights]
    optimizer.finalize_variable_values(weights)
    try:
        yield
    finally:
        for variable, value in zip(weights, values):
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
    strategy = make_strategy(config.train.logical_devices)
    workers = Workers(strategy)
    if not workers.is_chief:
        logging.getLogger("tf_transformer").setLevel(logging.WARNING)
    keras.utils.set_random_seed(config.train.seed)
    if config.train.init_from:
        init_from = recorded_init_from(config.train.init_from, model_dir)
        config = config.replace(init_from=init_from)
    corpus = corpus_of_run(config.data)
    directory = RunDirectory(model_dir if workers.is_chief else None, overwrite)
    try:
        with worker_failures():
            config, tokenizers = prepare_vocabulary(config, corpus, directory, workers)
            data = (tokenizers, directory, workers)
            train_batches = prepare_batches(config, corpus, "train", *data)
            validation_batches = prepare_batches(config, corpus, "validation", *data)

            update = _build_update(config, strategy, workers, train_batches)
            trainer = Trainer(
                config, workers, directory, corpus, tokenizers, train_batches, validation_batches,
                update, started,
            )  # fmt: skip
            if not trainer.restore() and config.train.init_from:
                load_initial_weights(
                    trainer.model, trainer.optimizer, tokenizers, config.train, workers
                )
                trainer.first_step = trainer.step
            return trainer
    except BaseException:
        directory.close()
        raise


def _build_update(
    config: Config, strategy: tf.distribute.Strategy, workers: Workers, batches: Batches
) -> Update:
    """Builds the model and its update, and describes them in the log."""
    settings = config.train
    gpus = [] if settings.logical_devices else tf.config.get_visible_devices("GPU")
    precision = workers.broadcast(choose_precision(settings.precision, gpus))
    plan = Plan(config, batches, workers.replicas, precision)
    steps = plan.accumulation_steps
    jit_compile = choose_jit_compile(settings.jit_compile, gpus)
    update = Update.build(
        config,
        precision,
        strategy,
        accumulate=steps > 1,
        jit_compile=jit_compile,
        weighted=batches.weighted,
    )
    xla_shapes = len(plan.compiled_shapes()) if jit_compile else 0
    devices = describe_devices(strategy, steps, precision, xla_shapes)
    logger.info("%s parameters; %s", f"{update.model.count_params():,}", devices)
    if hint := accumulation_hint(strategy, steps, settings.micro_batch_tokens):
        logger.info(hint)
    if warning := learning_rate_warning(config, batches):
        logger.warning(warning)
    return update
