"""The end of a run: the best model, its answers on the validation pictures, and the report."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from patchwords.data.sources.source import Source
from patchwords.data.thumbnail import thumbnail
from patchwords.evaluation.classify import Scores, classify
from patchwords.training.assemble import Judgement
from patchwords.training.evaluate import Answers
from patchwords.training.keeper import BEST, RunKeeper
from patchwords.training.loop import Loop
from patchwords.training.report.page import write_report
from patchwords.training.run import checkpoint, durable
from patchwords.training.signals import StoppedError
from patchwords.weights.load import write_native


def conclude(loop: Loop, keeper: RunKeeper, judgement: Judgement) -> Scores:
    """Takes the best checkpoint's model, judges it, and writes the result; every process takes part."""
    best = loop.world.told(loop.state.best_in)  # the first process says so once it is saved
    assert best, "the last step was judged, so there is a best one"
    tensors = checkpoint.load(keeper.folder.checkpoints / best).tensors
    loop.objective.model.load_state_dict(tensors[BEST])
    found = judgement.answers()
    if found is None:
        number = loop.world.most(loop.wish.number)
        raise StoppedError(number, f"stopped after the last step; `{keeper.again}` writes the result and the report")
    logits, labels, numbers = found
    scores = _scores(found, judgement)
    if loop.world.leads:
        write_native(keeper.folder.path / "model.safetensors", keeper.card, dict(loop.objective.model.state_dict()))
        _write_predictions(keeper.folder.path / "predictions.npz", logits, labels, numbers)
        keeper.folder.write_csv()
    return scores


def tested(loop: Loop, keeper: RunKeeper, judgement: Judgement) -> Scores | None:
    """The same model on the pictures that were put aside for a test, once, where there are any."""
    if judgement.setting.data.test is None:
        return None
    found = judgement.answers("test")
    if found is None:
        number = loop.world.most(loop.wish.number)
        raise StoppedError(number, f"stopped before the test; `{keeper.again}` makes it")
    return _scores(found, judgement)


def _scores(found: Answers, judgement: Judgement) -> Scores:
    logits, labels, _ = found
    return classify(logits, labels, loss=judgement.setting.recipe.objective.loss)


def report(folder: Path, source: Source) -> Path:
    """report.html, with small pictures of the validation set."""
    with np.load(folder / "predictions.npz") as stored:
        numbers = stored["indices"]
    names = [source.name(int(index)) for index in numbers]
    return write_report(folder, thumbnails=_thumbnails(source, numbers), names=names)


def _thumbnails(source: Source, numbers: Any) -> Callable[[int], bytes]:
    return lambda place: thumbnail(source.picture(int(numbers[place])))


def _write_predictions(path: Path, logits: Any, labels: Any, indices: Any) -> None:
    text = io.BytesIO()
    np.savez(text, logits=logits, labels=labels, indices=indices)
    durable.replace(path, text.getvalue())
