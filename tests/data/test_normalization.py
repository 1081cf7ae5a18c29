"""Warnings of text that a rule of normalization replaces."""

import pytest

from tf_transformer.data.normalization import normalizer_spec, warn_of_changes


def warnings(caplog, source_rule, target_rule, pairs):
    caplog.clear()
    warn_of_changes([normalizer_spec(rule) for rule in (source_rule, target_rule)], iter(pairs))
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize(("text", "share", "example"), [
    ("9 m²", 25, "'²' by '2'"),
    ("ab\u200cc…", 60, "'b\\u200c' by 'b ', '…' by '...'"),
    ("xe\u0301z\u200e", 60, "'e\\u0301' by '\\xe9', '\\u200e' by ' '"),
])  # fmt: skip
def test_what_a_rule_replaces_is_counted_and_named(caplog, text, share, example):
    pairs = [("a  b ", text)] * 3  # several blanks are no matter of a rule
    (message,) = warnings(caplog, "nmt_nfkc", "nmt_nfkc", pairs)
    assert f"nmt_nfkc of the targets replaces {share}% of their characters" in message
    assert f"such as {example}: the model will not write them" in message
    assert warnings(caplog, "nmt_nfkc", "identity", pairs) == []
    (message,) = warnings(caplog, "nmt_nfkc", "nmt_nfkc", [pair[::-1] for pair in pairs])
    assert f"of the sources replaces {share}% of their characters" in message
    rare = [(text + "a" * 300, "a")]  # a trace in the sources is not mentioned
    assert warnings(caplog, "nmt_nfkc", "nmt_nfkc", rare) == []
    assert warnings(caplog, "nmt_nfkc", "nmt_nfkc", []) == []
