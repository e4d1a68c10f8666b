"""The questions about pictures: each reads a body, asks a model, and says the answer as JSON."""

import time
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from starlette.responses import Response

from patchwords.data.sources.source import Pixels
from patchwords.errors import UsageError
from patchwords.evaluation.answers import ask
from patchwords.serve import examine as examination
from patchwords.serve.http.door import Asked
from patchwords.serve.http.huggingface import read_call, scores
from patchwords.serve.http.said import said
from patchwords.serve.http.service import Service
from patchwords.serve.http.shelf import Shelved
from patchwords.serve.predictor import Predictor

T = TypeVar("T")

BOTH = "row and column belong together: give both for one patch, or neither for all of them"


async def predict(service: Service, asked: Asked) -> Response:
    model = service.shelf.find(asked.values["model"])
    service.pictures.check()
    with asked.upload(service) as upload:
        body = await upload.read()
        with service.pictures.one():
            start = time.perf_counter()
            prediction = await service.predict(model, body, upload)
    found = [{"label": label, "probability": share} for label, share in prediction.top(asked.values["top"])]
    milliseconds = round(1000 * (time.perf_counter() - start), 3)
    return said({"model": model.name, "predictions": found, "milliseconds": milliseconds})


async def classify(service: Service, asked: Asked) -> Response:
    """As Hugging Face asks."""
    model = service.shelf.find(asked.values["name"])
    service.pictures.check()
    with asked.upload(service) as upload:
        body = await upload.read()
        with service.pictures.one():
            call = await service.aside(lambda: read_call(asked.headers.get("content-type", ""), body))
            prediction = await service.predict(model, call.picture, upload)
    return said(scores(prediction, call))


async def embed(service: Service, asked: Asked) -> Response:
    def look(predictor: Predictor, seen: Pixels) -> list[float]:
        vector: list[float] = represented(predictor, seen).tolist()
        return vector

    model, vector = await _ask(service, asked, look)
    return said({"model": model.name, "width": len(vector), "embedding": vector})


async def examine(service: Service, asked: Asked) -> Response:
    def look(predictor: Predictor, seen: Pixels) -> examination.Examination:
        return examination.examine(predictor, seen, "picture")

    model, found = await _ask(service, asked, look)
    table = await service.aside(lambda: examination.table(found, asked.values["top"]))
    return said({"model": model.name, **table})


async def attention(service: Service, asked: Asked) -> Response:
    layer, head, row, column = (asked.values[name] for name in ("layer", "head", "row", "column"))
    if (row is None) != (column is None):
        raise UsageError(BOTH)
    patch = None if row is None else (row, column)

    def look(predictor: Predictor, seen: Pixels) -> Any:
        return examination.attention(predictor, seen, layer, head, patch)

    model, found = await _ask(service, asked, look)
    packed = await service.aside(lambda: examination.packed(found))
    return said({"model": model.name, "layer": layer, "head": head, "attention": packed})


async def positions(service: Service, asked: Asked) -> Response:
    model = service.shelf.find(asked.values["model"])
    with service.questions.one():
        found = await service.ask(model, lambda: examination.positions(model.predictor))
        packed = None if found is None else await service.aside(lambda: examination.packed(found))
    return said({"model": model.name, "positions": packed})


async def models(service: Service, asked: Asked) -> Response:
    every = service.shelf.values()
    return said({"models": [{**examination.described(model.predictor), "name": model.name} for model in every]})


def represented(predictor: Predictor, seen: Pixels) -> torch.Tensor:
    """The vector that the classifier sees, of the model as it is written, in full precision."""
    found = ask(predictor.model.represent, seen[None], predictor.card.preprocess, predictor.compute)
    return found[0].cpu()


async def _ask(service: Service, asked: Asked, look: Callable[[Predictor, Pixels], T]) -> tuple[Shelved, T]:
    """What the model's thread finds out about the picture in the body."""
    model = service.shelf.find(asked.values["model"])
    service.questions.check()
    with asked.upload(service) as upload:
        body = await upload.read()
        with service.questions.one():
            seen = await service.see(model, body)
            upload.release()
            return model, await service.ask(model, lambda: look(model.predictor, seen))
