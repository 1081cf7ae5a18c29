"""The blanks of notebook 04: the solution passes, and each wrong version gets its own verdict."""

import ast
import contextlib
import pathlib
import re
import types
from unittest import mock

import IPython
import nbformat
import pytest
from course import blanks

FOLDER = pathlib.Path(__file__).parents[1] / "notebooks"
BLANKS = blanks.BLANKS
SOLUTION = (FOLDER / "solutions" / "transformer.py").read_text("utf-8")
SOURCES = {
    node.name: ast.get_source_segment(SOLUTION, node)
    for node in ast.parse(SOLUTION).body
    if isinstance(node, (ast.FunctionDef, ast.ClassDef))
}

# For each blank: what to replace in the solution, by what, and a part of the verdict.
SOFTMAX = "tf.nn.softmax(scaled_attention_logits, axis=-1)"
EXP = "tf.exp(scaled_attention_logits)"
WRONG = {
    1: [
        ("/ tf.sqrt(dk)", "/ dk", "divided by d_k"),
        ("tf.shape(k)[-1]", "tf.shape(k)[-2]", "number of keys"),
        ("axis=-1", "axis=-2", "columns of the weights sum to 1"),
        ("mask * -1e9", "(1 - mask) * -1e9", "mask is inverted"),
        ("mask * -1e9", "tf.where(mask > 0, -np.inf, 0.0)", "everything is hidden"),
        (SOFTMAX, f"{EXP} / tf.reduce_sum({EXP}, -1, keepdims=True)", "inf or nan"),
        ("return output, attention_weights", "return output", "must return 2"),
        ("tf.matmul(attention_weights, v)", "attention_weights.numpy() @ v", "no gradient"),
        ("transpose_b=True", "", "blank, line 3: matmul_qk = tf.matmul(q, k, )"),
        ("return output,", "return 1.001 * output,", "numbers differ"),
    ],
    2: [
        ("x = tf.transpose(x, perm=[0, 2, 1, 3])  # (B, T, H, K)", "", "merge_heads mixes"),
        ("self.dense(self.merge_heads(heads))", "self.merge_heads(heads)", "self.dense"),
        ("(q, k, v, mask)", "(q, k, v, None)", "mask does not reach"),
        ("def call(self, v, k, q,", "def call(self, q, k, v,", "yours are exchanged"),
        ("tf.shape(x)[0], tf.shape(x)[1]", "2, tf.shape(x)[1]", "Error"),
    ],
    3: [
        ("axis=-1", "axis=-2", "over the positions"),
        ("tf.sqrt(variance + self.epsilon)", "(tf.sqrt(variance) + self.epsilon)", "outside"),
        ("self.gamma * normalized", "normalized", "gamma is not used"),
        ("axis=-1, keepdims=True)", "axis=-1)", "Error"),
    ],
    4: [
        ("out1 + ffn_output", "ffn_output", "around the FFN is missing"),
        ("self.layernorm1(x + attn_output)", "x + self.layernorm1(attn_output)", "normalized"),
        ("training=training", "training=False", "no dropout with training=True"),
        ("self.layernorm2(", "self.layernorm1(", "does not use self.layernorm2"),
    ],
    5: [
        ("out1 + attn2", "attn2", "around the second attention is missing"),
        ("enc_output, enc_output, out1, mask", "out1, out1, enc_output, mask", "exchanged"),
        ("enc_output, enc_output, out1, mask", "out1, out1, out1, mask", "encoder output"),
        ("mask=look_ahead_mask", "mask=None", "it sees the future"),
    ],
    6: [
        ("10000.0", "1000.0", "the base is 10000"),
        ("np.arange(position)", "np.arange(1, position + 1)", "first position is 0"),
        ("tf.constant(table,", "tf.constant(table[0],", "(1, position, d_model)"),
        ("tf.constant(table, tf.float32)", "tf.constant(table)", "must have float32"),
    ],
    7: [
        ("tf.reduce_sum(loss * mask), tf", "tf.reduce_sum(loss), tf", "sum includes the padding"),
        ("(loss * mask), ", "(loss * mask) / tf.reduce_sum(mask), ", "not their mean"),
        ("(1 - label_smoothing) * one_hot", "one_hot", "must get 1 - epsilon"),
        ("tf.nn.log_softmax(logits)", "tf.math.log(tf.nn.softmax(logits))", "inf or nan"),
    ],
}

# Answers that take what they should write from elsewhere.
ATTENTION = "def scaled_dot_product_attention(q, k, v, mask):\n    "
FILE = str(FOLDER / "solutions" / "transformer.py")
REFUSED = [
    (1, "from tf_transformer import scaled_dot_product_attention", "cannot be imported"),
    (1, f"{ATTENTION}import course.blank_references as right", "line 2: import course.blank_ref"),
    (1, f"{ATTENTION}exec(open({FILE!r}).read(), globals())", "must not read the files"),
    (3, "LayerNormalization = keras.layers.LayerNormalization", "fills this blank by itself"),
    (
        1,
        f"{ATTENTION}return keras.ops.dot_product_attention(q, k, v), None",
        "write it from tf.mat",
    ),
]


