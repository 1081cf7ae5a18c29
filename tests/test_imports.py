"""The way of the data: a file imports only files above it."""

import ast
import pathlib
import subprocess
import sys

import tf_transformer

PACKAGE = pathlib.Path(tf_transformer.__file__).parent

# From text at the top to text at the bottom.
ORDER = """
allocator whole_file config presets flops model_folder corpus
pocket_tables pocket_names pocket_lexicon pocket_numbers pocket_verbs pocket_grammar pocket_phrases pocket_scenes pocket_facts
pocket_sentences pocket pocket_tree_phrases pocket_tree_verbs pocket_tree_clauses pocket_tree_sentences pocket_treebank trees treebank
datasets evalb evalb_text tokenizer encoding batching
reference masks dropout normalization attention embedding layers transformer
loss schedule optimizer checkpoint
search translate parsing text_functions export evaluate ctranslate2_folder logbook replicas precision interruption train_step plan
run_folder preparation train history plots attention_viewer continued_run laws served_model request_batching rest_format server client
table3 info command_flags terminal commands paper_commands __main__
""".split()


def imports(path):
    """The modules of the package that a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("tf_transformer"):
            inside = node.module.removeprefix("tf_transformer").strip(".")
            found |= {inside} if inside else {alias.name for alias in node.names}
        if isinstance(node, ast.Import):
            found |= {alias.name.removeprefix("tf_transformer.") for alias in node.names if alias.name.startswith("tf_transformer.")}
    return found & set(ORDER)


def test_every_file_has_its_place():
    assert sorted(path.stem for path in PACKAGE.glob("*.py")) == sorted([*ORDER, "__init__"])


def test_a_file_imports_only_files_above_it():
    for place, name in enumerate(ORDER):
        below = imports(PACKAGE / f"{name}.py") - set(ORDER[:place])
        assert not below, f"{name}.py imports {below}, which stand below it"


def test_public_names_are_there():
    for name in tf_transformer.__all__:
        assert getattr(tf_transformer, name) is not None
    assert "Transformer" in dir(tf_transformer)


def test_help_does_not_import_tensorflow():
    code = (
        "import sys; from tf_transformer.__main__ import main; "
        "codes = [main(['--help']), main(['train', '--help'])]; print(codes, 'tensorflow' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.endswith("[0, 0] False\n")
