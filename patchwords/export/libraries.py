"""The optional libraries of this room, asked for before any work is done."""

from importlib.util import find_spec

from patchwords.errors import UsageError


def require(*names: str) -> None:
    """Refuses what cannot be done without them."""
    if missing := [name for name in names if find_spec(name) is None]:
        raise UsageError(f"this needs {' and '.join(missing)}: pip install 'patchwords[onnx]'")
