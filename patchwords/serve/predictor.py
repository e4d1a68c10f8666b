"""`patchwords.Predictor`: a trained model that is asked about one picture, about many, or about a whole source."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from patchwords.data import workers
from patchwords.data.broken import Damage, why
from patchwords.data.loader import Loading, Pictures, Prepare, joined
from patchwords.data.picture import BrokenPictureError
from patchwords.data.sources.source import Pixels, Source
from patchwords.data.transforms import prepare
from patchwords.errors import DataError, ModelError, UsageError
from patchwords.evaluation.answers import Compute, ask
from patchwords.export.program import Program
from patchwords.export.read import is_program, open_program
from patchwords.inspection.sight import sight
from patchwords.serve.prediction import Kind, Prediction
from patchwords.serve.raw import Picture, is_one, name_of, raw
from patchwords.settings import at_least, check
from patchwords.speed.device import choose
from patchwords.speed.precision import Working
from patchwords.speed.prepare import ready
from patchwords.weights import store
from patchwords.weights.classless import towards_classes
from patchwords.weights.subject import Subject, open_trained

CHUNK = 16  # pictures that a process decodes at a time: few, so that the first answers come soon


@dataclass(frozen=True, kw_only=True, slots=True)
class Manner:
    """What a model is made ready for, once and before the first picture."""

    precision: Working = "float32"
    compiled: bool = False

    def __post_init__(self) -> None:
        check(self)


class Predictor:
    """Pictures in, predictions out, prepared as the weights' card says.

    `model` is a run folder, a weights file of any known format, the name of published weights, a file of
    `patchwords export`, or an opened Subject.
    After it is made nothing in it changes, so that threads may share one.
    """

    def __init__(
        self,
        model: str | Path | Subject,
        *,
        device: str = "auto",
        precision: Working = "float32",
        compiled: bool = False,
        image: int | tuple[int, int] | None = None,
        heads: int | None = None,
        batch: int = 64,
        fetch: Callable[[str], Path] = store.fetch,
    ) -> None:
        at_least(1, batch=batch)
        self.manner = Manner(precision=precision, compiled=compiled)
        self.subject = _subject(model, image, heads, fetch)
        exported = isinstance(self.subject.model, Program)
        place = _place_of_program(device, self.manner) if exported else choose(device)
        self.compute = Compute(device=place, batch=batch)
        self.card = self.subject.card
        self.model = self.subject.model.to(place).eval()
        self.function = (
            self.model if exported else ready(self.model, device=place, precision=precision, compiled=compiled)
        )
        self.classes = self.card.classes or tuple(f"class {number}" for number in range(self.card.model.classes))

    def __repr__(self) -> str:
        height, width = self.card.preprocess.size
        return f"Predictor({self.subject.name!r}, {len(self.classes)} classes, {height}x{width}, {self.compute.device})"

    def predict(self, picture: Picture, *, attention: bool = False, name: str = "") -> Prediction:
        """The answer for a path, the bytes of a file, a uint8 array (height, width, channels) or a Pillow image."""
        called = name or name_of(picture, "picture")
        try:
            seen = self.see(picture)
        except DataError as error:
            raise BrokenPictureError(f"{called} cannot be used: {why(called, error)}") from error
        (answer,) = self.answer([called], seen[None], attention=attention, pixels=True)
        return answer

    def predict_many(
        self, pictures: Iterable[Picture], *, attention: bool = False, pixels: bool = False
    ) -> Iterator[Prediction | Damage]:
        """Answers in the order of the pictures, a batch at a time; for one that cannot be used its name and the reason.

        `pixels` keeps what the model saw in the answer, as `attention` does too: much memory, if all answers are kept.
        """
        if is_one(pictures):
            raise UsageError(
                "predict_many takes a list of pictures, and one was given: use predict, or put it in a list"
            )
        numbered = enumerate(pictures)
        while some := list(islice(numbered, self.compute.batch)):
            names: list[str] = []
            images: list[Pixels] = []
            found: list[Damage | None] = []
            for number, picture in some:
                name = name_of(picture, f"picture {number}")
                try:
                    images.append(self.see(picture))
                    names.append(name)
                    found.append(None)
                except DataError as error:
                    found.append(Damage(name, why(name, error)))
            answers = iter(self.answer(names, images, attention=attention, pixels=pixels))
            yield from (damage or next(answers) for damage in found)

    def predict_source(
        self,
        source: Source,
        *,
        attention: bool = False,
        pixels: bool = False,
        loading: Loading | None = None,
        note: Callable[[str], None] = lambda _: None,
    ) -> Iterator[Prediction | Damage]:
        """The same for a source, in its order and bounded memory; other processes decode, unless there is little."""
        loading, start = loading or Loading(), 0
        for pictures in self._decoded(source, loading, note):
            kept, stop = set(pictures.indices.tolist()), start + len(pictures.indices) + len(pictures.damages)
            named = [source.name(number) for number in pictures.indices.tolist()]
            answers = iter(self.answer(named, pictures.images, attention=attention, pixels=pixels))
            damages = iter(pictures.damages)
            yield from (next(answers) if number in kept else next(damages) for number in range(start, stop))
            start = stop

    def see(self, picture: Picture) -> Pixels:
        """What the model will see of a picture, as evaluation prepares it: uint8 (channels, height, width)."""
        preprocess = self.card.preprocess
        return prepare(raw(picture, preprocess.orientation), preprocess, self.card.model.channels)

    def answer(
        self,
        names: Sequence[str],
        images: Sequence[Pixels] | Pixels,
        *,
        attention: bool = False,
        pixels: bool = False,
    ) -> list[Prediction]:
        """The answers for a batch of prepared pictures, each (channels, height, width)."""
        if not len(images):
            return []
        images = np.asarray(images)
        logits = ask(self.function, images, self.card.preprocess, self.compute)
        self._check_finite(names, logits)
        maps = self._maps(images, logits.argmax(1)) if attention else [None] * len(images)
        kept = [image.transpose(1, 2, 0).copy() if pixels or attention else None for image in images]
        rows = logits.cpu().numpy()
        return [
            Prediction(
                name=name,
                classes=self.classes,
                logits=row.copy(),
                loss=self.card.loss,
                pixels=view,
                attention=found,
                kind=self.kind,
            )
            for name, row, view, found in zip(names, rows, kept, maps, strict=True)
        ]

    @property
    def kind(self) -> Kind:
        """What `attention` is of: where the model looked, or what speaks for the class."""
        return "rollout" if self.model.shows == "gaze" else "evidence"

    def _decoded(self, source: Source, loading: Loading, note: Callable[[str], None]) -> Iterator[Pictures]:
        chunks = -(-self.compute.batch // CHUNK)
        size = self.compute.batch // chunks  # so that they never make more than a batch
        tasks = [np.arange(start, min(start + size, len(source))) for start in range(0, len(source), size)]
        processes = min(loading.processes(source), len(tasks)) if len(tasks) > 1 else 0
        work = Prepare(source, self.card.preprocess, self.card.model.channels)
        some: list[Pictures] = []
        for part in workers.ordered(work, tasks, workers=processes, timeout=loading.timeout, note=note):
            some.append(part)
            if len(some) == chunks:
                yield joined(some)
                some = []
        if some:
            yield joined(some)

    def _maps(self, images: NDArray[np.uint8], of: Tensor) -> list[Any]:
        """Where the model looked in each picture: asked of the model as it is written, in full precision."""

        def look(inputs: Tensor) -> Tensor:
            return torch.from_numpy(sight(self.model, inputs, of).maps)

        return list(ask(look, images, self.card.preprocess, self.compute).numpy())

    def _check_finite(self, names: Sequence[str], logits: Tensor) -> None:
        wrong = (~logits.isfinite().all(1)).nonzero().flatten().tolist()
        if wrong:
            raise ModelError(
                f"{self.subject.name} gives no finite numbers for {names[wrong[0]]}: the weights are spoiled, or "
                f"{self.manner.precision} is too narrow for them; try float32"
            )


def _place_of_program(device: str, manner: Manner) -> torch.device:
    """Where an exported file is run: as it is, by the processor."""
    if manner != Manner():
        raise UsageError("an exported file is run as it was exported: leave out --precision and --compile")
    if device not in ("auto", "cpu"):
        raise UsageError(f"device {device!r}: an exported file is run on the processor here, choose cpu or auto")
    return torch.device("cpu")


def _subject(
    model: str | Path | Subject, image: int | tuple[int, int] | None, heads: int | None, fetch: Callable[[str], Path]
) -> Subject:
    """The opened model, if it can predict anything."""
    if isinstance(model, Subject) or not is_program(model):
        subject = open_trained(model, image=image, heads=heads, fetch=fetch)
    elif image is not None or heads is not None:
        raise UsageError(f"{model} is an exported file, whose size is fixed: leave out --image and --heads")
    else:
        subject = open_program(model)
    if not subject.card.model.classes:
        raise ModelError(
            f"{subject.name} has no classes to predict, it ends with a vector: {towards_classes(subject.card.model)}"
        )
    return subject
