"""The training loop (Sec. 5): updates, validation, checkpoints, and exact resume."""

import collections
import contextlib
import dataclasses
import functools
import itertools
import logging
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any, NoReturn

import keras
import numpy as np
import tensorflow as tf

from tf_transformer.checkpoints.loading import check_same_vocabularies
from tf_transformer.checkpoints.model_folder import AVERAGED, BEST, CONFIG, step_checkpoints
from tf_transformer.config import MICRO_BATCH_TOKENS, Config
from tf_transformer.data.batching import IDS
from tf_transformer.data.corpus import Corpus
from tf_transformer.data.readers import corpus_of_run, open_validation_text
from tf_transformer.decoding.translator import Translator
from tf_transformer.errors import UserError
from tf_transformer.evaluation.bleu import bleu_tokenizer, check_tokenizer, make_bleu, score
from tf_transformer.files import atomic_write
from tf_transformer.host import nvidia_smi
from tf_transformer.training.distribution import (
    Workers,
    make_workers,
    on_all_replicas,
    worker_failures,
)
from tf_transformer.training.fine_tuning import load_initial_weights, recorded_init_from
from tf_transformer.training.memory_plan import Plan, learning_rate_warning
from tf_transformer.training.precision import choose_jit_compile, choose_precision
from tf_transformer.training.prepare_data import prepare_text
from tf_transformer.training.run_directory import (
    BATCH_ORDER,
    RunDirectory,
    check_same_batches,
)
from tf_transformer.training.run_log import MetricsAccumulator, Progress, RunLog, memory_gb
from tf_transformer.training.schedule import make_schedule
from tf_transformer.training.update import Update, eval_step

logger = logging.getLogger(__name__)

# A handler of the module `signal`.
Handler = Callable[[int, FrameType | None], Any] | int | signal.Handlers | None

MAX_SHAPES = 12  # of batches, where XLA compiles the update for each of them
GPU_PART = 0.85  # of the free memory of a GPU that a plan may fill
STEPS_IN_FLIGHT = 2  # updates started before the result of an earlier one is read


