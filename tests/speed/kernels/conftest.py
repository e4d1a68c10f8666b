"""Triton's kernels are tested on a GPU where there is one, and else interpreted."""

import pytest
import torch


@pytest.fixture
def device() -> torch.device:
    """Where both twins run."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.fixture(autouse=True)
def fresh() -> None:
    """Other random inputs in every run: a kernel must be right for all of them."""
    torch.seed()
