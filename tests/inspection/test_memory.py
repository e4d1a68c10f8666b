"""Large pictures fit a small machine: rollout of ViT-B/16 at 1024x1024 in a process of its own, which says its peak."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

GIB = 1 << 30
ROOT = Path(__file__).resolve().parents[2]
ROLLOUT = """
import resource
import torch
from dataclasses import replace
from patchwords.inspection.rollout import attention_map
from patchwords.models.names import read

with torch.device("meta"):
    model = replace(read("ViT-B/16"), image=(1024, 1024)).build().eval()
model.to_empty(device="cpu")
with torch.no_grad():
    for parameter in model.parameters():
        parameter.normal_(std=0.02)
assert model.config.tokens == 4097
shown = attention_map(model, torch.randn(1, 3, 1024, 1024))
assert shown.shape == (1, 64, 64) and shown.isfinite().all() and shown.min() > 0
print(1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the peak is counted in other units elsewhere")
def test_rollout_of_a_large_picture_stays_under_4_gib() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ROLLOUT],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        encoding="utf-8",
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert 0.5 * GIB < int(done.stdout) < 4 * GIB
