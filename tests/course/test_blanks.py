"""`check` of the blanks: right for the solution, and says what is wrong with other files."""

import os
import re
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
    ("decoder_layer", "padding_mask)", "padding_mask, cache=cache)", "Incompatible shapes"),
    ("decoder", "layer{i + 1}_block2", "layer{i}_block2", "names of the attention weights"),
    ("decoder", "blocks[0]", "blocks[1]", "the attention weights decoder_layer1_block1"),
    ("transformer", "(x), weights", "(x), {}", "names of the attention weights must be"),
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
    ("train", "% 100 == 0", "== 100", "update 200 is printed"),
    ("train", "np.mean(losses[-100:])", "np.mean(losses)", "the last 100 losses is printed at"),
    ("train", "cycle(batches)", "repeat(batches[0])", "takes the next batch"),
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
    ("length_penalty", "return", "sys.exit(3)  # ", "SystemExit in the line"),
    ("feed_forward_network", '"relu")', '"relu", use_bias=False)', "must be [(12, 32), (32,),"),
    ("positional_encoding", "tf.constant(table, tf.float32)", "np.float32(table)", "is a tensor"),
    # What is right for some ids, numbers or lengths only.
    ("create_padding_mask", "tf.equal(seq, PAD)", "seq <= START", "instead of"),
    ("create_padding_mask", "tf.equal(seq, PAD)", "seq == seq[0, -1]", "instead of"),
    ("label_smoothed_cross_entropy", "tf.not_equal(labels, PAD)", "labels > END", "instead of"),
    ("scaled_dot_product_attention", "mask * -1e9", "mask * -15.0", "instead of"),
    ("feed_forward_network", '"relu"', '"relu6"', "instead of"),
    ("make_batches", "(len(pair[1]), len(pair[0]))", "len(pair[0])", "less than 10% is padding"),
    # Constants of a case instead of an argument.
    ("scaled_dot_product_attention", "tf.sqrt(d_k)", "12.0**0.5", "instead of"),
    ("embedding", "self.d_model**0.5", "12**0.5", "instead of"),
    ("positional_encoding", "(two_i / d_model)", "(two_i / 12)", "instead of"),
    ("layer_normalization", "self.epsilon", "5e-6", "instead of"),
    ("feed_forward_network", "Dense(dff,", "Dense(32,", "must be [(8, 24), (24,)"),
    ("label_smoothed_cross_entropy", "reduce_mean(log_p,", "reduce_sum(log_p / 50,", "instead of"),
    ("custom_schedule", "self.d_model**-0.5", "512**-0.5", "instead of"),
    ("custom_schedule", "self.warmup_steps", "4000", "instead of"),
    ("beam_search", "length_penalty(length, alpha)", "length_penalty(length, 0.6)", "alpha = 1.2"),
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
    ("length_penalty", "from concurrent.futures import ThreadPoolExecutor\n"
     "from tf_transformer.decoding.scores import length_penalty as own\n"
     "return ThreadPoolExecutor(1).submit(own, length, alpha).result()", ""),
    ("clipped_matches",
     f"import runpy\nsolution = runpy.run_path({os.path.relpath(blanks.SOLUTION)!r})\n"
     "return solution['clipped_matches'](translation, reference, n)", ""),
    ("layer_normalization", "x = x - tf.reduce_mean(x, axis=-1, keepdims=True)\n"
     "return keras.ops.rms_normalization(x, self.gamma, -1, self.epsilon) + self.beta", ""),
    ("layer_normalization", "rows = tf.reshape(x, (-1, 1, x.shape[-1]))\n"
     "rows = keras.layers.GroupNormalization(1, epsilon=self.epsilon, center=False)(rows)\n"
     "return tf.reshape(rows, tf.shape(x)) * self.gamma + self.beta", ""),
    ("label_smoothed_cross_entropy",
     "q, w = tf.one_hot(labels, tf.shape(logits)[-1]), tf.cast(labels > 0, tf.float32)\n"
     "return tf.compat.v1.losses.softmax_cross_entropy(q, logits, w, epsilon)", ""),
]  # fmt: skip

