"""Small pictures and folders of them."""

import io
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from PIL import Image

Tree = Callable[[Mapping[str, int]], Path]


@pytest.fixture(scope="session")
def picture() -> bytes:
    """The bytes of a picture file."""
    file = io.BytesIO()
    Image.new("RGB", (4, 3), (200, 100, 50)).save(file, "PNG")
    return file.getvalue()


@pytest.fixture
def tree(tmp_path: Path, picture: bytes) -> Tree:
    """Makes a data folder: so many pictures in each of these folders."""

    def make(counts: Mapping[str, int]) -> Path:
        folder = tmp_path / "photos"
        for name, count in counts.items():
            (folder / name).mkdir(parents=True, exist_ok=True)
            for number in range(count):
                (folder / name / f"{number:03}.png").write_bytes(picture)
        return folder

    return make
