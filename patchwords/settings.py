"""Tables (TOML, JSON, key=value) to frozen dataclasses and back: strict, and an unknown key hears the nearest name."""

import copy
import dataclasses
import difflib
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from numbers import Integral
from os import PathLike
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import cattrs
import cattrs.gen
from cattrs.errors import (
    AttributeValidationNote,
    BaseValidationError,
    ForbiddenExtraKeysError,
    IterableValidationNote,
)

from patchwords.errors import UsageError

T = TypeVar("T")
Table = dict[str, Any]

MOST_NAMES = 30  # that a sentence lists
LONGEST = 60  # characters of a value that a sentence repeats
NAMED: dict[type, str] = {int: "a whole number", bool: "true or false"}
OPENING = ("[", "{", '"', "'")  # a list, a table or a text of TOML, and no bare word
NO_LIST = "is not a list: write one in brackets, with commas between"
QUOTED = """write it in quotes, in a shell in two pairs (key='"text"')"""


def read(table: Mapping[str, Any], into: type[T]) -> T:
    """A table as a value of the dataclass `into`; what is wrong is said key by key."""
    if not isinstance(table, Mapping):
        raise UsageError(f"{type(table).__name__} is no table of settings")
    try:
        return _CONVERTER.structure(dict(table), into)
    except (BaseValidationError, ValueError) as error:
        raise UsageError("; ".join(_sentences(error, ""))) from None


def write(value: object) -> Table:
    """The inverse of `read`."""
    table: Table = _CONVERTER.unstructure(value)
    return table


def change(value: T, changes: Mapping[str, Any]) -> T:
    """`value` with dotted keys replaced; a new `kind` starts that part afresh."""
    table = write(value)
    for key in sorted(changes, key=_rank):
        *path, leaf = key.split(".")
        part = _descend(table, path, key)
        if leaf == "kind" and part.get("kind") != changes[key]:
            part.clear()
        part[leaf] = _spelt(part.get(leaf), changes[key])
    return read(table, type(value))