class PreemptionHandler:
    """A context in which Ctrl-C, SIGTERM and SIGHUP only set `requested`, for the training loop.

    A cluster sends SIGTERM before it takes a job away, to all processes, and a parent process
    passes it on. SIGHUP, also more than once, comes when the terminal is closed. After any of them,
    Ctrl-C stops at once. A signal that is ignored, as SIGHUP under `nohup`, stays ignored.

    Args:
      second_interrupt: what Ctrl-C then does: a handler of the module `signal`, or None for the
        handler that was set before.
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self, second_interrupt: Handler = None) -> None:
        self.requested = False
        self._second_interrupt = second_interrupt
        self._before: dict[signal.Signals, Handler] = {}  # signal -> former handler

    def __enter__(self) -> "PreemptionHandler":
        if threading.current_thread() is threading.main_thread():  # others cannot set handlers
            for number in self.SIGNALS:
                if signal.getsignal(number) != signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._request)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _request(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            return
        self.requested = True
        if signal.SIGINT in self._before:
            second = self._second_interrupt
            signal.signal(signal.SIGINT, self._before[signal.SIGINT] if second is None else second)
        name = signal.Signals(number).name
        # os.write, because the signal may have interrupted a print. The terminal may be closed.
        with contextlib.suppress(OSError):
            os.write(2, f"\n{name}: saving after this update; Ctrl-C stops at once\n".encode())


class _Interrupted(Exception):
    """The run is to stop during a validation."""


class Trainer:
    """A training run in a model folder; `build_trainer` makes it.

    It reads the text, builds the model, and restores the newest checkpoint in the folder.

    Args:
      config: a `Config`; the vocabulary sizes of its model are set by the vocabularies.
      corpus: of `corpus_of_run`.
      directory: the `RunDirectory`.
      workers: the `Workers`.
    Raises: UserError for data or a folder that cannot be used.
    """

    def __init__(
        self, config: Config, corpus: Corpus, directory: RunDirectory, workers: Workers
    ) -> None:
        minutes = config.train.train_minutes
        self._deadline = time.monotonic() + minutes * 60 if minutes else math.inf
        keras.utils.set_random_seed(config.train.seed)
        self.directory = directory
        self.workers = workers
        further = {  # a wrong name is reported before the text is encoded
            f"{name}/": open_validation_text(data, config.data)
            for name, data in config.train.validation_texts().items()
        }
        self._gpus = [] if config.train.logical_devices else tf.config.get_visible_devices("GPU")
        self._jit_compile = choose_jit_compile(config.train.jit_compile, self._gpus)
        max_shapes = MAX_SHAPES if self._jit_compile else 0
        text = prepare_text(config, corpus, directory, workers, max_shapes)
        self.train_batches = text.batches("train")
        corpora = {"": corpus, **further}
        self.validation_batches = {  # by what stands before the names of the metrics
            name: dataclasses.replace(text, corpus=each).batches("validation")
            for name, each in corpora.items()
        }
        self.config, self.corpus, self.tokenizers = text.config, text.corpus, text.tokenizers
        self._build()
        self.progress = Progress()
        self.preemption = PreemptionHandler()
        self.first_step = 0  # updates before this run, with `init_optimizer`
        self._saved = (0, 0)  # step, and step of the last validation, of the last checkpoint
        self._accumulator = MetricsAccumulator()
        # The step, counted from 0, the result and the padded tokens of each started update.
        self._in_flight: collections.deque[tuple[int, Any, int]] = collections.deque()
        self._schedule = make_schedule(self.config.model, self.config.train)
        evaluate, specs = functools.partial(eval_step, self.model), [IDS, IDS, tf.TensorSpec([1])]
        self._eval_step = on_all_replicas(workers.strategy, evaluate, specs)
        greedy = dataclasses.replace(self.config.decode, beam_size=1)
        self._translator = Translator(
            self.model, self.tokenizers, greedy, jit_compile="on" if self._jit_compile else "off"
        )
        self._bleu_pairs = {
            name: self.samples("validation", self.config.train.bleu_sentences, each)
            for name, each in corpora.items()
        }
        tokenizer = bleu_tokenizer(self.config.data.target, self.config.train.bleu_tokenizer)
        make_bleu(tokenizer)  # what it lacks is said before the first update
        check_tokenizer(tokenizer, [target for _, target in self._bleu_pairs[""]])
        self._validation_seconds = 0.0
        if not self._restore() and self.config.train.init_from:
            load_initial_weights(self.model, self.optimizer, self.config.train, workers)
            self.first_step = self.step

    def _build(self) -> None:
        """Builds the model and its update, and describes them in the log."""
        settings, strategy = self.config.train, self.workers.strategy
        precision = self.workers.broadcast(choose_precision(settings.precision, self._gpus))
        self.plan = Plan(self.config, self.train_batches, self.workers.replicas, precision)
        if not settings.micro_batch_tokens:
            rows = nvidia_smi("memory.free") if self._gpus else []
            free = min((int(mib) * 2**20 for (mib,) in rows if mib.isdigit()), default=0)
            memory = self.workers.broadcast(GPU_PART * free)
            usual = self.plan.with_micro_batches(MICRO_BATCH_TOKENS)
            self.plan = self.plan.fitting(memory) if memory else usual
        self.update = Update(
            self.plan.config,
            precision,
            strategy,
            accumulate=self.plan.accumulation_steps > 1,
            jit_compile=self._jit_compile,
            weighted=self.train_batches.weighted,
        )
        self.model, self.optimizer = self.update.model, self.update.optimizer
        devices = self.plan.describe_devices(strategy, self._jit_compile)
        logger.info("%s parameters; %s", f"{self.model.count_params():,}", devices)
        if warning := learning_rate_warning(self.config, self.train_batches):
            logger.warning(warning)

    @property
    def step(self) -> int:
        """Updates made so far, including skipped ones."""
        return int(self.optimizer.iterations.numpy())

    def _restore(self) -> bool:
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
        state["progress"].pop("validations_since_best", None)  # of version 0.2
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
        self.directory.begin()
        self.config.save(os.path.join(self.directory.path, CONFIG))
        self.preemption = PreemptionHandler(second_interrupt)
        end = (self.config.train.train_steps, self._deadline)
        validated = self.progress.validated[0] == self.step
        with contextlib.closing(self.directory):
            log = RunLog(self.directory.path, self.step, validated, end, self.workers.is_chief)
            with contextlib.closing(log), worker_failures(), self.preemption:
                complete = self._train(log)
                self._save()
                if complete:
                    early = self.step < self.config.train.train_steps
                    self._average(log, self._stalled() if early else "")
                self.directory.wait()
                return complete

    def _train(self, log: RunLog) -> bool:
        """The training loop. Returns: False when interrupted."""
        step, interrupted = self.step, False
        due = self._due(step) & {"validate", "stop"}  # a run may be interrupted before these
        batches = self._batches(step)
        self._fit_memory()
        self._accumulator.since = time.monotonic()
        while True:
            if "log" in due:
                rate = float(self._schedule(step - 1))  # of the last update
                log.train(step, rate, self.progress.skipped_steps, self._accumulator.means())
                self._accumulator = MetricsAccumulator()
            if "validate" in due and step > self.progress.validated[0] and not interrupted:
                interrupted = not self._validate(log)
            if interrupted or self._interrupted():
                self._read_results(0)  # for the metrics in the checkpoint
                return False
            if "save" in due:  # after the validation, so that it includes the best score
                self._save()
            if "stop" in due or self._ended(step):
                return True

            step, (inp, tar, *weights) = next(batches)
            late = time.monotonic() + 2 * self._validation_seconds >= self._deadline
            votes = tf.constant([float(self.preemption.requested), float(late)])
            result = self.update(inp, tar, votes, *weights)
            self._in_flight.append((step - 1, result, inp.shape[0] * inp.shape[1]))

            due = self._due(step)
            interrupted, late = self._read_results(0 if due else STEPS_IN_FLIGHT)
            if late:
                due |= {"log", "validate", "stop"}
                self._read_results(0)
            log.advance(step)
            self.directory.wait(only_if_done=True)

    def _batches(self, step: int) -> Iterator[tuple[int, tuple[tf.Tensor, ...]]]:
        """The batches after a number of updates, epoch after epoch, each with its step."""
        while True:
            for batch in self.train_batches.epoch(*self.train_batches.position(step)):
                step += 1
                yield step, batch

    def _due(self, step: int) -> set[str]:
        """What follows an update: "log", "validate", "save", "stop"."""
        settings = self.config.train
        if step >= settings.train_steps:
            return {"log", "validate", "stop"}
        periods = {
            "log": settings.log_steps, "validate": settings.eval_steps, "save": settings.save_steps,
        }  # fmt: skip
        return {name for name, period in periods.items() if step % period == 0}

    def _ended(self, step: int) -> bool:
        """Whether a run has made its updates, or has not become better for too long."""
        return step >= self.config.train.train_steps or bool(self._stalled())

    def _stalled(self) -> str:
        """When each metric was best, where a run has not become better for too long; else ""."""
        return self.progress.stalled(self.config.train)

    def _fit_memory(self) -> None:
        """Halves the micro-batches of GPUs, unless they are given, until their memory suffices.

        Raises: tf.errors.ResourceExhaustedError, also of one of several workers: the others stop.
        """
        while self._gpus and not self.config.train.micro_batch_tokens:
            try:
                self.update.rehearse(self.plan.largest()[0])
                break
            except tf.errors.ResourceExhaustedError:
                if self.workers.count > 1 or self.plan.halved() == self.plan:
                    raise
            self.plan = self.plan.halved()
            tokens = self.plan.config.train.micro_batch_tokens
            logger.warning("out of memory: going on with micro-batches of %s tokens", f"{tokens:,}")
            self.update.divide(tokens)

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
        self._fit_memory()
        cpu_replicas = 0 if self._gpus else self.workers.replicas // self.workers.count
        plan = self.plan.describe(cpu_replicas)
        largest, _ = self.plan.largest()
        epoch, _ = self.train_batches.position(self.step)
        order = self.train_batches.order(epoch)
        index = next(i for i, (_, bucket) in enumerate(order) if bucket is largest)
        inp, tar, *weights = next(iter(self.train_batches.epoch(epoch, index)))
        seconds = []
        with worker_failures():
            for _ in range(2):  # the first one builds the graph
                before = time.monotonic()
                sums = self.update(inp, tar, tf.zeros([2]), *weights)["sums"].numpy()
                seconds.append(time.monotonic() - before)
        self.directory.close()
        return (
            f"plan for {self.directory.path}\n{plan}\n"
            f"  an update      of {inp.shape[0]} x {inp.shape[1]}: {seconds[1]:.2f} s, "
            f"{sums[1] / seconds[1]:,.0f} target tokens/s (the first {seconds[0]:.1f} s); "
            f"memory {memory_gb():.1f} GB; loss {sums[0] / sums[1]:.3f}"
        )

    def samples(
        self, split: str, number: int, corpus: Corpus | None = None
    ) -> list[tuple[str, str]]:
        """The first `number` pairs of a split, without sources longer than `max_length`."""
        pairs = list(itertools.islice((corpus or self.corpus).read(split), number))
        if not pairs:
            return []
        lengths = self.tokenizers[0].encode([source for source, _ in pairs]).row_lengths()
        return [p for p, length in zip(pairs, lengths) if length <= self.config.data.max_length]

    def validate(self) -> dict[str, Any]:
        """Computes the metrics of the validation split, and of the further validation texts.

        Returns: a dict with loss (nats a token), perplexity, accuracy, and of greedy translations
          of the first `bleu_sentences` BLEU, with its signature, and the part of them that is cut
          off at the longest output; of a further text with its name and / before theirs.
        """
        values: dict[str, Any] = {}
        for name, batches in self.validation_batches.items():
            sums = np.zeros(4)
            for inp, tar, *_ in batches.epoch(0):
                vote = tf.constant([float(self.preemption.requested)])
                sums += self._eval_step(inp, tar, vote).numpy()
                if sums[3]:  # all workers stop at the same batch
                    raise _Interrupted
            loss, accuracy = sums[0] / sums[1], sums[2] / sums[1]
            perplexity = math.exp(min(loss, 50.0))
            figures = {"loss": loss, "perplexity": perplexity, "accuracy": accuracy}
            if self._bleu_pairs[name]:
                figures |= self._translation_scores(self._bleu_pairs[name])
            values |= {f"{name}{key}": value for key, value in figures.items()}
        return values

    def _translation_scores(self, pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
        """The scores of greedy translations, and the part of them that is cut off.

        Each worker translates a part. Raises: _Interrupted on all of them when the run is to stop.
        """
        sources, references = zip(*pairs)
        rows = [slice(index, None, self.workers.count) for index in range(self.workers.count)]
        translations: list[list[Any]] | None = None  # text, whether it is cut off
        with contextlib.suppress(_Interrupted):
            found = self._translator.n_best(
                sources[rows[self.workers.index]], 1, self._check_interrupted, skip_long=True
            )
            translations = [[best[0], best.truncated] for (best,) in found]
        parts = self.workers.gather(translations)
        if None in parts:
            raise _Interrupted
        outputs, truncated = [""] * len(pairs), 0
        for each, part in zip(rows, parts):
            outputs[each] = [text for text, _ in part]
            truncated += sum(is_cut for _, is_cut in part)
        settings = self.config.data.target, self.config.train.bleu_tokenizer
        scores = score(outputs, references, *settings)
        return {
            "BLEU": scores.bleu,
            "chrF": scores.chrf,
            "truncated": truncated / len(pairs),
            "signature": scores.bleu_signature,
        }

    def _check_interrupted(self, translated: int) -> None:
        """Ends the translations of a validation, after a batch of them, when the run is to stop."""
        if self.preemption.requested:
            raise _Interrupted

    def _validate(self, log: RunLog) -> bool:
        """Validates, and saves the weights when their score is the best so far.

        Returns: False when the run is to stop, on all workers.
        """
        if self._saved == (0, 0):
            self._save()  # a folder that has `best.npz` always has a checkpoint to resume from
        self._check_finite()
        start = time.monotonic()
        finished = False
        with contextlib.suppress(_Interrupted), self._averaged_weights():
            values = self.validate()
            finished = True
            warmup_steps = self.config.train.warmup_steps
            is_best = self.progress.record_validation(self.step, values, warmup_steps)
            log.validation(self.step, values)
            if is_best and self.workers.is_chief:
                self.directory.save_weights(BEST, self.model, self._state())
        self._validation_seconds = time.monotonic() - start
        self._accumulator.since += self._validation_seconds
        return finished

    @contextlib.contextmanager
    def _averaged_weights(self) -> Iterator[None]:
        """A context in which the model has the moving averages of its weights, if there are any."""
        weights = self.model.trainable_variables if self.optimizer.use_ema else []
        values = [variable.numpy() for variable in weights]
        self.optimizer.finalize_variable_values(weights)
        try:
            yield
        finally:
            for variable, value in zip(weights, values):
                variable.assign(value)

    def _average(self, log: RunLog, stalled: str) -> None:
        """Averages the last checkpoints (Sec. 6.1), or the weights of all updates.

        The average is then on disk and in the model.

        Args:
          log: the run log.
          stalled: of `_stalled`, where that ended the run before its last update; else "".
        """
        stopped = {"stopped_early": stalled} if stalled else {}
        if stalled:
            logger.info("stopped early at update %s: %s", f"{self.step:,}", stalled)
        if self.optimizer.use_ema:
            self.optimizer.finalize_variable_values(self.model.trainable_variables)
            if self.workers.is_chief:
                self.directory.save_weights(AVERAGED, self.model, self._state())
        elif self.workers.is_chief:
            self.directory.average(self.model, self.config.train, self.first_step)
        self.workers.broadcast_weights(self.model.trainable_variables)
        with contextlib.suppress(_Interrupted):
            values = self.validate()
            log.validation(self.step, {**values, **stopped}, kind="average")
            if truncated := values.get("truncated"):
                logger.warning(
                    f"{truncated:.1%} of the validation translations are cut off at the longest "
                    f"output, {self.config.decode.extra_decode_length} sub-words more than the "
                    "source: unless they only repeat themselves, translate with a larger "
                    "--extra_decode_length"
                )

    def _state(self) -> dict[str, Any]:
        return {
            "step": self.step,
            "first_step": self.first_step,
            "progress": dataclasses.asdict(self.progress),
            "metrics": self._accumulator.state(),
            "loss_scale": self.update.loss_scale.state(),
            "vocabularies": [tokenizer.fingerprint for tokenizer in self.tokenizers],
            "data": self.train_batches.checksum,
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
        weights = self.model.trainable_variables
        # One tensor for all, so that a GPU is waited for once.
        finite = tf.stack([tf.reduce_all(tf.math.is_finite(each)) for each in weights]).numpy()
        if not finite.all():
            self._diverged(self.step - 1, f"the weights {weights[finite.argmin()].path}")

    def _diverged(self, step: int, values: str) -> NoReturn:
        """Writes the sentences of the batch of an update to a TSV file.

        Raises: UserError, which says what `values` are not finite. The step is counted from 0.
        """
        problem = f"training diverged at update {step + 1:,}: {values} are not finite"
        if not self.workers.is_chief:
            raise UserError(f"{problem}; see the chief's message")
        folder = self.directory.path
        path = os.path.join(folder, f"batch-of-update-{step + 1}.tsv")
        ids = next(iter(self.train_batches.epoch(*self.train_batches.position(step))))
        sides = [tokenizer.decode(side).numpy() for tokenizer, side in zip(self.tokenizers, ids)]
        with atomic_write(path, "wb") as file:  # unused rows have no text
            file.writelines(b"\t".join(pair) + b"\n" for pair in zip(*sides) if any(pair))
        checkpoints = step_checkpoints(folder)
        float16 = self.plan.precision == "mixed_float16"  # its largest number is 65,504
        rate = "learning_rate" if self.config.train.learning_rate else "learning_rate_scale"
        raise UserError(
            f"{problem}. See its sentences in {path}, or start in another --model_dir with "
            f"{'--precision=mixed_bfloat16, ' if float16 else ''}a smaller --{rate} "
            "or a larger --warmup_steps (last good checkpoint: "
            f"{checkpoints[-1] if checkpoints else 'none'})"
        )


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
    workers = make_workers(config.train)
    if not workers.is_chief:
        logging.getLogger("tf_transformer").setLevel(logging.WARNING)
    if config.train.init_from:
        init_from = recorded_init_from(config.train.init_from, model_dir)
        config = config.replace(init_from=init_from)
    corpus = corpus_of_run(config.data)  # a wrong name is reported before there is a folder
    directory = RunDirectory(model_dir if workers.is_chief else None, overwrite)
    try:
        with worker_failures():
            return Trainer(config, corpus, directory, workers)
    except BaseException:
        directory.close()
        raise
