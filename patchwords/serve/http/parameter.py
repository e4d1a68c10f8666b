"""What may stand behind the question mark of an address: read strictly, and described in the same place."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import parse_qsl

from patchwords.errors import UsageError
from patchwords.settings import nearest

MOST = 1_000_000
MOST_FIELDS = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Parameter:
    """A whole number or a text; `needed` ones cannot be left out."""

    name: str
    says: str
    kind: Literal["integer", "string"] = "integer"
    least: int = 1
    otherwise: int | None = None
    needed: bool = False

    def read(self, text: str) -> int | str:
        if self.kind == "string":
            return text
        if not re.fullmatch(r"[0-9]{1,7}", text, re.ASCII) or not self.least <= int(text) <= MOST:
            raise UsageError(f"{self.name} {text[:40]!r} is no whole number from {self.least} to {MOST:,}")
        return int(text)

    @property
    def schema(self) -> dict[str, Any]:
        """As OpenAPI has it."""
        if self.kind == "string":
            return {"type": "string"}
        bounds = {"type": "integer", "minimum": self.least, "maximum": MOST}
        return bounds if self.otherwise is None else bounds | {"default": self.otherwise}


def read(query: bytes, known: Sequence[Parameter]) -> Mapping[str, Any]:
    """The values by name, with None for what was left out; unknown names and repeated ones are refused."""
    names = {parameter.name: parameter for parameter in known}
    found: dict[str, Any] = {}
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
    except ValueError:
        raise UsageError("what stands behind the question mark cannot be read: write name=value&name=value") from None
    for name, text in pairs:
        if name not in names:
            raise UsageError(f"{name[:40]!r} is no parameter here; {nearest(name[:40], names)}")
        if name in found:
            raise UsageError(f"{name} is given twice: give it once")
        found[name] = names[name].read(text)
    for parameter in known:
        if parameter.needed and parameter.name not in found:
            raise UsageError(f"{parameter.name} is missing: {parameter.says}")
    return {name: found.get(name, parameter.otherwise) for name, parameter in names.items()}
