"""The command import."""

from __future__ import annotations

import shlex

from absl.flags import FlagValues

from tf_transformer.cli.terminal import required, start_tensorflow


def import_model(values: FlagValues) -> None:
    """Writes a model folder with a model of another library."""
    folder, output = required(values, "input"), required(values, "output")
    output = output.rstrip("/") or "/"
    start_tensorflow()
    from tf_transformer.interchange.huggingface_import import import_huggingface

    import_huggingface(folder, output, values.source, values.target)
    print(f"wrote the model folder {output}; translate with it:")
    print(f"  tf-transformer translate --model_dir={shlex.quote(output)}")
