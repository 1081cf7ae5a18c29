"""The JSON of TensorFlow Serving's REST interface."""

import base64
import json
import types

import numpy as np
import pytest

from tf_transformer.serving.request_error import RequestError
from tf_transformer.serving.rest_format import error_body, format_response, parse_predict
from tf_transformer.serving.signature_inputs import Input

SIGNATURES = {
    "serving_default": types.SimpleNamespace(inputs={"text": Input()}),
    "score": types.SimpleNamespace(inputs={"source": Input(), "target": Input()}),
    "options": types.SimpleNamespace(
        inputs={
            "beam": Input("DT_INT32", 4),
            "penalty": Input("DT_FLOAT", 0.5),
            "prefix": Input("DT_STRING", b""),
            "seed": Input("DT_INT64", 0),
            "text": Input(),
        }
    ),
}
DEFAULTS = {"beam": 4, "penalty": 0.5, "prefix": b"", "seed": 0}


def parse(request):
    body = request if isinstance(request, bytes) else json.dumps(request).encode()
    return parse_predict(body, SIGNATURES)


def test_row_format():
    assert parse({"instances": ["a", "b"]}) == ("serving_default", {"text": ["a", "b"]}, True)
    assert parse({"instances": [{"text": "a"}, {"text": {"b64": "Yv8="}}]}) == (
        "serving_default",
        {"text": ["a", b"b\xff"]},
        True,
    )
    assert parse({"instances": [{"b64": "Yv8="}, "é"]})[1] == {"text": [b"b\xff", "é"]}
    pairs = {
        "signature_name": "score",
        "instances": [{"source": "a", "target": "b"}, {"target": "d", "source": "c"}],
    }
    assert parse(pairs) == ("score", {"source": ["a", "c"], "target": ["b", "d"]}, True)


def test_column_format():
    assert parse({"inputs": ["a", "b"]}) == ("serving_default", {"text": ["a", "b"]}, False)
    assert parse({"inputs": {"text": []}}) == ("serving_default", {"text": []}, False)
    encoded = {"b64": base64.b64encode(b"x").decode()}
    request = {"signature_name": "score", "inputs": {"source": ["a"], "target": [encoded]}}
    assert parse(request) == ("score", {"source": ["a"], "target": [b"x"]}, False)


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "JSON Parse error: The document is empty"),
        (b"{", "JSON Parse error:"),
        (b'{"instances": ["\xff"]}', "JSON Parse error:"),
        (b"[" * 5000, "JSON Parse error:"),
        (b"[" * 300 + b"]" * 300, r"JSON Value: \.\.\. Is not object"),
        ([1], r"JSON Value: \[1\] Is not object"),
        ({"signature_name": 7, "instances": ["a"]}, "'signature_name' key must be a string value"),
        (
            {"signature_name": "none", "instances": ["a"]},
            'Serving signature name: "none" not found in signature def',
        ),
        (
            {"instances": ["a"], "inputs": ["a"]},
            "expecting only one of 'inputs' or 'instances' keys",
        ),
        ({}, "Missing 'inputs' or 'instances' key"),
        ({"instances": "a"}, "Excepting 'instances' to be an list/array"),
        ({"instances": []}, "No values in 'instances' array"),
        (
            {"instances": ["a", {"text": "b"}]},
            "Expecting value/list but got object at item 1 of input list",
        ),
        (
            {"instances": [{"text": "b"}, "a"]},
            "Expecting object but got list at item 1 of input list",
        ),
        (
            {"instances": [{"text": "b", "more": 1}]},
            "element: 0 of 'instances' list.* keys must be equal to: text",
        ),
        (
            {"instances": ["a", 7]},
            "element: 1 of 'instances' list. Error: JSON Value: 7 Type: Number "
            "is not of expected type: string",
        ),
        ({"instances": [None]}, "Type: Null"),
        ({"instances": [True]}, "Type: True"),
        ({"instances": [["a"]]}, "Encountered list at unexpected level"),
        ({"instances": [{"b64": "*"}]}, "Unable to base64 decode"),
        ({"instances": [{"text": {"b64": 7}}]}, "not formatted correctly for base64 data"),
        (
            {"signature_name": "score", "instances": ["a"]},
            "instances is a plain list, but expecting list of objects",
        ),
        (
            {"signature_name": "score", "inputs": ["a"]},
            "inputs is a plain value/list, but expecting an object",
        ),
        (
            {"signature_name": "score", "inputs": {"source": ["a"]}},
            "Missing named input: target in 'inputs' object",
        ),
        (
            {"signature_name": "score", "inputs": {"source": ["a"], "target": []}},
            "the same number of rows",
        ),
        ({"inputs": "a"}, "list of strings"),
        ({"inputs": ["a" * 999, 7]}, "Type: Number"),
    ],
)
def test_errors(content, message):
    with pytest.raises(RequestError, match=message) as raised:
        parse(content)
    assert raised.value.status == 400
    assert len(raised.value.message) < 600


