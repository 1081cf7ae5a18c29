"""Imports between subpackages have one direction, and commands import only what they need."""

import ast
import pathlib
import subprocess
import sys

import pytest

import tf_transformer
from tf_transformer.errors import UserError, explain_missing_package

PACKAGE = pathlib.Path(tf_transformer.__file__).parent

# A subpackage or top-level module imports only itself and the parts before it in this list.
ORDER = [
    "errors", "special_tokens", "files", "host", "gpus",
    "config", "presets",
    "model", "data", "checkpoints", "decoding", "evaluation", "training",
    "export", "serving", "visualization", "paper", "cli",
]  # fmt: skip
# These may import any part.
PATHS = sorted(set(PACKAGE.rglob("*.py")) - {PACKAGE / "__init__.py", PACKAGE / "__main__.py"})


def module_of(path):
    """The name of a module, without that of the package."""
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


def imported_modules(path):
    """The modules of this package that a file imports, at its top level or inside functions.

    For `from a.b import c` this is `a.b.c`, whether `c` is a module or a name in `a.b`.
    """
    modules = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            modules.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            modules.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call):
            name = getattr(node.func, "attr", "")
            assert name != "import_module", f"{path}: editors cannot resolve this import"
    prefix = "tf_transformer."
    return {name.removeprefix(prefix) for name in modules if name.startswith(prefix)}


@pytest.mark.parametrize("path", PATHS, ids=module_of)
def test_imports_have_one_direction(path):
    allowed = ORDER[: ORDER.index(module_of(path).split(".")[0]) + 1]
    for module in imported_modules(path) - {"__version__"}:
        assert module.split(".")[0] in allowed, f"{path} imports {module}"


def test_modules_have_no_import_cycle():
    """No chain of imports leads from a module back to it, even inside a subpackage."""
    paths = {module_of(path): path for path in PATHS if path.name != "__init__.py"}
    visited = set()

    def visit(name, chain):
        assert name not in chain, " -> ".join([*chain, name])
        if name not in visited:
            imported = imported_modules(paths[name])
            imported |= {module.rpartition(".")[0] for module in imported}  # a name in a module
            for module in imported & set(paths):
                visit(module, [*chain, name])
            visited.add(name)

    for name in paths:
        visit(name, [])


PUBLIC_NAMES = """
Batches Config CustomSchedule DataConfig DecodeConfig Decoder DecoderLayer Embedding Encoder
EncoderLayer LabelSmoothedCrossEntropy ModelConfig MultiHeadAttention PositionalEncoding
SearchProblem TokenAccuracy Tokenizer TrainConfig Trainer Transformer Translator UserError Variant
beam_search build_trainer create_look_ahead_mask create_masks create_padding_mask greedy_search
label_smoothed_cross_entropy load_model open_corpus point_wise_feed_forward_network
positional_encoding preset scaled_dot_product_attention token_accuracy
""".split()


def test_public_names():
    """A name that goes or comes is a change for users, which belongs in `CHANGELOG.md`."""
    assert sorted(set(tf_transformer.__all__) - {"__version__"}) == sorted(PUBLIC_NAMES)
    for name in tf_transformer.__all__:
        assert getattr(tf_transformer, name) is not None
    assert "Transformer" in dir(tf_transformer)


def test_help_and_descriptions_do_not_import_tensorflow():
    """The number of parameters of a model is computed by the closed formula."""
    commands = [["--help"], ["train", "--help"], ["info", "--preset=big"], ["table3"]]
    commands.append(["info", "--model_dir=pocket-en-de"])
    code = (
        "import sys; from tf_transformer.cli.main import main; "
        f"codes = [main(arguments) for arguments in {commands}]; "
        "print(codes, 'tensorflow' in sys.modules)"
    )
    command = [sys.executable, "-c", code]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert out.endswith("[0, 0, 0, 0, 0] False\n")


def test_only_other_packages_are_missing():
    message = r"the package fastapi is missing: pip install 'tf_transformer\[serving\]'"
    with pytest.raises(UserError, match=message), explain_missing_package():
        raise ModuleNotFoundError(name="fastapi")
    with pytest.raises(ModuleNotFoundError), explain_missing_package():
        raise ModuleNotFoundError(name="tf_transformer.serving.nothing")  # a bug of this package
