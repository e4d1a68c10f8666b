"""All studies, by their names."""

from dataclasses import fields

from patchwords import settings
from patchwords.errors import UsageError
from patchwords.studies.experiment import Experiment
from patchwords.studies.experiments.data_size import DataSize
from patchwords.studies.experiments.head import Head
from patchwords.studies.experiments.optimizer import Optimizer
from patchwords.studies.experiments.positions import Positions
from patchwords.studies.experiments.resolution import Resolution
from patchwords.studies.experiments.scaling import Scaling
from patchwords.studies.experiments.self_supervision import SelfSupervision
from patchwords.studies.experiments.shape import Shape
from patchwords.studies.experiments.transfer import Transfer
from patchwords.studies.grid import Grid

EXPERIMENTS: dict[str, type[Experiment]] = {
    each.name: each
    for each in (
        DataSize,
        Scaling,
        Positions,
        Head,
        Shape,
        Optimizer,
        SelfSupervision,
        Resolution,
        Transfer,
    )
}


def find(name: str) -> type[Experiment]:
    if name not in EXPERIMENTS:
        raise UsageError(f"{name!r} is no study; {settings.nearest(name, EXPERIMENTS)}")
    return EXPERIMENTS[name]


def planned(name: str, grid: Grid) -> Experiment:
    """A study as a grid has it."""
    kind = find(name)
    for known in grid.study:
        find(known)
    if name not in grid.study:
        raise UsageError(f"the grid says nothing of {name}: add a table [study.{name}] to it, or choose another grid")
    study = settings.read(grid.study[name], kind)
    for axis in fields(study):
        values = getattr(study, axis.name)
        if isinstance(values, tuple) and not values:
            raise UsageError(f"{axis.name} of {name} is empty: say what the study is to vary")
    return study