def parse_options(**request):
    name, inputs, in_rows = parse({"signature_name": "options", **request})
    assert (name, in_rows) == ("options", "instances" in request)
    assert {type(values) for values in inputs.values()} == {list}
    return inputs


def test_each_row_has_its_own_options():
    rows = [{"text": "a", "beam": 2}, {"penalty": 1, "text": "b", "prefix": {"b64": "Yv8="}}]
    assert parse_options(instances=rows) == {
        "beam": [2, 4],
        "penalty": [0.5, 1.0],
        "prefix": [b"", b"b\xff"],
        "seed": [0, 0],
        "text": ["a", "b"],
    }
    columns = {"text": ["a", "b"], "seed": [-(2**63), 2**63 - 1], "penalty": [-0.0, 3.4e38]}
    assert parse_options(inputs=columns) == {
        **{name: [value] * 2 for name, value in DEFAULTS.items()},
        **columns,
    }
    assert parse_options(inputs={"text": []}) == {name: [] for name in [*DEFAULTS, "text"]}


TYPE = "is not of expected type"


@pytest.mark.parametrize(
    "option, message",
    [
        ({"beam": 1.5}, f"JSON Value: 1.5 Type: Number {TYPE}: int32"),
        ({"beam": 2.0}, f"JSON Value: 2.0 Type: Number {TYPE}: int32"),
        ({"beam": True}, f"JSON Value: true Type: True {TYPE}: int32"),
        ({"beam": 2**31}, f"JSON Value: 2147483648 Type: Number {TYPE}: int32"),
        ({"beam": -(2**31) - 1}, f"JSON Value: -2147483649 Type: Number {TYPE}: int32"),
        ({"beam": "4"}, f'JSON Value: "4" Type: String {TYPE}: int32'),
        ({"beam": None}, f"JSON Value: null Type: Null {TYPE}: int32"),
        ({"beam": {"b64": "QQ=="}}, f"Type: Object {TYPE}: int32"),
        ({"beam": [4]}, "Encountered list at unexpected level"),
        ({"seed": 2**63}, f"JSON Value: 9223372036854775808 Type: Number {TYPE}: int64"),
        ({"seed": 2**64}, f"Type: Number {TYPE}: int64"),
        ({"penalty": False}, f"JSON Value: false Type: False {TYPE}: float"),
        ({"penalty": "1"}, f'JSON Value: "1" Type: String {TYPE}: float'),
        ({"penalty": 3.5e38}, "JSON value: 3.5e+38 to float without loss of precision"),
        ({"penalty": -(2**24)}, "JSON value: -16777216 to float without loss of precision"),
        ({"prefix": 1}, f"JSON Value: 1 Type: Number {TYPE}: string"),
    ],
)
def test_an_option_of_another_type(option, message):
    """The errors name the row, the input and the value."""
    ((name, value),) = option.items()
    with pytest.raises(RequestError) as raised:
        parse_options(instances=[{"text": "a"}, {"text": "b", **option}])
    assert raised.value.status == 400
    assert f"element: 1 key: {name} of 'instances' list" in raised.value.message
    assert message in raised.value.message
    if name != "prefix":
        with pytest.raises(RequestError) as raised:
            parse_options(inputs={"text": ["a", "b"], name: [1, value]})
        assert f"element: 1 of input {name}. Error: " in raised.value.message
        assert message in raised.value.message


@pytest.mark.parametrize(
    "request_, message",
    [
        ({"instances": [{"text": "a", "bean": 4}]}, "equal to: text, and any of: beam,penalty,"),
        ({"instances": [{"beam": 4}]}, "element: 0 of 'instances' list.* keys must be equal to"),
        ({"instances": ["a"]}, "instances is a plain list"),
        ({"inputs": {"beam": [4]}}, "Missing named input: text"),
        ({"inputs": {"text": ["a"], "bean": [4]}}, "Unknown named input: bean .*beam, penalty"),
        ({"inputs": {"text": ["a", "b"], "beam": 4}}, "input beam must be a list of numbers, one"),
        ({"inputs": {"text": ["a", "b"], "beam": [4]}}, "the same number of rows"),
        ({"inputs": {"text": ["a"], "beam": [[4]]}}, "element: 0 of input beam.*unexpected level"),
    ],
)
def test_options_that_are_missing_or_unknown(request_, message):
    with pytest.raises(RequestError, match=message) as raised:
        parse_options(**request_)
    assert raised.value.status == 400


