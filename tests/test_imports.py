"""Imports between subpackages have one direction, and commands import only what they need."""

import ast
import pathlib
import subprocess
import sys

import pytest

import tf_transformer

PACKAGE = pathlib.Path(tf_transformer.__file__).parent

# A subpackage or top-level module imports only itself and the parts before it in this list.
ORDER = [
    "errors", "special_tokens", "keras_compat", "files", "host",
    "config", "presets",
    "model", "data", "checkpoints", "decoding", "evaluation", "training",
    "export", "serving", "visualization", "paper", "cli",
]  # fmt: skip
ENTRY_POINTS = {"__init__", "__main__"}  # these may import any part


def part_of(path):
    """The subpackage or top-level module that a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


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
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "import_module":
            assert part_of(path) in ENTRY_POINTS, f"{path}: editors cannot resolve this import"
    prefix = "tf_transformer."
    return {name.removeprefix(prefix) for name in modules if name.startswith(prefix)}


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=str)
def test_imports_have_one_direction(path):
    part = part_of(path)
    if part in ENTRY_POINTS:
        return
    allowed = ORDER[: ORDER.index(part) + 1]
    for module in imported_modules(path) - {"__version__"}:
        assert module.split(".")[0] in allowed, f"{path} imports {module}"


def import_graph():
    """A dict: each module of the package -> the set of the modules that it imports."""
    paths = {
        ".".join(path.relative_to(PACKAGE).with_suffix("").parts): path
        for path in PACKAGE.rglob("*.py")
        if path.name != "__init__.py"
    }
    graph = {}
    for name, path in paths.items():
        imported = imported_modules(path)
        imported |= {module.rpartition(".")[0] for module in imported}  # a name in a module
        graph[name] = imported & set(paths)
    return graph


def test_modules_have_no_import_cycle():
    """No chain of imports leads from a module back to it, even inside a subpackage."""
    graph = import_graph()
    visited = set()

    def visit(name, chain):
        assert name not in chain, " -> ".join([*chain, name])
        if name not in visited:
            for imported in graph[name]:
                visit(imported, [*chain, name])
            visited.add(name)

    for name in graph:
        visit(name, [])


def test_public_names_resolve():
    for name in tf_transformer.__all__:
        assert getattr(tf_transformer, name) is not None
    assert "Transformer" in dir(tf_transformer)


def run_python(code):
    """Runs code in a new process and returns its last line of output."""
    command = [sys.executable, "-c", code]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return out.splitlines()[-1]


def test_help_does_not_import_tensorflow():
    code = (
        "import sys; from tf_transformer.cli.main import main; "
        "codes = [main(['--help']), main(['train', '--help'])]; "
        "print(codes, 'tensorflow' in sys.modules)"
    )
    assert run_python(code) == "[0, 0] False"
