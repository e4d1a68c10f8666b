"""Weights from the Hugging Face Hub: the files that are allowed, checked, to the cache, and from there to a folder."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import quote

from patchwords import download
from patchwords.errors import ModelError, NetworkError, UsageError
from patchwords.weights import files
from patchwords.weights.checkpoint import open_checkpoint
from patchwords.weights.repository import INDEX, WHOLE, File, Listing, Repository, endpoint, read_listing, token_for

PRIVATE = (401, 403, 404)  # the Hub does not say which repositories there are that one may not see

UNLISTED = "try later, name a mirror in HF_ENDPOINT or PATCHWORDS_MIRROR, or take with --offline what came before"


@dataclass(frozen=True)
class Pulled:
    """What came: the state it is of, the files, those that were left, and what a person should hear of the model."""

    commit: str
    files: tuple[str, ...]
    others: tuple[str, ...]
    notes: tuple[str, ...]


def pull(
    given: str,
    folder: Path,
    *,
    offline: bool = False,
    mirror: str = "",
    cache: Path | None = None,
    progress: Callable[[str], download.Progress] = lambda name: lambda done, total: None,
) -> Pulled:
    """A repository's weights as a folder that is a MODEL; OWNER/NAME or OWNER/NAME@REVISION."""
    repository = Repository.read(given)
    if folder.exists():
        raise UsageError(f"{folder} exists already: choose another name, or remove it first")
    offline = offline or os.environ.get("PATCHWORDS_OFFLINE", "") not in ("", "0")
    mirror = mirror or os.environ.get("PATCHWORDS_MIRROR", "")
    place = download.cache_root(cache) / "hub" / repository.owner / repository.name
    listing = _listing(repository, place, offline, mirror)
    if not {WHOLE, INDEX} & {file.name for file in listing.files}:
        raise ModelError(
            f"{repository.path} has no {WHOLE} and no {INDEX}, and nothing else is fetched, a pickle (.bin, .pth) "
            "least of all: ask its owner for safetensors"
        )
    for file in listing.files:
        _fetch(repository, listing.commit, file, place, offline, mirror, progress)
    with files.writing(folder, sum(file.size for file in listing.files)) as aside:
        aside.mkdir()
        for file in listing.files:
            shutil.copyfile(place / listing.commit / file.name, aside / file.name)
        notes = _understood(aside, repository)
    return Pulled(listing.commit, tuple(file.name for file in listing.files), listing.others, notes)


def _listing(repository: Repository, place: Path, offline: bool, mirror: str) -> Listing:
    """What the Hub says of a revision now, which is kept for when there is no network."""
    kept = place / "revisions" / f"{quote(repository.revision, safe='')}.json"
    if offline:
        if not kept.is_file():
            raise NetworkError(
                f"{repository.path}@{repository.revision} was never fetched to {place}, and nothing is downloaded "
                "offline: run once without offline"
            )
        return read_listing(kept, repository)
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place) as aside:
        new = Path(aside) / "listing.json"
        with _explained(repository, UNLISTED):
            address = download.mirrored(repository.listing, mirror)
            download.download(f"{address}?blobs=true", new, token=token_for(address))
        listing = read_listing(new, repository)
        os.replace(new, kept)
    return listing


def _fetch(
    repository: Repository,
    commit: str,
    file: File,
    place: Path,
    offline: bool,
    mirror: str,
    progress: Callable[[str], download.Progress],
) -> None:
    """One file to the cache; what is there already is checked again."""
    target = place / commit / file.name
    if target.exists():
        download.verify(target, file.sha256)
    elif offline:
        raise NetworkError(
            f"{file.name} of {repository.path} is not in {target.parent}, and nothing is downloaded offline: run once "
            "without offline"
        )
    else:
        address = download.mirrored(repository.address(commit, file.name), mirror)
        with _explained(repository):
            bar, who = progress(file.name), token_for(address)
            download.download(address, target, sha256=file.sha256, token=who, progress=bar)
    if target.stat().st_size != file.size or (file.blob and _blob(target) != file.blob):
        target.unlink()
        raise NetworkError(
            f"{file.name} of {repository.path} is not what the Hub's list says of it ({file.size:,} bytes): deleted; "
            "try again, or another mirror"
        )


def _blob(path: Path) -> str:
    """git's name for the contents of a file."""
    data = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


@contextmanager
def _explained(repository: Repository, advice: str = "") -> Iterator[None]:
    """Says of a repository what the Hub's answer means, and of its list what to do without it."""
    try:
        yield
    except NetworkError as error:
        cause, who = error.__cause__, f"{repository.path}@{repository.revision}"
        if isinstance(cause, HTTPError) and cause.code in PRIVATE:
            raise NetworkError(
                f"{endpoint()} answers {cause.code} for {who}: there is no such repository or revision, or it is not "
                "for you; look how it is spelled, and whether its page asks for a login (HF_TOKEN) or for consent"
            ) from error
        if advice:
            raise NetworkError(f"{endpoint()} does not tell the files of {who} ({cause or error}): {advice}") from error
        raise


def _understood(folder: Path, repository: Repository) -> tuple[str, ...]:
    """Refuses what no verb could open, and tells what had to be assumed."""
    try:
        return tuple(open_checkpoint(folder, depth="shapes").notes)
    except ModelError as error:
        raise ModelError(f"{repository.path} is no model that is known here: {error}") from error
