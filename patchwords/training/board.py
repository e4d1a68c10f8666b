"""The metrics for TensorBoard, beside the run's own files."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from patchwords.errors import UsageError
from patchwords.training.run.folder import PLACE


def summary_writer() -> Any:
    """TensorBoard's class, if it is there."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise UsageError("--tensorboard needs a package: pip install 'patchwords[tensorboard]'") from None
    return SummaryWriter


def board(folder: Path) -> Callable[[dict[str, Any]], None]:
    """Writes the numbers of a line of metrics as scalars named train/loss, val/accuracy and so on."""
    writer = summary_writer()(str(folder / "tensorboard"))

    def write(row: dict[str, Any]) -> None:
        for name, value in row.items():
            if isinstance(value, int | float) and name not in PLACE:  # it has a time of its own beside every scalar
                writer.add_scalar(f"{row['kind']}/{name}", value, row["step"])
        writer.flush()

    return write
