"""Oxford Flowers-102: jpg/image_00001.jpg and so on, with labels and the published parts in MATLAB's files."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchwords.data.sources.files import Files
from patchwords.data.sources.listing import listing
from patchwords.data.sources.names import Names
from patchwords.data.sources.parts import Part, assemble
from patchwords.data.sources.reading import reading
from patchwords.data.sources.source import Data
from patchwords.data.sources.split import Split
from patchwords.errors import DataError

PARTS: dict[Part, str] = {"train": "trnid", "val": "valid", "test": "tstid"}
NOTE = "the parts are the published ones; results of fine-tuning are often reported after learning from train and val"
CLASSES = tuple(  # in the publisher's order; the spelling is theirs
    """pink primrose, hard-leaved pocket orchid, canterbury bells, sweet pea, english marigold, tiger lily, moon orchid,
    bird of paradise, monkshood, globe thistle, snapdragon, colt's foot, king protea, spear thistle, yellow iris,
    globe-flower, purple coneflower, peruvian lily, balloon flower, giant white arum lily, fire lily, pincushion flower,
    fritillary, red ginger, grape hyacinth, corn poppy, prince of wales feathers, stemless gentian, artichoke,
    sweet william, carnation, garden phlox, love in the mist, mexican aster, alpine sea holly, ruby-lipped cattleya,
    cape flower, great masterwort, siam tulip, lenten rose, barbeton daisy, daffodil, sword lily, poinsettia,
    bolero deep blue, wallflower, marigold, buttercup, oxeye daisy, common dandelion, petunia, wild pansy, primula,
    sunflower, pelargonium, bishop of llandaff, gaura, geranium, orange dahlia, pink-yellow dahlia, cautleya spicata,
    japanese anemone, black-eyed susan, silverbush, californian poppy, osteospermum, spring crocus, bearded iris,
    windflower, tree poppy, gazania, azalea, water lily, rose, thorn apple, morning glory, passion flower, lotus,
    toad lily, anthurium, frangipani, clematis, hibiscus, columbine, desert-rose, tree mallow, magnolia, cyclamen,
    watercress, canna lily, hippeastrum, bee balm, ball moss, foxglove, bougainvillea, camellia, mallow,
    mexican petunia, bromelia, blanket flower, trumpet creeper, blackberry lily""".replace("\n    ", " ").split(", ")
)


def recognise(folder: Path) -> bool:
    files = ("imagelabels.mat", "setid.mat")
    return (folder / "jpg").is_dir() and all((folder / name).is_file() for name in files)


def read(folder: Path, settings: Split | None) -> Data:
    """The published parts: 1020 to learn from, 1020 for validation, 6149 for the test."""
    (labels,) = _numbers(folder / "imagelabels.mat", ["labels"])
    places = _numbers(folder / "setid.mat", list(PARTS.values()))
    present = set(listing(folder / "jpg").files)
    if labels.min() < 1 or labels.max() > len(CLASSES):
        raise DataError(f"{folder / 'imagelabels.mat'} has labels {labels.min()} to {labels.max()}, not 1 to 102")
    sources = {part: _source(folder, labels, numbers, present) for part, numbers in zip(PARTS, places, strict=True)}
    return assemble(folder.name, CLASSES, sources, settings, notes=[NOTE])


def _source(folder: Path, labels: NDArray[Any], numbers: NDArray[Any], present: set[str]) -> Files:
    if numbers.min() < 1 or numbers.max() > len(labels):
        raise DataError(
            f"{folder / 'setid.mat'} has pictures {numbers.min()} to {numbers.max()}, not 1 to {len(labels)}"
        )
    names = [f"image_{number:05}.jpg" for number in numbers.tolist()]
    if missing := [name for name in names if name not in present]:
        raise DataError(f"{folder / 'jpg'} lacks {len(missing)} of its pictures, as {missing[0]}: get it anew")
    return Files(folder, Names(f"jpg/{name}" for name in names), labels[numbers - 1] - 1)


def _numbers(path: Path, keys: list[str]) -> list[NDArray[Any]]:
    """Rows of whole numbers in a MATLAB file."""
    from scipy.io import loadmat  # type: ignore[import-untyped]

    with reading(path):
        table = loadmat(path, variable_names=keys)
        rows = [np.atleast_1d(np.squeeze(table[key])) for key in keys]
        if any(row.ndim != 1 or row.dtype.kind not in "iu" or not row.size for row in rows):
            raise DataError(f"{path} holds no rows of whole numbers called {', '.join(keys)}: get it anew")
        return [row.astype(np.int64) for row in rows]