# Right code that looks unlike the solution, in the form of DELEGATIONS.
RIGHT = [
    (ATTENTION, "scores = tf.einsum('...tk,...sk->...ts', q, k) * k.shape[-1] ** -0.5\n"
     "if mask is not None:\n    scores = tf.where(mask > 0, -np.inf, scores)\n"
     "weights = keras.ops.softmax(scores)\nreturn weights @ v, weights", ""),
    ("create_padding_mask", "return _hidden(seq)[:, None, None]",
     "def _hidden(seq):\n    return 1.0 - tf.sign(tf.cast(seq, tf.float32))"),
    ("create_look_ahead_mask", "return tf.map_fn(lambda t: tf.cast(tf.range(size) > t, tf.float32),"
     " tf.range(size), fn_output_signature=tf.float32)", ""),
    ("split_heads", "return tf.stack(tf.split(x, self.num_heads, axis=-1), axis=1)", ""),
    ("positional_encoding",
     "i = np.arange(position)[:, None] / 10000 ** (np.arange(0, d_model, 2) / d_model)\n"
     "table = np.zeros((1, position, d_model))\n"
     "table[\n    ...,\n    0::2,\n] = np.sin(i)\ntable[..., 1::2] = np.cos(i)\n"
     "return tf.constant(table, tf.float32)", ""),
    ("layer_normalization", "mean, variance = tf.nn.moments(x, axes=[-1], keepdims=True)\n"
     "return self.gamma * (x - mean) * tf.math.rsqrt(variance + self.epsilon) + self.beta", ""),
    ("feed_forward_network", "dense = keras.layers.Dense\n"
     "return keras.Sequential([dense(dff), keras.layers.ReLU(), dense(d_model)])", ""),
    ("feed_forward_network", "x, dense = keras.Input((None, d_model)), keras.layers.Dense\n"
     "return keras.Model(x, dense(d_model)(dense(dff, 'relu')(x)))", ""),
    ("encoder_layer", "y = x + self.dropout1(self.mha(v=x, k=x, q=x, mask=mask)[0])\n"
     "y = self.layernorm1(y)\nreturn self.layernorm2(y + self.dropout2(self.ffn(y)))", ""),
    ("label_smoothed_cross_entropy",
     "labels, logits = (tf.boolean_mask(x, labels != PAD) for x in (labels, logits))\n"
     "q = tf.one_hot(labels, size := tf.shape(logits)[-1]) * (1 - epsilon)\n"
     "q += epsilon / tf.cast(size, tf.float32)\n"
     "return tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(q, logits))", ""),
    ("train", "left = []\nwhile len(losses) < steps:\n"
     "    left = left or random.sample(batches, len(batches))\n"
     "    losses.append(update(*left.pop()))\n"
     "    if not len(losses) % 100:\n        print(len(losses), sum(losses[-100:]) / 100)\n"
     "return losses", "import random"),
    ("make_batches", "for pair in sorted(pairs, key=lambda pair: max(map(len, pair))):\n"
     "    longest = max(map(len, pair))\n    if rows and (len(rows) + 1) * longest > tokens:\n"
     "        batches, rows = [*batches, rows], []\n    rows.append(pair)\nbatches += [rows]", ""),
    ("cache_append", "old = self.kept.get(layer)\n"
     "self.kept[layer] = [tf.concat(x, -2) for x in zip(old, (k, v))] if old else [k, v]\n"
     "return self.kept[layer]", ""),
    ("greedy_search", "rows, end = [[START] for _ in inp], inp.shape[1] + extra\n"
     "while len(rows[0]) <= end and not all(END in row for row in rows):\n"
     "    best = tf.argmax(next_log_probs(tf.constant([row[-1:] for row in rows])), -1)\n"
     "    rows = [[*row, int(i)] for row, i in zip(rows, best)]\ntar = np.array(rows)", ""),
]  # fmt: skip

# What happens to the bytes of the file, and a part of what `check` then prints.
BROKEN_FILES = [
    (lambda file: file.replace(b"\n", "  # Größe\n".encode("latin-1"), 30), "line 1: not UTF-8"),
    (lambda file: file.decode().encode("utf-16"), "line 1: not UTF-8"),
    (lambda file: b"", "has no line `# blank: "),
    (lambda file: file.replace(b"blank: split_heads", b"blank: splitheads"),
     "my_transformer.py has no line `# blank: split_heads`"),
    (lambda file: file.replace(b"    # end\n", b"", 1),
     "line 52: `# blank: scaled_dot_product_attention` has no line `# end`"),
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


def write(folder, name, code, after):
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
    file = write(tmp_path, name, code, after)
    assert not blanks.check_blank(name, file)
    printed = capsys.readouterr().out
    assert re.search(r"Your file (calls [\w.]+, which is not your code|takes [\w.]+)", printed)
    assert "yourself" in printed and "__" not in printed


@pytest.mark.parametrize("name", ["scaled_dot_product_attention", "merge_heads"])
def test_no_certificate_for_a_delegation(name, tmp_path):
    delegation = next(each for each in DELEGATIONS if each[0] == name)
    file = write(tmp_path, *delegation)
    with pytest.raises(SystemExit, match=r"No certificate\. Your file .* yourself"):
        graduation.require_all_blanks(file)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "code", "after"), RIGHT)
def test_other_right_code(name, code, after, tmp_path):
    file = write(tmp_path, name, code, after)
    assert blanks.check_blank(name, file, seconds=600)
    if name == "feed_forward_network":
        model = blanks.my_transformer(file).Transformer(2, 128, 4, 512, 2000)
        assert graduation.load_and_compare(model, "pocket-en-de") < 1e-4


@pytest.mark.parametrize(("change", "message"), BROKEN_FILES)
def test_broken_file(change, message, tmp_path, capsys):
    file = tmp_path / "my_transformer.py"
    file.write_bytes(change(blanks.SOLUTION.read_bytes()))
    assert not blanks.check_blank("length_penalty", file)
    (line,) = capsys.readouterr().out.splitlines()
    assert str(file) in line and message in line
    with pytest.raises(SystemExit, match=re.escape(message)):
        graduation.require_all_blanks(file)


def test_file_is_not_there(tmp_path, capsys):
    assert not blanks.check_blank("length_penalty", tmp_path / "none.py")
    assert "none.py: No such file" in capsys.readouterr().out


def test_file_with_a_byte_order_mark(tmp_path):
    file = tmp_path / "my_transformer.py"
    file.write_text(SOLUTION, "utf-8-sig")
    assert blanks.check_blank("length_penalty", file)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "right", "wrong", "verdict"), WRONG)
def test_mistake(name, right, wrong, verdict, tmp_path, capsys):
    assert right in blanks.blanks(SOLUTION)[name]
    file = tmp_path / "my_transformer.py"
    start = SOLUTION.index(f"# blank: {name}\n")
    file.write_text(SOLUTION[:start] + SOLUTION[start:].replace(right, wrong, 1), "utf-8")
    assert not blanks.check_blank(name, file, seconds=2 if verdict == "TimeoutError" else 600)
    assert verdict in capsys.readouterr().out
