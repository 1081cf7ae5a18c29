"""Builds the parts of a training run, one after the other."""

import logging
import time

import keras
import tensorflow as tf

from tf_transformer.checkpoints.initial_model import absolute_model_dir, check_other_folder
from tf_transformer.config import Config
from tf_transformer.data.sources import corpus_of_run
from tf_transformer.training.distribution import Workers, strategy_of_run, worker_failures
from tf_transformer.training.fine_tuning import load_initial_weights
from tf_transformer.training.precision import choose_jit_compile, choose_precision
from tf_transformer.training.prepare_data import prepare_batches, prepare_vocabulary
from tf_transformer.training.run_directory import RunDirectory
from tf_transformer.training.trainer import Trainer
from tf_transformer.training.update import make_state


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
