"""`patchwords check DATA`: what is wrong with a data set."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from patchwords.cli.options import Json, Mirror, Offline, Quiet
from patchwords.errors import DataError

if TYPE_CHECKING:
    from patchwords.cli.output import Output
    from patchwords.data.check.findings import Findings


def check(
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="A folder of pictures, a list, an archive or a known set.")
    ],
    offline: Offline = False,
    mirror: Mirror = "",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Look for what is wrong with a data set, and change nothing.

    Errors (exit code 3): unreadable pictures, the same picture in two splits or under two labels.
    Warnings: near copies (saved again, resized, recoloured), odd shapes and sizes, uneven or doubtful classes.
    A folder without class folders is looked at too, as training without labels takes it.
    """
    from patchwords.cli.output import Output
    from patchwords.data.check.check import check as examine
    from patchwords.data.sources.door import open_data, open_pictures
    from patchwords.data.sources.split import Split

    output = Output(as_json, quiet)
    with output.download(data) as progress:
        try:
            opened = open_data(data, offline=offline, mirror=mirror, progress=progress)
        except DataError as error:  # which is no fault where nobody wants labels
            opened = open_pictures(data, split=Split(), offline=offline, mirror=mirror, progress=progress)
            output.note(f"no labels, which training without labels (mae, dino, beit) does not need: {error}")
    for note in opened.notes:
        output.note(note)
    with _bar(output) as advance:
        findings = examine(opened, depth="full", progress=advance, note=output.note)
    _tell(output, opened.name, findings)
    if findings.errors:
        raise typer.Exit(DataError.exit_code)


@contextmanager
def _bar(output: "Output") -> Iterator[Callable[[int, int], None]]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("looking at the pictures"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    silent = output.quiet or not output.talk.is_terminal
    with Progress(*columns, console=output.talk, disable=silent, transient=True, redirect_stdout=False) as progress:
        task = progress.add_task("")
        yield lambda done, total: progress.update(task, completed=done, total=total)


def _tell(output: "Output", name: str, findings: "Findings") -> None:
    from dataclasses import asdict

    from patchwords.cli.output import count
    from patchwords.data.check.findings import SHOWN

    numbers = {
        "errors": sum(each.count for each in findings.errors),
        "warnings": sum(each.count for each in findings.warnings),
    }
    for finding in findings.every:
        output.json(asdict(finding) | {"count": finding.count})
    summary = {"kind": "summary", "name": name, "pictures": findings.pictures, "classes": findings.classes}
    output.json(summary | numbers)
    rows = [(each.severity, _plain(each.what), count(each.count), _plain(each.examples())) for each in findings.every]
    if rows:
        output.table(("", "what", "how many", "for example"), rows)
        output.text("")
    parts = ", ".join(f"{count(pictures)} {split}" for split, pictures in findings.pictures.items())
    total = count(sum(findings.pictures.values()))
    found = ", ".join(f"{count(number)} {kind}" for kind, number in numbers.items())
    classes = f"{findings.classes} classes" if findings.classes else "no labels"
    output.text(f"{name}: {total} pictures ({parts}), {classes}; {found}; nothing was changed")
    if any(each.count > SHOWN for each in findings.every):
        output.note("--json lists all of them.")


def _plain(text: str) -> str:
    """Names of files may hold line breaks and commands to the terminal: those are written out."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
