"""`patchwords serve MODEL…`: models behind HTTP, with a page."""

import signal
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, cast
from urllib.parse import quote

import typer

from patchwords.cli.options import Device, Heads, Image, Json, Mirror, Offline, Quiet, pair
from patchwords.errors import UsageError
from patchwords.pages.markup import visible

if TYPE_CHECKING:
    from collections.abc import Mapping

    from patchwords.cli.output import Output
    from patchwords.serve.predictor import Predictor
    from patchwords.speed.precision import Working

OPEN = (
    "--host {} can be reached from other machines: give a token, in the environment variable PATCHWORDS_TOKEN or with "
)
OPEN += "--token, or leave it at 127.0.0.1"


def serve(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL",
            help="Run folders, weights files, names of `show zoo`; NAME=MODEL calls one otherwise than its run.",
        ),
    ],
    host: Annotated[str, typer.Option(help="The address to listen at; any but this machine's own needs --token.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8000,
    token: Annotated[
        str,
        typer.Option(
            envvar="PATCHWORDS_TOKEN",
            show_envvar=False,
            help="What clients must send as Authorization: Bearer TOKEN. Better in the environment variable "
            "PATCHWORDS_TOKEN, since others can see the words of a command.",
        ),
    ] = "",
    host_name: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME[:PORT]", help="A further name that leads here, as a proxy's; may be repeated."),
    ] = None,
    workers: Annotated[int, typer.Option(help="Threads that decode pictures.")] = 2,
    max_batch: Annotated[int, typer.Option(help="Pictures that a model is asked about at a time, at most.")] = 32,
    max_wait_ms: Annotated[
        float, typer.Option(help="Milliseconds that a picture waits, at most, for others that are being decoded.")
    ] = 5.0,
    queue: Annotated[int, typer.Option(help="Pictures that may wait; those that come then are answered 429.")] = 1024,
    connections: Annotated[int, typer.Option(help="Connections at a time.")] = 2048,
    max_body_mb: Annotated[float, typer.Option(help="The largest body of a request, in MB.")] = 10.0,
    image: Image = None,
    heads: Heads = None,
    device: Device = "auto",
    precision: Annotated[str, typer.Option(help="float32, bf16, int8 (on a CPU), fp16 or fp8 (on a GPU).")] = "float32",
    compiled: Annotated[bool, typer.Option("--compile", help="Compile the models first, which takes a while.")] = False,
    offline: Offline = False,
    mirror: Mirror = "",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Serve models over HTTP, with a page to try them on, until Ctrl-C or SIGTERM.

    What had come in by then is still answered. Nothing is fetched for a client, and nothing of a picture is kept.
    """
    _check_packages()
    from functools import partial

    from patchwords.cli.output import Output
    from patchwords.serve.http import server
    from patchwords.serve.http.app import app
    from patchwords.serve.http.guard import Guard, check_name, check_strength
    from patchwords.serve.http.limits import Limits
    from patchwords.serve.http.service import Service
    from patchwords.serve.http.shelf import Batching, named, split
    from patchwords.serve.predictor import Predictor
    from patchwords.weights import store

    output = Output(as_json, quiet)
    names = tuple(host_name or ())
    for name in names:
        check_name(name)
    if token:
        check_strength(token)
    limits = Limits(body=round(max_body_mb * 1_000_000), pictures=queue, connections=connections)
    batching = Batching(most=max_batch, wait=max_wait_ms / 1000)

    def opened(model: str) -> Predictor:
        with output.download(model) as progress:
            return Predictor(
                model,
                device=device,
                precision=cast("Working", precision),
                compiled=compiled,
                image=pair(image),
                heads=heads,
                batch=max_batch,
                fetch=partial(store.fetch, offline=offline, mirror=mirror, progress=progress),
            )

    with server.listen(host, port) as listening:  # before models are loaded, so that what is wrong is said soon
        if not token and not server.is_for_this_machine(listening):
            raise UsageError(OPEN.format(host))
        predictors = named([(name, opened(model)) for name, model in map(split, models)])
        service = Service(predictors, batching=batching, limits=limits, workers=workers)
        guard = Guard(host=host, port=listening.getsockname()[1], names=names, token=token)
        try:
            service.start()
            ready = partial(_say_ready, output, predictors, guard.address, bool(token))
            number = server.serve(app(service, guard), listening, limits, ready)
        finally:
            service.close()
    output.note(f"stopped by {'Ctrl-C' if number == signal.SIGINT else 'SIGTERM'}; what had come in was answered")
    raise typer.Exit(128 + number)


def _check_packages() -> None:
    if missing := [name for name in ("starlette", "uvicorn") if find_spec(name) is None]:
        raise UsageError(f"serve needs {' and '.join(missing)}: pip install 'patchwords[serve]'")


def _say_ready(output: "Output", predictors: "Mapping[str, Predictor]", address: str, with_token: bool) -> None:
    for predictor in predictors.values():
        for note in predictor.subject.notes:
            output.note(note)
    for name, predictor in predictors.items():
        height, width = predictor.card.preprocess.size
        output.text(f"{visible(name, keep='')}: {len(predictor.classes)} classes, {height}x{width} pixels")
    bearer = ' -H "Authorization: Bearer $PATCHWORDS_TOKEN"' if with_token else ""
    which = f"?model={quote(next(iter(predictors)))}" if len(predictors) > 1 else ""
    output.text(f"ready at {address} (a page to try it), {address}/docs (the routes); from a shell:")
    output.text(f"  curl{bearer} --data-binary @picture.jpg '{address}/predict{which}'")
    output.json({"kind": "ready", "address": address, "models": list(predictors)})
