"""Lists of pictures: what they may say, and the line that is wrong."""

import json
from pathlib import Path

import pytest

from patchwords.data.sources.door import open_data
from patchwords.errors import DataError


@pytest.fixture
def folder(tree) -> Path:
    return tree({"a": 10, "b": 10})


def csv(folder: Path, *lines: str, name: str = "list.csv") -> Path:
    path = folder / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def rows(split: str = "") -> list[str]:
    return [f"{name}/{number:03}.png,{name}{split}" for name in "ab" for number in range(10)]


def test_a_table_names_pictures_and_classes(folder: Path) -> None:
    data = open_data(csv(folder, "path,label", *rows()))
    assert (data.name, data.classes) == ("list", ("a", "b"))
    assert [len(source) for source in data.splits.values()] == [16, 4]
    assert data.train.name(0) == "a/000.png"
    assert data.train.picture(0)


def test_the_list_may_lie_elsewhere_and_name_whole_paths(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "lists").mkdir()
    lines = [f"{folder}/a/{number:03}.png,a" for number in range(5)]
    lines += [f"../photos/b/{number:03}.png,b" for number in range(5)]
    data = open_data(csv(tmp_path / "lists", "path,label", *lines))
    assert data.train.picture(0) == data.train.picture(len(data.train) - 1)


def test_a_split_is_taken_as_it_is(folder: Path) -> None:
    lines = [*rows(",train")[:8], *rows(",train")[10:18], rows(",val")[8], rows(",validation")[18], rows(",test")[9]]
    data = open_data(csv(folder, "path,label,split", *lines))
    assert [len(source) for source in data.splits.values()] == [16, 2, 1]
    assert data.val.name(1) == "b/008.png"
    assert any("brings its own validation pictures" in note for note in data.notes)


def test_json_lines_say_the_same(folder: Path) -> None:
    table = [{"path": f"{name}/{number:03}.png", "label": name, "more": 1} for name in "ab" for number in range(10)]
    path = csv(folder, *map(json.dumps, table), "", name="list.jsonl")
    assert open_data(path).digest() == open_data(csv(folder, "path,label", *rows())).digest()


def test_tabs_quotes_marks_and_windows_lines_are_understood(folder: Path) -> None:
    path = folder / "list.tsv"
    path.write_bytes(b'\xef\xbb\xbflabel\tpath\r\n"a ""x"""\ta/000.png\r\n' + b"b\tb/000.png\r\n" * 5)
    assert open_data(path).classes == ('a "x"', "b")


def test_numbers_may_be_classes(folder: Path) -> None:
    lines = [json.dumps({"path": f"a/{number:03}.png", "label": number % 2}) for number in range(10)]
    assert open_data(csv(folder, *lines, name="list.jsonl")).classes == ("0", "1")


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (["file,label", "a/000.png,a"], "has no column path but file, label: name them in the first line"),
        (["path;label", "a/000.png;a"], "has no column path or label but path;label"),
        ([""], "has no column path or label but none at all"),
        (["path,label"], "lists no pictures"),
        (["path,label", "a/000.png,a", "a/nope.png,a"], "line 3 names a/nope.png, which is no file"),
        (["path,label", "a,a"], "line 2 names a, which is no file"),
        (["path,label", "a/000.png,"], "line 2 has no label"),
        (["path,label", "a/000.png"], "line 2 has no label"),
        (["path,label", ",a"], "line 2 has no path"),
        (["path,label,split", "a/000.png,a,dev"], "line 2 has the split 'dev': choose from train"),
        (
            ["path,label,split", "a/000.png,a,train", "a/001.png,a,"],
            "line 3 has the split '': .* in every line or in none",
        ),
        (["path,label", *rows()[:10]], r"one class only \(a\)"),
        (["path,label,split", *rows(",val")], "no part called train"),
        (["path,label", '"a/000.png,a'], "is damaged"),
    ],
)
def test_a_wrong_table_is_refused_with_its_line(folder: Path, lines: list[str], sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        open_data(csv(folder, *lines))


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ('["a/000.png", "a"]', "line 2 is no JSON object"),
        ('{"path": "a/000.png"', "line 2 is no JSON object"),
        ("[" * 100_000, "line 2 is no JSON object"),
        ('{"path": "a/000.png"}', "line 2 has no label"),
        ('{"path": "a/000.png", "label": null}', "line 2 has no label: label None is no text"),
        ('{"path": "a/000.png", "label": true}', "line 2 has no label"),
        ('{"path": "a\\u0000.png", "label": "a"}', "line 2 has no path"),
        ('{"path": "a/000.png", "label": "a", "split": 3}', "line 2 has the split 3"),
    ],
)
def test_a_wrong_line_of_json_is_refused(folder: Path, line: str, sentence: str) -> None:
    first = json.dumps({"path": "a/000.png", "label": "a"})
    with pytest.raises(DataError, match=sentence):
        open_data(csv(folder, first, line, name="list.jsonl"))


def test_a_list_that_is_no_text_is_refused(folder: Path) -> None:
    (folder / "list.csv").write_bytes(b"path,label\n\xff\xfe,a\n")
    with pytest.raises(DataError, match=r"list.csv is damaged or no such file \(UnicodeDecodeError"):
        open_data(folder / "list.csv")
