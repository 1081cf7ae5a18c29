"""`check` of the blanks: right for the solution, and says what is wrong with other files."""

import textwrap

import pytest
from course import blanks, graduation
from course.blank_cases import CASES

SOLUTION = blanks.SOLUTION.read_text("utf-8")

# A blank, what to replace in the solution by what, and a part of what `check` then prints.
WRONG = [
    ("scaled_dot_product_attention", " / tf.sqrt(d_k)", "", "not divided by the square root"),
    ("scaled_dot_product_attention", "mask * -1e9", "(1 - mask) * -1e9", "inverted"),
    ("layer_normalization", "return self.gamma", "self.gamma", "return"),
    ("encoder_layer", "self.mha(x, x, x, mask)", "self.mha(x, x, x)", "mask does not reach"),
    ("encoder_layer", "x + attn", "self.dropout1(x, training=training) + attn", "residual path"),
    ("decoder_layer", "out2 + ffn", "self.dropout3(out2, training=training) + ffn", "residual"),
    ("create_padding_mask", "tf.cast(tf.equal(seq, PAD), tf.float32)", "seq == PAD", "type bool"),
    ("create_look_ahead_mask", "tf.linalg", "np.tri(size)  # ", "Training runs in a graph"),
    ("split_heads", "(tf.shape(x)[0], -1,", "(*x.shape[:2],", "Training runs in a graph"),
    ("encoder", ": tf.shape(x)[1]", ": x.shape[1]", "Incompatible shapes"),
    ("label_smoothed_cross_entropy", "epsilon * mean", "epsilon * 50 / 49 * mean", "not by V - 1"),
    ("label_smoothed_cross_entropy", "log_p =", "epsilon = 0.1; log_p =", "here it is 0.3"),
    ("embedding", " * self.d_model**0.5", "", "sqrt(d_model) is missing"),
    ("encoder_layer", "self.dropout2(ffn_output, training=training)", "ffn_output", "dropout2 is"),
    ("decoder_layer", ", cache=cache", "", "position by position, with a cache"),
    ("decoder_layer", "self.layernorm3(", "self.layernorm1(", "never called: layernorm3"),
    ("decoder", "layer{i + 1}_block2", "layer{i}_block2", "names of the attention weights"),
    ("encoder", "return self.layernorm(x)", "return x", "for norm='pre'"),
    ("decoder", "return self.layernorm(x), ", "return x, ", "for norm='pre'"),
    ("encoder", "layer(x, training, mask)", "layer(x, False, mask)", "on in the layers"),
    ("transformer", "self.encoder(inp, training,", "self.encoder(inp, False,", "of the encoder"),
    ("transformer", "enc_output, training,", "enc_output, False,", "of the decoder"),
    ("custom_schedule", "tf.minimum(", "min(", "OperatorNotAllowedInGraph"),
    ("train_step", ", training=True", "", "training=True"),
    ("train_step", "loss, model.trainable_variables", "loss, [model.embedding.table]", "after the"),
    ("train_step", "return loss", "return float(loss)", "SymbolicTensor"),
    ("train", "np.mean(losses[-100:])", "losses[-1]", "the mean of the last 100"),
    ("make_batches", "max(longest, len(inp), ", "max(longest, ", "within the limit"),
    ("cache_append", "return", "self.kept[layer] = k[:, :, -1:], v[:, :, -1:]; return", "Store"),
    ("length_penalty", "return", "...\n    return", "is still there"),
    ("length_penalty", "return", "while True: pass  # ", "TimeoutError"),
    ("train", "% 100 == 0", "% 1000 == 0", "update 100 is printed"),
    ("make_batches", "if rows and ", "if ", "empty sequence"),
    ("layer_normalization", "tf.sqrt(variance + self.epsilon)", "tf.sqrt(variance)", "epsilon"),
    ("greedy_search", "break", "pass", "ends when each sentence"),
    ("greedy_search", "inp.shape[1] + extra", "extra", "extra = 2"),
    ("beam_search", "[: 2 * beam_size]", "[:beam_size]", "`kept` is empty"),
    ("beam_search", "[::-1]", "", "no hypothesis ends"),
    ("beam_search", "!= END][:beam_size]", "!= END]", "`kept` has 3 prefixes"),
    ("beam_search", "extended[:beam_size]:", "extended:", "an END counts only among"),
    ("beam_search", " if item[1][-1] != END]", "]", "ends its prefix"),
    ("beam_search", "ids[1:]))", "ids))", "begin after START"),
    ("bleu", "min(1.0, ", "max(0.0, ", "penalty is at most 1"),
    ("bleu", "max(1, sum(map(len, ours)))", "sum(map(len, ours))", "ZeroDivisionError"),
    ("greedy_search", "newest = np", "newest == np", "NameError in the line"),
    ("create_masks", "padding_mask = create", "padding mask = create", "cannot read this line"),
]

