"""Every kernel of Triton's is one that a compiler for a GPU takes, wherever the tests run."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("triton", reason="Triton is not installed")

HERE = Path(__file__).resolve()
PACKAGE = HERE.parents[3] / "patchwords"


pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU: the kernels run on it")
Compiled = dict[str, dict[str, int]]
AT_HOME = 99 << 10  # bytes of shared memory that a program may have there


def made_of_every_kernel(place: Path, capability: int) -> Compiled:
    environment = os.environ | {"TRITON_CACHE_DIR": str(place), "PYTHONPATH": str(PACKAGE.parent)}
    del environment["TRITON_INTERPRET"]
    words = [sys.executable, str(HERE.with_name("compiling.py")), str(capability)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found: Compiled = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    """What the compiler made of every kernel for a Hopper."""
    return made_of_every_kernel(tmp_path_factory.mktemp("compiled"), 90)


def test_every_kernel_compiles_for_a_gpu(compiled: Compiled) -> None:
    launched = {
        f"{file.stem}.{kernel}"
        for file in [*PACKAGE.rglob("*_triton.py"), *PACKAGE.rglob("*_gluon.py")]
        for kernel in re.findall(r"^ *(_\w+)\[\(?\w+", file.read_text("utf-8"), re.MULTILINE)
    }
    assert len(launched) >= 15
    assert compiled.keys() == launched
    assert all(told["programs"] for told in compiled.values())


def test_programs_of_attention_share_a_multiprocessor(compiled: Compiled) -> None:
    assert compiled["short_triton._forward"]["programs"] >= 3
    assert compiled["short_triton._backward_keys"]["programs"] >= 2
    assert compiled["short_triton._backward_queries"]["programs"] >= 3


def test_attentions_products_are_on_their_way_on_a_hopper(compiled: Compiled) -> None:
    """Without registers enough the compiler would wait for every one, or keep in memory what is needed at once."""
    told = compiled["short_gluon._backward"]
    assert compiled["short_gluon._forward"]["programs"] >= 3
    assert told["programs"] >= 2
    assert told["waits"] <= told["asked"] + 2
    assert told["spilled"] <= 64


@pytest.mark.parametrize("kernel", ["windowed_triton._forward", "norm_triton._backward", "gelu_triton._backward"])
def test_what_is_loaded_ahead_is_on_its_way_while_a_program_works(kernel: str, compiled: Compiled) -> None:
    """Of two stages the next block is asked for behind the work on this one, and waited for at once."""
    assert compiled[kernel]["ahead"] > 0


def test_a_gpu_at_home_has_room_for_all_but_attentions_way_back(tmp_path: Path) -> None:
    """That is left to the library there."""
    made = made_of_every_kernel(tmp_path, 89)
    large = {name for name, told in made.items() if told["shared"] > AT_HOME}
    assert large == {"short_triton._backward_keys"}
