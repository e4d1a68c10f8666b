"""Options that several commands share."""

from pathlib import Path

import pytest

import patchwords
from patchwords.cli.options import numbers
from patchwords.errors import UsageError


def test_what_is_no_mirror_is_refused_though_nothing_is_downloaded(run, tmp_path: Path) -> None:
    patchwords.save(patchwords.build("ViT-Mu/16", image=32, classes=3), tmp_path / "m.safetensors")
    words = ("convert", str(tmp_path / "m.safetensors"), str(tmp_path / "m.npz"), "--mirror")
    answer = run(*words, "foo")
    assert answer.code == 2
    assert "mirror 'foo' is not host=base-url: write for example huggingface.co=https://hf-mirror.com" in answer.err
    assert run(*words, "a.example=https://b.example").code == 0


def test_a_list_of_numbers_is_read_in_its_kind() -> None:
    assert numbers("--knn", "1,5,10", int) == (1, 5, 10)
    assert numbers("--rates", "0.01, 3e-4", float) == (0.01, 3e-4)
    assert numbers("--rates", None, float) is None


@pytest.mark.parametrize(("text", "kind", "example"), [("1,,5", int, "1,5,10"), ("", float, "0.01,0.03")])
def test_what_is_no_list_of_numbers_is_refused_with_an_example(text: str, kind: type, example: str) -> None:
    with pytest.raises(
        UsageError, match=f"--rates '{text}' is no list of numbers: write them with commas, as {example}"
    ):
        numbers("--rates", text, kind)
