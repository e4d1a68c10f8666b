"""A real headless Chromium before the real `patchwords serve`; nothing is installed, and without it tests skip.

What they are is gone with the file that used it: other tests count the processes that are left.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from patchwords.models.build import build
from patchwords.models.names import Config
from patchwords.weights.card import Card, fitted
from patchwords.weights.load import save

FLAGS = [
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
HOSTILE = "<img src=x onerror=alert(1)>"
CLASSES = ("daisy", "dandelion", "rose", HOSTILE, "tulip")
TOKEN = "a-token-that-is-long-enough-for-a-test"
WAIT = 20_000  # milliseconds on a busy machine


@pytest.fixture(scope="session")
def chromium() -> str:
    """The system's browser."""
    pytest.importorskip("playwright", reason="Playwright is not installed: pip install playwright")
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        pytest.skip(f"there is no browser: none of {', '.join(names)} is installed")
    return found


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    flags = FLAGS + (["--no-sandbox"] if os.geteuid() == 0 else [])
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=chromium, args=flags)
        yield found
        found.close()


@pytest.fixture(scope="session")
def model(
    small_configs: dict[str, Config], randomised: Callable[[nn.Module], nn.Module], tmp_path_factory: Any
) -> Callable[[str], Path]:
    """Writes a small model of one of the configurations."""
    folder = tmp_path_factory.mktemp("models")

    def write(name: str) -> Path:
        config, path = replace(small_configs[name], classes=len(CLASSES)), folder / f"{name}.safetensors"
        if not path.exists():
            torch.manual_seed(0)  # the page rounds attention: with other weights two places may come out alike
            card = fitted(Card(model=config), config, CLASSES)  # type: ignore[arg-type]
            save(randomised(build(config)), path, card)
        return path

    return write


@pytest.fixture(scope="session")
def photo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A picture with something in it."""
    rows, cols = np.mgrid[:60, :80]
    spot = 255 * np.exp(-((rows - 20) ** 2 + (cols - 50) ** 2) / 120)
    pixels = np.stack([spot, 2 * cols, 200 - 2 * rows], 2).astype(np.uint8)
    path = tmp_path_factory.mktemp("photos") / "a photo <b>.png"
    Image.fromarray(pixels).save(path)
    return path


@contextmanager
def served(*words: str, token: str = "") -> Iterator[str]:
    """The address of a service that runs as a person would start it."""
    command = [sys.executable, "-m", "patchwords", "serve", *words, "--port", "0", "--json", "--device", "cpu"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PATCHWORDS_TOKEN": token}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert line, process.stderr.read() if process.stderr else ""
            yield json.loads(line)["address"]
        finally:
            process.terminate()
            process.communicate(timeout=20)


@pytest.fixture(scope="module")
def service(chromium: str, model: Callable[[str], Path]) -> Iterator[str]:
    """Four models that show different things."""
    names = {"flowers": "plain", "stripes": "grey", "evidence": "resnet post", "nothing": "axial relative"}
    with served(*(f"{name}={model(config)}" for name, config in names.items())) as address:
        yield address


@pytest.fixture(scope="module")
def locked(chromium: str, model: Callable[[str], Path]) -> Iterator[str]:
    """A service that wants its token."""
    with served(str(model("plain")), token=TOKEN) as address:
        yield address


@dataclass
class Visit:
    """A page, and what it did that it should not."""

    page: Any
    home: str
    said: list[str] = field(default_factory=list)  # on the console
    asked: list[str] = field(default_factory=list)  # of the service: method and path
    elsewhere: list[str] = field(default_factory=list)

    def hear(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.said.append(message.text)

    def watch(self, request: Any) -> None:
        if request.url.startswith(f"{self.home}/"):
            self.asked.append(f"{request.method} {request.url.removeprefix(self.home).split('?')[0]}")
        elif not request.url.startswith(("data:", f"blob:{self.home}/")):
            self.elsewhere.append(request.url)

    def give(self, picture: Path) -> None:
        """A picture through the file input, until all of it is drawn."""
        self.page.set_input_files("#file", picture)
        self.settled()

    def settled(self) -> None:
        self.page.wait_for_selector("body.shown:not(.busy)", timeout=WAIT)

    def text(self, selector: str) -> str:
        found: str = self.page.inner_text(selector)
        return found

    def pixels(self, selector: str) -> str:
        """What a canvas shows."""
        found: str = self.page.evaluate("selector => document.querySelector(selector).toDataURL()", selector)
        return found


@pytest.fixture
def visit(browser: Any, request: pytest.FixtureRequest) -> Iterator[Callable[..., Visit]]:
    """Opens a page as somebody would; afterwards nothing may have been complained of, or asked of anybody else."""
    visits: list[Visit] = []

    def open_(address: str, **options: Any) -> Visit:
        defaults = {"locale": "en-GB", "reduced_motion": "reduce", "viewport": {"width": 1280, "height": 900}}
        page = browser.new_context(**{**defaults, **options}).new_page()
        home = address.rsplit("/", 1)[0] if address.startswith("file:") else address
        found = Visit(page, home)
        visits.append(found)
        page.on("console", found.hear)
        page.on("pageerror", lambda error: found.said.append(str(error)))
        page.on("request", found.watch)
        page.goto(address)
        return found

    yield open_
    for each in visits:
        each.page.context.close()
        assert each.elsewhere == []
        assert each.said == []
