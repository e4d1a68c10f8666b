"""Damaged files make their readers fail in every way there is; out of here comes one sentence that names the file."""

from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike, fspath

from patchwords.data.sources.names import printable
from patchwords.errors import DataError, PatchwordsError


@contextmanager
def reading(path: str | PathLike[str]) -> Iterator[None]:
    """Turns whatever goes wrong with a file inside into a DataError about it."""
    name = printable(fspath(path))
    try:
        yield
    except PatchwordsError:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise DataError(f"{name} cannot be read ({reason}): see that it is there and whole") from error
    except Exception as error:
        reason = f"{type(error).__name__} {error}".partition("\n")[0][:200].strip()
        raise DataError(f"{name} is damaged or no such file ({reason}): get it anew") from error
