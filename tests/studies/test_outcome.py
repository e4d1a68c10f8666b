"""What a cell came to: its scores, what they cost, and what becomes of one that was lost."""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from patchwords.errors import NonFiniteError
from patchwords.studies import below, compute
from patchwords.studies import grid as grids
from patchwords.studies.cell import Cell
from patchwords.studies.outcome import FILE, Bench, Outcome, known, perform
from patchwords.training import recipe as recipes
from patchwords.training import train as training
from patchwords.training.watch import Log
from patchwords.weights.load import load


@pytest.fixture(scope="module")
def folder(cells: list[Cell], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All four cells, done."""
    place = tmp_path_factory.mktemp("study")
    for cell in cells:
        assert perform(cell, Bench(folder=place, device="cpu", again="", watcher=Log())) == 0
    return place


def numbers(folder: Path, cell: Cell) -> dict[str, float]:
    found = known(folder, cell)
    assert found
    assert not found.lost
    return dict(found.numbers)


@pytest.fixture
def lose(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Every training's loss becomes infinite at once."""

    def put(*_: Any, **__: Any) -> None:
        raise NonFiniteError("step 7 gave a loss of inf; start anew with a lower optimizer.lr")

    def lost(data: Any, *, out: Path, **_: Any) -> None:
        out.mkdir()
        (out / "recipe.toml").touch()
        (out / "run.json").write_text("{}")
        put()

    return lambda: monkeypatch.setattr(below, "train", lost)


def test_the_scores_are_the_trainings_own(cells: list[Cell], folder: Path) -> None:
    for cell in cells:
        run = json.loads((folder / cell.name / "run.json").read_text())
        found = numbers(folder, cell)
        assert {key: found[key] for key in ("accuracy", "loss")} == {
            key: run["scores"][key] for key in ("accuracy", "loss")
        }
        assert found["judged"] == len(cell.data.val) == 6
        assert found["seconds"] == run["seconds"]


def test_what_only_learned_is_judged_by_a_few_pictures_of_the_target_too(cells: list[Cell], folder: Path) -> None:
    learned, *others = (numbers(folder, cell) for cell in cells)
    assert cells[0].stage == "pre-training"
    assert 0 <= learned["few_shot"] <= 1
    assert learned["few_shot_judged"] == len(cells[0].frozen.val)
    assert not any("few_shot" in found for found in others)


def test_costs_are_of_its_own_training_alone(cells: list[Cell], folder: Path) -> None:
    learned, head, whole, scratch = cells
    for cell, steps in ((learned, 2), (head, 1), (whole, 1), (scratch, 2)):
        found, model = numbers(folder, cell), load(folder / cell.name / "model.safetensors")
        assert found["steps"] == steps
        assert found["pictures"] == len(cell.data.train) == 20
        assert found["parameters"] == sum(parameter.numel() for parameter in model.parameters())
        assert found["exaflops"] == compute.training(model.config, 8 * steps, cell.recipe.freeze)
    assert numbers(folder, head)["exaflops"] < 0.6 * numbers(folder, whole)["exaflops"]
    assert numbers(folder, whole)["exaflops"] == 0.5 * numbers(folder, scratch)["exaflops"]


def test_a_model_that_learned_without_labels_has_no_accuracy(stand: Any, grid_file: Path, bench: Bench) -> None:
    ground = stand(grids.read(str(grid_file), "transfer", {}))
    cell = ground.learn({"model": "ViT"}, 0, ground.grid.mask)
    perform(cell, bench)
    found = numbers(bench.folder, cell)
    assert "accuracy" not in found
    assert found["loss"] > 0
    assert 0 <= found["few_shot"] <= 1


def test_a_cell_begins_with_the_model_of_the_one_before(cells: list[Cell], folder: Path) -> None:
    learned, head, *_ = cells
    assert recipes.read(folder / head.name / "recipe.toml").weights == str(folder / learned.name / "model.safetensors")
    before, after = (load(folder / cell.name / "model.safetensors") for cell in (learned, head))
    frozen, moved = dict(before.named_parameters()), dict(after.named_parameters())
    assert all((frozen[name] == moved[name]).all() for name in frozen if "head" not in name)
    assert not any((frozen[name] == moved[name]).all() for name in frozen if "head" in name)


def test_checkpoints_are_of_no_use_any_more(cells: list[Cell], folder: Path) -> None:
    assert not [cell.name for cell in cells if (folder / cell.name / "checkpoints").exists()]


def test_what_is_known_is_what_was_written(cells: list[Cell], folder: Path, bench: Bench) -> None:
    table = json.loads((folder / cells[0].name / FILE).read_text())
    assert known(folder, cells[0]) == Outcome(numbers=table["numbers"], lost="")
    assert known(bench.folder, cells[0]) is None


def test_a_loss_that_became_infinite_is_an_outcome(cells: list[Cell], bench: Bench, lose: Callable[[], None]) -> None:
    lose()
    assert perform(cells[0], bench) == 0
    assert known(bench.folder, cells[0]) == Outcome(lost="step 7 gave a loss of inf")  # without advice for a recipe


def test_what_begins_with_a_lost_cell_is_lost_and_never_trained(
    cells: list[Cell], bench: Bench, lose: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    lose()
    perform(cells[0], bench)
    monkeypatch.setattr(below, "train", lambda *_, **__: pytest.fail("it was trained"))
    perform(cells[1], bench)
    said = f"there is no {cells[0].name} to begin with: step 7 gave a loss of inf"
    assert known(bench.folder, cells[1]) == Outcome(lost=said)
    assert [path.name for path in (bench.folder / cells[1].name).iterdir()] == [FILE]


def test_a_lost_cell_is_not_trained_again_where_its_outcome_was_not_written(
    cells: list[Cell], bench: Bench, lose: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    lose()
    perform(cells[0], bench)
    (bench.folder / cells[0].name / FILE).unlink()
    monkeypatch.setattr(below, "train", lambda *_, **__: pytest.fail("it was trained"))
    perform(cells[0], bench)
    assert known(bench.folder, cells[0]) == Outcome(lost="step 7 gave a loss of inf")


def test_a_signal_that_came_too_late_leaves_the_outcome_to_who_goes_on(
    cells: list[Cell], bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = below.learn
    monkeypatch.setattr(below, "learn", lambda *given, **options: real(*given, **options) or signal.SIGTERM)
    assert perform(cells[0], bench) == signal.SIGTERM
    assert known(bench.folder, cells[0]) is None
    monkeypatch.setattr(below, "learn", lambda *_, **__: pytest.fail("it was trained again"))
    assert perform(cells[0], bench) == 0
    assert known(bench.folder, cells[0])


def test_a_training_killed_before_its_report_writes_that_and_learns_nothing_more(
    cells: list[Cell], folder: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: Any) -> None:
        raise SystemExit(143)

    with monkeypatch.context() as patch:
        patch.setattr(training, "report", killed)
        with pytest.raises(SystemExit):
            perform(cells[3], bench)
    place = bench.folder / cells[3].name
    assert not below.has_ended(place)
    metrics = (place / "metrics.jsonl").read_text()
    assert perform(cells[3], bench) == 0
    assert (place / "metrics.jsonl").read_text() == metrics
    assert (place / "report.html").exists()
    assert numbers(bench.folder, cells[3])["loss"] == numbers(folder, cells[3])["loss"]