def code(*parts):
    """The code cells of a notebook."""
    notebook = nbformat.read(FOLDER.joinpath(*parts), as_version=4)
    return [cell.source for cell in notebook.cells if cell.cell_type == "code"]


@contextlib.contextmanager
def notebook(*sources, examine=None):
    """The course takes these cells as those that a notebook has executed."""
    shell = types.SimpleNamespace(user_ns={"In": ["", *sources]})
    with mock.patch.object(IPython, "get_ipython", lambda: shell):
        with mock.patch.object(blanks, "examine", examine):
            yield


def right_cells():
    """The cells that `check` takes from a notebook with the right answers."""
    taken = []

    def examine(answers):
        taken.extend(answers)
        return [blanks.Finding("", "", [])]

    right = [SOURCES[blank.name] for blank in BLANKS.values()]
    with notebook(*code("04_build_a_transformer.ipynb"), *right, examine=examine):
        assert all(blanks.check(number) for number in BLANKS)
    return taken


def test_the_solution_passes_and_wrong_versions_are_told_what_is_wrong():
    """One process examines all of them."""
    versions = list(REFUSED)
    for number, changes in WRONG.items():
        source = SOURCES[BLANKS[number].name]
        assert all(old in source for old, _, _ in changes), number
        versions += [(number, source.replace(old, new), part) for old, new, part in changes]
    right = right_cells()
    needed = {number: sources[:-1] for number, sources in right}
    wrong = [(number, [*needed[number], ("blank", source)]) for number, source, _ in versions]
    messages = [finding.message for finding in blanks.examine([*right, *wrong])]
    assert messages[: len(right)] == [""] * len(right)
    for (number, _, expected), message in zip(versions, messages[len(right) :], strict=True):
        assert expected in message, (number, expected, message)


@pytest.mark.slow
def test_an_answer_without_an_end_is_stopped_and_its_line_shown():
    source = "def positional_encoding(position, d_model):\n    while True:\n        position += 1"
    (finding,) = blanks.examine([(6, [("blank 6", source)])], seconds=2)
    assert "was stopped" in finding.message
    assert re.search(r"blank 6, line [23]: ", finding.message)


def test_a_blank_that_cannot_be_examined(capsys):
    """It is empty, or uses another one that is not right yet."""
    with notebook("def positional_encoding(position, d_model):\n    pos = ...\n    x[..., 0]"):
        assert not blanks.check(6)
        assert not blanks.ready(6, 7)
    printed = capsys.readouterr().out
    assert "not filled in yet (line 2)" in printed and "waits for blanks 6, 7" in printed
    with notebook(*(f"{source}\n# not checked" for source in SOURCES.values())):
        assert not blanks.check(2)
    assert "Blank 2 uses blank 1, which is not right yet" in capsys.readouterr().out


def test_a_verdict_is_for_the_last_version_of_a_cell(capsys):
    def examine(answers):
        ((number, ((name, source),)),) = answers
        assert (number, name) == (6, "blank 6")
        message = "it is wrong." if "wrong" in source else ""
        return [blanks.Finding(message, "printed by the reader", ["a case"])]

    right = SOURCES["positional_encoding"] + "\n# right"
    wrong = right.replace("right", "wrong")
    with notebook(right, wrong, "print(positional_encoding)", examine=examine):
        assert not blanks.check(6)
        assert "printed by the reader\nBlank 6 is not right yet: it is" in capsys.readouterr().out
        assert blanks.ready(6)
        assert "expect wrong numbers: blank 6" in capsys.readouterr().out
    with notebook(wrong, right, examine=examine):
        assert blanks.check(6)
        assert "Blank 6: right! (a case)" in capsys.readouterr().out
        assert blanks.ready(6)
        assert capsys.readouterr().out == ""


def definitions(cells):
    """The definitions of cells by name, without comments and layout."""
    nodes = [node for cell in cells for node in ast.parse(cell.replace("%matplotlib", "#")).body]
    return {
        node.name: ast.dump(node)
        for node in nodes
        if isinstance(node, (ast.FunctionDef, ast.ClassDef))
    }


def test_the_solutions_notebook_has_the_code_of_the_solution():
    expected = definitions([SOLUTION])
    cells = code("solutions", "04_build_a_transformer.ipynb")
    found = definitions(cells)
    assert {name: found.get(name) for name in expected} == expected
    checks = [f"blanks.check({number})" for number in BLANKS]
    assert [check for check in checks if any(check in cell for cell in cells)] == checks


def test_the_notebook_has_empty_blanks_and_gives_the_rest():
    cells = code("04_build_a_transformer.ipynb")
    names = {blank.name for blank in BLANKS.values()}
    for number, blank in BLANKS.items():
        (cell,) = [cell for cell in cells if f"blanks.check({number})" in cell]
        assert blanks.empty_lines(cell)
        assert blank.name in definitions([cell])
    given = {name: dump for name, dump in definitions([SOLUTION]).items() if name not in names}
    found = definitions(cells)
    assert {name: found.get(name) for name in given} == given


def test_the_solution_does_not_use_the_package():
    lines = [line for line in SOLUTION.split("\n") if re.match(r"\s*(import|from) ", line)]
    assert lines == ["import keras", "import numpy as np", "import tensorflow as tf"]
