"""The structure of the package: imports point one way, starting is light, and variants are not booleans."""

import ast
import os
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "patchwords"

# What each room may know besides itself; the face (`patchwords/__init__.py`) may name anything.
NOBODY = {"errors", "settings", "download"}
BRICKS = NOBODY | {"ops", "layers"}
MIDDLE = {"objectives", "inspection", "weights", "evaluation", "export"}
EVERYTHING_BUILT = BRICKS | {"models", "data", "speed", "pages"} | MIDDLE
KNOWS: dict[str, set[str]] = {
    "errors": set(),
    "settings": {"errors"},
    "download": {"errors"},
    "ops": NOBODY,
    "layers": NOBODY | {"ops"},
    "data": BRICKS,
    "speed": BRICKS,
    "models": BRICKS,
    "objectives": BRICKS | {"models", "data"},  # what is learned from is prepared in its own way
    "pages": NOBODY,
    # A weights file's card holds the preprocessing, and an autoencoder's file the decoder, which an objective owns.
    "weights": BRICKS | {"models", "data", "objectives"},
    "evaluation": BRICKS | {"models", "data", "speed", "weights", "pages"},  # a model comes with its card
    "inspection": BRICKS | {"models", "data", "speed", "weights", "pages", "evaluation"},
    # What is exported comes with its card, is measured on data, and says so in a model card.
    "export": BRICKS | {"models", "data", "weights", "evaluation", "pages"},
    "training": EVERYTHING_BUILT,
    "studies": EVERYTHING_BUILT | {"training"},
    "serve": EVERYTHING_BUILT,
    "bench": EVERYTHING_BUILT | {"training", "serve"},  # it measures what the others do
    "cli": EVERYTHING_BUILT | {"training", "studies", "serve", "bench"},
    "__main__": {"cli"},
}
PEERS = {"torchvision", "timm", "transformers", "jax", "flax"}
# Who imports what is only known when it runs: two that fetch modules of their own late, and the doors to peers: those
# that are measured beside us, the decoder that one of them brings, and teachers.
LATE = ["__init__.py", "bench/peers.py", "cli/__init__.py", "data/nvjpeg.py", "training/guides.py"]
PILLOW_ROOMS = {"data", "inspection", "serve", "export", "bench"}


def imports(file: Path, package: Path) -> Iterator[tuple[int, str]]:
    """The line and full dotted name of all that a file imports, wherever in the file it does."""
    parent = [package.name, *file.relative_to(package).parts[:-1]]
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, name.name) for name in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                base = parent[: len(parent) - level + 1] if level else []
                yield from ((node.lineno, ".".join([*base, *filter(None, [module]), name.name])) for name in names)
            case ast.Call(func=ast.Name("import_module") | ast.Attribute(attr="import_module"), args=[first, *_]):
                if isinstance(first, ast.Constant):
                    yield node.lineno, str(first.value)


def objection(room: str, name: str, package: str) -> str | None:
    """Why this room may not import this name, or None."""
    top, *rest = name.split(".")
    if top in PEERS:
        return f"{top} is a peer to compare with in tests"
    if top == "PIL" and room not in PILLOW_ROOMS:
        return f"Pillow belongs to {', '.join(sorted(PILLOW_ROOMS))}"
    if top != package or room == "__init__" or rest == ["__version__"]:
        return None
    if room not in KNOWS:
        return f"the room {room} is not in KNOWS"
    if rest[:1] == [room] or (rest and rest[0] in KNOWS[room]):
        return None
    return f"{room} may know {', '.join(sorted(KNOWS[room])) or 'nobody'}"


def forbidden_imports(package: Path) -> list[str]:
    """One sentence for each import that points the wrong way."""
    found = []
    for file in sorted(package.rglob("*.py")):
        room = file.relative_to(package).parts[0].removesuffix(".py")
        for line, name in imports(file, package):
            if reason := objection(room, name, package.name):
                found.append(f"{file.relative_to(package.parent)}:{line} imports {name}, but {reason}")
    return found


def late_imports(package: Path) -> list[str]:
    """The files that import a module whose name is not written where it is imported."""
    found = set()
    for file in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(args=[ast.Constant(), *_]):
                    pass
                case ast.Call(func=ast.Name("import_module" | "__import__") | ast.Attribute(attr="import_module")):
                    found.add(file.relative_to(package).as_posix())
    return sorted(found)


def boolean_switches(folder: Path) -> list[str]:
    """Each constructor argument and dataclass field of a folder that is annotated with `bool`."""
    found = []
    for file in sorted(folder.rglob("*.py")):
        classes = (
            node for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, ast.ClassDef)
        )
        for owner in classes:
            for name, annotation in switches_of(owner):
                if re.search(r"\bbool\b", ast.unparse(annotation)):
                    found.append(f"{file.relative_to(folder.parent)}: {owner.name}.{name}")
    return found


def switches_of(owner: ast.ClassDef) -> Iterator[tuple[str, ast.expr]]:
    """The name and annotation of what a class is constructed from."""
    is_dataclass = any("dataclass" in ast.unparse(decorator) for decorator in owner.decorator_list)
    for node in owner.body:
        match node:
            case ast.AnnAssign(target=ast.Name(name), annotation=annotation) if is_dataclass:
                yield name, annotation
            case ast.FunctionDef(name="__init__", args=args):
                every = [*args.posonlyargs, *args.args, *args.kwonlyargs]
                yield from ((arg.arg, arg.annotation) for arg in every if arg.annotation)


def write(root: Path, files: dict[str, str]) -> Path:
    """A made-up package under `root`."""
    for name, text in files.items():
        file = root / "patchwords" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return root / "patchwords"


