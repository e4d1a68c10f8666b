"""Conditions that hold while a run works, and end with it: threads of the CPU, and determinism."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def threads(number: int) -> Iterator[None]:
    """So many threads of the CPU, where the recipe says how many."""
    before = torch.get_num_threads()
    torch.set_num_threads(number or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def determined(wanted: bool) -> Iterator[None]:
    """Operations that give the same bits each time or none at all, where that is wanted."""
    before = torch.are_deterministic_algorithms_enabled()
    if wanted:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
