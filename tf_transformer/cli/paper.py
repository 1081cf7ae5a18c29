"""What the commands do that are of the paper's tables alone: Table 3's rows, and EVALB for Table 4."""

import os
import sys

from tf_transformer.atomic_io import atomic_write
from tf_transformer.checkpoints import paths
from tf_transformer.cli.terminal import explain_out_of_memory, required, start_tensorflow
from tf_transformer.errors import UserError


def table3(values):
    """Prints Table 3, or trains its rows."""
    from tf_transformer.paper import table3

    start_tensorflow()
    if not values.run:
        if meant := [
            f"--{name}"
            for name in ("scale", "rows", "data", "source", "target", "train_steps", "model_dir")
            if values[name].present
        ]:
            raise UserError(
                f"{', '.join(meant)} without --run: give --run to train the rows, or leave them out to print the paper's table"
            )
        return print(table3.describe_paper())
    if "TF_CONFIG" in os.environ:
        raise UserError("table3 --run is for one machine: unset TF_CONFIG")
    data = {name: values[name].value for name in ("data", "source", "target")}
    configs = {
        name: table3.row_config(name, values.scale, values.train_steps, **data)
        for name in values.rows.split(",")
    }
    folder = values.model_dir or paths.default_model_dir(
        f"table3-{values.scale}", next(iter(configs.values())).data
    )
    os.makedirs(folder, exist_ok=True)
    if len(configs) == 1:
        from tf_transformer.training.distribution import split_cpu

        split_cpu()
        ((name, config),) = configs.items()
        with explain_out_of_memory(config.train.micro_batch_tokens):
            finished = table3.run_row(name, config, folder)
    else:
        told = [
            f"--{name}={values[name].value}"
            for name in ("scale", "train_steps", *data)
            if values[name].value
        ]
        command = [
            sys.executable,
            "-m",
            "tf_transformer",
            "table3",
            "--run",
            f"--model_dir={folder}",
            *told,
        ]
        finished = table3.run_rows(configs, lambda name: [*command, f"--rows={name}"], folder)
    with atomic_write(os.path.join(folder, "results.md")) as file:
        file.write(f"{table3.describe_results(folder)}\n")
    if not finished:
        print("\nstopped and saved; the same command goes on from there")
    elif len(configs) > 1:
        print(f"\n{table3.describe_results(folder, configs)}\n\n(all in {folder}/results.md)")


def evalb(values):
    """Scores the trees of one file against those of another."""
    from tf_transformer.evaluation.evalb import COLLINS
    from tf_transformer.evaluation.evalb_files import evalb_files, read_parameters

    gold, test = required(values, "gold"), required(values, "test")
    print(evalb_files(gold, test, read_parameters(values.prm) if values.prm else COLLINS), end="")
