"""The blanks of notebook 04: the solution passes, and each wrong version gets its own verdict."""

import ast
import pathlib
import re
import types

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
WRONG = {
    1: [
        ("/ tf.sqrt(dk)", "", "sqrt(d_k) times too large"),
        ("/ tf.sqrt(dk)", "/ dk", "divided by d_k"),
        ("tf.shape(k)[-1]", "tf.shape(k)[-2]", "number of keys"),
        ("axis=-1", "axis=-2", "columns of the weights sum to 1"),
        ("if mask is not None", "if False", "mask is not used"),
        ("mask * -1e9", "(1 - mask) * -1e9", "mask is inverted"),
        ("mask * -1e9", "mask * -3", "hidden positions still get weight"),
        ("mask * -1e9", "tf.where(mask > 0, -np.inf, 0.0)", "everything is hidden"),
        ("tf.nn.softmax(scaled_attention_logits, axis=-1)", "scaled_attention_logits", "softmax"),
        (
            "tf.nn.softmax(scaled_attention_logits, axis=-1)",
            "tf.exp(scaled_attention_logits) / tf.reduce_sum("
            "tf.exp(scaled_attention_logits), -1, keepdims=True)",
            "scores in the hundreds, output has values that are inf or nan",
        ),
        (
            "tf.nn.softmax(scaled_attention_logits, axis=-1)",
            "tf.nn.sigmoid(scaled_attention_logits)",
            "rows of the weights do not sum to 1",
        ),
        ("return output, attention_weights", "return output", "must return 2"),
        ("tf.matmul(attention_weights, v)", "attention_weights.numpy() @ v", "no gradient"),
        ("transpose_b=True", "", "blank, line 3: matmul_qk = tf.matmul(q, k, )"),
        ("return output,", "return 1.001 * output,", "numbers differ"),
    ],
    2: [
        (
            "x = tf.reshape(x, (batch_size, length, self.num_heads, self.depth))\n"
            "        return tf.transpose(x, perm=[0, 2, 1, 3])",
            "return tf.reshape(x, (batch_size, self.num_heads, length, self.depth))",
            "split_heads cuts the sequence",
        ),
        (
            "self.num_heads, self.depth))\n        return tf.transpose(x, perm=[0, 2, 1, 3])",
            "self.depth, self.num_heads))\n        return tf.transpose(x, perm=[0, 3, 1, 2])",
            "each H-th column",
        ),
        ("x = tf.transpose(x, perm=[0, 2, 1, 3])  # (B, T, H, K)", "", "merge_heads mixes"),
        ("self.dense(self.merge_heads(heads))", "self.merge_heads(heads)", "self.dense"),
        ("(q, k, v, mask)", "(q, k, v, None)", "mask does not reach"),
        ("def call(self, v, k, q,", "def call(self, q, k, v,", "yours are exchanged"),
        ("self.wk(k)", "self.wq(k)", "does not use self.wk"),
        ("self.wq(q)", "self.wk(q)", "does not use self.wq"),
        ("return output, attention_weights", "return output", "must return 2"),
        ("tf.shape(x)[0], tf.shape(x)[1]", "2, tf.shape(x)[1]", "Error"),
    ],
    3: [
        ("axis=-1", "axis=-2", "over the positions"),
        ("axis=-1", "axis=0", "over the batch"),
        ("variance + self.epsilon", "variance + 1e-6", "always 1e-6"),
        ("variance + self.epsilon", "variance", "epsilon is not used"),
        ("tf.sqrt(variance + self.epsilon)", "(tf.sqrt(variance) + self.epsilon)", "outside"),
        ("tf.sqrt(variance + self.epsilon)", "(variance + self.epsilon)", "its square root"),
        ("(x - mean) /", "x /", "mean is not subtracted"),
        ("self.gamma * normalized", "normalized", "gamma is not used"),
        (" + self.beta", "", "beta is not used"),
        ("tf.square(x - mean), axis=-1, keepdims=True)", "tf.square(x), axis=-1, keepdims=True)"
         " - mean ** 2", "for x + 1000"),
        ("axis=-1, keepdims=True)", "axis=-1)", "Error"),
    ],
    4: [
        ("out1 + ffn_output", "ffn_output", "around the FFN is missing"),
        ("out1 + ffn_output", "x + ffn_output", "not at x"),
        ("self.layernorm1(x + attn_output)", "x + self.layernorm1(attn_output)", "normalized"),
        ("mask=mask", "mask=None", "mask does not reach"),
        ("training=training", "training=True", "applied with training=False"),
        ("training=training", "training=False", "no dropout with training=True"),
        ("ffn_output = self.dropout2(ffn_output, training=training)", "", "on the FFN's output"),
        ("self.layernorm2(", "self.layernorm1(", "does not use self.layernorm2"),
        ("return self.layernorm2(out1 + ffn_output)", "return self.dropout2(self.layernorm2(out1"
         " + ffn_output), training=training)", "differ"),
    ],
    5: [
        ("out1 + attn2", "attn2", "around the second attention is missing"),
        ("enc_output, enc_output, out1, mask", "enc_output, enc_output, x, mask", "out1, not x"),
        ("enc_output, enc_output, out1, mask", "out1, out1, enc_output, mask", "exchanged"),
        ("enc_output, enc_output, out1, mask", "out1, out1, out1, mask", "encoder output"),
        ("self.mha2(", "self.mha1(", "does not use self.mha2"),
        ("mask=look_ahead_mask", "mask=None", "it sees the future"),
        ("mask=padding_mask", "mask=None", "does not reach the second attention"),
        ("return out3, weights_block1, weights_block2", "return out3, weights_block2,"
         " weights_block1", "exchanged"),
        ("attn2 = self.dropout2(attn2, training=training)", "", "no dropout on the second"),
    ],
    6: [
        ("10000.0", "1000.0", "the base is 10000"),
        ("two_i / d_model", "two_i / 2 / d_model", "must be 2i / d_model"),
        ("np.arange(position)", "np.arange(1, position + 1)", "first position is 0"),
        ("pos / np", "pos * np", "not multiplied"),
        ("np.cos", "np.sin", "must be cosines"),
        ("0::2] = np.sin", "0::2] = np.cos", "differ"),
        (
            "0::2] = np.sin(angles)\n    table[0, :, 1::2]",
            ": d_model // 2] = np.sin(angles)\n    table[0, :, d_model // 2 :]",
            "in the left half",
        ),
        ("tf.constant(table,", "tf.constant(table[0],", "(1, position, d_model)"),
        ("tf.constant(table, tf.float32)", "tf.constant(table)", "must have float32"),
    ],
    7: [
        ("tf.reduce_sum(loss * mask), tf", "tf.reduce_sum(loss), tf", "sum includes the padding"),
        ("tf.reduce_sum(mask)", "tf.cast(tf.size(mask), tf.float32)", "includes the padding"),
        ("(loss * mask), ", "(loss * mask) / tf.reduce_sum(mask), ", "not their mean"),
        ("-tf.reduce_sum(q", "tf.reduce_sum(q", "sign"),
        ("(1 - label_smoothing) * one_hot", "one_hot", "must get 1 - epsilon"),
        ("q = (1", "label_smoothing = 0.1; q = (1", "always 0.1"),
        ("tf.nn.log_softmax(logits)", "tf.nn.log_softmax(tf.nn.softmax(logits))", "probabilities"),
        ("tf.nn.log_softmax(logits)", "tf.math.log(tf.nn.softmax(logits))", "inf or nan"),
        ("label_smoothing / vocab_size", "label_smoothing / (vocab_size - 1) * (1 - one_hot)",
         "V - 1"),
        ("tf.reduce_sum(q * log_p", "tf.reduce_mean(q * log_p", "do not average"),
    ],
}  # fmt: skip

