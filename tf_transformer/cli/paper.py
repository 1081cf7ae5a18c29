"""The command table3."""

import os
import sys

from absl import flags

from tf_transformer.checkpoints import model_folder
from tf_transformer.cli.command import Flag, command, is_for, language_flags
from tf_transformer.cli.messages import log_to_folder
from tf_transformer.cli.terminal import start_tensorflow
from tf_transformer.config import DataConfig
from tf_transformer.errors import UserError
from tf_transformer.files import atomic_write
from tf_transformer.paper import table3 as paper_table

SCALES = tuple(paper_table.SCALES)
RUN_FLAGS = ("scale", "rows", "data", "source", "target", "train_steps", "model_dir")


@command("table3", lambda: [
    Flag("run", bool, "train the rows that have no result yet, one after the other", False),
    Flag("scale", SCALES, "small: for two cores; full: the paper's sizes", SCALES[0]),
    Flag("rows", str, "rows to train", ",".join(paper_table.ROWS)),
    Flag("data", str, "sentence pairs, as for train", DataConfig.data),
    *language_flags(),
    Flag("train_steps", int, "updates of each row, but of big three times as many", minimum=1),
    Flag("model_dir", str, "folder of all rows (default: models/table3-SCALE-DATA-SOURCE-TARGET)"),
])  # fmt: skip
def table3(values: flags.FlagValues) -> None:
    """Print Table 3 of the paper with our parameter counts, or train its rows."""
    is_for(values, "run", *RUN_FLAGS)
    if not values.run:
        print(paper_table.describe_paper())
        return
    if "TF_CONFIG" in os.environ:
        raise UserError("table3 --run is for one host: unset TF_CONFIG")
    data = {name: values[name].value for name in ("data", "source", "target")}
    configs = {
        name: paper_table.row_config(name, values.scale, values.train_steps, **data)
        for name in values.rows.split(",")
    }
    first, config = next(iter(configs.items()))
    name = f"table3-{values.scale}"
    folder = values.model_dir or model_folder.default_model_dir(name, config.data)
    os.makedirs(folder, exist_ok=True)
    if len(configs) == 1:
        start_tensorflow()
        from tf_transformer.training.distribution import split_cpu

        split_cpu()
        log_to_folder(os.path.join(folder, first))
        complete = paper_table.run_row(first, config, folder)
    else:  # each row in its own process
        given = {name: values[name].value for name in values if values[name].present}

        def program(row: str) -> list[str]:
            settings = {**given, "model_dir": folder, "rows": row}.items()
            flags_of_row = [f"--{name}={value}" for name, value in settings]
            return [sys.executable, "-m", "tf_transformer", "table3", *flags_of_row]

        complete = paper_table.run_rows(configs, program, folder)
    with atomic_write(os.path.join(folder, "results.md")) as file:
        file.write(f"{paper_table.describe_results(folder)}\n")
    if not complete:
        print("\nstopped and saved; the same command resumes the run")
    elif len(configs) > 1:
        print(f"\n{paper_table.describe_results(folder, configs)}\n\n(all in {folder}/results.md)")
