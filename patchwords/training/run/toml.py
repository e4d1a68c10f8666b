"""Tables as TOML that reads back as the same tables; the standard library only reads it."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from patchwords.errors import UsageError

BARE = re.compile(r"[A-Za-z0-9_-]+")
SPECIAL = re.compile(r'["\\\x00-\x1f\x7f]')
ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def toml(table: Mapping[str, Any]) -> str:
    """A document: plain values first, then a section for each table within; what is None is left out."""
    return "\n".join(_section(table, ())).strip("\n") + "\n"


def _section(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    tables = {key: value for key, value in table.items() if isinstance(value, Mapping)}
    plain = [f"{_key(key)} = {_value(table[key])}" for key in table if key not in tables and table[key] is not None]
    if path and (plain or not tables):
        yield from ("", f"[{'.'.join(map(_key, path))}]")
    yield from plain
    for key, value in tables.items():
        yield from _section(value, (*path, key))


def _key(key: str) -> str:
    return key if BARE.fullmatch(key) else _text(key)


def _value(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return int.__repr__(value)
        case float():
            return float.__repr__(value)
        case str():
            return _text(value)
        case list() | tuple():
            return f"[{', '.join(map(_value, value))}]"
        case Mapping():
            pairs = [f"{_key(key)} = {_value(inner)}" for key, inner in value.items() if inner is not None]
            return f"{{ {', '.join(pairs)} }}" if pairs else "{}"
    raise TypeError(f"{value!r} cannot be written as TOML")


def _text(text: str) -> str:
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise UsageError(f"{text!r} holds bytes that are no text, and a recipe cannot state them: rename the file")
    return '"' + SPECIAL.sub(lambda found: ESCAPES.get(found[0], f"\\u{ord(found[0]):04x}"), text) + '"'
