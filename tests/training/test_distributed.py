"""One process is a world of its own; several agree."""

import multiprocessing
import os
import socket
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection

import pytest
import torch
from torch import nn

from patchwords.errors import UsageError
from patchwords.speed.device import choose
from patchwords.training.distributed import World, world


def test_one_process_is_a_world_that_agrees_with_itself() -> None:
    with world("cpu") as here:
        assert (here.rank, here.size, here.device, here.leads) == (0, 1, torch.device("cpu"), True)
        assert here.most(3) == 3
        values = torch.tensor([1.0, 2.0])
        assert torch.equal(here.total(values), values)
        assert here.gathered("x") == ["x"]
        assert here.told({"a": 1}) == {"a": 1}
        module = nn.Linear(2, 2)
        assert here.wrap(module) is module


def test_only_the_first_leads() -> None:
    assert [World(rank, 3, torch.device("cpu")).leads for rank in range(3)] == [True, False, False]


@pytest.mark.parametrize("device", ["gpu", "cuda:99", "cpu:x", "", "tpu", "meta"])
def test_a_device_that_cannot_be_used_is_refused_with_what_to_choose(device: str) -> None:
    with pytest.raises(UsageError, match=r"cannot be used .*: choose auto, cpu, cuda, cuda:0 or mps$") as refused:
        choose(device, 0)
    assert "privateuseone" not in str(refused.value)  # torch's list of all that it has a word for


@pytest.mark.skipif(torch.backends.mps.is_available(), reason="there is one")
def test_a_device_that_torch_was_built_without_is_refused_without_the_list_of_the_others() -> None:
    with pytest.raises(UsageError, match=r"device 'mps' cannot be used \(this torch was built without it\): choose"):
        choose("mps")


@pytest.mark.parametrize(
    ("cuda", "mps", "wanted"), [(True, False, "cuda:1"), (False, True, "mps"), (False, False, "cpu")]
)
def test_automatic_is_a_gpu_where_there_is_one(
    cuda: bool, mps: bool, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    monkeypatch.setattr(torch, "empty", lambda *_, **__: None)
    assert choose("auto", 1) == torch.device(wanted)
    assert choose("cuda:0", 1) == torch.device("cuda:0")  # what was named stays


def test_nobody_holds_what_was_shared_when_the_answer_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread of gloo that lets go of a tensor while the interpreter ends would abort the process."""
    threads = []

    def shares(tensor: torch.Tensor, *_: object, **__: object) -> None:
        threads.append(threading.Thread(target=lambda held: time.sleep(0.2), args=(tensor,)))
        threads[-1].start()

    monkeypatch.setattr(torch.distributed, "all_reduce", shares)
    here = World(0, 2, torch.device("cpu"))
    asked: list[Callable[[], object]] = [
        lambda: here.most(3),
        lambda: here.total(torch.ones(2)),
    ]
    for ask in asked:
        ask()
        threads[-1].join(0.1)  # it is on its last lines
        assert not threads[-1].is_alive()


def agree(rank: int, port: int, told: Connection) -> None:
    """What one of two processes finds."""
    os.environ |= {"WORLD_SIZE": "2", "RANK": str(rank), "LOCAL_RANK": str(rank)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.set_num_threads(1)
    with world("cpu") as here:
        torch.manual_seed(0)
        module = here.wrap(nn.Linear(2, 1, bias=False))
        module(torch.full((1, 2), float(here.rank + 1))).sum().backward()
        (weight,) = module.parameters()
        assert weight.grad is not None
        found = {
            "most": here.most(-5 + here.rank),
            "total": here.total(torch.tensor([1.0, here.rank])).tolist(),
            "gathered": here.gathered([here.rank] * (here.rank + 1)),
            "told": here.told(f"from {here.rank}"),
            "gradient": weight.grad.tolist(),
        }
        told.send((here.rank, here.size, here.leads, found))


def test_two_processes_agree() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    fork = multiprocessing.get_context("fork")
    pipes = [fork.Pipe(duplex=False) for _ in range(2)]
    started = [fork.Process(target=agree, args=(rank, port, pipes[rank][1])) for rank in range(2)]
    for process in started:
        process.start()
    for process in started:
        process.join(60)
    assert [process.exitcode for process in started] == [0, 0]
    found = {
        "most": -4,
        "total": [2.0, 1.0],
        "gathered": [[0], [1, 1]],
        "told": "from 0",
        "gradient": [[1.5, 1.5]],  # the mean of both
    }
    assert [pipe.recv() for pipe, _ in pipes] == [(0, 2, True, found), (1, 2, False, found)]