# Answers that take what they should write from elsewhere.
REFUSED = [
    (1, "from tf_transformer import scaled_dot_product_attention", "cannot be imported"),
    (1, "from transformer import scaled_dot_product_attention", "cannot be imported"),
    (
        1,
        "def scaled_dot_product_attention(q, k, v, mask):\n"
        "    import course.blank_references as right\n    return right.attention(q, k, v, mask)",
        "line 2: import course.blank_references as right",
    ),
    (
        1,
        "def scaled_dot_product_attention(q, k, v, mask):\n"
        f"    exec(open({str(FOLDER / 'solutions' / 'transformer.py')!r}).read(), globals())\n"
        "    return scaled_dot_product_attention(q, k, v, mask)",
        "must not read the files",
    ),
    (1, "import os\nsize = os.system('true')", "another process"),
    (
        2,
        "class MultiHeadAttention(Layer):\n"
        "    def __init__(self, d_model, num_heads):\n"
        "        super().__init__()\n"
        "        self.mha = keras.layers.MultiHeadAttention(num_heads, d_model)\n",
        "keras.layers.MultiHeadAttention fills this blank by itself: write it from tf.matmul",
    ),
    (3, "LayerNormalization = keras.layers.LayerNormalization", "fills this blank by itself"),
    (
        7,
        "def label_smoothed_cross_entropy(tar_real, logits, label_smoothing=0.1):\n"
        "    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(tar_real, logits)\n"
        "    return tf.reduce_sum(loss), 1.0",
        "write it from tf.nn.log_softmax",
    ),
]


def code(*parts):
    """The code cells of a notebook."""
    notebook = nbformat.read(FOLDER.joinpath(*parts), as_version=4)
    return [cell.source for cell in notebook.cells if cell.cell_type == "code"]


