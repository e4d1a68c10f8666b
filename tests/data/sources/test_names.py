"""A million names in little room, and names that can be shown anywhere."""

import pickle

import pytest

from patchwords.data.sources.names import Names, listed, printable, short

ODD = ["a/b.jpg", "", "ü/日本.png", "caf\udce9/1.jpg"]


def test_names_come_back_as_they_were() -> None:
    names = Names(ODD)
    assert [names[index] for index in range(len(names))] == ODD
    assert pickle.loads(pickle.dumps(names))[3] == ODD[3]


def test_no_names_are_no_trouble() -> None:
    assert len(Names([])) == 0


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("caf\udce9", "caf\\udce9"),
        ("a\nb\x1b[2J", "a\\nb\\x1b[2J"),
        ("日本 é 👩\u200d🌾", "日本 é 👩\u200d🌾"),
        ("a\\b", "a\\b"),
    ],
)
def test_what_cannot_be_shown_is_spelt(name: str, shown: str) -> None:
    assert printable(name) == shown


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("flower_photos", "flower_photos"),
        ("My photos (2024)", "My-photos-2024"),
        ("../../etc", "etc"),
        ("-rf", "rf"),
        ("...", "data"),
        ("", "data"),
        ("a/b\\c:d", "a-b-c-d"),
        ("花", "花"),
        ("x" * 300, "x" * 64),
        ("caf\udce9", "caf"),
    ],
)
def test_a_short_name_is_safe_as_the_name_of_a_folder(name: str, safe: str) -> None:
    assert short(name) == safe


def test_a_long_list_is_cut() -> None:
    assert listed("abc") == "a, b, c"
    assert listed("abcde") == "a, b, c and 2 more"
