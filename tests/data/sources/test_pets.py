"""Oxford-IIIT Pets as published."""

from pathlib import Path

import pytest

from patchwords.data.sources.door import open_data
from patchwords.data.sources.split import Split
from patchwords.errors import DataError

TRAIN = ["Abyssinian_1 1 1 1", "Abyssinian_2 1 1 1", "american_bulldog_7 2 2 1", "Bengal_3 3 1 2"]
TEST = ["Abyssinian_9 1 1 1", "Bengal_33 3 1 2"]
HALF = Split(share=0.5)  # one of the two Abyssinians


def pets(folder: Path, train: list[str] = TRAIN, test: list[str] = TEST) -> Path:
    (folder / "pets" / "images").mkdir(parents=True)
    (folder / "pets" / "annotations" / "xmls").mkdir(parents=True)
    for line in TRAIN + TEST:
        (folder / "pets" / "images" / f"{line.split()[0]}.jpg").write_bytes(line.encode())
    (folder / "pets" / "images" / "Abyssinian_100.mat").write_bytes(b"x")
    (folder / "pets" / "annotations" / "trainval.txt").write_text(
        "\n".join(["#Image CLASS-ID SPECIES BREED ID", *train])
    )
    (folder / "pets" / "annotations" / "test.txt").write_text("\n".join(test) + "\n")
    return folder / "pets"


def test_breeds_have_their_published_numbers(tmp_path: Path) -> None:
    data = open_data(pets(tmp_path), split=HALF)
    assert data.classes == ("Abyssinian", "american_bulldog", "Bengal")
    for source in data.splits.values():
        for index in range(len(source)):
            line = source.picture(index).decode()
            assert source.name(index) == f"images/{line.split()[0]}.jpg"
            assert source.labels[index] == int(line.split()[1]) - 1


def test_validation_comes_from_trainval_and_the_test_set_waits(tmp_path: Path) -> None:
    data = open_data(pets(tmp_path), split=HALF)
    learned, held, tested = (
        [source.picture(i).decode() for i in range(len(source))] for source in data.splits.values()
    )
    assert sorted(learned + held) == sorted(TRAIN)
    assert data.val.labels.tolist() == [0]
    assert tested == TEST
    assert data.notes[-2:] == (
        "1 of 4 pictures are held out for validation (50 % of each class, rounded down, seed 0); "
        "too small for that: american_bulldog, Bengal",
        "the test pictures decide nothing: they are scored once, at the end",
    )
    assert "test has no pictures of 1 of the 3 classes (american_bulldog)" in data.notes


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("Abyssinian_3", "trainval.txt, line 6 is not a name and the number of a breed"),
        ("Abyssinian_3 one 1 1", "line 6 is not a name"),
        ("Abyssinian_3 1 1 1", r"line 6 names Abyssinian_3.jpg, which is not in images/"),
        ("Bengal_3 1 1 1", "line 6 gives Bengal the number of Abyssinian"),
        ("Bengal_3 9 1 1", "numbers its 4 breeds with gaps"),
        ("../../etc/passwd_1 1 1 1", "line 6 gives ../../etc/passwd the number of Abyssinian"),
    ],
)
def test_wrong_lines_are_refused(tmp_path: Path, line: str, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        open_data(pets(tmp_path, [*TRAIN, line]))
