"""Whether the service can answer, found out by running every model; many who ask at once share one look."""

import asyncio
import time
from typing import Any

from patchwords.serve.http.service import Service

FRESH = 1.0  # seconds for which a look is good enough for the next who asks


class Health:
    """The last look at the models, and the one that is going on."""

    def __init__(self, service: Service):
        self.service = service
        self.task: asyncio.Task[dict[str, str]] | None = None
        self.looked = -FRESH

    async def look(self) -> dict[str, str]:
        """What is wrong with each model, in a sentence; empty where nothing is."""
        if self.task is None or (self.task.done() and time.monotonic() - self.looked > FRESH):
            self.task = asyncio.create_task(self._look())
        return await asyncio.shield(self.task)  # one who goes away takes it from nobody

    async def _look(self) -> dict[str, str]:
        found = await asyncio.gather(*(self._run(name) for name in self.service.shelf))
        self.looked = time.monotonic()
        return {name: wrong for name, wrong in zip(self.service.shelf, found, strict=True) if wrong}

    async def _run(self, name: str) -> str:
        seconds = self.service.limits.check
        try:
            await asyncio.wait_for(asyncio.wrap_future(self.service.shelf[name].check()), seconds)
        except TimeoutError:
            return f"it did not answer within {seconds:g} seconds"
        except Exception as error:
            return str(error) or type(error).__name__
        return ""


def told(service: Service, wrong: dict[str, str]) -> dict[str, Any]:
    """The state of the service and of each model, for JSON."""
    models = {name: wrong.get(name, "ok") for name in service.shelf}
    return {"status": "leaving" if service.leaving else "failing" if wrong else "ok", "models": models}
