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


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU: the kernels run on it")
def test_every_kernel_compiles_for_a_gpu(tmp_path: Path) -> None:
    launched = {
        (file.stem, kernel)
        for file in PACKAGE.rglob("*_triton.py")
        for kernel in re.findall(r"^ *(_\w+)\[\(?\w+", file.read_text("utf-8"), re.MULTILINE)
    }
    assert len(launched) >= 15
    environment = os.environ | {"TRITON_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(PACKAGE.parent)}
    del environment["TRITON_INTERPRET"]
    words = [sys.executable, str(HERE.with_name("compiling.py"))]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert set(map(tuple, json.loads(done.stdout))) == launched
