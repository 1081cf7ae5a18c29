"""The command table3."""

import os
import sys

from absl import flags

from tf_transformer.checkpoints import model_folder
from tf_transformer.cli.command import Flag, command, language_flags
from tf_transformer.cli.messages import log_to_folder
from tf_transformer.cli.terminal import explain_out_of_memory, start_tensorflow
from tf_transformer.config import Config, DataConfig
from tf_transformer.errors import UserError
from tf_transformer.files import atomic_write
from tf_transformer.paper.table3 import (
    ROWS,
    SCALES,
    describe_paper,
    describe_results,
    row_config,
    run_row,
    run_rows,
)

RUN_FLAGS = ("scale", "rows", "data", "source", "target", "train_steps", "model_dir")
DATA_FLAGS = ("data", "source", "target")


@command(
    "table3",
    "print Table 3 of the paper with our parameter counts, or train its rows",
    lambda: [
        Flag(
            "run", bool,
            "train the rows one after the other; rows that have a result are skipped", False,
        ),
        Flag(
            "scale", tuple(SCALES),
            "small: for a CPU with two cores; full: the paper's sizes", next(iter(SCALES)),
        ),
        Flag("rows", str, "rows to train", ",".join(ROWS)),
        Flag("data", str, "sentence pairs, as for train", DataConfig.data),
        *language_flags(),
        Flag(
            "train_steps", int,
            "updates of base and of the other rows, except big, which has three times as many",
            minimum=1,
        ),
        Flag(
            "model_dir", str,
            "folder of all rows and of results.md (default: models/"
            "table3-SCALE-DATA-SOURCE-TARGET)",
        ),
    ],
)  # fmt: skip
def table3(values: flags.FlagValues) -> None:
    """Prints Table 3, or trains its rows."""
    if not values.run:
        if present := [f"--{name}" for name in RUN_FLAGS if values[name].present]:
            raise UserError(
                f"{', '.join(present)} without --run: give --run to train the rows, or no flag to "
                "print the paper's table"
            )
        print(describe_paper())
        return
    if "TF_CONFIG" in os.environ:
        raise UserError("table3 --run is for one host: unset TF_CONFIG")
    data = {name: values[name].value for name in DATA_FLAGS}
    configs = {
        name: row_config(name, values.scale, values.train_steps, **data)
        for name in values.rows.split(",")
    }
    first = next(iter(configs.values()))
    folder = values.model_dir or model_folder.default_model_dir(
        f"table3-{values.scale}", first.data
    )
    os.makedirs(folder, exist_ok=True)
    if len(configs) == 1:
        complete = _run_one_row(configs, folder)
    else:
        complete = _run_each_row(configs, folder, values)
    with atomic_write(os.path.join(folder, "results.md")) as file:
        file.write(f"{describe_results(folder)}\n")
    if not complete:
        print("\nstopped and saved; the same command resumes the run")
    elif len(configs) > 1:
        print(f"\n{describe_results(folder, configs)}\n\n(all in {folder}/results.md)")


def _run_one_row(configs: dict[str, Config], folder: str) -> bool:
    """Trains the only row of `configs` in this process. Returns: whether it is complete."""
    start_tensorflow()
    from tf_transformer.training.distribution import split_cpu

    split_cpu()
    ((name, config),) = configs.items()
    log_to_folder(os.path.join(folder, name))
    with explain_out_of_memory(config.train.micro_batch_tokens):
        return run_row(name, config, folder)


def _run_each_row(configs: dict[str, Config], folder: str, values: flags.FlagValues) -> bool:
    """Trains each row in its own process. Returns: whether all are complete."""
    program = [sys.executable, "-m", "tf_transformer", "table3", "--run", f"--model_dir={folder}"]
    arguments = [
        f"--{name}={values[name].value}"
        for name in ("scale", "train_steps", *DATA_FLAGS)
        if values[name].value
    ]
    arguments += [f"--{name}" for name in ("verbose", "quiet", "debug") if values[name].value]

    def command(name: str) -> list[str]:
        return [*program, *arguments, f"--rows={name}"]

    return run_rows(configs, command, folder)
