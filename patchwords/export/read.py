"""An exported file as MODEL: opened once its bytes are those that were written, and hold nothing that does harm."""

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from patchwords.errors import ModelError, UsageError
from patchwords.export.libraries import require
from patchwords.export.program import Program
from patchwords.export.wish import Wish
from patchwords.weights import card as cards
from patchwords.weights.card import Card
from patchwords.weights.subject import Subject

if TYPE_CHECKING:
    import onnx

ENDINGS = (".onnx", ".pt2")
MOST_BYTES = 1 << 31  # protobuf knows no more
MUTE = 4  # onnxruntime says on stderr what it raises too
UNREAD = (
    "{} is for torch.export.load, which runs whatever code a file holds, so it is not opened here: export an .onnx "
)
UNREAD += "of the same model, and take that"


def is_program(given: object) -> bool:
    """Whether a MODEL is meant to be an exported file, by the end of its name."""
    return isinstance(given, str | Path) and Path(given).suffix in ENDINGS and not Path(given).is_dir()


def open_program(given: str | Path) -> Subject:
    """The program in a file with its card; a `.pt2` is refused."""
    path = Path(given)
    if path.suffix == ".pt2":
        raise UsageError(UNREAD.format(path.name))
    require("onnx", "onnxruntime")
    try:
        program = opened(_bytes(path))
    except ModelError as error:
        raise ModelError(f"{path} is not run: {error}") from error
    return Subject(path.stem, program, program.card)


def _bytes(path: Path) -> bytes:
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            raise ModelError("it is no file")
        if status.st_size >= MOST_BYTES:
            raise ModelError("it is larger than 2 GiB, which no ONNX file is")
        return path.read_bytes()
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist: look how it is spelled, or export a model to it") from None
    except OSError as error:
        raise ModelError(f"the file cannot be read ({error.strerror})") from error


def opened(data: bytes) -> Program:
    """The program in the bytes of a file."""
    import onnx

    from patchwords.export.guard import objection
    from patchwords.export.label import told, verify

    verify(data)
    try:
        model = onnx.load_model_from_string(data)
    except Exception as error:
        raise ModelError(f"it is no ONNX file ({type(error).__name__})") from error
    table, wish = told(model)
    card = cards.read(table)
    if harm := objection(model):
        raise ModelError(f"it holds {harm}, and no file of `patchwords export` does")
    _compare(model, card, wish)
    del model  # onnxruntime needs the room
    return Program(_session(data), card, wish, bytes.fromhex(table[cards.DIGEST]))


def _compare(model: "onnx.ModelProto", card: Card, wish: Wish) -> None:
    """The one input must be what the card speaks of, and there is one answer to a picture."""
    (height, width), channels = card.preprocess.size, card.model.channels
    sides = (0, 0) if wish.sizes == "any" else (height, width)
    wanted = [0, *sides, channels] if wish.input == "pixels" else [0, channels, *sides]  # 0: any number
    kind = 2 if wish.input == "pixels" else 1  # uint8, float
    given = [(each.name, each.type.tensor_type.elem_type, _sides(each)) for each in model.graph.input]
    answers = [len(_sides(each)) for each in model.graph.output]
    if given != [(wish.input, kind, wanted)] or answers != [2]:
        raise ModelError("what it takes and gives is not what its card says")


def _sides(value: "onnx.ValueInfoProto") -> list[int]:
    return [each.dim_value for each in value.type.tensor_type.shape.dim]


def _session(data: bytes) -> Any:
    import onnxruntime  # type: ignore[import-untyped]

    onnxruntime.disable_telemetry_events()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = MUTE
    options.intra_op_num_threads = torch.get_num_threads()
    try:
        return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        reason = str(error).partition("\n")[0]
        raise ModelError(f"onnxruntime cannot open it: {reason}") from error