def cells(number, source):
    """A blank with the given source, after the cells that it needs."""
    blank = BLANKS[number]
    needed = [*blank.given, *(BLANKS[needed].name for needed in blank.needs)]
    return [*((name, SOURCES[name]) for name in needed), ("blank", source)]


def wrong_versions():
    for number, versions in WRONG.items():
        source = SOURCES[BLANKS[number].name]
        for old, new, expected in versions:
            assert old in source, (number, old)
            yield number, source.replace(old, new), expected


def right_cells():
    """The cells that `check` takes from a notebook with the right answers."""
    right = {number: SOURCES[blank.name] for number, blank in BLANKS.items()}
    shell = types.SimpleNamespace(
        user_ns={"In": [*code("04_build_a_transformer.ipynb"), *right.values()]}
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(IPython, "get_ipython", lambda: shell)
        patch.setattr(blanks, "_right", right)
        return [(number, blanks._sources(number)) for number in BLANKS]


@pytest.fixture(scope="module")
def verdicts():
    """The verdicts on all answers, from one process."""
    wrong = [*wrong_versions(), *REFUSED]
    answers = [(number, cells(number, source)) for number, source, _ in wrong]
    results = blanks.examine([*right_cells(), *answers])
    assert len(results) == len(BLANKS) + len(answers)
    messages = [finding.message for finding in results]
    expected = [(number, part) for number, _, part in wrong]
    return dict(zip(BLANKS, messages)), [*zip(expected, messages[len(BLANKS) :])]


def test_the_solution_passes(verdicts):
    assert verdicts[0] == dict.fromkeys(BLANKS, "")


def test_wrong_versions_are_told_what_is_wrong(verdicts):
    assert all(len(versions) >= 5 for versions in WRONG.values())
    for (number, expected), message in verdicts[1]:
        assert expected in message, (number, expected, message)


def test_an_answer_without_an_end_is_stopped_and_its_line_shown():
    source = "def positional_encoding(position, d_model):\n    while True:\n        position += 1"
    (finding,) = blanks.examine([(6, [("blank 6", source)])], seconds=2)
    assert "was stopped" in finding.message
    assert re.search(r"blank 6, line [23]: ", finding.message)


@pytest.fixture
def run_cells(monkeypatch, capsys):
    """A function that gives cells to the course as if a notebook had executed them."""

    def run(*sources):
        shell = types.SimpleNamespace(user_ns={"In": ["", *sources]})
        monkeypatch.setattr(IPython, "get_ipython", lambda: shell)
        return lambda: capsys.readouterr().out

    monkeypatch.setattr(blanks, "_right", {})
    return run


def test_an_empty_blank_is_not_run(run_cells, monkeypatch):
    monkeypatch.delattr(blanks, "examine")
    printed = run_cells("def positional_encoding(position, d_model):\n    pos = ...\n    x[..., 0]")
    assert not blanks.check(6)
    assert printed() == "Blank 6 is not filled in yet (line 2).\n"
    assert not blanks.ready(6, 7)
    assert printed() == "This cell waits for blanks 6, 7.\n"


def test_a_blank_needs_those_that_it_uses(run_cells, monkeypatch):
    monkeypatch.delattr(blanks, "examine")
    printed = run_cells(*SOURCES.values())
    assert not blanks.check(2)
    assert "Blank 2 uses blank 1, which is not right yet" in printed()


def test_a_verdict_is_for_the_last_version_of_a_cell(run_cells, monkeypatch):
    given = []

    def examine(answers):
        given.extend(answers)
        if "wrong" in given[-1][1][-1][1]:
            return [blanks.Finding("it is wrong.", "printed by the reader", [])]
        return [blanks.Finding("", "", ["a case", "another one"])]

    monkeypatch.setattr(blanks, "examine", examine)
    source = SOURCES["positional_encoding"]
    printed = run_cells(source, source + "\n# wrong", "print(positional_encoding)")
    assert not blanks.check(6)
    assert printed() == "printed by the reader\nBlank 6 is not right yet: it is wrong.\n"
    assert blanks.ready(6)
    assert printed() == "Not found right yet, so expect wrong numbers: blank 6.\n"
    printed = run_cells(source + "\n# wrong", source)
    assert blanks.check(6)
    assert printed() == "Blank 6: right! (a case; another one)\n"
    assert blanks.ready(6)
    assert printed() == ""
    assert [name for name, _ in given[-1][1]] == ["blank 6"]


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
    nodes = ast.walk(ast.parse(SOLUTION))
    imported = {
        alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names
    }
    assert imported == {"keras", "numpy", "tensorflow"}
    assert "import" not in SOLUTION.replace(
        "import keras\nimport numpy as np\nimport tensorflow", ""
    )
