"""The end of a run: the best model, its answers on the validation pictures, and the report."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from patchwords.data.sources.source import Source
from patchwords.data.thumbnail import thumbnail
from patchwords.training.judge import Judge, Result
from patchwords.training.keeper import BEST, OBJECTIVE, RunKeeper
from patchwords.training.loop import Loop
from patchwords.training.report.page import write_report
from patchwords.training.run import checkpoint, durable
from patchwords.training.run.contents import write_tensors
from patchwords.training.signals import StoppedError
from patchwords.weights.load import write_native


def conclude(loop: Loop, keeper: RunKeeper, judge: Judge) -> Result:
    """Takes the best checkpoint's model, judges it, and writes the result; every process takes part."""
    best = loop.world.told(loop.state.best_in)  # the first process says so once it is saved
    assert best, "the last step was judged, so there is a best one"
    tensors = checkpoint.load(keeper.folder.checkpoints / best).tensors
    loop.objective.model.load_state_dict(tensors[BEST])
    found = judge.result()
    if found is None:
        number = loop.world.most(loop.wish.number)
        raise StoppedError(number, f"stopped after the last step; `{keeper.again}` writes the result and the report")
    if loop.world.leads:
        write_native(keeper.folder.path / "model.safetensors", keeper.card, dict(loop.objective.model.state_dict()))
        if owned := tensors.get(OBJECTIVE):
            write_tensors(keeper.folder.path / "objective.safetensors", owned)
        if found.answers:
            _write_predictions(keeper.folder.path / "predictions.npz", found.answers)
        keeper.folder.write_csv()
    return found


def tested(loop: Loop, keeper: RunKeeper, judge: Judge) -> Result | None:
    """The same model on the pictures that were put aside for a test, once, where there are any."""
    if judge.data.test is None:
        return None
    found = judge.result("test")
    if found is None:
        number = loop.world.most(loop.wish.number)
        raise StoppedError(number, f"stopped before the test; `{keeper.again}` makes it")
    return found


def report(folder: Path, source: Source) -> Path:
    """report.html, with small pictures of the validation set."""
    path = folder / "predictions.npz"
    if not path.is_file():  # without labels there is nothing to have been right or wrong about
        return write_report(folder, thumbnails=_thumbnails(source, range(len(source))))
    with np.load(path) as stored:
        numbers = stored["indices"]
    names = [source.name(int(index)) for index in numbers]
    return write_report(folder, thumbnails=_thumbnails(source, numbers), names=names)


def _thumbnails(source: Source, numbers: Any) -> Callable[[int], bytes]:
    return lambda place: thumbnail(source.picture(int(numbers[place])))


def _write_predictions(path: Path, answers: dict[str, Any]) -> None:
    text = io.BytesIO()
    np.savez(text, **answers)
    durable.replace(path, text.getvalue())
