"""The service without its words: bytes of a picture to its answer, through decoding threads and the models' lanes."""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from patchwords.data.sources.source import Pixels
from patchwords.serve.http.limits import Limits
from patchwords.serve.http.room import Room
from patchwords.serve.http.shelf import Batching, Shelf, Shelved
from patchwords.serve.http.tally import Tally
from patchwords.serve.http.upload import Upload
from patchwords.serve.prediction import Prediction
from patchwords.serve.predictor import Predictor
from patchwords.serve.queue.turns import Turns
from patchwords.settings import at_least

T = TypeVar("T")

FULL = "{} are waiting already, which is as many as there may be: try again in a second"


class Service:
    """Models, decoding threads, and room for what waits; started before the first question, closed after the last."""

    def __init__(
        self,
        predictors: Mapping[str, Predictor],
        *,
        batching: Batching | None = None,
        limits: Limits | None = None,
        workers: int = 2,
    ):
        at_least(1, workers=workers)
        self.limits, self.tally, self.turns = limits or Limits(), Tally(), Turns()
        self.shelf = Shelf(predictors, self.turns, batching or Batching(), self.tally.heard)
        self.decoders = ThreadPoolExecutor(workers, "decoding")
        self.bodies = Room(self.limits.bodies, FULL.format(f"{self.limits.bodies:,} bytes"))
        self.pictures = Room(self.limits.pictures, FULL.format(f"{self.limits.pictures:,} pictures"))
        self.questions = Room(self.limits.questions, FULL.format(f"{self.limits.questions:,} questions"))
        self.leaving = False  # what is here is answered, and nothing that comes later
        rooms = {"bodies": self.bodies, "pictures": self.pictures, "questions": self.questions}
        self.tally.watch(rooms, {name: model.pictures for name, model in self.shelf.items()})

    def start(self) -> None:
        """Asks every model once, so that the first client does not wait."""
        self.turns.start()
        for model in self.shelf.values():
            model.warm()

    def close(self) -> None:
        """Ends the threads, after what they are doing."""
        self.decoders.shutdown(cancel_futures=True)
        self.turns.stop()

    async def predict(self, model: Shelved, picture: bytes, upload: Upload) -> Prediction:
        """Together with others that wait for the same model; the upload's bytes are released once it is decoded."""
        answer: Future[Prediction] = Future()
        model.pictures.expect()
        self.decoders.submit(_see, model, picture, upload, answer)
        return await asyncio.wrap_future(answer)

    async def see(self, model: Shelved, picture: bytes) -> Pixels:
        """What the model will see of a picture."""
        return await self.aside(lambda: model.predictor.see(picture))

    async def ask(self, model: Shelved, question: Callable[[], T]) -> T:
        """Whatever takes a model longer than a class, in the models' own thread."""
        return await asyncio.wrap_future(model.questions.put(question))

    async def aside(self, work: Callable[[], T]) -> T:
        """Work that needs no model, in one of the decoding threads."""
        return await asyncio.get_running_loop().run_in_executor(self.decoders, work)


def _see(model: Shelved, picture: bytes, upload: Upload, answer: "Future[Prediction]") -> None:
    try:
        seen = model.predictor.see(picture)
    except Exception as error:
        model.pictures.lose()
        answer.set_exception(error)
    else:
        model.pictures.put(seen, answer)
    finally:
        upload.release()
