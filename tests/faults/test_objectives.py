"""Every objective: a killed run ends with the same bits, two processes are as one, and it compiles."""

import json
import signal
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from patchwords.data.sources.door import open_data
from patchwords.training import loop
from patchwords.training.assemble import Parts, Setting, parts
from patchwords.training.distributed import World
from patchwords.training.fit import settled
from patchwords.training.recipe import Recipe, read
from patchwords.training.signals import Wish
from patchwords.training.start import begin as first_model
from patchwords.training.train import train
from patchwords.training.watch import Log

COMMON = """
model = "ViT-Mu/16"
image = 32
parts = { depth = 2, patch = [8, 8] }
batch = 8
duration = "3 epochs"
optimizer = { kind = "adamw", lr = 5e-4, decay = 0.05 }
clip = 1.0
best = "last"
minutes = 0.001
data.workers = 0
"""
DISTILLED = """
[parts]
special = ["class", "distillation"]
pool = { kind = "distilled" }
head = { kind = "distilled" }
"""
OBJECTIVES = {
    "supervised": 'objective = { kind = "supervised" }',
    "masked_patch": 'objective = { kind = "masked_patch" }',
    "masked_patch, pixels": 'objective = { kind = "masked_patch", target = "pixels" }',
    "mae": 'objective = { kind = "mae", width = 16, depth = 1, heads = 2 }\naverage = 0.9',
    "tokenizer": 'model = "Tokenizer-16/8"\nparts = { width = 8 }\nobjective = { kind = "tokenizer" }',
    "beit": 'objective = { kind = "beit", tokenizer = "TOKENIZER" }',
    "distill, hard": f'objective = {{ kind = "distill", teacher = "TEACHER" }}{DISTILLED}',
    "distill, soft": 'objective = { kind = "distill", teacher = "TEACHER", how = "soft", temperature = 2.0 }',
    "dino": 'objective = { kind = "dino", outputs = 32, hidden = 16, bottleneck = 8 }\n'
    "data.glimpses = { small = 2, size = 16, scale = [0.1, 0.4] }\n"
    'data.crop = { kind = "random", scale = [0.4, 1.0] }',
}

COUPLED = ("tokenizer",)  # whose loss is about the pictures of a piece together, and its noise drawn for them


