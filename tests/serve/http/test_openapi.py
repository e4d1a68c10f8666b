"""The schema: written from the routes, and true of what they answer."""

import json
from collections.abc import Callable
from typing import Any

import jsonschema_rs
import pytest


@pytest.fixture
def document(send: Callable[..., Any]) -> dict[str, Any]:
    found: dict[str, Any] = send("GET", "/openapi.json").json
    return found


def test_it_names_the_routes_and_no_model(document: dict[str, Any]) -> None:
    assert set(document["paths"]["/predict"]) == {"post"}
    assert {"/models/{name}", "/embed", "/attention", "/examine", "/healthz", "/metrics"} <= document["paths"].keys()
    assert "plain" not in json.dumps(document).replace("text/plain", "")


def test_no_parameter_is_an_address(document: dict[str, Any]) -> None:
    """Promise 29."""
    names = {
        parameter["name"]
        for path in document["paths"].values()
        for operation in path.values()
        for parameter in operation["parameters"]
    }
    assert names == {"model", "top", "layer", "head", "row", "column", "name", "file"}


@pytest.mark.parametrize(
    ("method", "path", "address"),
    [
        ("post", "/predict", "/predict"),
        ("post", "/models/{name}", "/models/plain"),
        ("post", "/embed", "/embed"),
        ("post", "/examine", "/examine"),
        ("post", "/attention", "/attention?layer=1&head=1"),
        ("get", "/positions", "/positions"),
        ("get", "/models", "/models"),
        ("get", "/healthz", "/healthz"),
    ],
)
def test_answers_are_of_the_shape_that_it_says(
    send: Callable[..., Any], document: dict[str, Any], kinds: dict[str, bytes], method: str, path: str, address: str
) -> None:
    heard = send(method.upper(), address, kinds["rgb.jpg"])
    assert heard.status == 200
    content = document["paths"][path][method]["responses"]["200"]["content"]
    jsonschema_rs.validate(content["application/json"]["schema"], heard.json)
