"""Tables 2, 3 and 4 of the paper, as printed in notebook E."""

from tf_transformer import preset
from tf_transformer.paper.table3 import ROWS
from tf_transformer.presets import VARIATIONS

TABLE_2 = [  # model, BLEU En-De and En-Fr as printed, cost En-De, cost En-Fr
    ("ByteNet", "23.75", "", None, None),
    ("Deep-Att + PosUnk", "", "39.2", None, 1.0e20),
    ("GNMT + RL", "24.6", "39.92", 2.3e19, 1.4e20),
    ("ConvS2S", "25.16", "40.46", 9.6e18, 1.5e20),
    ("MoE", "26.03", "40.56", 2.0e19, 1.2e20),
    ("Deep-Att + PosUnk Ensemble", "", "40.4", None, 8.0e20),
    ("GNMT + RL Ensemble", "26.30", "41.16", 1.8e20, 1.1e21),
    ("ConvS2S Ensemble", "26.36", "41.29", 7.7e19, 1.2e21),
    ("Transformer (base model)", "27.3", "38.1", 3.3e18, 3.3e18),
    ("Transformer (big)", "28.4", "41.8", 2.3e19, 2.3e19),
]
TABLE_4 = [
    ("Vinyals & Kaiser et al. (2014)", "WSJ only, discriminative", 88.3),
    ("Petrov et al. (2006)", "WSJ only, discriminative", 90.4),
    ("Zhu et al. (2013)", "WSJ only, discriminative", 90.4),
    ("Dyer et al. (2016)", "WSJ only, discriminative", 91.7),
    ("Transformer (4 layers)", "WSJ only, discriminative", 91.3),
    ("Zhu et al. (2013)", "semi-supervised", 91.3),
    ("Huang & Harper (2009)", "semi-supervised", 91.3),
    ("McClosky et al. (2006)", "semi-supervised", 92.1),
    ("Vinyals & Kaiser et al. (2014)", "semi-supervised", 92.1),
    ("Transformer (4 layers)", "semi-supervised", 92.7),
    ("Luong et al. (2015)", "multi-task", 93.0),
    ("Dyer et al. (2016)", "generative", 93.3),
]
_COLUMNS = "N d_model d_ff h d_k d_v P_drop e_ls steps".split()
_NAMES = {
    "num_heads": "h",
    "key_dim": "d_k",
    "num_layers": "N",
    "dff": "d_ff",
    "dropout_rate": "P_drop",
    "label_smoothing": "e_ls",
    "positional_encoding": "positions",
}


def print_table_2():
    """Prints Table 2; a blank is a number that it does not have."""
    print(f"{'':26} {'BLEU':^13} {'training cost':^17}")
    print(f"{'model':26} {'En-De':>6} {'En-Fr':>6} {'En-De':>8} {'En-Fr':>8}")
    for name, *scores, cost_de, cost_fr in TABLE_2:
        costs = [f"{cost:.1e}" if cost else "" for cost in (cost_de, cost_fr)]
        print(f"{name:26}", *(f"{score:>6}" for score in scores), *(f"{cost:>8}" for cost in costs))


def _sizes(name):
    """The cells of a row of Table 3 as strings."""
    model, train = preset(name).model, preset(name).train
    sizes = (model.num_layers, model.d_model, model.dff, model.num_heads, model.depth)
    rates = (model.value_depth, model.dropout_rate, train.label_smoothing)
    return [*map(str, sizes + rates), f"{train.train_steps // 1000}K"]


def print_table_3():
    """Prints Table 3; a blank means "as in base"."""
    base = _sizes("base")
    print("row ", " ".join(f"{title:>7}" for title in _COLUMNS), "  PPL  BLEU weights")
    for name, paper in ROWS.items():
        row = _sizes(name)
        if name != "base":
            row = ["" if a == b else a for a, b in zip(row, base)]
        if name == "E":
            row[:5] = ["  learned positions instead of sinusoids"]
        scores = f"{paper.perplexity:.2f}  {paper.bleu:.1f} {paper.millions or '':>7}"
        print(f"{name:4} {' '.join(f'{text:>7}' for text in row):71}  {scores}")


def rows_of_table_3():
    """(name with what changes, BLEU, index of the group) of each row but base."""
    rows = []
    for name, changes in VARIATIONS.items():
        what = ", ".join(f"{_NAMES.get(key, key)} = {value}" for key, value in changes.items())
        rows.append((f"({name[0]}) {what}", ROWS[name].bleu, "ABCDE".index(name[0])))
    return [*rows, ("big", ROWS["big"].bleu, 6)]


def print_table_4():
    """Prints Table 4."""
    for parser, training, f1 in TABLE_4:
        mark = "*" if parser.startswith("Transformer") else " "
        print(f"{mark} {parser:32} {training:26} {f1}")
