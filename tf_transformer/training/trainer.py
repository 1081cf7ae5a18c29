"""The training loop (Sec. 5): updates, validation, checkpoints, and exact resume."""

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
from typing import Any, NamedTuple, NoReturn

import keras
import numpy as np
import tensorflow as tf

from tf_transformer.checkpoints.loading import check_same_vocabularies
from tf_transformer.checkpoints.model_folder import BEST, CONFIG, step_checkpoints
from tf_transformer.config import MICRO_BATCH_TOKENS, Config
from tf_transformer.data.batching import IDS, Batches, Bucket
from tf_transformer.data.corpus import Corpus
from tf_transformer.data.readers import corpus_of_run, open_validation_text
from tf_transformer.decoding.translator import Translator
from tf_transformer.errors import UserError
from tf_transformer.evaluation.bleu import bleu_tokenizer, check_tokenizer, make_bleu, score
from tf_transformer.files import atomic_write
from tf_transformer.gpus import check_products, missing_machine_code
from tf_transformer.training.batch_plan import BatchPlan, learning_rate_warning
from tf_transformer.training.compilation import ShapeCompiler, choose_jit_compile, most_shapes
from tf_transformer.training.distribution import (
    Workers,
    make_workers,
    on_all_replicas,
    worker_failures,
)
from tf_transformer.training.fine_tuning import load_initial_weights, recorded_init_from
from tf_transformer.training.precision import choose_precision
from tf_transformer.training.prepare_data import prepare_text
from tf_transformer.training.run_directory import BATCH_ORDER, RunDirectory, check_same_batches
from tf_transformer.training.run_log import (
    MetricsAccumulator,
    Progress,
    RunLog,
    memory_gb,
    reset_memory_peak,
)
from tf_transformer.training.schedule import make_schedule
from tf_transformer.training.update import Sums, Update, eval_step

logger = logging.getLogger(__name__)

# A handler of the module `signal`.
Handler = Callable[[int, FrameType | None], Any] | int | signal.Handlers | None

STEPS_IN_FLIGHT = 2  # updates started before the result of an earlier one is read


