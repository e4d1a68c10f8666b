"""The files of an evaluation: every answer, the numbers, and the page that shows them."""

import csv
import io
import json
from pathlib import Path

import numpy as np

from patchwords.data.sources.source import Source
from patchwords.evaluation.judgement import Judgement
from patchwords.evaluation.report.evaluation import report
from patchwords.evaluation.result import NUMBERS, REPORT, Evaluation
from patchwords.pages.cells import cell
from patchwords.weights.files import writing


def record(evaluation: Evaluation, source: Source) -> None:
    """Writes all of them into the folder once all are made; the page comes last."""
    texts = {NUMBERS: _numbers(evaluation), REPORT: report(evaluation, source)}
    if evaluation.judgement:
        texts = {"predictions.csv": _rows(evaluation.judgement, source), **texts}
        _write_arrays(evaluation.folder / "predictions.npz", evaluation.judgement)
    for name, text in texts.items():
        _write(evaluation.folder / name, _text(text))


def _write(path: Path, content: bytes) -> None:
    with writing(path, len(content)) as aside:
        aside.write_bytes(content)


def _text(text: str) -> bytes:
    """A name that is no text keeps its bytes as an escape, which JSON reads back."""
    return text.encode("utf-8", "backslashreplace")


def _write_arrays(path: Path, judgement: Judgement) -> None:
    """Straight to the disk: the logits of many classes are large."""
    answers = judgement.answers
    with writing(path, answers.outputs.nbytes) as aside:
        np.savez(aside, logits=answers.outputs, labels=judgement.scores.labels, indices=answers.indices)


def _rows(judgement: Judgement, source: Source) -> str:
    """A line a picture: its name, its class, the predicted one and how sure that was."""
    text, scores = io.StringIO(newline=""), judgement.scores
    table = csv.writer(text, lineterminator="\n")
    table.writerow(("name", "true", "predicted", "probability"))
    columns = (judgement.answers.indices, scores.labels, scores.predicted, scores.confidence)
    for index, true, predicted, sure in zip(*(column.tolist() for column in columns), strict=True):
        words = (source.name(index), judgement.names[true], judgement.names[predicted])
        table.writerow((*map(cell, words), f"{sure:.6f}"))
    return text.getvalue()


def _numbers(evaluation: Evaluation) -> str:
    """A line a number, so that people can read it too."""
    lines = (
        f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False, allow_nan=False)}"
        for key, value in evaluation.numbers().items()
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"
