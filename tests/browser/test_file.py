"""The page as a file, opened from a disk without any network."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import patchwords
from patchwords.serve.page import single as made
from patchwords.serve.page.single import write_page
from patchwords.serve.predictor import Predictor

from .conftest import WAIT, Visit


@pytest.fixture
def written(model: Callable[[str], Path], photo: Path, tmp_path: Path) -> Callable[..., str]:
    """The address of a page."""

    def write(config: str = "plain") -> str:
        predictor = Predictor(model(config), device="cpu")
        write_page(predictor, predictor.predict(photo), tmp_path / "page.html", 5)
        return (tmp_path / "page.html").as_uri()

    return write


def opened(visit: Callable[..., Visit], address: str, **options: Any) -> Visit:
    found = visit(address, offline=True, **options)
    found.page.wait_for_selector("#exhibit:not([hidden])", timeout=WAIT)
    return found


def test_a_page_from_a_file_shows_every_layer_and_head_and_patch(visit, written, photo: Path) -> None:
    found = opened(visit, written())
    assert found.text("#called") == photo.name
    assert found.page.locator("#file, #token").count() == 0
    seen = set()
    for layer in (1, 2):
        for head in (0, 1, 2):
            found.page.locator("#layer").fill(str(layer))
            found.page.locator(f"#heads input >> nth={head}").check()
            for number, cell in enumerate(found.page.locator("[role=gridcell]").all()[:3]):
                cell.focus()
                found.page.wait_for_selector(f"#attention canvas[data-shown='{layer}.{head}.{number}']")
                seen.add(found.pixels("#attention canvas"))
    assert len(seen) == 18
    assert [path for path in found.asked if not path.endswith("/page.html")] == []
    assert "All that you see is in this file" in found.text("footer")


def test_it_speaks_both_languages(visit, written) -> None:
    found = opened(visit, written(), locale="zh-CN")
    assert "这个图像块在关注什么" in found.text("main")
    found.page.click("[data-language=en]")
    assert "What this patch attends to" in found.text("main")


def test_one_layer_of_one_head_is_called_so(visit, small_configs: dict[str, Any], photo: Path, tmp_path: Path) -> None:
    patchwords.save(patchwords.build(replace(small_configs["plain"], depth=1, heads=1)), tmp_path / "m.safetensors")
    predictor = Predictor(tmp_path / "m.safetensors", device="cpu")
    write_page(predictor, predictor.predict(photo), tmp_path / "page.html", 5)
    found = opened(visit, (tmp_path / "page.html").as_uri(), locale="zh-CN")
    assert "1 层、每层 1 个注意力头" in found.text("#about")
    found.page.click("[data-language=en]")
    assert ", 1 layer of 1 head, 5 classes" in found.text("#about")


def test_a_page_that_keeps_means_says_so(visit, written, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made, "MOST_BYTES", 300)  # 2 layers of 12 by 12 patches
    found = opened(visit, written())
    assert "it holds the mean over the heads of each layer" in found.text("#attention-note")
    assert found.page.locator("#heads input").count() == 1
    assert "looks mostly at" in found.text("#looks")


@pytest.mark.parametrize("config", ["resnet post", "axial relative", "relative"])
def test_a_model_that_shows_less_has_a_page(visit, written, config: str) -> None:
    found = opened(visit, written(config))
    assert found.page.locator("#answers li").count() == 5
    assert found.page.is_visible("#attention") == (config == "relative")
