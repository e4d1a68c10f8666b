"""A model to the Hugging Face Hub, with a card: as transformers' folder where that holds it, else as a native file."""

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patchwords import __version__
from patchwords.errors import NetworkError, UsageError
from patchwords.export import huggingface
from patchwords.export.front_matter import Library
from patchwords.export.huggingface import UnsayableError
from patchwords.export.model_card import README, model_card
from patchwords.weights.load import save
from patchwords.weights.repository import WHOLE, Repository, endpoint
from patchwords.weights.subject import RANDOM, Subject

if TYPE_CHECKING:
    from huggingface_hub import HfApi

TOKEN = re.compile(r"hf_\w+|Bearer \S+")  # whatever else is repeated of an answer
CLIENTS = ("httpx", "httpx2")  # that huggingface_hub has had, the one or the other
LOGIN = "log in with `hf auth login`, or set HF_TOKEN to a token that may write"


@dataclass(frozen=True)
class Pushed:
    """Where it is now, in which form, and what a person should hear."""

    address: str
    library: Library
    files: tuple[str, ...]
    notes: tuple[str, ...]


def check(given: str, *, offline: bool) -> Repository:
    """What can be refused before a model is opened."""
    repository = Repository.read(given)
    if "@" in given:
        raise UsageError(f"{given}: what is pushed becomes the newest state of a repository; leave out the @ and after")
    if find_spec("huggingface_hub") is None:
        raise UsageError("this needs huggingface_hub: pip install 'patchwords[hub]'")
    if offline or os.environ.get("PATCHWORDS_OFFLINE", "") not in ("", "0"):
        raise NetworkError(
            f"nothing can be pushed to {repository.path} offline: `patchwords export MODEL DIR --to huggingface` "
            "writes the same folder, to be pushed later"
        )
    return repository


def push(subject: Subject, given: str, *, private: bool = False, message: str = "") -> Pushed:
    """One commit to OWNER/NAME, which is made if there is none; the token is the environment's or the login's."""
    repository = check(given, offline=False)
    if subject.card.source == RANDOM:
        raise UsageError(f"{subject.name} has random weights, which are not worth publishing: give a trained model")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / repository.name
        library, notes = _written(subject, folder, repository)
        files = tuple(sorted(path.name for path in folder.iterdir()))
        api = _api()
        with _explained(repository):
            if private:
                _refuse_open(api, repository)
            api.create_repo(repository.path, private=private, exist_ok=True)
            said = message or f"{subject.name}, by patchwords {__version__}"
            commit = api.create_commit(repository.path, _additions(folder, files), commit_message=said)
    return Pushed(f"{endpoint()}/{repository.path}/tree/{commit.oid}", library, files, tuple(notes))


def _written(subject: Subject, folder: Path, repository: Repository) -> tuple[Library, list[str]]:
    """The folder, in the one form or the other, with a card that names the repository."""
    try:
        notes = huggingface.write(subject, folder)
        library: Library = "transformers"
    except UnsayableError as error:
        folder.mkdir()
        save(subject.model, folder / WHOLE, subject.card)
        library, notes = "patchwords", [f"pushed as a native file, which patchwords alone reads: {error}"]
        notes += [] if subject.card.licence else [huggingface.UNLICENSED]
    (folder / README).write_text(model_card(subject, library, repository.path), encoding="utf-8")
    return library, notes


def _additions(folder: Path, files: tuple[str, ...]) -> list[Any]:
    from huggingface_hub import CommitOperationAdd

    return [CommitOperationAdd(path_in_repo=name, path_or_fileobj=folder / name) for name in files]


def _api() -> "HfApi":
    from huggingface_hub import HfApi, constants
    from huggingface_hub.utils.tqdm import disable_progress_bars

    constants.HF_HUB_DISABLE_TELEMETRY = True  # nobody is told what this machine runs
    disable_progress_bars()  # they would mix with what is said here
    return HfApi(endpoint=endpoint(), library_name="patchwords", library_version=__version__)


def _refuse_open(api: "HfApi", repository: Repository) -> None:
    """A repository that is there keeps who may see it, whatever is asked for now."""
    from huggingface_hub.errors import RepositoryNotFoundError

    try:
        is_open = not api.model_info(repository.path).private
    except RepositoryNotFoundError:
        return
    if is_open:
        raise UsageError(
            f"{repository.path} is there and open to everybody: make it private on its page, or take another"
        )


@contextmanager
def _explained(repository: Repository) -> Iterator[None]:
    """The client's errors as sentences, without the token."""
    from huggingface_hub.errors import HfHubHTTPError, LocalTokenNotFoundError, OfflineModeIsEnabled

    who = f"{repository.path} at {endpoint()}"
    try:
        yield
    except Exception as error:
        match _reason(error):
            case OfflineModeIsEnabled():
                sentence = f"nothing can be pushed to {who} while HF_HUB_OFFLINE is set: take it away"
            case LocalTokenNotFoundError():
                sentence = f"nothing can be pushed to {who} by nobody: {LOGIN}"
            case HfHubHTTPError() as refused:
                sentence = _refusal(who, refused.response)
            case ConnectionError() | TimeoutError() as reason:
                sentence = _silence(who, reason)
            case reason if type(reason).__module__.partition(".")[0] in CLIENTS:
                sentence = _silence(who, reason)
            case _:
                raise
        raise NetworkError(sentence) from error


def _reason(error: BaseException) -> BaseException:
    """What went wrong with an upload stands behind what the client says of it."""
    return error.__cause__ if type(error) is RuntimeError and error.__cause__ else error


def _silence(who: str, reason: BaseException) -> str:
    return f"{who} does not answer ({_plain(reason)}): try later, or look at HF_ENDPOINT"


def _refusal(who: str, response: Any) -> str:
    match response.status_code:
        case 401:
            return f"{who} does not know who is pushing (401): {LOGIN}"
        case 403 | 404:
            return f"{who} may not be written to by whoever is logged in ({response.status_code}): {LOGIN}"
        case code:
            reason = response.headers.get("x-error-message") or response.reason_phrase
            return f"{who} answers {code} {_plain(reason)}: try later"


def _plain(said: object) -> str:
    """The first line of it, without what looks like a token."""
    return TOKEN.sub("…", str(said).partition("\n")[0])
