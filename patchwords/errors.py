"""What a user can cause and mend: a sentence (what was given, what is allowed, what to do) and an exit code a kind."""

from pathlib import Path


class PatchwordsError(Exception):
    """The command line prints the sentence and leaves with `exit_code`."""

    exit_code = 1


class UsageError(PatchwordsError):
    """A wrong name, setting or combination of settings."""

    exit_code = 2


class DataError(PatchwordsError):
    """A problem in the pictures or their labels."""

    exit_code = 3


class ModelError(PatchwordsError):
    """A problem in a model or a checkpoint."""

    exit_code = 4


class ResourceError(PatchwordsError):
    """Out of memory or disk."""

    exit_code = 5


class NonFiniteError(PatchwordsError):
    """The loss, a gradient or a weight became infinite or no number at all."""

    exit_code = 6


class NetworkError(PatchwordsError):
    """The network did not answer, answered something else, or was forbidden."""

    exit_code = 7


def refuse_below_file(path: Path) -> None:
    """What cannot be written since a part of its path is a file wants no room but another place."""
    if above := next((part for part in path.parents if part.is_file()), None):
        raise UsageError(f"{path} cannot be written, since {above} is a file and no folder: choose another place")


def in_words(error: Exception) -> tuple[str, int]:
    """The sentence for whatever went wrong, and the code that the command leaves with: 1 where it is a bug of ours."""
    match error:
        case PatchwordsError():
            return str(error), error.exit_code
        case OSError():
            what = f"{error.strerror or error}: {error.filename or 'the output could not be written'}"
            return what, ResourceError.exit_code
        case MemoryError():
            return "out of memory: choose a smaller model, picture or batch", ResourceError.exit_code
    return f"a bug: {type(error).__name__}: {error}; please report it with what --debug shows", 1
