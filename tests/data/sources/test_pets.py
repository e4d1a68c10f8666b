"""Oxford-IIIT Pets as published."""

from pathlib import Path

import pytest

from patchwords.data.sources.door import open_data
from patchwords.errors import DataError

TRAIN = ["Abyssinian_1 1 1 1", "Abyssinian_2 1 1 1", "american_bulldog_7 2 2 1", "Bengal_3 3 1 2"]
TEST = ["Abyssinian_9 1 1 1", "Bengal_33 3 1 2"]


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
    data = open_data(pets(tmp_path))
    assert data.classes == ("Abyssinian", "american_bulldog", "Bengal")
    assert data.train.labels.tolist() == [0, 0, 1, 2]
    assert data.val.labels.tolist() == [0, 2]
    assert data.train.picture(2) == b"american_bulldog_7 2 2 1"
    assert data.val.name(1) == "images/Bengal_33.jpg"
    assert any("test pictures are used for validation" in note for note in data.notes)


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
