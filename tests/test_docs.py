"""What the documents say: the map of the paper names code that exists, and the two READMEs run the same commands."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LABELS = [
    *(f"Eq. {number}" for number in range(1, 9)),
    *(f"Table {number}" for number in range(1, 10)),
    *(f"Figure {number}" for number in range(1, 15)),
]


def rows(text: str) -> list[list[str]]:
    """The cells of each table row, without the headings and their rules."""
    tables = re.findall(r"(?:^\|.*\|[ \t]*\n?)+", text, flags=re.MULTILINE)
    lines = [line for table in tables for line in table.strip().splitlines()[2:]]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip()[1:-1])] for line in lines]


def references(row: list[str]) -> list[str]:
    """What the last cell of a row names in backticks."""
    return re.findall(r"`([^`]+)`", row[-1])


def symbols(body: list[ast.stmt], prefix: str = "") -> Iterator[str]:
    """The dotted names of the classes, functions, methods and assigned names of a module."""
    for node in body:
        match node:
            case ast.ClassDef(name=name):
                yield prefix + name
                yield from symbols(node.body, f"{prefix}{name}.")
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield prefix + name
            case ast.Assign(targets=targets):
                yield from (prefix + target.id for target in targets if isinstance(target, ast.Name))
            case ast.AnnAssign(target=ast.Name(name)):
                yield prefix + name


def is_there(reference: str, root: Path) -> bool:
    """Whether `file:symbol` names something that exists."""
    file, _, symbol = reference.partition(":")
    path = root / file
    return path.is_file() and symbol in set(symbols(ast.parse(path.read_text(encoding="utf-8")).body))


def code_blocks(text: str) -> list[str]:
    """The fenced blocks of a document, in order, with their language."""
    return re.findall(r"^(```.*?^```)[ \t]*$", text, flags=re.MULTILINE | re.DOTALL)


def headings(text: str) -> list[str]:
    """The heading marks of a document (`##`), in order, outside of code."""
    prose = re.sub(r"^```.*?^```[ \t]*$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"^(#{1,6}) ", prose, flags=re.MULTILINE)


@pytest.fixture(scope="module")
def paper() -> list[list[str]]:
    return rows((ROOT / "docs/paper.md").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def readmes() -> list[str]:
    return [(ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "README.zh-CN.md")]


def test_every_equation_table_and_figure_of_the_paper_has_a_row(paper: list[list[str]]) -> None:
    assert [label for label in LABELS if not any(re.match(rf"{re.escape(label)}\b", row[0]) for row in paper)] == []


def test_every_row_names_its_code_or_says_that_it_is_not_built(paper: list[list[str]]) -> None:
    assert [row[0] for row in paper if not references(row) and "not built" not in " ".join(row)] == []


def test_all_code_that_the_paper_map_names_exists(paper: list[list[str]]) -> None:
    assert [reference for row in paper for reference in references(row) if not is_there(reference, ROOT)] == []


def test_code_that_does_not_exist_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "block.py").write_text("SIZE = 1\nclass Block:\n    eps: float = 1e-6\n    def forward(self): ...\n")
    text = (
        "| Paper | Code |\n| --- | --- |\n| Eq. 2 | `block.py:Block.forward`, `block.py:SIZE`, `block.py:Block.eps` |\n"
    )
    (row,) = rows(text + "| Eq. 3 | not built |\n")[:1]
    assert [is_there(reference, tmp_path) for reference in references(row)] == [True, True, True]
    assert not is_there("block.py:Block.backward", tmp_path)
    assert not is_there("block.py", tmp_path)
    assert not is_there("attic.py:Block", tmp_path)


def test_the_readmes_write_nothing_over_the_data_that_they_learn_from(readmes: list[str]) -> None:
    for text in readmes:
        learned = set(re.findall(r"^patchwords train (\w\S*)", text, flags=re.MULTILINE))
        written = set(re.findall(r"^patchwords (?:export|convert) \S+ (\S+)", text, flags=re.MULTILINE))
        assert learned
        assert written
        assert learned & written == set()


def test_the_readmes_have_the_same_code_blocks(readmes: list[str]) -> None:
    english, chinese = map(code_blocks, readmes)
    assert english == chinese


def test_the_readmes_have_the_same_headings(readmes: list[str]) -> None:
    english, chinese = map(headings, readmes)
    assert english == chinese
