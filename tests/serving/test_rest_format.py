"""The JSON of TensorFlow Serving's REST interface."""

import base64
import json
import types

import numpy as np
import pytest

from tf_transformer.serving.rest_format import RestError, answer, error_body, parse_predict

SIGNATURES = {
    "serving_default": types.SimpleNamespace(inputs=["text"]),
    "score": types.SimpleNamespace(inputs=["source", "target"]),
}


def parse(request):
    return parse_predict(
        request if isinstance(request, bytes) else json.dumps(request).encode(), SIGNATURES
    )


def test_rows():
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


def test_columns():
    assert parse({"inputs": ["a", "b"]}) == ("serving_default", {"text": ["a", "b"]}, False)
    assert parse({"inputs": {"text": []}}) == ("serving_default", {"text": []}, False)
    found = parse(
        {
            "signature_name": "score",
            "inputs": {"source": ["a"], "target": [{"b64": base64.b64encode(b"x").decode()}]},
        }
    )
    assert found == ("score", {"source": ["a"], "target": [b"x"]}, False)


@pytest.mark.parametrize(
    "request_, message",
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
            "element: 1 of 'instances' list. Error: JSON Value: 7 Type: Number is not of expected type: string",
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
            "as many rows as each other",
        ),
        ({"inputs": "a"}, "list of strings"),
        ({"inputs": ["a" * 999, 7]}, "Type: Number"),
    ],
)
def test_mistakes(request_, message):
    with pytest.raises(RestError, match=message) as found:
        parse(request_)
    assert found.value.status == 400 and len(found.value.message) < 600


def test_answers():
    outputs = {
        "translation": np.array([b"a", "é".encode()], object),
        "score": np.float32([-0.1, -1e9]),
    }
    assert json.loads(answer(outputs, True)) == {
        "predictions": [{"translation": "a", "score": -0.1}, {"translation": "é", "score": -1e9}]
    }
    assert json.loads(answer(outputs, False)) == {
        "outputs": {"translation": ["a", "é"], "score": [-0.1, -1e9]}
    }
    assert json.loads(answer({"score": np.float32([[1, 2]])}, True)) == {
        "predictions": [[1.0, 2.0]]
    }
    assert json.loads(answer({"score": np.zeros((0, 2), np.float32)}, False)) == {"outputs": []}
    assert json.loads(answer({"x_bytes": np.array([[b"\xff"]], object)}, False)) == {
        "outputs": [[{"b64": "/w=="}]]
    }
    assert json.loads(error_body('a "b"')) == {"error": 'a "b"'}