class PreemptionHandler:
    """A context in which Ctrl-C and other signals only set `requested`, for the training loop.

    A cluster sends SIGTERM before it takes a job away, Slurm also the signal of `--signal`, to all
    processes, and a parent process passes it on. SIGXCPU says that the limit of CPU time is near,
    SIGHUP that the terminal is closed; both come several times. After any of them, Ctrl-C stops at
    once. A signal that is ignored, as SIGHUP under `nohup`, stays ignored.

    Args:
      second_interrupt: what Ctrl-C then does; None for the handler that was set before.
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGXCPU)

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


class _ValidationText(NamedTuple):
    """A text on which a run is validated."""

    prefix: str  # of the names of its metrics: "" for the run's own text, NAME/ for a further one
    batches: Batches
    pairs: list[tuple[str, str]]  # to translate


class _Interrupted(Exception):
    """The run is to stop during a validation."""


class Trainer:
    """A training run in a model folder, resumed from its newest checkpoint; see `build_trainer`."""

    def __init__(
        self, config: Config, corpus: Corpus, directory: RunDirectory, workers: Workers
    ) -> None:
        minutes = config.train.train_minutes
        self._deadline = time.monotonic() + minutes * 60 if minutes else math.inf
        keras.utils.set_random_seed(config.train.seed)
        self.directory, self.workers = directory, workers
        validated = {"": corpus}
        for name, data in config.train.validation_texts().items():
            # A wrong name is reported before the text is encoded.
            validated[f"{name}/"] = open_validation_text(data, config.data)
        self._gpus = [] if config.train.logical_devices else tf.config.get_visible_devices("GPU")
        if missing := missing_machine_code(self._gpus):
            check_products()
            if config.train.jit_compile == "on":
                raise UserError(f"{missing}, so XLA would end the process: leave out --jit_compile")
            logger.warning(
                f"{missing}: updates work, but XLA would end the process and is off, so they take "
                "several times as long; docs/guides/devices.md says what to install"
            )
        self._jit_compile = choose_jit_compile(config.train.jit_compile, self._gpus)
        max_shapes = most_shapes(config) if self._jit_compile else 0
        text = prepare_text(config, corpus, directory, workers, max_shapes)
        self.train_batches = text.batches("train")
        self.config, self.corpus, self.tokenizers = text.config, text.corpus, text.tokenizers
        self.validation_texts = []
        for prefix, each in validated.items():
            batches = dataclasses.replace(text, corpus=each).batches("validation")
            pairs = self.samples("validation", self.config.train.bleu_sentences, each)
            self.validation_texts.append(_ValidationText(prefix, batches, pairs))
        tokenizer = bleu_tokenizer(self.config.data.target, self.config.train.bleu_tokenizer)
        make_bleu(tokenizer)  # what it lacks is said before the first update
        check_tokenizer(tokenizer, [target for _, target in self.validation_texts[0].pairs])
        self._build()
        self.progress = Progress()
        self.preemption = PreemptionHandler()
        self._saved = (0, 0)  # step, and step of the last validation, of the last checkpoint
        self._accumulator = MetricsAccumulator()
        # Updates that are not read yet: step, from 0; result; tokens of a side, with padding.
        self._in_flight: list[tuple[int, dict[str, tf.Tensor], int]] = []
        self._schedule = make_schedule(self.config.model, self.config.train)
        evaluate, specs = functools.partial(eval_step, self.model), [IDS, IDS, tf.TensorSpec([1])]
        self._eval_step = on_all_replicas(workers.strategy, evaluate, specs)
        greedy = dataclasses.replace(self.config.decode, beam_size=1)
        self._translator = Translator(
            self.model, self.tokenizers, greedy, jit_compile=config.train.jit_compile
        )
        self._validation_seconds = 0.0
        if not self._restore() and self.config.train.init_from:
            load_initial_weights(self.model, self.config.train, workers)

    def _build(self) -> None:
        settings, strategy = self.config.train, self.workers.strategy
        self.precision = self.workers.broadcast(choose_precision(settings.precision, self._gpus))
        self.plan = BatchPlan(self.config, self.train_batches, self.workers.replicas)
        if not settings.micro_batch_tokens:  # a GPU begins with the whole batch: `_fit_memory`
            tokens = self.config.data.batch_tokens if self._gpus else MICRO_BATCH_TOKENS
            self.plan = self.plan.with_micro_batches(tokens)
        self.update = Update(
            self.plan.config,
            self.precision,
            strategy,
            accumulate=self.plan.accumulation_steps > 1,
            jit_compile=self._jit_compile,
            weighted=self.train_batches.weighted,
        )
        self.model, self.optimizer = self.update.model, self.update.optimizer
        if warning := learning_rate_warning(self.config, self.train_batches):
            logger.warning(warning)

    @property
    def step(self) -> int:
        """Updates made so far, including skipped ones."""
        return int(self.optimizer.iterations.numpy())

    def _restore(self) -> bool:
        """Restores the newest checkpoint on all workers. Returns: whether there is one.

        Raises: UserError when all are damaged, or are of another text or vocabulary.
        """
        is_chief = self.workers.is_chief
        state = self.directory.restore(self.model, self.optimizer) if is_chief else None
        state = self.workers.broadcast(state)
        if not state:
            return False
        check_same_vocabularies(state, self.tokenizers, self.directory.path)
        check_same_batches(state, self.train_batches.checksum, self.directory.path)
        state["progress"].pop("validations_since_best", None)  # of version 0.2
        self.progress = Progress(**state["progress"])
        self._accumulator = MetricsAccumulator(state["metrics"])
        self._saved = (state["step"], self.progress.validated[0])
        moments = [variable for variable in self.optimizer.variables if variable.dtype == "float32"]
        self.workers.broadcast_weights([*self.model.weights, *moments])
        self.optimizer.iterations.assign(state["step"])
        self.update.loss_scale.restore(state["loss_scale"])
        return True

    def run(self, second_interrupt: Handler = None) -> bool:
        """Trains until the wanted number of updates or minutes, or until a signal.

        At the end, the last checkpoints are averaged. `PreemptionHandler` gets `second_interrupt`.

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
                self._fit_memory()
                wait = self.config.train.jit_compile == "on"
                with self._compiler(self.train_batches.buckets, wait) as compiler:
                    complete = self._train(log, compiler)
                    self._save()
                if complete:
                    self._average(log)
                self.directory.wait()
                return complete

    def _fit_memory(self) -> None:
        """Halves the micro-batches of GPUs, unless they are given, until their memory suffices.

        Each shape is tried without XLA, with which an update needs less, the longest sentences
        first. Where one of several workers lacks memory, all stop. Describes the result in the log.
        """
        given = self.config.train.micro_batch_tokens
        fits = not self._gpus
        while not fits:
            try:
                for bucket in reversed(self.train_batches.buckets):
                    self.update.rehearse(bucket)
                reset_memory_peak()
                fits = True
            except tf.errors.ResourceExhaustedError:
                if given or self.workers.count > 1 or self.plan.halved() == self.plan:
                    raise
                self.plan = self.plan.halved()
                tokens = self.plan.config.train.micro_batch_tokens
                logger.warning(f"out of memory: going on with micro-batches of {tokens:,} tokens")
                self.update.divide(tokens)
        replicas, devices = self.workers.replicas, self.workers.strategy.extended.worker_devices
        names = ", ".join(device.split("device:")[-1] for device in devices)
        shapes = len(self.train_batches.buckets)
        xla = f"on: {shapes} shapes to compile" if self._jit_compile else "off"
        logger.info(
            f"{self.model.count_params():,} parameters; {replicas} replica"
            f"{'s' if replicas > 1 else ''} ({names}), gradient accumulation steps: "
            f"{self.plan.accumulation_steps}; {self.precision}, XLA {xla}"
        )

    def _compiler(
        self, buckets: Sequence[Bucket], wait: bool
    ) -> contextlib.AbstractContextManager[ShapeCompiler | None]:
        """A context in which XLA compiles some shapes; None where it is off."""
        if not self._jit_compile:
            return contextlib.nullcontext()
        replicas_of_host = self.workers.replicas // self.workers.count
        return contextlib.closing(ShapeCompiler(self.update, buckets, replicas_of_host, wait))

    def _train(self, log: RunLog, compiler: ShapeCompiler | None) -> bool:
        """The training loop. Returns: False when interrupted."""
        settings, step = self.config.train, self.step
        batches = self._batches(step)
        first, interrupted, late = True, False, False  # late: the next validation would be too late
        self._accumulator.since = time.monotonic()
        while True:
            last = late or step >= settings.train_steps
            if not first and (last or step % settings.log_steps == 0):
                rate = float(self._schedule(step - 1))  # of the last update
                log.train(step, rate, self.progress.skipped_steps, self._accumulator.means())
                self._accumulator = MetricsAccumulator()
            is_due = (last or step % settings.eval_steps == 0) and step > self.progress.validated[0]
            if is_due and not interrupted:
                interrupted = not self._validate(log)
            if interrupted or self._interrupted():
                self._read_results(0)  # for the metrics in the checkpoint
                return False
            if not first and step % settings.save_steps == 0:  # with the score of the validation
                self._save()
            if last or self.progress.stalled(settings.early_stopping_patience):
                return True

            step, (inp, tar, *weights) = next(batches)
            first = False
            late = time.monotonic() + 2 * self._validation_seconds >= self._deadline
            stop_flags = tf.constant([float(self.preemption.requested), float(late)])
            rows, length = inp.shape
            compiled = bool(compiler and compiler.is_compiled(rows, length, self._interrupted))
            if compiler and self._interrupted():  # while this update waited
                self._read_results(0)
                return False
            try:
                result = self.update(inp, tar, stop_flags, *weights, compiled=compiled)
            except tf.errors.OpError as error:
                # Of XLA, or of a compilation that takes memory. Several replicas cannot go on.
                if compiler is None or self.workers.replicas > 1:
                    raise
                if compiled:
                    compiler.give_up(rows, length, error)
                if isinstance(error, tf.errors.ResourceExhaustedError):
                    compiler.wait()
                self.optimizer.iterations.assign(step - 1)  # nothing else has changed
                result = self.update(inp, tar, stop_flags, *weights, compiled=False)
            self._in_flight.append((step - 1, result, rows * length))
            periods = settings.log_steps, settings.eval_steps, settings.save_steps
            is_read = step >= settings.train_steps or any(step % each == 0 for each in periods)
            interrupted, late = self._read_results(0 if is_read else STEPS_IN_FLIGHT)
            if late:
                self._read_results(0)
            log.advance(step)
            self.directory.wait(only_if_done=True)

    def _batches(self, step: int) -> Iterator[tuple[int, tuple[tf.Tensor, ...]]]:
        """The batches after a number of updates, epoch after epoch, each with its step."""
        while True:
            for batch in self.train_batches.epoch(*self.train_batches.position(step)):
                step += 1
                yield step, batch

    def _interrupted(self) -> bool:
        """Whether to save and stop now. Several workers agree by the stop flags of an update."""
        return self.workers.count == 1 and self.preemption.requested

    def _read_results(self, remaining: int) -> tuple[bool, bool]:
        """Reads the results of all but the last `remaining` updates.

        Returns: whether a worker is to save and stop; whether one has reached its deadline.
        """
        interrupted = late = 0.0  # numbers of workers
        while len(self._in_flight) > remaining:
            step, tensors, padded = self._in_flight.pop(0)
            result = {name: value.numpy() for name, value in tensors.items()}
            interrupted, late = np.add((interrupted, late), result["stop"])
            self._accumulator.add(result, padded)
            self.progress.record_update(int(result["skipped"]))
            in_a_row = self.progress.skipped_in_a_row
            if in_a_row >= self.config.train.max_skipped_steps:
                self._diverged(step, f"the gradients of {in_a_row} updates in a row")
        return interrupted > 0 or self._interrupted(), late > 0

    def _validate(self, log: RunLog) -> bool:
        """Validates, and saves the best weights so far. Returns: False when all are to stop."""
        if self._saved == (0, 0):
            self._save()  # a folder that has `best.npz` always has a checkpoint to resume from
        self._check_finite()
        start, finished = time.monotonic(), False
        with contextlib.suppress(_Interrupted):
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

    def validate(self) -> dict[str, Any]:
        """Computes the metrics of the validation split, and of the further validation texts.

        Returns: loss (nats a token), perplexity and accuracy by name, and of greedy translations of
          the first `bleu_sentences` BLEU, its signature, chrF, and the part of them that is cut off
          at the longest output; before the names of a further text, its name and /.
        """
        values: dict[str, Any] = {}
        for text in self.validation_texts:
            total = np.zeros(3)
            for inp, tar, *_ in text.batches.epoch(0):
                stop_flag = tf.constant([float(self.preemption.requested)])
                sums, stop = self._eval_step(inp, tar, stop_flag)
                if stop.numpy() > 0:  # all workers stop at the same batch
                    raise _Interrupted
                total += sums.numpy()
            loss_sum, tokens, correct = total
            loss, accuracy = loss_sum / tokens, correct / tokens
            perplexity = math.exp(min(loss, 50.0))
            figures = {"loss": loss, "perplexity": perplexity, "accuracy": accuracy}
            if text.pairs:
                figures |= self._translation_scores(text.pairs)
            values |= {f"{text.prefix}{name}": value for name, value in figures.items()}
        return values

    def _translation_scores(self, pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
        """The scores of greedy translations, a part by each worker. Raises: _Interrupted on all."""
        sources, references = zip(*pairs)
        rows = [slice(index, None, self.workers.count) for index in range(self.workers.count)]
        translations: list[list[Any]] | None = None  # text, whether it is cut off
        with contextlib.suppress(_Interrupted):
            own = sources[rows[self.workers.index]]
            n_best = self._translator.n_best(own, 1, self._check_interrupted, skip_long=True)
            translations = [[best[0], best.truncated] for (best,) in n_best]
        parts = self.workers.gather(translations)
        if None in parts:
            raise _Interrupted
        found: list[Any] = [None] * len(pairs)
        for each, part in zip(rows, parts):
            found[each] = part
        outputs, truncated = zip(*found)
        tokenizer = self.config.train.bleu_tokenizer
        scores = score(outputs, references, self.config.data.target, tokenizer)
        return {
            "BLEU": scores.bleu,
            "chrF": scores.chrf,
            "truncated": sum(truncated) / len(pairs),
            "signature": scores.bleu_signature,
        }

    def _check_interrupted(self, translated: int) -> None:
        """Ends the translations of a validation, after a batch of them, when the run is to stop."""
        if self.preemption.requested:
            raise _Interrupted

    def _save(self) -> None:
        """Writes a checkpoint, unless the last one has this step and the last validation."""
        state = (self.step, self.progress.validated[0])
        if state == self._saved:
            return
        self._check_finite()
        self._saved = state
        if self.workers.is_chief:
            self.directory.save(self.model, self.optimizer, self._state(), self.config.train)

    def _state(self) -> dict[str, Any]:
        return {
            "step": self.step,
            "progress": dataclasses.asdict(self.progress),
            "metrics": self._accumulator.state(),
            "loss_scale": self.update.loss_scale.state(),
            "vocabularies": [tokenizer.fingerprint for tokenizer in self.tokenizers],
            "data": self.train_batches.checksum,
            "batch_order": BATCH_ORDER,
        }

    def _check_finite(self) -> None:
        """Raises: UserError for weights that are not finite, before they replace good ones."""
        weights = self.model.trainable_variables
        # One tensor for all, so that a GPU is waited for once.
        finite = tf.stack([tf.reduce_all(tf.math.is_finite(each)) for each in weights]).numpy()
        if not finite.all():
            self._diverged(self.step - 1, f"the weights {weights[finite.argmin()].path}")

    def _diverged(self, step: int, values: str) -> NoReturn:
        """Writes the sentences of an update's batch, counted from 0, to a TSV file.

        Raises: UserError, which says what `values` are not finite.
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
        *_, last = "none", *step_checkpoints(folder)
        float16 = self.precision == "mixed_float16"  # its largest number is 65,504
        rate = "learning_rate" if self.config.train.learning_rate else "learning_rate_scale"
        raise UserError(
            f"{problem}. See its sentences in {path}, or start in another --model_dir with "
            f"{'--precision=mixed_bfloat16, ' if float16 else ''}a smaller --{rate} "
            f"or a larger --warmup_steps (last good checkpoint: {last})"
        )

    def _average(self, log: RunLog) -> None:
        """Averages the last checkpoints (Sec. 6.1), on disk and in the model, and validates."""
        stopped = {}
        if self.step < self.config.train.train_steps:  # after `train_minutes` or by early stopping
            if stalled := self.progress.stalled(self.config.train.early_stopping_patience):
                stopped["stopped_early"] = stalled
                logger.info("stopped early at update %s: %s", f"{self.step:,}", stalled)
        if self.workers.is_chief:
            self.directory.average(self.model, self.config.train)
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

    def samples(
        self, split: str, number: int, corpus: Corpus | None = None
    ) -> list[tuple[str, str]]:
        """The first `number` pairs of a split that have targets, up to `max_length` of sources."""
        targeted = (pair for pair in (corpus or self.corpus).read(split) if pair[1].strip())
        pairs = list(itertools.islice(targeted, number))
        if not pairs:
            return []
        lengths = self.tokenizers[0].encode([source for source, _ in pairs]).row_lengths()
        return [p for p, length in zip(pairs, lengths) if length <= self.config.data.max_length]

    def dry_run(self) -> str:
        """Makes two updates of the batch with the longest sentences, without saving them.

        Returns: the plan of the run, and time and memory of an update, as text.
        """
        self._fit_memory()
        epoch, _ = self.train_batches.position(self.step)
        order = self.train_batches.order(epoch)
        index = max(range(len(order)), key=lambda i: order[i][1].length)
        bucket = order[index][1]
        inp, tar, *weights = next(iter(self.train_batches.epoch(epoch, index)))
        seconds = []
        with worker_failures(), self._compiler([bucket], wait=True) as compiler:
            for _ in range(2):  # the first one builds the graph
                before = time.monotonic()
                compiled = bool(compiler and compiler.is_compiled(*inp.shape))
                result = self.update(inp, tar, tf.zeros([2]), *weights, compiled=compiled)
                sums = Sums(*result["sums"].numpy())
                seconds.append(time.monotonic() - before)
        self.directory.close()
        return (
            f"plan for {self.directory.path}\n{self.plan.describe()}\n"
            f"  an update      of {inp.shape[0]} x {inp.shape[1]}: {seconds[1]:.2f} s, "
            f"{sums.target_tokens / seconds[1]:,.0f} target tokens/s (the first {seconds[0]:.1f} "
            f"s); memory {memory_gb():.1f} GB; loss {sums.loss / sums.target_tokens:.3f}"
        )


def build_trainer(config: Config, model_dir: str, overwrite: bool = False) -> Trainer:
    """Builds a training run in a model folder, which resumes from the newest checkpoint there.

    Args:
      config: the settings; the sizes of the vocabularies follow from the text.
      model_dir: the model folder, created where it does not exist; of several workers, the chief's.
      overwrite: whether to remove a run or a model in the folder, and to start a new run.
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
