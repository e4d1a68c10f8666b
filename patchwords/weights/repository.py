"""A repository of the Hugging Face Hub: how it is named, where it lies, and which of its files are weights for us."""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, urlsplit

from patchwords.errors import NetworkError, UsageError

ENDPOINT = "https://huggingface.co"
LOOPBACK = ("localhost", "127.0.0.1", "::1")
PART = re.compile(r"[A-Za-z0-9](?:[\w.-]{0,94}[A-Za-z0-9_-])?", re.ASCII)
REVISION = re.compile(r"[A-Za-z0-9_][\w./-]{0,199}", re.ASCII)
COMMIT = re.compile(r"[0-9a-f]{40}")
WHOLE, INDEX = "model.safetensors", "model.safetensors.index.json"
SHARD = re.compile(r"model-\d{5}-of-\d{5}\.safetensors")
TEXTS = ("config.json", "preprocessor_config.json", "README.md", "LICENSE", "LICENSE.md", "LICENSE.txt")
LARGEST_TEXT = 32 << 20  # bytes
HASHES = {"sha256": re.compile(r"[0-9a-f]{64}"), "blobId": COMMIT}


def endpoint() -> str:
    """The hub itself, or the mirror that the environment names for every program that knows it."""
    address = (os.environ.get("HF_ENDPOINT") or ENDPOINT).rstrip("/")
    parts = urlsplit(address)
    if parts.scheme != "https" and (parts.scheme != "http" or parts.hostname not in LOOPBACK):  # a token goes there
        raise UsageError(f"HF_ENDPOINT is {address}, which is not https: write for example https://hf-mirror.com")
    return address


def token() -> str:
    """Who asks, if the environment or a login (`hf auth login`) says so."""
    home = Path(os.environ.get("HF_HOME") or f"{os.environ.get('XDG_CACHE_HOME') or '~/.cache'}/huggingface")
    kept = Path(os.environ.get("HF_TOKEN_PATH") or home / "token").expanduser()
    said = (os.environ.get("HF_TOKEN") or (kept.read_text("utf-8") if kept.is_file() else "")).strip()
    if not (said.isascii() and said.isprintable()):
        raise UsageError(
            f"the token of HF_TOKEN or {kept} has letters that none has: log in again with `hf auth login`"
        )
    return said


def token_for(address: str) -> str:
    """The token, for the hub itself or what HF_ENDPOINT names; another mirror is never told."""
    return token() if address.startswith(f"{endpoint()}/") else ""


@dataclass(frozen=True)
class Repository:
    """OWNER/NAME, and which state of it: a branch, a tag or a commit."""

    owner: str
    name: str
    revision: str = "main"

    @classmethod
    def read(cls, text: str) -> Self:
        """From OWNER/NAME or OWNER/NAME@REVISION."""
        path, at, revision = text.partition("@")
        owner, slash, name = path.partition("/")
        wrong = [part for part in (owner, name) if not PART.fullmatch(part) or ".." in part or "--" in part]
        if wrong or not slash or name.endswith(".git"):
            raise UsageError(f"{text!r} is no repository of the Hub: write OWNER/NAME, as google/vit-base-patch16-224")
        if at and (not REVISION.fullmatch(revision) or ".." in revision):
            raise UsageError(f"{revision!r} is no revision: write a branch, a tag or a commit after the @")
        return cls(owner, name, revision or "main")

    @property
    def path(self) -> str:
        return f"{self.owner}/{self.name}"

    @property
    def listing(self) -> str:
        """The address of the list of its files."""
        return f"{endpoint()}/api/models/{self.path}/revision/{quote(self.revision, safe='')}"

    def address(self, commit: str, file: str) -> str:
        return f"{endpoint()}/{self.path}/resolve/{commit}/{quote(file, safe='')}"


@dataclass(frozen=True)
class File:
    """A file of a repository; a large one has a SHA-256, a small one the SHA-1 that git has of it."""

    name: str
    size: int
    sha256: str
    blob: str


@dataclass(frozen=True)
class Listing:
    """The files at a commit that are for us, and the names of the others."""

    commit: str
    files: tuple[File, ...]
    others: tuple[str, ...]


def read_listing(path: Path, repository: Repository) -> Listing:
    """What the Hub answers, which is believed in nothing: a name is a name of ours, or it is not used."""
    try:
        table = json.loads(path.read_bytes())
        commit, files = table["sha"], [_file(each) for each in table["siblings"]]
        if not COMMIT.fullmatch(commit):
            raise ValueError(f"the commit {commit!r}")
    except (OSError, ValueError, RecursionError, KeyError, TypeError) as error:
        raise NetworkError(
            f"the Hub's list of the files of {repository.path} cannot be understood ({error}): try later"
        ) from error
    if leaving := [file.name for file in files if _leaves(file.name)]:
        raise NetworkError(f"{repository.path} names a file {leaving[0]!r}, outside of its folder: nothing was fetched")
    wanted = _wanted({file.name for file in files})
    ours = [file for file in files if file.name in wanted]
    if large := [file for file in ours if file.name in (*TEXTS, INDEX) and file.size > LARGEST_TEXT]:
        raise NetworkError(f"{large[0].name} of {repository.path} has {large[0].size:,} bytes, and is only a text")
    return Listing(commit, tuple(ours), tuple(file.name for file in files if file.name not in wanted))


def _file(table: Mapping[str, Any]) -> File:
    large = table.get("lfs") or {}
    name, size = table["rfilename"], int(large["size"] if large else table["size"])
    sha256, blob = str(large.get("sha256", "")), str("" if large else table.get("blobId", ""))
    if not isinstance(name, str) or not (HASHES["sha256"].fullmatch(sha256) or HASHES["blobId"].fullmatch(blob)):
        raise ValueError(f"{name!r} without a hash")
    return File(name, size, sha256, blob)


def _leaves(name: str) -> bool:
    return name.startswith("/") or "\\" in name or "\0" in name or ".." in name.split("/")


def _wanted(names: set[str]) -> set[str]:
    """One file of weights, or an index and its parts; what explains them; never a pickle."""
    texts = names & set(TEXTS)
    if WHOLE in names:
        return texts | {WHOLE}
    return texts | (names & {INDEX}) | {name for name in names if INDEX in names and SHARD.fullmatch(name)}
