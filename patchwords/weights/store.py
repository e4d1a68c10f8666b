"""The cache of published weights on this disk."""

import os
from pathlib import Path

from patchwords import download
from patchwords.errors import NetworkError, UsageError
from patchwords.settings import nearest
from patchwords.weights.zoo import ZOO, Entry


def fetch(
    name: str,
    *,
    offline: bool = False,
    mirror: str = "",
    cache: Path | None = None,
    progress: download.Progress | None = None,
) -> Path:
    """The local file of a zoo entry, verified; downloaded first where it is missing."""
    if name not in ZOO:
        raise UsageError(f"{name!r} is not the name of published weights; {nearest(name, ZOO)}")
    entry = ZOO[name]
    offline = offline or os.environ.get("PATCHWORDS_OFFLINE", "") not in ("", "0")
    address = download.mirrored(entry.address, mirror or os.environ.get("PATCHWORDS_MIRROR", ""))
    target = location(entry, cache)
    if target.exists():
        download.verify(target, entry.sha256)
    elif offline:
        raise NetworkError(
            f"{name} is not at {target} and nothing is downloaded offline: run once without offline, "
            f"or put the file of {entry.address} there by hand"
        )
    else:
        download.download(address, target, sha256=entry.sha256, progress=progress)
    return target


def location(entry: Entry, cache: Path | None = None) -> Path:
    """Where the file of an entry belongs."""
    return download.cache_root(cache) / "weights" / entry.name / entry.address.rsplit("/", 1)[1]
