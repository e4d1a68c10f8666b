"""The routes in the words of OpenAPI 3.1, written from the one table of them."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from patchwords import __version__
from patchwords.serve.http import schemas
from patchwords.serve.http.door import Body, Door
from patchwords.serve.http.parameter import Parameter

JSON, BYTES = "application/json", "application/octet-stream"
ANYBODY = (403, 421)  # what any request can be refused for: a foreign page, a foreign name
WITH_BODY = (400, 408, 413, 415, 503)
PICTURE = {"type": "string", "format": "binary", "description": "The bytes of a JPEG, PNG, WebP, BMP, GIF or TIFF."}
CONTENTS: dict[Body, dict[str, Any]] = {
    "picture": {BYTES: {"schema": PICTURE}},
    "picture or JSON": {BYTES: {"schema": PICTURE}, JSON: {"schema": schemas.CALL}},
}


def described(doors: Sequence[Door]) -> dict[str, Any]:
    """The whole document; it says nothing of the models, so anybody may read it."""
    paths: dict[str, dict[str, Any]] = {}
    for door in doors:
        paths.setdefault(door.path, {})[door.method.lower()] = _operation(door)
    return {
        "openapi": "3.1.0",
        "info": {"title": "patchwords", "version": __version__},
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Error": schemas.ERROR},
        },
    }


def _operation(door: Door) -> dict[str, Any]:
    words = [part.strip("{}") for part in door.path.split("/") if part.startswith("{")]
    parameters = [{"name": word, "in": "path", "required": True, "schema": {"type": "string"}} for word in words]
    found: dict[str, Any] = {
        "summary": door.says,
        "parameters": parameters + [_parameter(each) for each in door.takes],
        "responses": _responses(door),
    }
    if door.body != "none":
        found["requestBody"] = {"required": True, "content": CONTENTS[door.body]}
    if not door.open_to_all:
        found["security"] = [{}, {"token": []}]  # where the service has one
    return found


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": "query",
        "required": parameter.needed,
        "description": parameter.says,
        "schema": parameter.schema,
    }


def _responses(door: Door) -> dict[str, Any]:
    content = {door.kind: {"schema": door.gives} if door.gives is not None else {}}
    statuses = {400, *ANYBODY, *door.refuses, *(WITH_BODY if door.body != "none" else ())}
    statuses |= set() if door.open_to_all else {401}
    error = {JSON: {"schema": {"$ref": "#/components/schemas/Error"}}}
    refused = {str(status): {"description": HTTPStatus(status).phrase, "content": error} for status in sorted(statuses)}
    if door.gives is schemas.HEALTH:
        refused["503"]["content"] = content
    return {"200": {"description": "The answer.", "content": content}, **refused}
