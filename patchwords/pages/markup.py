"""HTML by construction: a text becomes markup only by being escaped, so no name can write a page."""

import html
import unicodedata
from collections.abc import Iterable
from typing import Final

LONGEST: Final = 90  # characters of a name that a reader still wants to see
VOID: Final = ("img", "meta")
OVERRIDES: Final = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"  # they turn the direction of what follows


class Markup(str):
    """Text that is HTML already; any other text is escaped where it meets one."""

    __slots__ = ()


def element(tag: str, *children: str, **attributes: str) -> Markup:
    """One element; `class_` is written class, and `aria_label` aria-label."""
    words = [f'{key.rstrip("_").replace("_", "-")}="{html.escape(visible(text))}"' for key, text in attributes.items()]
    start = f"<{' '.join([tag, *words])}>"
    return Markup(start if tag in VOID else f"{start}{together(children)}</{tag}>")


def together(parts: Iterable[str]) -> Markup:
    """Parts in a row; plain text among them is escaped."""
    return Markup("".join(part if isinstance(part, Markup) else html.escape(visible(part)) for part in parts))


def name(text: str) -> Markup:
    """A name that somebody else chose: isolated from its neighbours' direction, and cut in the middle if very long."""
    plain = visible(text, keep="")
    short = plain if len(plain) <= LONGEST else f"{plain[: LONGEST // 2]}…{plain[-LONGEST // 2 :]}"
    return element("bdi", short)


def visible(text: str, keep: str = "\n\t") -> str:
    """The same text with what cannot be seen, or cannot be written as UTF-8, spelled out."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(letter if letter in keep or _is_plain(letter) else f"\\u{ord(letter):04x}" for letter in text)


def _is_plain(letter: str) -> bool:
    return letter not in OVERRIDES and unicodedata.category(letter) not in ("Cc", "Cs", "Zl", "Zp")
