"""A small model with names, and pictures of every kind of pixel."""

import asyncio
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from torch import nn

from patchwords.models.build import build
from patchwords.models.names import Config
from patchwords.serve.http.app import app
from patchwords.serve.http.guard import Guard
from patchwords.serve.http.service import Service
from patchwords.serve.predictor import Predictor
from patchwords.weights.card import Card, fitted
from patchwords.weights.subject import Subject

FLOWERS = ("daisy", "dandelion", "rose", "sunflower", "tulip")


@pytest.fixture
def subject(small_configs: dict[str, Config], randomised: Callable[[nn.Module], nn.Module]) -> Callable[..., Subject]:
    """A model of one of the small configurations, opened."""

    def open_(config: str = "plain", classes: tuple[str, ...] = FLOWERS, **card: Any) -> Subject:
        chosen = small_configs[config]
        chosen = replace(chosen, classes=len(classes)) if classes else chosen
        model = randomised(build(chosen)).eval()
        return Subject(config, model, replace(fitted(Card(model=chosen), chosen, classes), **card))  # type: ignore[arg-type]

    return open_


@pytest.fixture
def predictor(subject: Callable[..., Subject]) -> Predictor:
    return Predictor(subject(), device="cpu", batch=4)


def noise(seed: int, height: int = 40, width: int = 52) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


@pytest.fixture(scope="session")
def kinds() -> dict[str, bytes]:
    """Files of every kind that has its trap: palette, alpha, grey, 16 bits, CMYK, turned by the camera."""
    image = Image.fromarray(noise(0))
    clear = image.copy()
    clear.putalpha(Image.fromarray(noise(1)[:, :, 0]))
    turned = Image.Exif()
    turned[0x0112] = 6
    return {
        "rgb.png": encoded(image, "PNG"),
        "rgb.jpg": encoded(image, "JPEG"),
        "turned.jpg": encoded(image, "JPEG", exif=turned.tobytes()),
        "turned.png": encoded(image, "PNG", exif=turned.tobytes()),
        "turned.tif": encoded(image, "TIFF", tiffinfo={0x0112: 6}),
        "cmyk.jpg": encoded(image.convert("CMYK"), "JPEG"),
        "grey.png": encoded(image.convert("L"), "PNG"),
        "bits.png": encoded(image.convert("1"), "PNG"),
        "sixteen.png": encoded(Image.fromarray(noise(2)[:, :, 0].astype(np.uint16) * 257), "PNG"),
        "palette.gif": encoded(image.convert("P"), "GIF"),
        "palette.png": encoded(image.quantize(16), "PNG", transparency=3),
        "alpha.png": encoded(clear, "PNG"),
        "alpha.webp": encoded(clear, "WEBP", lossless=True),
        "grey-alpha.png": encoded(clear.convert("LA"), "PNG"),
        "rgb.tif": encoded(image, "TIFF"),
        "rgb.bmp": encoded(image, "BMP"),
    }


@pytest.fixture
def files(kinds: dict[str, bytes], tmp_path: Path) -> Path:
    """All of them in a folder."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    for name, data in kinds.items():
        (folder / name).write_bytes(data)
    return folder


@dataclass(frozen=True)
class Heard:
    """What came back over HTTP."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@pytest.fixture
def service(predictor: Predictor) -> Iterator[Service]:
    """A service of one model, which is called plain."""
    service = Service({"plain": predictor})
    service.start()
    yield service
    service.close()


@pytest.fixture
def send(service: Service) -> Callable[..., Heard]:
    """`send("POST", "/predict?top=1", body)` asks the service without a network."""

    def send(method: str, address: str, *chunks: bytes, guard: Guard | None = None, **headers: str) -> Heard:
        path, _, query = address.partition("?")
        told = {"host": "localhost:8000", "content-length": str(sum(map(len, chunks)))}
        told |= {name.replace("_", "-"): text for name, text in headers.items()}
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": query.encode(),
            "headers": [(name.encode(), text.encode()) for name, text in told.items() if text != "none"],
        }
        messages: list[dict[str, Any]] = [
            {"type": "http.request", "body": chunk, "more_body": number < len(chunks)}
            for number, chunk in enumerate(chunks or (b"",), 1)
        ]
        said: list[Any] = []

        async def receive() -> dict[str, Any]:
            return messages.pop(0)

        async def hear(message: Any) -> None:
            said.append(message)

        front = app(service, guard or Guard(host="127.0.0.1", port=8000))
        asyncio.run(front(scope, receive, hear))
        found = {name.decode(): text.decode() for name, text in said[0]["headers"]}
        return Heard(said[0]["status"], found, b"".join(message["body"] for message in said[1:]))

    return send