def dotted(table: Mapping[str, Any], prefix: str = "") -> Table:
    """Nested tables as one table of dotted keys, which is what `change` takes."""
    flat: Table = {}
    for key, value in table.items():
        flat |= dotted(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def assignments(words: Iterable[str]) -> Table:
    """`key=value` words of a command line; a value is TOML, and what is none is a text, if it opens no list or table.

    Whether a setting takes a text is for its type to say.
    """
    table: Table = {}
    for word in words:
        key, equals, text = (part.strip() for part in word.partition("="))
        if not equals or not key:
            raise UsageError(f"'{word}' is not a setting; write key=value, for example pool.kind=mean")
        if not text:
            raise UsageError(f"{word} says nothing: write a value, or {key}='\"\"' for an empty text")
        table[key] = _toml_value(key, text)
    return table


def check(value: Any) -> None:
    """What the types of a dataclass allow, for values made in Python: words of a Literal, parts of a choice, pairs."""
    for name, kind in _hints(value.__class__).items():
        given = getattr(value, name)
        numbers = [type(number) for number in given] if isinstance(given, tuple) else []
        if kind == tuple[int, int] and numbers != [int, int]:
            raise UsageError(f"{name}: {given!r} is not a pair (height, width) of whole numbers")
        if _is_literal(kind) and (not isinstance(given, str) or given not in get_args(kind)):
            raise UsageError(f"{name}: {_refusal(given, get_args(kind))}")
        if _is_value_or_word(kind) and (wrong := _no_value_or_word(given, kind)):
            raise UsageError(f"{name}: {wrong}")
        if _is_choice(kind) and not isinstance(given, get_args(kind)):
            parts = ", ".join(f"{part.__name__}()" for part in get_args(kind))
            raise UsageError(f"{name}: {given!r} is not a part; choose from {parts}")


@cache
def _hints(kind: type) -> dict[str, Any]:
    return {field.name: get_type_hints(kind)[field.name] for field in dataclasses.fields(kind)}


def size(text: str) -> tuple[int, int]:
    """224 or 224x320, height first."""
    match = re.fullmatch(r"(\d+)(?:x(\d+))?", text, re.ASCII)
    if not match:
        raise UsageError(f"'{text}' is no size: write 224, or 224x320 with the height first")
    return int(match[1]), int(match[2] or match[1])


def present(**values: Any) -> dict[str, Any]:
    """Those that were given, by name: None stands for what was not."""
    return {name: value for name, value in values.items() if value is not None}


def texts(**values: object) -> None:
    """Refuses what is neither a text nor a path, by name."""
    for name, value in values.items():
        if not isinstance(value, str | PathLike):
            raise UsageError(f"{name}: {shown(value)} is neither a text nor a path: give one of these")


def tables(**values: object) -> None:
    """Refuses what is no table of settings by dotted key, by name."""
    for name, value in values.items():
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            example = "{'optimizer.lr': 3e-4}"
            raise UsageError(f"{name}: {shown(value)} is no table of settings by their names: write one, as {example}")


def whole(**lists: Iterable[object]) -> None:
    """Refuses numbers that are not whole, by the name of their list."""
    for name, numbers in lists.items():
        for number in numbers:
            if not isinstance(number, Integral) or isinstance(number, bool):
                raise UsageError(f"{name}: {shown(number)} is not a whole number: write one, as 3")


def at_least(least: int, **numbers: int) -> None:
    """Refuses what is no whole number from `least` on, by name."""
    for name, number in numbers.items():
        whole(**{name: (number,)})
        if number < least:
            raise UsageError(f"{name} {number} is below {least}: choose a larger one")


def lists(**values: object) -> None:
    """Refuses what is no list, by name."""
    for name, value in values.items():
        if isinstance(value, str) or not isinstance(value, Iterable):
            raise UsageError(f"{name}: {shown(value)} {NO_LIST}")


def below_one(**numbers: float) -> None:
    """Refuses what is no share below one, by name."""
    for name, number in numbers.items():
        if not 0 <= number < 1:
            raise UsageError(f"{name} {number} is no share: choose one from 0 up to, but below, 1")


def nearest(name: str, names: Iterable[str]) -> str:
    """The end of a sentence that refuses `name`: the closest of the allowed names, or all, of very many the first."""
    names = list(names)
    folded = {other.lower(): other for other in names}
    found = [folded[near] for near in difflib.get_close_matches(name.lower(), folded, n=3, cutoff=0.5)]
    if not names:
        return "there is nothing to set here"
    if found:
        return f"did you mean {' or '.join(found)}?"
    more = f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else ""
    return f"there are {', '.join(names[:MOST_NAMES])}{more}"


def shown(value: object) -> str:
    """The value as it is written, or where that takes more than a few words its type."""
    text = repr(value)
    return text if len(text) <= LONGEST and text.isprintable() else type(value).__name__


def _rank(key: str) -> tuple[int, bool]:
    """A part first, then its kind, then what belongs to it."""
    return key.count("."), not key.endswith("kind")


def _spelt(before: Any, after: Any) -> Any:
    """A word for a part is short for a table with that kind, and tables are copied, since keys may follow into them."""
    if isinstance(before, dict) and "kind" in before and isinstance(after, str):
        return {"kind": after}
    return copy.deepcopy(after) if isinstance(after, Mapping) else after


def _descend(table: Table, path: list[str], key: str) -> Table:
    for name in path:
        if table.get(name) is None:
            table[name] = {}
        table = table[name]
        if not isinstance(table, dict):
            raise UsageError(f"{key} leads into {name}, which is a plain value; set {name} itself")
    return table


def _toml_value(key: str, text: str) -> Any:
    try:
        (value,) = tomllib.loads(f"value = {text}").values()
    except ValueError:
        if not text.startswith(OPENING):
            return text  # mean, 20k steps, blocks 2, a path
        raise UsageError(f"{key} = {text} is not a TOML value; quote a text, write a list as [1, 2]") from None
    return value


def _sentences(error: BaseException, path: str) -> Iterator[str]:
    if isinstance(error, BaseValidationError):
        for inner in error.exceptions:
            yield from _sentences(inner, path + _step(inner))
    elif isinstance(error, ForbiddenExtraKeysError):
        known = [field.name for field in dataclasses.fields(error.cl)] + ["kind"] * _is_part(error.cl)
        for name in sorted(error.extra_fields):
            yield f"{_join(path, name)} is not a setting; {nearest(name, known)}"
    elif isinstance(error, KeyError):
        yield f"{path.lstrip('.')} is missing"
    elif isinstance(error, AttributeError):  # it was asked for the items that a table has
        name = path.lstrip(".")
        yield f"{name} is no table of settings: write what it holds one by one, as {name}.key=value"
    else:
        yield f"{path.lstrip('.')}: {error}" if path else str(error)


def _step(error: BaseException) -> str:
    for note in getattr(error, "__notes__", ()):
        if isinstance(note, AttributeValidationNote):
            return f".{note.name}"
        if isinstance(note, IterableValidationNote):
            return f"[{note.index}]"
    return ""


def _join(path: str, name: str) -> str:
    return f"{path}.{name}".lstrip(".")


def _exactly(kind: type, word: str, advice: str) -> Callable[[Any, type], Any]:
    def hook(value: Any, _: type) -> Any:
        if kind is float and type(value) is int:
            return float(value)
        if type(value) is not kind:
            raise ValueError(f"{shown(value)} is not {word}: {advice}")
        return value

    return hook


def _pair(value: Any, _: type) -> tuple[int, int]:
    """Height and width; one number stands for both."""
    numbers = (value, value) if type(value) is int else tuple(value) if isinstance(value, list | tuple) else ()
    if len(numbers) != 2 or any(type(number) is not int for number in numbers):
        raise ValueError(f"{shown(value)} is not a whole number or a pair [height, width]: write 224, or [224, 320]")
    return numbers[0], numbers[1]


def _is_literal(kind: Any) -> bool:
    return get_origin(kind) is Literal


def _literal(value: Any, kind: Any) -> Any:
    if not isinstance(value, str) or value not in get_args(kind):
        raise ValueError(_refusal(value, get_args(kind)))
    return value


def _refusal(value: Any, words: Iterable[str]) -> str:
    near = nearest(str(value), words)
    advice = near if near.startswith("did you mean") else "choose one of these"  # all are named already
    return f"{value!r} is not one of {', '.join(words)}; {advice}"


def _is_part(kind: Any) -> bool:
    return dataclasses.is_dataclass(kind) and hasattr(kind, "kind")


def _is_choice(union: Any) -> bool:
    """Whether a type is a choice between dataclasses that carry a `kind`."""
    return len(get_args(union)) > 1 and all(_is_part(part) for part in get_args(union))


def _choose(union: Any) -> Callable[[Any, type], Any]:
    parts = {part.kind: part for part in get_args(union)}

    def hook(value: Any, _: type) -> Any:
        table = {"kind": value} if isinstance(value, str) else value  # pool = "mean" is short for { kind = "mean" }
        kind = table.get("kind") if isinstance(table, dict) else value
        if not isinstance(kind, str) or kind not in parts:
            raise ValueError(f"kind {_refusal(kind, parts)}")
        return _CONVERTER.structure(table, parts[kind])

    return hook


def _read_dataclass(into: Any) -> Callable[[Any, type], Any]:
    """A dataclass from a table; one with a `kind` takes that word too, and only its own."""
    plain = cattrs.gen.make_dict_structure_fn(into, _CONVERTER, _cattrs_forbid_extra_keys=True)

    def hook(value: Any, _: type) -> Any:
        table = {"kind": value} if isinstance(value, str) and _is_part(into) else value
        if not isinstance(table, Mapping):
            known = ", ".join(field.name for field in dataclasses.fields(into))
            raise ValueError(f"{value!r} is not a table of {known or 'its kind'}: write these one by one")
        if _is_part(into) and table.get("kind", into.kind) != into.kind:
            raise ValueError(f"kind {table['kind']!r} is not {into.kind}")
        return plain({key: inner for key, inner in table.items() if key != "kind" or not _is_part(into)}, into)

    return hook


def _is_value_or_word(kind: Any) -> bool:
    """`int | Literal["auto"]` or `bool | Literal["half"]`: a number or a switch, or a word that stands for one."""
    values = [part for part in get_args(kind) if not _is_literal(part)]
    return len(values) == 1 and values[0] in NAMED and len(get_args(kind)) > 1


def _value_or_word(value: Any, kind: Any) -> Any:
    if wrong := _no_value_or_word(value, kind):
        raise ValueError(wrong)
    return value


def _no_value_or_word(value: Any, kind: Any) -> str:
    """The sentence that refuses it, if it is neither."""
    words = [word for part in get_args(kind) if _is_literal(part) for word in get_args(part)]
    (other,) = (part for part in get_args(kind) if not _is_literal(part))
    if type(value) is other or value in words:
        return ""
    return f"{shown(value)} is not {NAMED[other]} or {' or '.join(words)}: write one of these"


def _is_sequence(kind: Any) -> bool:
    return get_origin(kind) is tuple and get_args(kind)[1:] == (Ellipsis,)


def _read_sequence(kind: Any) -> Callable[[Any, type], Any]:
    read_list = _CONVERTER.get_structure_hook(list[get_args(kind)[0]])  # type: ignore[misc]

    def hook(value: Any, _: type) -> Any:
        if not isinstance(value, list | tuple):
            raise ValueError(f"{value!r} {NO_LIST}")
        return tuple(read_list(value, kind))

    return hook


def _write_part(part: Any) -> Callable[[Any], Table]:
    plain = cattrs.gen.make_dict_unstructure_fn(part, _CONVERTER)
    return lambda value: {"kind": part.kind, **plain(value)}


_CONVERTER = cattrs.Converter(forbid_extra_keys=True)
_CONVERTER.register_structure_hook(int, _exactly(int, NAMED[int], "write one, as 3"))
_CONVERTER.register_structure_hook(float, _exactly(float, "a number", "write one, as 0.1 or 3e-4"))
_CONVERTER.register_structure_hook(str, _exactly(str, "a text", QUOTED))
_CONVERTER.register_structure_hook(bool, _exactly(bool, NAMED[bool], "write one of these"))
_CONVERTER.register_structure_hook_func(lambda kind: kind == tuple[int, int], _pair)
_CONVERTER.register_structure_hook_func(_is_literal, _literal)
_CONVERTER.register_structure_hook_func(_is_value_or_word, _value_or_word)
_CONVERTER.register_structure_hook_factory(_is_sequence, _read_sequence)
_CONVERTER.register_structure_hook_factory(dataclasses.is_dataclass, _read_dataclass)
_CONVERTER.register_structure_hook_factory(_is_choice, _choose)
_CONVERTER.register_unstructure_hook_factory(_is_part, _write_part)
