"""The page as one file: complete, closed to everything else, and safe whatever things are called."""

import base64
import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from patchwords.serve.page import single as made
from patchwords.serve.page.single import joined, single, write_page
from patchwords.serve.predictor import Predictor
from patchwords.weights.subject import Subject

BAD = "</script><img src=x onerror=alert(1)><!--\u2028\u202e\"'&"


@pytest.fixture
def predictor(subject: Callable[..., Subject]) -> Predictor:
    return Predictor(subject(), device="cpu")


def page(predictor: Predictor, name: str = "photos/a.png", top: int = 5) -> str:
    height, width = predictor.card.preprocess.size
    pixels = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return single(predictor, predictor.predict(pixels, name=name), top)


def known(markup: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        re.findall(r'<script type="application/json" id="kept">(.*?)</script>', markup)[0]
    )
    return found


def test_the_policy_names_the_script_and_the_style_and_nothing_else(predictor: Predictor) -> None:
    markup = page(predictor)
    (policy,) = re.findall(r'Content-Security-Policy" content="(.*?)">', markup)
    for tag, kind in (('<script type="module">', "script"), ("<style>", "style")):
        (inside,) = re.findall(rf"{tag}(.*?)</{kind}>", markup, flags=re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none'; img-src data:;")


def test_no_other_file_is_needed(predictor: Predictor) -> None:
    markup = page(predictor)
    assert re.findall(r'(?:src|href)="(?!data:|#)', markup) == []
    assert not re.search(r"^\s*(import|export) ", joined(), flags=re.MULTILINE)


def test_what_takes_pictures_in_is_left_out(predictor: Predictor) -> None:
    markup = page(predictor)
    assert 'id="intake"' not in markup
    assert 'id="token"' not in markup
    assert "fetch(" not in markup


def test_it_holds_all_that_can_be_pointed_at(predictor: Predictor) -> None:
    found = known(page(predictor, top=3))
    assert found["kept"] == "heads"
    assert [len(heads) for heads in found["attention"]] == [2, 2]
    assert found["attention"][1][0]["rows"] == found["positions"]["cols"] == 12
    assert len(found["found"]["predictions"]) == 3
    assert found["found"]["picture"].startswith("data:image/png;base64,")


@pytest.mark.parametrize(
    ("most", "kept", "heads"), [(577, "heads", [2, 2]), (575, "means", [1, 1]), (287, "nothing", [])]
)
def test_a_larger_model_keeps_less(predictor: Predictor, monkeypatch, most: int, kept: str, heads: list[int]) -> None:
    monkeypatch.setattr(made, "MOST_BYTES", most)  # 2 layers of 2 heads of 12 by 12 patches
    found = known(page(predictor))
    assert (found["kept"], [len(layer) for layer in found["attention"]]) == (kept, heads)


@pytest.mark.parametrize("config", ["resnet post", "swin", "axial relative", "relative"])
def test_a_model_that_shows_less_has_a_page_too(subject: Callable[..., Subject], config: str) -> None:
    found = known(page(Predictor(subject(config), device="cpu")))
    assert bool(found["attention"]) == (config == "relative")
    assert found["positions"] is None


def test_names_can_neither_end_the_script_nor_write_the_page(subject: Callable[..., Subject]) -> None:
    predictor = Predictor(subject(classes=(BAD, "a", "b", "c", "\udcff")), device="cpu")
    markup = page(predictor, name=BAD.replace("/", "\\"))
    assert markup.count("</script>") == 2
    assert "<img src=x" not in markup
    labels = {each["label"] for each in known(markup)["found"]["predictions"]}
    assert labels == {BAD, "a", "b", "c", "\udcff"}
    markup.encode()  # it can be written


def test_the_folder_of_the_picture_is_not_told(predictor: Predictor) -> None:
    assert "secret" not in (markup := page(predictor, name="/home/secret/tulip.jpg"))
    assert known(markup)["name"] == "tulip.jpg"


def test_it_is_written_whole(predictor: Predictor, tmp_path: Path) -> None:
    answer = predictor.predict(np.zeros((20, 20, 3), dtype=np.uint8))
    write_page(predictor, answer, tmp_path / "new" / "a.html", 5)
    assert (tmp_path / "new" / "a.html").read_text("utf-8") == single(predictor, answer, 5)
