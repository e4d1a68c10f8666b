"""Public data sets in the cache: brought once, checked, unpacked, and read from there."""

import os
from dataclasses import replace
from pathlib import Path

from patchwords import download
from patchwords.data.sources.archive import is_archive, unpack
from patchwords.data.sources.public import PUBLIC
from patchwords.data.sources.source import Data
from patchwords.data.sources.split import Split
from patchwords.errors import DataError, ModelError, NetworkError


def read(
    name: str,
    settings: Split | None,
    *,
    offline: bool = False,
    mirror: str = "",
    progress: download.Progress | None = None,
    cache: Path | None = None,
) -> Data:
    """A public data set; what is missing is downloaded first."""
    public = PUBLIC[name]
    place = location(name, cache)
    folder = place / "unpacked" if any(map(is_archive, public.files)) else place
    if folder == place or not folder.is_dir():
        files = [_fetch(name, file, place, offline, mirror, progress) for file in public.files]
        if folder != place:
            unpack(files, folder)
    data = public.read(folder / public.folder, settings)
    return replace(data, name=name, classes=public.classes or data.classes)


def location(name: str, cache: Path | None = None) -> Path:
    """Where the files of a public data set belong."""
    return download.cache_root(cache) / "data" / name


def _fetch(name: str, file: str, place: Path, offline: bool, mirror: str, progress: download.Progress | None) -> Path:
    """One file of a data set, as it was published."""
    sha256 = PUBLIC[name].files[file]
    address = f"{PUBLIC[name].address}/{file}"
    target = place / file
    if target.exists():
        try:
            download.verify(target, sha256)
        except ModelError as error:  # the sentence fits; here it is data
            raise DataError(str(error)) from error
    elif offline or os.environ.get("PATCHWORDS_OFFLINE", "") not in ("", "0"):
        raise NetworkError(
            f"{name} is not at {target} and nothing is downloaded offline: run once without offline, "
            f"or put the file of {address} there by hand"
        )
    else:
        mirror = mirror or os.environ.get("PATCHWORDS_MIRROR", "")
        download.download(download.mirrored(address, mirror), target, sha256=sha256, progress=progress)
    return target
