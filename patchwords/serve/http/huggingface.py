"""A picture and its answer in the shape of Hugging Face's image classification, so that its clients work here."""

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from patchwords.errors import UsageError
from patchwords.evaluation.classify import probabilities
from patchwords.serve.prediction import Prediction
from patchwords.settings import nearest

TOP = 5  # as their pipeline has it
Transform = Literal["softmax", "sigmoid", "none"]

NO_JSON = 'the body is no JSON object like {"inputs": "<the picture in base64>", "parameters": {"top_k": 5}}'
ADDRESS = "inputs is an address, and this service fetches nothing: send the picture itself, in base64"


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """A picture, how many classes are wanted, and what makes scores of logits: as the model learned unless said."""

    picture: bytes
    top: int = TOP
    transform: Transform | None = None


def read_call(kind: str, body: bytes) -> Call:
    """A raw picture, or JSON where the type of the content says so."""
    if kind.partition(";")[0].strip().lower() != "application/json":
        return Call(picture=body)
    try:
        table = json.loads(body)
    except (ValueError, RecursionError):
        raise UsageError(NO_JSON) from None
    _check_keys(table, ("inputs", "parameters"))
    parameters = table.get("parameters")
    parameters = {} if parameters is None else parameters
    _check_keys(parameters, ("top_k", "function_to_apply"))
    return Call(
        picture=_picture(table.get("inputs")),
        top=_top(parameters.get("top_k")),
        transform=_transform(parameters.get("function_to_apply")),
    )


def scores(prediction: Prediction, call: Call) -> list[dict[str, Any]]:
    """Labels and scores, the best first."""
    match call.transform:
        case None:
            found = prediction.chances
        case "none":
            found = prediction.logits.astype(np.float64)
        case "softmax" | "sigmoid" as loss:
            found = probabilities(prediction.logits[None], loss=loss)[0]
    best = prediction.order[: call.top].tolist()
    return [{"label": prediction.classes[number], "score": float(found[number])} for number in best]


def _check_keys(table: object, known: tuple[str, ...]) -> None:
    if not isinstance(table, Mapping):
        raise UsageError(NO_JSON)
    for key in table:
        if key not in known:
            raise UsageError(f"{key[:40]!r} is not known here; {nearest(key[:40], known)}")


def _picture(given: object) -> bytes:
    if not isinstance(given, str) or not given:
        raise UsageError(NO_JSON)
    if given.startswith(("http:", "https:", "file:", "ftp:")):
        raise UsageError(ADDRESS)
    try:
        return base64.b64decode(given, validate=True)
    except (binascii.Error, ValueError):
        raise UsageError("inputs is not base64: encode the bytes of the picture") from None


def _top(given: object) -> int:
    if given is None:
        return TOP
    if not isinstance(given, int) or isinstance(given, bool) or given < 1:
        raise UsageError("top_k is no whole number above 0")
    return given


def _transform(given: object) -> Transform | None:
    match given:
        case None | "softmax" | "sigmoid" | "none":
            return given
    raise UsageError(f"function_to_apply is none of {', '.join(get_args(Transform))}")
