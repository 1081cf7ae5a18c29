"""`check` of the blanks: right for the solution, and says what is wrong with other files."""

import pytest
from course import blanks
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


@pytest.mark.slow
@pytest.mark.parametrize(("name", "right", "wrong", "verdict"), WRONG)
def test_mistake(name, right, wrong, verdict, tmp_path, capsys):
    assert right in blanks.blanks(SOLUTION)[name]
    file = tmp_path / "my_transformer.py"
    start = SOLUTION.index(f"# blank: {name}\n")
    file.write_text(SOLUTION[:start] + SOLUTION[start:].replace(right, wrong, 1), "utf-8")
    assert not blanks.check_blank(name, file, seconds=2 if verdict == "TimeoutError" else 600)
    assert verdict in capsys.readouterr().out
