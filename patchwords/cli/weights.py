"""MODEL arguments: a path, or a name of the zoo, which is fetched with a progress bar."""

from functools import partial

from patchwords.cli.output import Output
from patchwords.weights import store
from patchwords.weights.checkpoint import Checkpoint, open_checkpoint


def opened(
    source: str, output: Output, *, heads: int | None, image: tuple[int, int] | None, offline: bool, mirror: str
) -> Checkpoint:
    with output.download(source) as progress:
        fetch = partial(store.fetch, offline=offline, mirror=mirror, progress=progress)
        return open_checkpoint(source, heads=heads, image=image, fetch=fetch)
