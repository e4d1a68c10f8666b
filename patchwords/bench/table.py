"""Rows as cells of text, for a terminal and for Markdown."""

from collections.abc import Callable, Iterable, Sequence

from patchwords.bench.row import EPOCH, Row

GIB = 1 << 30
SETTING = 4  # of the columns say what was measured, the others what was found
HEADS = (
    *("bench", "model", "batch", "image", "who", "precision", "images/s", "ms", "±", "ratio"),
    *("ceiling", "memory", "prepared in"),
)
LABELS: dict[str, tuple[str, Callable[[float], str]]] = {  # what only some benches tell
    "apart": ("logits apart", lambda value: f"{value:.0e}"),
    "wait": ("wait", lambda value: f"{value:.2f} ms"),
    "agreement": ("agreement", lambda value: f"{100 * value:.2f} %"),
    "epoch": ("whole epoch", lambda value: f"{value:,.0f}"),
    "steady": ("steady", lambda value: f"{value:,.0f}"),
    "resident": ("resident", lambda value: f"{value:,.0f}"),
    "busy": ("busy", lambda value: f"{100 * value:.1f} %"),
    "tokens": ("tokens", lambda value: f"{value:,.0f}"),
    "loss": ("loss", lambda value: f"{value:.4f}"),
    "memory": ("memory ratio", lambda value: f"{value:.2f}"),
}


def cells(rows: Iterable[Row]) -> tuple[list[str], list[list[str]]]:
    """Heads and rows; without columns in which nobody has anything, and without what `caption` says of all."""
    every = list(rows)
    told = [key for key in LABELS if any(key in one.further for one in every)]
    heads = [*HEADS, *(LABELS[key][0] for key in told)]
    table = [[*_usual(one), *(_further(one, key) for key in told)] for one in every]
    shown = [i for i in range(len(heads)) if any(line[i] for line in table) and i not in _alike(table)]
    return [heads[i] for i in shown], [[line[i] for i in shown] for line in table]


def caption(rows: Iterable[Row]) -> str:
    """What all rows have in common: of which bench, model, batch and picture they are."""
    table = [_usual(one) for one in rows]
    return ", ".join(table[0][i] if i < 2 else f"{HEADS[i]} {table[0][i]}" for i in _alike(table) if table[0][i])


def _alike(table: Sequence[Sequence[str]]) -> list[int]:
    return [i for i in range(SETTING) if len({line[i] for line in table}) == 1]


def markdown(heads: Sequence[str], table: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *table]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def best(one: Row) -> tuple[str, float] | None:
    """The fastest rival in the same precision, or in any if none has it, and how many times as fast ours is."""
    every = {name: ratio for name, ratio in one.ratios.items() if not name.endswith(f" {EPOCH}")}
    same = {name: ratio for name, ratio in every.items() if name.endswith(f" {one.precision}")}
    return min((same or every).items(), key=lambda item: item[1], default=None)


def _usual(one: Row) -> list[str]:
    rival = best(one)
    return [
        one.bench,
        one.model,
        f"{one.batch}",
        "x".join(map(str, one.image)),
        one.named,
        one.precision,
        f"{one.images_per_second:,.0f}" if one.images_per_second >= 100 else f"{one.images_per_second:.2f}",
        f"{one.milliseconds:.2f}",
        f"{100 * one.spread:.1f} %" if one.spread else "",
        f"{rival[1]:.2f} x {rival[0]}" if rival else "",
        f"{100 * one.ceiling:.1f} %" if one.ceiling is not None else "",
        f"{one.memory / GIB:.2f} GiB" if one.memory is not None else "",
        f"{one.preparing:.1f} s" if one.preparing else "",
    ]


def _further(one: Row, key: str) -> str:
    return LABELS[key][1](one.further[key]) if key in one.further else ""
