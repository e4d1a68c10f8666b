"""`patchwords hub push|pull`: weights to the Hugging Face Hub, and from there."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchwords.cli.options import Json, Mirror, Offline, Quiet
from patchwords.errors import UsageError

if TYPE_CHECKING:
    from patchwords.cli.output import Output
    from patchwords.download import Progress

ACTIONS = ("push", "pull")


def hub(
    action: Annotated[str, typer.Argument(metavar="push|pull", help="Publish a model, or fetch one.")],
    source: Annotated[
        str, typer.Argument(metavar="FROM", help="push: a MODEL. pull: OWNER/NAME or OWNER/NAME@REVISION.")
    ],
    target: Annotated[str, typer.Argument(metavar="TO", help="push: OWNER/NAME. pull: the folder to write.")],
    private: Annotated[bool, typer.Option("--private", help="Make a new repository private. (push)")] = False,
    message: Annotated[str, typer.Option(help="What the commit says. (push)")] = "",
    offline: Offline = False,
    mirror: Mirror = "",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Push a model to the Hugging Face Hub, or pull one from it.

    `hub push MODEL OWNER/NAME` writes the folder of `export --to huggingface`, or where transformers has no such model
    a native file, with a model card, and uploads it. It needs pip install 'patchwords[hub]' and a login (hf auth login,
    or HF_TOKEN). `hub pull OWNER/NAME DIR` fetches safetensors and the texts beside them, never a pickle, to a folder
    that is a MODEL. HF_ENDPOINT names another hub or a mirror of it.
    """
    from patchwords.cli.output import Output
    from patchwords.settings import nearest

    if action not in ACTIONS:
        raise UsageError(f"hub {action!r} is neither push nor pull; {nearest(action, ACTIONS)}")
    output = Output(as_json, quiet)
    if action == "push":
        if mirror:
            raise UsageError("--mirror is for what is fetched: where to push to is said by HF_ENDPOINT")
        _push(output, source, target, private, message, offline)
    else:
        if private or message:
            raise UsageError(
                f"{'--private' if private else '--message'} is for hub push: nothing is written to the Hub"
            )
        _pull(output, source, Path(target), offline, mirror)


def _push(output: "Output", model: str, repository: str, private: bool, message: str, offline: bool) -> None:
    from functools import partial

    from patchwords.export.hub import check, push
    from patchwords.export.trained import trained
    from patchwords.weights import store

    check(repository, offline=offline)
    with output.download(model) as progress:
        subject = trained(model, None, None, partial(store.fetch, progress=progress))
    pushed = push(subject, repository, private=private, message=message)
    _note(output, [*subject.notes, *pushed.notes])
    files = list(pushed.files)
    output.json({"address": pushed.address, "library": pushed.library, "files": files, "notes": list(pushed.notes)})
    output.text(f"{pushed.address}: for {pushed.library}; {', '.join(files)}")


def _pull(output: "Output", repository: str, folder: Path, offline: bool, mirror: str) -> None:
    from contextlib import ExitStack

    from patchwords.weights.pull import pull

    with ExitStack() as bars:

        def progress(name: str) -> "Progress":
            """A bar for weights; texts are there at once."""
            large = name.endswith(".safetensors")
            return bars.enter_context(output.download(name)) if large else lambda done, total: None

        pulled = pull(repository, folder, offline=offline, mirror=mirror, progress=progress)
    notes = list(pulled.notes)
    if pulled.others:
        notes.append(f"{len(pulled.others)} other files were not fetched: {', '.join(pulled.others)}")
    _note(output, notes)
    output.json({"folder": str(folder), "commit": pulled.commit, "files": list(pulled.files), "notes": notes})
    output.text(f"{folder}: {repository}, state {pulled.commit[:12]}; {', '.join(pulled.files)}")


def _note(output: "Output", notes: list[str]) -> None:
    """Names in them were chosen by others."""
    from patchwords.pages.markup import visible

    for note in notes:
        output.note(visible(note, keep=""))
