"""The vectors that a model's classifier sees, for every picture once, and kept for the next time they are asked for."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from patchwords import __version__, settings
from patchwords.data.broken import Broken, Damage
from patchwords.data.loader import Prepare
from patchwords.data.picture import BrokenPictureError
from patchwords.data.preprocess import Preprocess
from patchwords.data.sources.source import Source
from patchwords.download import cache_root
from patchwords.errors import ModelError, PatchwordsError
from patchwords.evaluation.answers import Compute, Progress, answers
from patchwords.evaluation.keeping import prune, used
from patchwords.pages.wording import plural
from patchwords.weights import card as cards
from patchwords.weights import files
from patchwords.weights.subject import Subject

KEY = "patchwords.features"  # in the metadata: what the vectors are of, and which pictures were broken
MOST = 8 << 30  # bytes of the folder where they are kept: ImageNet's training pictures, as two ViT-B/16 see them
EVERY = 256  # pictures between two signs of progress while they are read


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Features:
    """The vectors of all pictures that could be read, in the order of the source."""

    vectors: NDArray[np.float32]  # (n, width)
    labels: NDArray[np.int64]
    indices: NDArray[np.int64]  # the pictures' numbers in the source

    def subset(self, rows: NDArray[Any]) -> "Features":
        return Features(vectors=self.vectors[rows], labels=self.labels[rows], indices=self.indices[rows])


def protocol(preprocess: Preprocess) -> Preprocess:
    """How the few-shot protocol prepares pictures: squashed to 256x256, then the middle 224x224; other sizes alike."""
    return replace(preprocess, fit="centre", crop=0.875, interpolation="bilinear")


def features(
    subject: Subject,
    source: Source,
    preprocess: Preprocess,
    compute: Compute,
    broken: Broken,
    reading: Progress,
    progress: Progress,
    *,
    cache: Path | None = None,
) -> Features:
    """The vectors of a source, from the cache where the same model saw the very same pictures in the same way.

    Whether they are the same is known when all are read, which is work of its own with its own progress.
    """
    count = len(source)
    identity = _identity(subject, source, preprocess, compute, lambda done: reading(done, count))
    reading(count, count)
    path = cache_root(cache) / "features" / f"{identity}.safetensors"
    found = _recall(path, identity, source, broken)
    if found is None:
        found = _compute(subject, source, preprocess, compute, broken, progress)
        _keep(path, identity, found, Prepare(source, preprocess, subject.card.model.channels), broken)
    else:
        progress(count, count)
    return found


def _compute(
    subject: Subject, source: Source, preprocess: Preprocess, compute: Compute, broken: Broken, progress: Progress
) -> Features:
    model = subject.model.to(compute.device)
    found = answers(model.represent, source, preprocess, subject.card.model.channels, compute, broken, progress)
    if len(wrong := np.flatnonzero(~np.isfinite(found.outputs).all(1))):
        name = source.name(int(found.indices[wrong[0]]))
        raise ModelError(
            f"the vectors of {len(wrong)} pictures are not finite, the first of them that of {name}: "
            "try precision float32, or look whether the weights are whole"
        )
    return Features(vectors=found.outputs, labels=found.labels, indices=found.indices)


def _identity(
    subject: Subject, source: Source, preprocess: Preprocess, compute: Compute, progress: Callable[[int], None]
) -> str:
    """SHA-256 over the model, how it is asked, every picture's name, label and bytes; empty if one is out of reach."""
    asked = [__version__, subject.digest, settings.write(preprocess), compute.precision, compute.device.type]
    total = hashlib.sha256(json.dumps(asked, sort_keys=True).encode())
    for index in range(len(source)):
        try:
            raw = source.picture(index)
        except (BrokenPictureError, OSError):  # whoever decodes it says so
            return ""
        content = raw if isinstance(raw, bytes) else np.ascontiguousarray(raw).data
        shape = "" if isinstance(raw, bytes) else f"{raw.dtype} {raw.shape}"
        row = f"\n{source.name(index)}\0{source.labels[index]}\0{shape}\0{len(raw)}\n"
        total.update(row.encode("utf-8", "surrogateescape"))
        total.update(content)
        if index % EVERY == 0:
            progress(index)
    return total.hexdigest()


def _recall(path: Path, identity: str, source: Source, broken: Broken) -> Features | None:
    """What was kept, if it is there and whole; what was broken then is broken now, since it is the same."""
    try:
        if not identity or not path.is_file():
            return None
        contents = files.read(path)
        text = contents.metadata.get(KEY, "{}")
        if cards.digest(text, contents.tensors) != contents.metadata.get(cards.DIGEST):
            raise ModelError(f"{path} is damaged")
        told = json.loads(text)
        if told["identity"] != identity:
            raise ModelError(f"{path} holds other features than its name says")
    except (PatchwordsError, OSError) as error:
        broken.note(f"the features that were kept cannot be used, and are computed again: {error}")
        return None
    used(path)
    broken.add(Damage(name, reason) for name, reason in told["broken"])
    vectors, indices = contents.tensors["vectors"].numpy(), contents.tensors["indices"].numpy()
    return Features(vectors=vectors, labels=source.labels[indices], indices=indices)


def _keep(path: Path, identity: str, found: Features, work: Prepare, broken: Broken) -> None:
    """Writes what was found for the next time; that it cannot be written is said, and no reason to stop."""
    missing = np.setdiff1d(np.arange(len(work.source)), found.indices)
    if not identity or len(work(missing).labels):  # a file out of reach, for a moment perhaps, is not broken for ever
        broken.note("the features are not kept for the next time, since some pictures are out of reach")
        return
    names = [work.source.name(int(index)) for index in missing]
    text = json.dumps({"identity": identity, "broken": [[name, broken.found[name]] for name in names]})
    tensors = {"vectors": torch.from_numpy(found.vectors), "indices": torch.from_numpy(found.indices)}
    try:
        files.write(path, tensors, {"format": "pt", KEY: text, cards.DIGEST: cards.digest(text, tensors)})
        if removed := prune(path, MOST):
            said = f"what was not asked for the longest was removed ({plural(removed, 'file')})"
            broken.note(f"{path.parent} stays below {MOST >> 30} GiB: {said}")
    except (PatchwordsError, OSError) as error:
        broken.note(f"the features are not kept for the next time: {error}")
