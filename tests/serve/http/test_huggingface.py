"""The shape of Hugging Face's image classification: read strictly, answered as their clients read it."""

import base64
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from patchwords.errors import UsageError
from patchwords.serve.http.huggingface import Call, read_call, scores
from patchwords.serve.prediction import Prediction

PREDICTION = Prediction(
    name="x", classes=("a", "b", "c"), logits=np.array([0.0, 2.0, -1.0], dtype=np.float32), loss="softmax"
)
JSON = "application/json; charset=utf-8"


def body(**table: Any) -> bytes:
    return json.dumps({"inputs": base64.b64encode(b"picture").decode(), **table}).encode()


def test_a_raw_picture_and_one_in_json_are_the_same() -> None:
    assert read_call("", b"picture") == read_call("image/jpeg", b"picture") == read_call(JSON, body())


def test_parameters_are_read() -> None:
    told = body(parameters={"top_k": 2, "function_to_apply": "sigmoid"})
    assert read_call(JSON, told) == Call(picture=b"picture", top=2, transform="sigmoid")
    assert read_call(JSON, body(parameters={"top_k": None, "function_to_apply": None})) == Call(picture=b"picture")
    assert read_call(JSON, body(parameters=None)) == Call(picture=b"picture")


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        (b"{", "no JSON object"),
        (b"[" * 100_000, "no JSON object"),
        (b"[]", "no JSON object"),
        (b"\xff", "no JSON object"),
        (b"{}", "no JSON object"),
        (body(parameters=[]), "no JSON object"),
        (body(input="x"), "'input' is not known here; did you mean inputs"),
        (body(parameters={"topk": 1}), "'topk' is not known here; did you mean top_k"),
        (body(parameters={"top_k": 0}), "top_k is no whole number"),
        (body(parameters={"top_k": True}), "top_k is no whole number"),
        (body(parameters={"top_k": "1"}), "top_k is no whole number"),
        (body(parameters={"function_to_apply": "exp"}), "function_to_apply is none of softmax, sigmoid, none"),
        (b'{"inputs": "https://example.org/cat.jpg"}', "this service fetches nothing"),
        (b'{"inputs": "file:///etc/passwd"}', "this service fetches nothing"),
        (b'{"inputs": "a!"}', "not base64"),
        (b'{"inputs": "abc\\u00e9"}', "not base64"),
        (b'{"inputs": 5}', "no JSON object"),
    ],
)
def test_anything_else_is_refused(told: bytes, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        read_call(JSON, told)


def test_scores_are_the_probabilities_the_sigmoids_or_the_logits() -> None:
    softmax = np.exp([2.0, 0.0, -1.0]) / np.exp([2.0, 0.0, -1.0]).sum()
    sigmoid = 1 / (1 + np.exp(-np.array([2.0, 0.0, -1.0])))
    for transform, wanted in ((None, softmax), ("softmax", softmax), ("sigmoid", sigmoid), ("none", [2.0, 0.0, -1.0])):
        found = scores(PREDICTION, Call(picture=b"", transform=transform))  # type: ignore[arg-type]
        assert [each["label"] for each in found] == ["b", "a", "c"]
        assert [each["score"] for each in found] == pytest.approx(list(wanted))
    assert len(scores(PREDICTION, Call(picture=b"", top=2))) == 2


def test_over_http_both_ways_are_equal_to_predict(send: Callable[..., Any], kinds: dict[str, bytes]) -> None:
    data = kinds["rgb.jpg"]
    wanted = {each["label"]: each["probability"] for each in send("POST", "/predict", data).json["predictions"]}
    raw = send("POST", "/models/plain", data).json
    assert {each["label"]: each["score"] for each in raw} == pytest.approx(wanted)
    told = json.dumps({"inputs": base64.b64encode(data).decode(), "parameters": {"top_k": 2}}).encode()
    assert send("POST", "/models/plain", told, content_type="application/json").json == raw[:2]
