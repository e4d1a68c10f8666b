"""Section 4.1's few-shot accuracy of a cell's features: of its labelled pictures only those are seen that are drawn."""

from functools import partial
from pathlib import Path

import numpy as np

from patchwords.data.broken import Broken
from patchwords.data.sources.source import Data, Source, Subset
from patchwords.evaluation.answers import Answers, Compute, answers
from patchwords.evaluation.fewshot import fit, samples
from patchwords.training.watch import Watcher
from patchwords.weights.subject import Subject, open_subject

DRAWS = (0, 1, 2)


def few_shot(model: Path, data: Data, shots: int, compute: Compute, broken: float, watcher: Watcher) -> float:
    """The mean over three draws of the share of judging pictures that are named rightly."""
    subject = open_subject(model)
    drawn = [samples(data.train.labels, seed, shots) for seed in DRAWS]
    every = np.unique(np.concatenate(drawn))
    ask = partial(_vectors, subject, compute=compute, broken=broken, watcher=watcher)
    support, judging = ask(Subset(data.train, every)), ask(data.val)
    right = []
    for chosen in drawn:
        rows = np.isin(every[support.indices], chosen)
        solver = fit(support.outputs[rows], support.labels[rows], len(data.classes))
        right.append((solver.scores(judging.outputs).argmax(1) == judging.labels).mean())
    return float(np.mean(right))


def _vectors(subject: Subject, source: Source, *, compute: Compute, broken: float, watcher: Watcher) -> Answers:
    """The features of all pictures of a source, prepared as for the model itself."""
    model, card = subject.model.to(compute.device), subject.card
    progress = partial(watcher.working, "asking for features")
    left_out = Broken(broken, len(source), watcher.note)
    return answers(model.represent, source, card.preprocess, card.model.channels, compute, left_out, progress)