@pytest.fixture(scope="session")
def guides(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A teacher and a tokenizer, hardly trained, by the words that stand for them above."""
    folder = tmp_path_factory.mktemp("guides")
    for word, objective in (("TEACHER", "supervised"), ("TOKENIZER", "tokenizer")):
        text = merged(OBJECTIVES[objective])
        (folder / f"{word}.toml").write_text(text)
        train(photos, recipe=folder / f"{word}.toml", out=folder / word, device="cpu", epochs=1)
    return {word: folder / word for word in ("TEACHER", "TOKENIZER")}


@pytest.fixture(params=list(OBJECTIVES))
def objective(request: pytest.FixtureRequest, guides: dict[str, Path], tmp_path: Path) -> Path:
    """The recipe of one objective."""
    text = merged(OBJECTIVES[request.param])
    for word, run in guides.items():
        text = text.replace(f'"{word}"', f'"{run}"')
    path = tmp_path / "recipe.toml"
    path.write_text(text)
    return path


def merged(own: str) -> str:
    """An objective's lines over the common ones; tables come last, as TOML wants it."""
    keys = {line.partition("=")[0].strip() for line in own.splitlines() if "=" in line}
    keys |= {"parts"} if "[parts]" in own else set()
    lines = [line for line in COMMON.splitlines() if line.partition("=")[0].strip() not in keys]
    table = "depth = 2\npatch = [8, 8]\n" if "[parts]" in own else ""
    return "\n".join([*lines, own, table])


def test_a_killed_run_ends_with_the_same_bits(objective: Path, photos: Path, launch, bits, tmp_path: Path) -> None:
    words = ("train", photos, "--recipe", objective, "--out", tmp_path / "whole", "--device", "cpu")
    assert (whole := launch(*words)).wait() == 0, whole.said
    run = tmp_path / "run"
    words = ("train", photos, "--recipe", objective, "--out", run, "--device", "cpu")
    for step in (5, 11):
        process = launch(*words)
        while process.step < step and not process.ended():
            time.sleep(0.002)
        process.send(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, process.said
        words = ("train", "--resume", run, "--device", "cpu")
    assert (last := launch(*words)).wait() == 0, last.said
    assert bits(run) == bits(tmp_path / "whole")
    for name in ("model", "objective"):
        files = [folder / f"{name}.safetensors" for folder in (run, tmp_path / "whole")]
        assert len({file.read_bytes() for file in files if file.exists()}) <= 1
        assert files[0].exists() == files[1].exists()


def test_two_processes_are_as_one(objective: Path, photos: Path, launch, port: int, tmp_path: Path) -> None:
    words = ("train", photos, "--recipe", objective, "--device", "cpu")
    assert (alone := launch(*words, "--out", tmp_path / "one", prepare=often)).wait() == 0, alone.said
    place = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "LOCAL_RANK": "0"}
    both = [
        launch(*words, "--out", tmp_path / "two", prepare=often, environment={**place, "RANK": str(rank)})
        for rank in range(2)
    ]
    for process in both:
        assert process.wait() == 0, process.said
    near = 0.3 if read(objective).objective.kind in COUPLED else 1e-4
    for kind in ("train", "val"):
        assert losses(tmp_path / "two", kind) == pytest.approx(losses(tmp_path / "one", kind), abs=near)


def often() -> None:
    """A row of metrics every few steps."""
    loop.ROWS = 2


def losses(run: Path, kind: str) -> dict[int, float]:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    found = {row["step"]: row["loss"] for row in rows if row["kind"] == kind}
    assert len(found) > 1
    return found


def made(recipe: Path, photos: Path, **changes: Any) -> tuple[Parts, Recipe]:
    data = open_data(photos)
    here = World(0, 1, torch.device("cpu"))
    chosen = read(recipe, changes)
    model, card = first_model(chosen, data)
    chosen = settled(chosen, model, len(data.train), here)
    return parts(Setting(chosen, data, here, Log(), Wish()), model, card), chosen


def test_every_trainable_parameter_receives_a_gradient(objective: Path, photos: Path) -> None:
    found, _ = made(objective, photos)
    found.objective.train()
    for step, loaded in enumerate(found.feed.batches(0, 2)):  # what starts at zero holds others back for one step
        found.update(loaded, step, 0.5)
        found.objective.after_step(0.5)
    without = [
        name
        for name, parameter in found.objective.named_parameters()
        if parameter.requires_grad and (parameter.grad is None or not parameter.grad.any())
    ]
    assert without == []


def test_pieces_give_the_gradients_of_the_whole(objective: Path, photos: Path) -> None:
    if read(objective).objective.kind in COUPLED:
        pytest.skip("its loss is about the pictures of a piece together")

    def gradients(micro: int) -> dict[str, torch.Tensor]:
        found, _ = made(objective, photos, micro=micro)
        found.objective.eval()  # no dropout, whose draws depend on the piece
        loaded = next(found.feed.batches(0, 1))
        found.update(replace(loaded), 0, 0.5)
        return {n: p.grad.clone() for n, p in found.objective.named_parameters() if p.grad is not None}

    whole, pieces = gradients(8), gradients(4)
    assert whole.keys() == pieces.keys()
    for name, value in whole.items():
        torch.testing.assert_close(pieces[name], value, atol=1e-5, rtol=1e-3, msg=name)


@pytest.mark.slow
def test_it_compiles_in_one_graph_and_computes_the_same(objective: Path, photos: Path) -> None:
    torch._dynamo.reset()
    found, _ = made(objective, photos)
    found.objective.eval()
    batch: dict[str, torch.Tensor] = {}
    plain = type(found.objective).forward
    found.objective.register_forward_pre_hook(lambda module, given: batch.update(given[0]))
    found.update(next(found.feed.batches(0, 1)), 0, 0.5)
    expected, _ = plain(found.objective, batch)
    compiled = torch.compile(partial(plain, found.objective), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(batch)[0], expected, atol=1e-5, rtol=1e-4)
