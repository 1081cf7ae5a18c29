"""The JSON of requests and responses."""

import base64
import json

import numpy as np
import pytest
from fastapi import HTTPException
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tf_transformer.config import ServeConfig
from tf_transformer.serving.model_interface import Input, LoadedSignature
from tf_transformer.serving.rest_format import COLUMNS, format_response, parse_predict

SETTINGS = ServeConfig(max_rows=8, max_rows_alone=2)


def signature(may_be_batched=True, **inputs):
    return LoadedSignature(lambda inputs, deadline: {}, inputs, may_be_batched, {})


SIGNATURES = {
    "serving_default": signature(text=Input()),
    "alignments": signature(may_be_batched=False, text=Input()),
    "score": signature(source=Input(), target=Input()),
    "options": signature(
        beam_size=Input("DT_INT32", 4),
        penalty=Input("DT_FLOAT", 0.6),
        seed=Input("DT_INT64", 0),
        text=Input(),
    ),
}


def parse(**request):
    return parse_predict(json.dumps(request).encode(), SIGNATURES, SETTINGS)


def test_rows_and_columns():
    encoded = {"b64": base64.b64encode(b"\xff").decode()}
    texts = ["a", "", encoded, {"b64": "YQ"}]  # with padding or not
    expected = {"text": ["a", "", b"\xff", b"a"]}
    assert parse(instances=texts) == ("serving_default", expected, True)
    assert parse(instances=[{"text": text} for text in texts])[1] == expected
    assert parse(inputs=texts) == ("serving_default", expected, False)
    assert parse(inputs={"text": texts}, signature_name="")[1] == expected
    assert parse(inputs=[])[1] == {"text": []}
    pairs = {"source": ["a", "b"], "target": ["c", "d"]}
    assert parse(signature_name="score", inputs=pairs) == ("score", pairs, False)
    rows = [{"source": "a", "target": "c"}, {"source": "b", "target": "d"}]
    assert parse(signature_name="score", instances=rows) == ("score", pairs, True)


def test_options_that_are_left_out_have_their_defaults():
    rows = ["a", {"text": "b", "beam_size": 2, "penalty": 1, "seed": 2**40}]
    found = parse(signature_name="options", instances=rows)[1]
    assert found == {
        "beam_size": [4, 2], "penalty": [0.6, 1.0], "seed": [0, 2**40], "text": ["a", "b"],
    }  # fmt: skip
    found = parse(signature_name="options", inputs={"text": ["a", "b"], "seed": [1, 2]})[1]
    assert found["seed"] == [1, 2]
    assert found["beam_size"] == [4, 4]


def in_rows(option, value):
    return json.dumps({"signature_name": "options", "instances": [{"text": "a", option: value}]})


JSON_ERROR = "JSON Parse error"
WRONG = {
    "": JSON_ERROR,
    "[" * 16_000: JSON_ERROR,
    b'{"instances": ["\xff"]}': JSON_ERROR,
    '{"instances": [NaN]}': JSON_ERROR,
    "[]": "valid dictionary",
    '{"signature_name": "none", "instances": ["a"]}': '"none" not found',
    "{}": "'instances' and 'inputs'",
    '{"instances": []}': "'instances'",
    '{"instances": "a"}': "instances: Input should be a valid list",
    '{"instances": ["a", 7]}': "input text, row 1",
    '{"instances": [{"b64": "*"}]}': "base64",
    '{"inputs": {}}': "input text is missing",
    '{"inputs": {"text": "a"}}': "input text, the request: Input should be a valid list",
    '{"inputs": {"text": ["a"], "other": ["a"]}}': "unknown input other",
    '{"signature_name": "score", "instances": ["a"]}': "source, target",
    '{"signature_name": "score", "inputs": {"source": ["a"]}}': "input target is missing",
    '{"signature_name": "score", "inputs": {"source": ["a"], "target": []}}': "number of rows",
    **{
        in_rows(option, value): f"input {option}, row 0: Input should be"
        for option, values in {
            "beam_size": [2.0, "1", True, None, [1], 2**31],
            "penalty": ["1", True, 1e39],
            "seed": [0.5, 2**63],
        }.items()
        for value in values
    },
}


@pytest.mark.parametrize("body, message", WRONG.items(), ids=map(str, range(len(WRONG))))
def test_wrong_requests(body, message):
    body = body if isinstance(body, bytes) else body.encode()
    with pytest.raises(HTTPException, match="400") as raised:
        parse_predict(body, SIGNATURES, SETTINGS)
    assert message in raised.value.detail
    assert len(raised.value.detail) < 400


def test_too_many_rows():
    in_columns = {"signature_name": "options", "inputs": {"text": ["a"], "seed": [0.5] * 9}}
    for request, message in (
        *(({key: [row] * 9}, "at most 8") for key in ("instances", "inputs") for row in ("a", 1)),
        (in_columns, "at most 8"),
        ({"signature_name": "alignments", "inputs": ["a"] * 3}, "at most 2"),
        ({"instances": [[]] * 100_000}, "100,002 brackets"),
    ):
        with pytest.raises(HTTPException, match=f"413.*{message}"):
            parse(**request)


@pytest.mark.parametrize("values", COLUMNS.values(), ids=list(COLUMNS))
def test_values_are_read_up_to_the_first_error(values):
    with pytest.raises(ValidationError) as error:
        values.validate_python([None] * 1000, strict=True)
    assert {each["loc"][0] for each in error.value.errors()} == {0}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda values: (
        st.lists(values, max_size=3)
        | st.dictionaries(st.sampled_from(["text", "b64", "beam_size", "x"]), values, max_size=3)
    ),
)


@given(
    st.dictionaries(st.sampled_from(["signature_name", "instances", "inputs"]), JSON)
    | st.fixed_dictionaries({"instances": st.lists(JSON), "signature_name": st.just("options")})
)
def test_any_json_is_read_or_refused(request):
    try:
        name, columns, _ = parse(**request)
    except HTTPException as error:
        assert error.status_code in (400, 413)
    else:
        assert columns.keys() == SIGNATURES[name].inputs.keys()
        assert len({len(values) for values in columns.values()}) == 1


def test_responses():
    outputs = {
        "scores": np.array([[0.1, np.nan], [-1e9, np.inf]], np.float32),
        "texts": np.array([["é".encode(), b"\xff"], [b"", b"a"]], object),
    }
    rows = json.loads(format_response(outputs, in_rows=True))["predictions"]
    assert rows == [
        {"scores": [0.1, None], "texts": ["é", "\ufffd"]},
        {"scores": [-1e9, None], "texts": ["", "a"]},
    ]
    columns = json.loads(format_response(outputs, in_rows=False))["outputs"]
    assert columns == {"scores": [[0.1, None], [-1e9, None]], "texts": [["é", "\ufffd"], ["", "a"]]}
    one = {"translation": np.array([b"a", b"b"], object)}
    assert json.loads(format_response(one, in_rows=True)) == {"predictions": ["a", "b"]}
    assert json.loads(format_response(one, in_rows=False)) == {"outputs": ["a", "b"]}