# A blank, what the reader writes into it, and what follows after the end of the file.
ATTENTION = "scaled_dot_product_attention"
OWN = "_own(q, k, v, mask)"
DELEGATIONS = [
    (ATTENTION, f"import tf_transformer\nreturn tf_transformer.{ATTENTION}(q, k, v, mask)", ""),
    (ATTENTION, f"import tf_transformer.model as t\nreturn t.attention.{ATTENTION}(q, k, v)", ""),
    (ATTENTION, f"from tf_transformer import {ATTENTION} as _own\nreturn {OWN}", ""),
    (ATTENTION, f"return sys.modules['tf_transformer'].{ATTENTION}(q, k, v, mask)", ""),
    (ATTENTION, f"return eval('__import__(\"tf_transformer\")').{ATTENTION}(q, k, v, mask)", ""),
    (ATTENTION, "import importlib as i\nown = i.import_module('tf_transformer.model.attention')\n"
     f"return own.{ATTENTION}(q, k, v, mask)", ""),
    (ATTENTION, f"return {OWN}",  # through a helper
     f"def _own(*x):\n    from tf_transformer import {ATTENTION} as own\n    return own(*x)"),
    (ATTENTION, f"return {OWN}", f"from tf_transformer import {ATTENTION}\n_own = {ATTENTION}"),
    (ATTENTION, f"return {OWN}", "import functools, tf_transformer\n"
     f"_own = {ATTENTION} = functools.partial(tf_transformer.{ATTENTION})"),
    (ATTENTION, "from course.blanks import my_transformer\n"
     f"return my_transformer(only=['bleu']).{ATTENTION}(q, k, v, mask)", ""),
    (ATTENTION, "import importlib.util as u\n"
     f"spec = u.spec_from_file_location('solution', {str(blanks.SOLUTION)!r})\n"
     "solution = u.module_from_spec(spec)\nspec.loader.exec_module(solution)\n"
     f"return solution.{ATTENTION}(q, k, v, mask)", ""),
    (ATTENTION, "q, k, v = (x[:, :, tf.newaxis] for x in (q, k, v))\n"
     "x = keras.ops.dot_product_attention(q, k, v)\nreturn x[:, :, 0], x", ""),
    ("multi_head_attention", "x = keras.layers.MultiHeadAttention(self.num_heads, self.depth)\n"
     "return x(q, v, k, return_attention_scores=True)", ""),
    ("split_heads", "from tf_transformer import MultiHeadAttention as M\n"
     "return M(self.d_model, self.num_heads).split_heads(x, self.depth)", ""),
    ("merge_heads", "return x",
     "import tf_transformer\nMultiHeadAttention = tf_transformer.MultiHeadAttention"),
    ("create_masks", "import tf_transformer\nreturn tf_transformer.create_masks(inp, tar)", ""),
    ("layer_normalization", "return keras.layers.LayerNormalization(epsilon=1e-6)(x)", ""),
    ("layer_normalization", "return keras.ops.layer_normalization(x, self.gamma, self.beta)", ""),
    ("label_smoothed_cross_entropy",
     "from tf_transformer import label_smoothed_cross_entropy as f\n"
     "total, tokens = f(labels, logits, epsilon)\nreturn total / tokens", ""),
    ("custom_schedule", "from tf_transformer import CustomSchedule as C\n"
     "return C(self.d_model, self.warmup_steps, self.scale)(step)", ""),
    ("length_penalty", "from tf_transformer.decoding import scores\n"
     "return scores.length_penalty(length, alpha)", ""),
    ("bleu",
     "import sacrebleu\nreturn sacrebleu.corpus_bleu(translations, [references]).score", ""),
]  # fmt: skip


def test_template_is_that_of_the_solution():
    text = blanks.FILE.read_text("utf-8")
    assert text == blanks.template(SOLUTION), "run: cd notebooks && python -m course.blanks"
    assert blanks.unfinished(text) == list(blanks.blanks(SOLUTION)) == list(CASES)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_solution_is_right_and_an_empty_blank_is_not(name, capsys):
    assert blanks.check_blank(name, blanks.SOLUTION, seconds=600)
    assert not blanks.check_blank(name)
    printed = capsys.readouterr().out
    assert f"{name}: right!" in printed and f"{name}: not written yet" in printed


def write_delegation(folder, name, code, after):
    """Writes the solution with other code in a blank, and more after the end of the file."""
    (blank,) = (found for found in blanks.BLANK.finditer(SOLUTION) if found[2] == name)
    written = textwrap.indent(f"{code}\n", blank[1])
    text = SOLUTION[: blank.start(3)] + written + SOLUTION[blank.end(3) :] + f"\n{after}\n"
    file = folder / "my_transformer.py"
    file.write_text(text, "utf-8")
    return file


@pytest.mark.slow
@pytest.mark.parametrize(("name", "code", "after"), DELEGATIONS)
def test_delegation_is_refused(name, code, after, tmp_path, capsys):
    file = write_delegation(tmp_path, name, code, after)
    assert not blanks.check_blank(name, file)
    printed = capsys.readouterr().out
    assert "not your code" in printed or "takes" in printed
    assert "yourself" in printed


@pytest.mark.parametrize("name", ["scaled_dot_product_attention", "merge_heads"])
def test_no_certificate_for_a_delegation(name, tmp_path):
    delegation = next(each for each in DELEGATIONS if each[0] == name)
    file = write_delegation(tmp_path, *delegation)
    with pytest.raises(SystemExit, match=r"No certificate\. Your file .* yourself"):
        graduation.require_all_blanks(file)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "right", "wrong", "verdict"), WRONG)
def test_mistake(name, right, wrong, verdict, tmp_path, capsys):
    assert right in blanks.blanks(SOLUTION)[name]
    file = tmp_path / "my_transformer.py"
    start = SOLUTION.index(f"# blank: {name}\n")
    file.write_text(SOLUTION[:start] + SOLUTION[start:].replace(right, wrong, 1), "utf-8")
    assert not blanks.check_blank(name, file, seconds=2 if verdict == "TimeoutError" else 600)
    assert verdict in capsys.readouterr().out
