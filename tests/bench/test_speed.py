"""benchmarks/speed.py: every section can be measured, and one that fails ends nobody else's."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, fields
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from patchwords.bench import agreeing, alone, end_to_end, growth, inference, learning, loading, profile, small, training
from patchwords.bench.alone import Alone
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


@pytest.fixture(autouse=True)
def nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alone, "alone", lambda patience: Alone("nobody else uses the GPU", so=True))


def row(who: str, speed: float, **given: Any) -> Row:
    sizes = {"bench": "inference", "model": "ViT-B/16", "batch": 8, "image": (224, 224), "milliseconds": 1.0}
    return Row(who=who, how="", precision="bf16", images_per_second=speed, **sizes | given)


def test_every_section_fits_its_bench(speed: ModuleType) -> None:
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
        "profile": profile.Asked,
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
    assert first == ["1, 2", "3", "fp8", "4", "5", "10", "learning", "memory", "6", "2", "7", "8", "1", "9"]


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
    assert _ends(child)


def test_who_ends_the_runner_ends_its_section(tmp_path: Path) -> None:
    """Asked to end, it takes the section along; killed, the section finds out by itself."""
    begin = f"import sys; sys.path.insert(0, {str(SCRIPT.parent)!r}); import speed; from pathlib import Path\n"
    section = tmp_path / "section.py"
    section.write_text(
        f"{begin}import os, time\nspeed._with_its_parent()\nprint(os.getpid(), flush=True)\ntime.sleep(60)"
    )
    runner = tmp_path / "runner.py"
    runner.write_text(
        f"{begin}import signal\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(1))\n"
        f"speed._ended([sys.executable, {str(section)!r}], sys.stdout, 60.0)"
    )
    for way in (signal.SIGTERM, signal.SIGKILL):
        with subprocess.Popen([sys.executable, str(runner)], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            child = int(process.stdout.readline())
            assert _lives(child)
            os.kill(process.pid, way)
            assert _ends(child)


def _ends(process: int) -> bool:
    deadline = time.monotonic() + 15
    while _lives(process) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not _lives(process)


def _lives(process: int) -> bool:
    """A child that nobody has waited for yet is no longer alive."""
    place = Path(f"/proc/{process}/stat")
    return place.exists() and place.read_text().rpartition(")")[2].split()[0] != "Z"


def test_without_time_nothing_is_begun(speed: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    speed.run(["inference-b16"], tmp_path, 1.0, [])
    assert "no time left" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def begun(speed: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What would be started, and is not."""
    found: list[list[str]] = []

    def ended(words: list[str], log: Any, limit: float) -> str:
        found.append([*words, f"{limit:.0f}"])
        return "measured"

    monkeypatch.setattr(speed, "_ended", ended)
    return found


def test_a_shorter_section_takes_the_time_that_is_left(
    speed: ModuleType, begun: list[list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    limits = [speed.SETTINGS[name]["limit"] for name in ("training-l16", "profile-b16")]
    assert limits == [300, 80]
    speed.run(["training-l16", "profile-b16"], tmp_path, 70.0, [])
    assert "training-l16: there is no time left for it (60 s of up to 300)" in capsys.readouterr().out
    ((*_, name, limit),) = begun
    assert (name, limit) == ("profile-b16", "60")


def called(speed: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def main(*words: str) -> None:
        monkeypatch.setattr(sys, "argv", ["speed.py", *words])
        monkeypatch.setattr(sys, "path", list(sys.path))
        before = signal.getsignal(signal.SIGTERM)
        try:
            speed.main()
        finally:
            signal.signal(signal.SIGTERM, before)

    return main


def test_it_goes_on_where_it_was(
    speed: ModuleType, begun: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "training-b16.json").write_text(json.dumps(asdict(Report(bench="training", machine={}, rows=()))))
    words = "--out", str(tmp_path), "--only", "training-b16", "growth"
    called(speed, monkeypatch)(*words, "--go-on")
    assert [each[-2] for each in begun] == ["growth"]
    called(speed, monkeypatch)(*words)
    assert [each[-2] for each in begun] == ["growth", "training-b16", "growth"]
    assert not (tmp_path / "training-b16.json").exists()  # it was measured before, and not now
    assert (tmp_path / "training-b16.json.before").exists()


def test_others_on_the_gpu_are_told_with_the_figures(
    speed: ModuleType,
    begun: list[list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(alone, "alone", lambda patience: Alone("others use the GPU: 812", so=False))
    speed.run(["inference-b16", "cpu-b16"], tmp_path, 1000.0, [])
    assert "inference-b16: others use the GPU: 812" in capsys.readouterr().out
    assert begun[0][-3:-1] == ["--beside", "others use the GPU: 812"]
    assert "--beside" not in begun[1]  # which uses none
    report = Report(bench="inference", machine={}, rows=(row("ours", 30.0, spread=0.034),), notes=("a remark",))
    monkeypatch.setitem(speed.BENCHES, "inference", lambda given, place: report)
    speed.measure("inference-b16", tmp_path, {"device": "cpu"}, "others use the GPU: 812")
    assert json.loads((tmp_path / "inference-b16.json").read_text())["notes"] == ["a remark", "others use the GPU: 812"]
    speed.tables(tmp_path)
    line = capsys.readouterr().out.splitlines()[-1]
    assert "30/s, 1.00 ms ± 3.4%" in line
    assert "perhaps not alone" in line


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