def test_imports_point_one_way() -> None:
    assert any(PACKAGE.rglob("*.py"))
    assert forbidden_imports(PACKAGE) == []


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("ops/attention.py", "from patchwords.layers.block import Block"),
        ("layers/block.py", "import patchwords.models.vit"),
        ("layers/block.py", "from ..models import vit"),
        ("layers/block.py", "from patchwords import models"),
        ("layers/block.py", "from patchwords import build"),
        ("layers/block.py", "import patchwords"),
        ("models/vit.py", "def late():\n    from patchwords.weights import store"),
        ("models/vit.py", "if TYPE_CHECKING:\n    from patchwords.speed import prepare"),
        ("models/vit.py", "import importlib\nimportlib.import_module('patchwords.data')"),
        ("objectives/mae.py", "from patchwords.weights import store"),
        ("data/sources.py", "from patchwords.models import vit"),
        ("speed/prepare.py", "from ..training import loop"),
        ("training/loop.py", "from patchwords.serve import app"),
        ("errors.py", "from patchwords import ops"),
        ("attic/old.py", "from patchwords import ops"),
        ("cli/train.py", "from torchvision.transforms import v2"),
        ("models/vit.py", "from PIL import Image"),
        ("__init__.py", "import timm"),
    ],
)
def test_an_import_that_points_the_wrong_way_is_reported(tmp_path: Path, file: str, text: str) -> None:
    assert len(forbidden_imports(write(tmp_path, {file: text}))) == 1


def test_imports_that_point_down_are_not_reported(tmp_path: Path) -> None:
    files = {
        "__init__.py": "def build(name):\n    from patchwords.models import vit",
        "__main__.py": "from patchwords.cli import main",
        "layers/block.py": "import torch\nfrom patchwords.layers.attention import Attention\nfrom ..errors import *",
        "layers/encoder.py": "from .block import Block\nfrom . import tokens",
        "weights/card.py": "from patchwords import __version__\nfrom patchwords.data.preprocess import Preprocess",
        "data/preprocess.py": "from PIL import Image",
        "cli/train.py": "from patchwords.training import loop",
    }
    assert forbidden_imports(write(tmp_path, files)) == []


def test_the_doors_that_lead_to_peers_open_late() -> None:
    """docs/decisions/2026-11-16-timm-teachers.md; a peer that is named in an import is reported everywhere."""
    assert late_imports(PACKAGE) == LATE


def test_an_import_of_what_is_not_written_there_is_found(tmp_path: Path) -> None:
    files = {
        "weights/late.py": "name = 'timm'\nimport importlib\nimportlib.import_module(name)",
        "models/late.py": "from importlib import import_module\nimport_module(f'{1}')",
        "layers/late.py": "__import__('ti' + 'mm')",
        "data/known.py": "from importlib import import_module\nimport_module('json')",
    }
    assert late_imports(write(tmp_path, files)) == ["layers/late.py", "models/late.py", "weights/late.py"]


def test_no_module_has_a_name_that_says_nothing() -> None:
    modules = [part for file in PACKAGE.rglob("*.py") for part in file.relative_to(PACKAGE).with_suffix("").parts]
    assert {"utils", "util", "common", "misc", "helpers"}.isdisjoint(modules)


def test_layers_and_models_have_no_boolean_switch() -> None:
    assert boolean_switches(PACKAGE / "layers") + boolean_switches(PACKAGE / "models") == []


@pytest.mark.parametrize(
    "text",
    [
        "class Block:\n    def __init__(self, width: int, *, fused: bool = True) -> None: ...",
        "class Block:\n    def __init__(self, fused: 'bool | None') -> None: ...",
        "@dataclass(frozen=True)\nclass Config:\n    distilled: bool = False",
    ],
)
def test_a_boolean_switch_is_reported(tmp_path: Path, text: str) -> None:
    assert len(boolean_switches(write(tmp_path, {"layers/block.py": text}))) == 1


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python beside the package, in a plain terminal that is wide enough not to wrap; it must succeed."""
    plain = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb", "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=ROOT, env=plain, capture_output=True, encoding="utf-8", timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def modules_loaded_by(*arguments: str) -> set[str]:
    """The top-level names of the modules that a command imports."""
    done = python("-X", "importtime", *arguments)
    return set(re.findall(r"^import time:.*\|\s+(\w+)", done.stderr, flags=re.MULTILINE))


@cache
def verbs() -> tuple[str, ...]:
    """The verbs that `patchwords --help` lists."""
    _, _, listed = python("-m", "patchwords", "--help").stdout.partition("Commands")
    return tuple(re.findall(r"^[\s│|]*([a-z]+)(?=\s{2,}|\s*[│|]?$)", listed, flags=re.MULTILINE))


def processor_seconds(*arguments: str) -> float:
    """User and system time of one Python command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    python(*arguments)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_importing_the_package_loads_no_torch() -> None:
    loaded = modules_loaded_by("-c", "import patchwords")
    assert "patchwords" in loaded
    assert "torch" not in loaded


def test_help_loads_no_torch() -> None:
    loaded = modules_loaded_by("-m", "patchwords", "--help")
    assert "patchwords" in loaded
    assert "torch" not in loaded


def test_help_takes_less_than_half_a_second_of_processor_time() -> None:
    assert min(processor_seconds("-m", "patchwords", "--help") for _ in range(3)) < 0.5


def test_every_verb_explains_itself_without_torch() -> None:
    assert "show" in verbs()
    heavy = [verb for verb in verbs() if "torch" in modules_loaded_by("-m", "patchwords", verb, "--help")]
    assert heavy == []
