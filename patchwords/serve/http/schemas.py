"""The shapes of the answers in JSON, as OpenAPI has them."""

from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
WHOLE: Schema = {"type": "integer"}


def listed(of: Schema) -> Schema:
    return {"type": "array", "items": of}


def table(**parts: Schema) -> Schema:
    """An object with all of these."""
    return {"type": "object", "required": list(parts), "properties": parts}


def perhaps(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def by_name(of: Schema) -> Schema:
    return {"type": "object", "additionalProperties": of}


ERROR = table(error=TEXT)
LABELLED = listed(table(label=TEXT, probability=NUMBER))
PACKED = table(rows=WHOLE, cols=WHOLE, low=listed(NUMBER), scale=listed(NUMBER), bytes=TEXT)
PREDICTION = table(model=TEXT, predictions=LABELLED, milliseconds=NUMBER)
SCORES = listed(table(label=TEXT, score=NUMBER))
EMBEDDING = table(model=TEXT, width=WHOLE, embedding=listed(NUMBER))
EXAMINATION = table(
    model=TEXT,
    predictions=LABELLED,
    picture=TEXT,
    grid=perhaps(listed(WHOLE)),
    map=perhaps(listed(listed(NUMBER))),
    kind=perhaps(TEXT),
    distances=perhaps(listed(listed(NUMBER))),
)
ATTENTION = table(model=TEXT, layer=WHOLE, head=WHOLE, attention=PACKED)
POSITIONS = table(model=TEXT, positions=perhaps(PACKED))
MODELS = table(
    models=listed(
        table(
            name=TEXT,
            classes=WHOLE,
            labels=listed(TEXT),
            image=listed(WHOLE),
            grid=perhaps(listed(WHOLE)),
            layers=WHOLE,
            heads=listed(WHOLE),
            shows=TEXT,
        )
    )
)
HEALTH = table(status=TEXT, models=by_name(TEXT))
CALL = {
    "type": "object",
    "required": ["inputs"],
    "additionalProperties": False,
    "properties": {
        "inputs": {"type": "string", "contentEncoding": "base64", "description": "The picture in base64."},
        "parameters": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "top_k": {"type": "integer", "minimum": 1},
                "function_to_apply": {"type": "string", "enum": ["softmax", "sigmoid", "none"]},
            },
        },
    },
}
