"""Whatever cannot be answered, as a status and a sentence; a bug as a number that finds it in the log again."""

import logging
import secrets
from collections.abc import Mapping

from starlette.responses import Response

from patchwords.errors import DataError, PatchwordsError, ResourceError, UsageError
from patchwords.serve.http.said import said

logger = logging.getLogger("patchwords")

OUT_OF_MEMORY = "out of memory: send fewer or smaller pictures at a time"


class Refused(Exception):  # noqa: N818  (it is no fault of the service)
    """A request that is not served, for a reason that its sender can read."""

    def __init__(self, status: int, sentence: str, headers: Mapping[str, str] | None = None):
        super().__init__(sentence)
        self.status, self.headers = status, headers


def refusal(error: Exception) -> Response:
    """The answer that stands for an error; only what nobody foresaw is logged."""
    match error:
        case Refused():
            return said({"error": str(error)}, error.status, error.headers)
        case DataError() | UsageError():
            return said({"error": str(error)}, 400)
        case ResourceError() | MemoryError():
            return said({"error": str(error) or OUT_OF_MEMORY}, 503)
        case PatchwordsError():
            return said({"error": str(error)}, 500)
    number = secrets.token_hex(4)
    logger.error("error %s in the service", number, exc_info=error)
    return said({"error": f"a bug, number {number} in the service's log; please report it"}, 500)
