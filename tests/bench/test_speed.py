"""benchmarks/speed.py: every section can be measured, and one that fails ends nobody else's."""

import json
import sys
import time
from dataclasses import asdict, fields
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from patchwords.bench import end_to_end, growth, inference, learning, loading, small, training
from patchwords.bench.row import Report, Row

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "speed.py"
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def speed() -> ModuleType:
    spec = spec_from_file_location("speed_script", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def row(who: str, speed: float, **given: Any) -> Row:
    sizes = {"bench": "inference", "model": "ViT-B/16", "batch": 8, "image": (224, 224), "milliseconds": 1.0}
    return Row(who=who, how="", precision="bf16", images_per_second=speed, **sizes | given)


def test_every_section_fits_its_bench(speed: ModuleType) -> None:
    from patchwords.bench import agreeing

    kinds = {
        "inference": inference.Asked,
        "latency": inference.Asked,
        "training": training.Asked,
        "loading": loading.Asked,
        "end-to-end": end_to_end.Asked,
        "agreement": agreeing.Asked,
        "small": small.Asked,
        "growth": growth.Asked,
        "learning": learning.Asked,
    }
    assert kinds.keys() == speed.BENCHES.keys()
    for name, section in speed.SETTINGS.items():
        kind = kinds[section["bench"]]
        given = {key: tuple(value) if isinstance(value, list) else value for key, value in section.items()}
        given = {key: value for key, value in given.items() if key not in speed.TOLD}
        if "model" not in {field.name for field in fields(kind)}:
            given.pop("model", None)
        assert kind(device=CPU, **given), name
        assert section["limit"] > 0


def test_the_most_important_come_first(speed: ModuleType) -> None:
    rows = [section["row"] for section in speed.SETTINGS.values()]
    first = list(dict.fromkeys(rows))
    assert first == ["1, 2", "3", "fp8", "2", "6", "4", "8", "7", "5", "10", "learning", "1", "9"]


def test_a_section_leaves_its_rows(speed: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    report = Report(bench="inference", machine={"device": "cpu"}, rows=(row("ours", 30.0),), notes=("a remark",))
    told: dict[str, Any] = {}

    def work(given: dict[str, Any], place: torch.device) -> Report:
        told.update(given, place=place)
        return report

    monkeypatch.setitem(speed.BENCHES, "inference", work)
    speed.measure("inference-b16", tmp_path, {"batch": 2, "device": "cpu"})
    assert told["batch"] == 2
    assert told["place"] == CPU
    assert told["precisions"] == ("bf16", "fp8")
    assert json.loads((tmp_path / "inference-b16.json").read_text())["rows"][0]["images_per_second"] == 30.0
    assert "a remark" in capsys.readouterr().out


def test_one_that_fails_ends_nobody_elses(
    speed: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "speed.py"
    script.write_text(
        "import sys\nname = sys.argv[sys.argv.index('--section') + 1]\nprint('this is', name)\n"
        "sys.exit(3 if name == 'training-b16' else 0)\n"
    )
    monkeypatch.setattr(speed, "HERE", tmp_path)
    speed.run(["training-b16", "inference-b16"], tmp_path, 1000.0, [])
    said = capsys.readouterr().out
    assert "training-b16: left with 3" in said
    assert "inference-b16: measured" in said
    assert "this is inference-b16" in said


def test_one_that_hangs_is_ended(
    speed: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "speed.py").write_text(
        "import os, signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: (print('cleaned up', flush=True), sys.exit(0)))\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print('child', child.pid, flush=True)\ntime.sleep(60)\n"
    )
    monkeypatch.setattr(speed, "HERE", tmp_path)
    monkeypatch.setitem(speed.SETTINGS["inference-b16"], "limit", 10.5)
    monkeypatch.setattr(speed, "_ended", lambda words, log, limit, plain=speed._ended: plain(words, log, limit / 5))
    speed.run(["inference-b16"], tmp_path, 1000.0, [])
    said = capsys.readouterr().out
    assert "ended after its" in said
    assert "cleaned up" in said
    child = int(said.partition("child ")[2].split()[0])
    deadline = time.monotonic() + 10
    while _lives(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _lives(child)


def _lives(process: int) -> bool:
    """A child that nobody has waited for yet is no longer alive."""
    place = Path(f"/proc/{process}/stat")
    return place.exists() and place.read_text().rpartition(")")[2].split()[0] != "Z"


def test_without_time_nothing_is_begun(speed: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    speed.run(["inference-b16"], tmp_path, 1.0, [])
    assert "no time left" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_the_table_has_a_line_for_every_row_of_ours(
    speed: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ours = row("ours", 30.0, ratios={"timm bf16": 1.5}, memory=1 << 30, ceiling=0.61, further={"wait": 0.5})
    rows = (ours, row("timm", 20.0, memory=2 << 30))
    report = Report(bench="inference", machine={}, rows=rows)
    (tmp_path / "inference-b16.json").write_text(json.dumps(asdict(report)))
    speed.tables(tmp_path)
    said = capsys.readouterr().out
    number = speed.SETTINGS["inference-b16"]["row"]
    cells = (
        number,
        "inference-b16 224",
        "bf16",
        "30/s, 1.00 ms",
        "timm bf16 20/s",
        "1.500",
        "1.00 GiB / 2.00",
        "61.0 %",
    )
    assert f"| {' | '.join(cells)} | wait 0.50 ms |" in said


def test_curves_are_drawn(speed: ModuleType, tmp_path: Path) -> None:
    report = Report(bench="learning", machine={}, rows=(row("ours", 1.0),), curves={"plain": [1.0] * 60})
    (tmp_path / "learning.json").write_text(json.dumps(asdict(report)))
    speed.tables(tmp_path)
    assert (tmp_path / "learning.png").read_bytes().startswith(b"\x89PNG")


def test_a_wrong_section_is_refused(speed: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", ["speed.py", "--out", str(tmp_path), "--only", "inference"])
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(SystemExit):
        speed.main()
    assert "no section is called inference" in capsys.readouterr().err
