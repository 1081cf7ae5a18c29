"""The flags of the commands score and rescore."""

from absl import flags

from tf_transformer.cli.define_flags import define, define_model, define_tag

LENGTH_PENALTY = "alpha of the length penalty ((5 + L) / 6) ^ alpha (default: that of the model)"


def define_score(values: flags.FlagValues) -> None:
    """Defines the flags of score."""
    define_model(values, ensemble=True)
    meaning = (
        "sentence pairs: a TSV file, or two files SOURCE_FILE,TARGET_FILE (default: TSV on "
        "standard input)"
    )
    define(values, "input", str, meaning)
    define(values, "output", str, "file for the scores (default: standard output)")
    meaning = "write two more columns: the sub-words, and their log-probabilities"
    define(values, "tokens", bool, meaning, False)
    meaning = "divide by the length penalty, as the scores of translate --n_best"
    define(values, "normalize", bool, meaning, False)
    meaning = (
        "write -inf and a warning for a pair with more sub-words than the model has positions, "
        "instead of stopping there"
    )
    define(values, "skip_long_lines", bool, meaning, False)
    define(values, "length_penalty", float, LENGTH_PENALTY)


def define_rescoring(values: flags.FlagValues) -> None:
    """Defines the flags of rescore."""
    meaning = "n-best list of translate --n_best, plain or .gz (default: standard input)"
    define(values, "input", str, meaning)
    define(values, "sources", str, "file of the lines that were translated (required)")
    meaning = "model folders or names, separated by commas; the score of each is a feature"
    define(values, "model_dir", str, meaning)
    meaning = (
        "the same for models of the opposite direction, which give the probability of the source"
    )
    define(values, "reverse_model_dir", str, meaning)
    define_tag(values, "for --model_dir; default: the lines have their tags")
    meaning = "tag to put before each translation for --reverse_model_dir (default: none)"
    define(values, "reverse_tag", str, meaning)
    meaning = (
        "weights, separated by commas: of the score in the list, of each --model_dir, of each "
        "--reverse_model_dir (default: 1 for all)"
    )
    define(values, "weights", str, meaning)
    meaning = (
        "translations of each line to write; with more than 1, each is written as "
        "LINE NUMBER<tab>SCORE<tab>TRANSLATION"
    )
    define(values, "n_best", int, meaning, 1, lower_bound=1)
    define(values, "output", str, "file for the translations (default: standard output)")
    define(values, "length_penalty", float, LENGTH_PENALTY)
