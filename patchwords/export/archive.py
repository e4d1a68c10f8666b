"""torch's graph as a .pt2 archive: numbers as they are, no pickle in it, and what it says of itself beside them."""

import io
from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.export import ExportedProgram

from patchwords.errors import ModelError
from patchwords.export.quiet import quiet


def archive(program: ExportedProgram, table: Mapping[str, str]) -> bytes:
    """The file; the pictures that the model was traced with would be pickled, and nobody needs them."""
    program.example_inputs = None
    buffer = io.BytesIO()
    with quiet():
        torch.export.save(program, buffer, extra_files=dict(table))
    return buffer.getvalue()


def reopened(data: bytes) -> Callable[[Tensor], Tensor]:
    """The module in an archive that was made here: one of a stranger's could run any code, and is never opened."""
    try:
        with quiet():
            module: Callable[[Tensor], Tensor] = torch.export.load(io.BytesIO(data)).module()
    except Exception as error:
        reason = str(error).partition("\n")[0]
        raise ModelError(f"torch cannot open what it wrote: {type(error).__name__} {reason}") from error
    return module