def test_numbers_that_json_does_not_have_are_refused():
    for number in (b"NaN", b"Infinity", b"1e400"):
        body = b'{"signature_name": "options", "instances": [{"text": "a", "penalty": %b}]}'
        with pytest.raises(RequestError, match="JSON Parse error"):
            parse_predict(body % number, SIGNATURES)


def test_responses():
    outputs = {
        "translation": np.array([b"a", "é".encode()], object),
        "score": np.float32([-0.1, -1e9]),
    }
    assert json.loads(format_response(outputs, in_rows=True)) == {
        "predictions": [{"translation": "a", "score": -0.1}, {"translation": "é", "score": -1e9}]
    }
    assert json.loads(format_response(outputs, in_rows=False)) == {
        "outputs": {"translation": ["a", "é"], "score": [-0.1, -1e9]}
    }


def test_responses_with_a_single_output():
    scores = format_response({"score": np.float32([[1, 2]])}, in_rows=True)
    assert json.loads(scores) == {"predictions": [[1.0, 2.0]]}
    empty = format_response({"score": np.zeros((0, 2), np.float32)}, in_rows=False)
    assert json.loads(empty) == {"outputs": []}
    encoded = format_response({"x_bytes": np.array([[b"\xff"]], object)}, in_rows=False)
    assert json.loads(encoded) == {"outputs": [[{"b64": "/w=="}]]}


def test_outputs_without_rows_and_parts_of_arrays():
    outputs = {
        "name": np.array("é".encode(), object),
        "size": np.asarray(np.float32(0.1)),
        "column": np.float32([[0.5, 1], [2, 3]])[:, 1],
    }
    assert json.loads(format_response(outputs, in_rows=False)) == {
        "outputs": {"name": "é", "size": 0.1, "column": [1.0, 3.0]}
    }


@pytest.mark.parametrize(
    "outputs",
    [
        {"a": np.zeros(2), "b": np.zeros(3)},
        {"a": np.zeros(2), "b": np.float32(1)},
        {"a": np.float32(1)},
        {},
    ],
)
def test_outputs_without_common_rows_are_an_error_in_the_row_format(outputs):
    with pytest.raises(RequestError, match="no rows in common") as raised:
        format_response(outputs, in_rows=True)
    assert raised.value.status == 500
    assert b"outputs" in format_response(outputs, in_rows=False)


def test_numbers_that_json_does_not_have_are_null():
    scores = np.float32([np.nan, np.inf, 1])
    content = json.loads(format_response({"score": scores}, in_rows=True))
    assert content == {"predictions": [None, None, 1.0]}


@pytest.mark.parametrize("text", ["w6k=", "w6k", "w6\nk=", " w6k=\r\n"])
def test_base64_with_line_breaks_and_without_padding(text):
    _, inputs, _ = parse({"instances": [{"b64": text}]})
    assert inputs == {"text": ["é".encode()]}


def test_a_byte_order_mark_is_ignored():
    request = b"\xef\xbb\xbf" + b'{"instances": ["a"]}'
    _, inputs, _ = parse_predict(request, SIGNATURES)
    assert inputs == {"text": ["a"]}


def test_error_body():
    assert json.loads(error_body('a "b"')) == {"error": 'a "b"'}


@pytest.mark.parametrize(
    "request_",
    [
        ["secret"],
        {"signature_name": ["secret"]},
        {"signature_name": "secret", "instances": ["a"]},
        {"instances": ["a"], "inputs": "secret"},
        {"instances": "secret"},
        {"instances": [{"secret": 1}]},
        {"instances": [{"text": {"secret": "a"}}]},
        {"inputs": [{"text": "secret"}]},
    ],
)
def test_the_message_for_the_log_does_not_quote_the_request(request_):
    with pytest.raises(RequestError) as caught:
        parse(request_)
    assert "secret" in caught.value.message
    assert "..." in caught.value.log_message
    assert "secret" not in caught.value.log_message
