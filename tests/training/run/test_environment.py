"""What a run was computed with: all of it is written down, and what changes bits is said on a resume."""

import json
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

import patchwords
from patchwords.training.run.environment import differences, environment


@pytest.fixture
def threads() -> Iterator[int]:
    """The number of threads, which a test may change."""
    before = torch.get_num_threads()
    yield before
    torch.set_num_threads(before)


def test_the_environment_names_versions_and_the_device() -> None:
    found = environment("cpu")
    assert json.loads(json.dumps(found)) == found
    assert found["patchwords"] == patchwords.__version__
    assert found["torch"] == torch.__version__
    assert found["pillow"] == version("pillow")
    assert found["device"].startswith("cpu, ")
    assert found["world_size"] == 1
    assert found["deterministic"] is False
    assert {"python", "numpy", "platform", "threads"} < found.keys()


def test_a_gpu_is_called_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"a GPU, number {device.index}")
    assert environment("cuda:1")["device"] == "cuda, a GPU, number 1"
    assert environment("mps")["device"] == "mps"


def test_the_number_of_processes_is_the_groups(tmp_path: Path) -> None:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    try:
        assert environment("cpu")["world_size"] == 1
    finally:
        dist.destroy_process_group()


def test_nothing_is_said_where_nothing_changed() -> None:
    now = environment("cpu")
    assert differences(now, environment("cpu")) == []
    assert differences(now | {"python": "3.99", "platform": "another", "deterministic": True}, now) == []


def test_other_threads_are_said(threads: int) -> None:
    before = environment("cpu")
    torch.set_num_threads(threads + 1)
    assert differences(before, environment("cpu")) == [
        f"the number of threads is {threads + 1} now and was {threads} before: the last bits of the result may differ"
    ]


@pytest.mark.parametrize("field", ["patchwords", "torch", "numpy", "pillow", "device", "threads", "world_size"])
def test_each_field_that_can_change_bits_is_said(field: str) -> None:
    now = environment("cpu")
    (sentence,) = differences(now | {field: "something else"}, now)
    assert f"{now[field]} now and was something else before" in sentence
    (sentence,) = differences({key: value for key, value in now.items() if key != field}, now)
    assert "was unknown before" in sentence
