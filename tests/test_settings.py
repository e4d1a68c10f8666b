"""Settings are strict: what is unknown or of the wrong type is refused with the key and the nearest name."""

import json
import math
import re
import tomllib
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import pytest

from patchwords import settings
from patchwords.errors import UsageError
from patchwords.models.names import NAMES, Config
from patchwords.models.names import read as named
from patchwords.models.resnet import ResNetConfig
from patchwords.models.vit import ViTConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class Round:
    kind: ClassVar[str] = "round"
    radius: float = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Angular:
    kind: ClassVar[str] = "angular"
    corners: int = 4
    style: Literal["sharp", "soft"] = "sharp"


@dataclass(frozen=True, kw_only=True, slots=True)
class Deep:
    inner: Angular = field(default_factory=Angular)
    note: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Drawing:
    """One of everything that settings are made of."""

    count: int
    ratio: float = 0.5
    title: str = "untitled"
    framed: bool = False
    size: tuple[int, int] = (2, 3)
    layers: tuple[str, ...] = ()
    limit: int | None = None
    shape: Round | Angular = field(default_factory=Round)
    deep: Deep | None = None
    mode: Literal["fast", "slow"] = "fast"
    copies: int | Literal["auto", "all"] = 1
    signed: bool | Literal["twice"] = False
    free: dict[str, Any] = field(default_factory=dict)


DRAWING = Drawing(count=1)


def refused(table: Any, into: type = Drawing) -> str:
    with pytest.raises(UsageError) as caught:
        settings.read(table, into)
    return str(caught.value)


# Reading.


def test_defaults_are_those_of_the_dataclass() -> None:
    assert settings.read({"count": 1}, Drawing) == DRAWING


def test_a_table_is_read_into_all_its_parts() -> None:
    table = {
        "count": 3,
        "ratio": 0.25,
        "title": "x",
        "framed": True,
        "size": [4, 5],
        "layers": ["a", "b"],
        "limit": 9,
        "shape": {"kind": "angular", "corners": 6, "style": "soft"},
        "deep": {"inner": {"corners": 5}, "note": "n"},
        "mode": "slow",
        "copies": "auto",
        "free": {"a": 1, "b": {"c": [2]}},
    }
    assert settings.read(table, Drawing) == Drawing(
        count=3,
        ratio=0.25,
        title="x",
        framed=True,
        size=(4, 5),
        layers=("a", "b"),
        limit=9,
        shape=Angular(corners=6, style="soft"),
        deep=Deep(inner=Angular(corners=5), note="n"),
        mode="slow",
        copies="auto",
        free={"a": 1, "b": {"c": [2]}},
    )


@pytest.mark.parametrize(
    ("key", "near"), [("coutn", "count"), ("Ratio", "ratio"), ("titel", "title"), ("layer", "layers")]
)
def test_an_unknown_key_is_answered_with_the_nearest(key: str, near: str) -> None:
    assert re.fullmatch(f"{key} is not a setting; did you mean .*{near}.*\\?", refused({"count": 1, key: 1}))


def test_an_unknown_key_like_no_other_is_answered_with_all() -> None:
    sentence = refused({"count": 1, "zzz": 1})
    assert sentence.startswith("zzz is not a setting; there are count, ratio, title")


def test_an_unknown_key_inside_a_part_is_named_with_its_path() -> None:
    assert refused({"count": 1, "shape": {"kind": "round", "radus": 2.0}}) == (
        "shape.radus is not a setting; did you mean radius?"
    )
    assert refused({"count": 1, "deep": {"inner": {"corner": 2}}}) == (
        "deep.inner.corner is not a setting; did you mean corners?"
    )


def test_a_key_of_another_kind_is_unknown() -> None:
    assert "shape.corners is not a setting" in refused({"count": 1, "shape": {"kind": "round", "corners": 3}})


def test_everything_that_is_wrong_is_said_at_once() -> None:
    sentences = refused({"count": "1", "framed": 1, "mood": 2}).split("; ")
    assert "count: '1' is not a whole number: write one, as 3" in sentences
    assert "framed: 1 is not true or false: write one of these" in sentences
    assert "mood is not a setting" in sentences


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("count", 1.0, "count: 1.0 is not a whole number: write one, as 3"),
        ("count", True, "count: True is not a whole number: write one, as 3"),
        ("count", "1", "count: '1' is not a whole number: write one, as 3"),
        ("count", None, "count: None is not a whole number: write one, as 3"),
        ("ratio", "0.5", "ratio: '0.5' is not a number: write one, as 0.1 or 3e-4"),
        ("ratio", True, "ratio: True is not a number: write one, as 0.1 or 3e-4"),
        ("title", 3, f"title: 3 is not a text: {settings.QUOTED}"),
        ("framed", 1, "framed: 1 is not true or false: write one of these"),
        ("framed", "true", "framed: 'true' is not true or false: write one of these"),
        ("limit", 1.5, "limit: 1.5 is not a whole number: write one, as 3"),
        ("layers", ["a", 2], f"layers[1]: 2 is not a text: {settings.QUOTED}"),
        ("mode", "fats", "mode: 'fats' is not one of fast, slow; did you mean fast?"),
        ("mode", 3, "mode: 3 is not one of fast, slow; choose one of these"),
        ("size", [1], "size: [1] is not a whole number or a pair [height, width]: write 224, or [224, 320]"),
        (
            "size",
            [1, 2, 3],
            "size: [1, 2, 3] is not a whole number or a pair [height, width]: write 224, or [224, 320]",
        ),
        ("size", [1.0, 2], "size: [1.0, 2] is not a whole number or a pair [height, width]: write 224, or [224, 320]"),
        ("size", "12", "size: '12' is not a whole number or a pair [height, width]: write 224, or [224, 320]"),
        ("size", True, "size: True is not a whole number or a pair [height, width]: write 224, or [224, 320]"),
        ("copies", "atuo", "copies: 'atuo' is not a whole number or auto or all: write one of these"),
        ("copies", 2.0, "copies: 2.0 is not a whole number or auto or all: write one of these"),
        ("copies", True, "copies: True is not a whole number or auto or all: write one of these"),
        ("copies", ["auto"], "copies: ['auto'] is not a whole number or auto or all: write one of these"),
        ("copies", None, "copies: None is not a whole number or auto or all: write one of these"),
        ("signed", "twcie", "signed: 'twcie' is not true or false or twice: write one of these"),
        ("signed", 1, "signed: 1 is not true or false or twice: write one of these"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused(key: str, value: Any, sentence: str) -> None:
    assert refused({"count": 1, key: value}) == sentence


@pytest.mark.parametrize("value", ["ab", 3, {"a": "b"}])
def test_a_list_is_not_read_from_something_else(value: Any) -> None:
    assert refused({"count": 1, "layers": value}) == (
        f"layers: {value!r} is not a list: write one in brackets, with commas between"
    )


@pytest.mark.parametrize("value", [3, "x", [1, 2]])
def test_a_part_is_not_read_from_something_else(value: Any) -> None:
    sentence = refused({"count": 1, "deep": value})
    assert sentence.startswith("deep: ")
    assert repr(value) in sentence


def test_a_missing_key_is_named_once() -> None:
    assert refused({}) == "count is missing"


def test_something_that_is_no_table_is_refused() -> None:
    assert refused([1, 2]) == "list is no table of settings"


def test_a_whole_number_stands_for_a_number() -> None:
    drawing = settings.read({"count": 1, "ratio": 2}, Drawing)
    assert drawing.ratio == 2.0
    assert isinstance(drawing.ratio, float)


@pytest.mark.parametrize(("value", "size"), [(7, (7, 7)), ([7, 8], (7, 8)), ((7, 8), (7, 8))])
def test_one_number_stands_for_a_pair(value: Any, size: tuple[int, int]) -> None:
    assert settings.read({"count": 1, "size": value}, Drawing).size == size


@pytest.mark.parametrize("copies", [0, -3, 12, "auto", "all"])
def test_a_word_may_stand_for_a_number(copies: Any) -> None:
    drawing = settings.read({"count": 1, "copies": copies}, Drawing)
    assert drawing.copies == copies
    assert settings.read(settings.write(drawing), Drawing) == drawing


@pytest.mark.parametrize("signed", [True, False, "twice"])
def test_a_word_may_stand_beside_true_and_false(signed: Any) -> None:
    drawing = settings.read({"count": 1, "signed": signed}, Drawing)
    assert drawing.signed is signed or drawing.signed == signed == "twice"
    assert settings.read(settings.write(drawing), Drawing) == drawing


# Kinds.


@pytest.mark.parametrize(
    ("value", "shape"),
    [
        ("angular", Angular()),
        ({"kind": "angular"}, Angular()),
        ({"kind": "angular", "corners": 3}, Angular(corners=3)),
        ({"kind": "round", "radius": 2}, Round(radius=2.0)),
    ],
)
def test_a_part_is_chosen_by_its_kind_and_a_word_is_short_for_it(value: Any, shape: Round | Angular) -> None:
    assert settings.read({"count": 1, "shape": value}, Drawing).shape == shape


@pytest.mark.parametrize("value", ["angulr", {"kind": "angulr"}])
def test_an_unknown_kind_is_answered_with_the_nearest(value: Any) -> None:
    sentence = "shape: kind 'angulr' is not one of round, angular; did you mean angular?"
    assert refused({"count": 1, "shape": value}) == sentence


@pytest.mark.parametrize("value", [3, {}, {"radius": 1.0}, ["round"], {"kind": ["round"]}])
def test_a_part_without_a_kind_is_refused_with_the_kinds(value: Any) -> None:
    assert "is not one of round, angular" in refused({"count": 1, "shape": value})


def test_a_part_that_has_no_choice_may_leave_out_its_kind_but_not_lie_about_it() -> None:
    assert settings.read({"inner": {"kind": "angular", "corners": 3}}, Deep) == Deep(inner=Angular(corners=3))
    assert refused({"inner": {"kind": "round"}}, Deep) == "inner: kind 'round' is not angular"


def test_a_wrong_kind_at_the_top_is_refused_as_one_inside_is() -> None:
    table = settings.write(named("ViT-Mu/16"))
    assert refused(table | {"kind": "resnet"}, ViTConfig) == "kind 'resnet' is not vit"
    kinds = "vit, resnet, swin, tokenizer"
    assert refused(table | {"kind": "vitt"}, Config) == f"kind 'vitt' is not one of {kinds}; did you mean vit?"


# Writing.


def test_a_written_table_has_the_kinds_and_only_plain_values() -> None:
    table = settings.write(Drawing(count=1, shape=Angular(), deep=Deep()))
    assert table["shape"] == {"kind": "angular", "corners": 4, "style": "sharp"}
    assert table["deep"] == {"inner": {"kind": "angular", "corners": 4, "style": "sharp"}, "note": None}
    assert table["limit"] is None


@pytest.mark.parametrize("name", NAMES)
def test_every_named_configuration_survives_writing_and_reading(name: str) -> None:
    config = named(name)
    table = settings.write(config)
    assert settings.read(table, type(config)) == config
    assert settings.read(json.loads(json.dumps(table)), Config) == config


def test_every_small_configuration_survives_writing_and_reading(small_config: Config) -> None:
    table = json.loads(json.dumps(settings.write(small_config)))
    assert table["kind"] == small_config.kind
    assert settings.read(table, Config) == small_config


def test_a_resnet_table_is_read_as_a_resnet() -> None:
    table = settings.write(named("BiT-R50x1"))
    assert isinstance(settings.read(table, Config), ResNetConfig)


# Changing.


def test_change_replaces_dotted_keys_and_nothing_else() -> None:
    before = Drawing(count=1, title="x", deep=Deep(note="n"))
    after = settings.change(before, {"count": 2, "deep.inner.corners": 8, "shape.radius": 3})
    assert after == Drawing(count=2, title="x", deep=Deep(inner=Angular(corners=8), note="n"), shape=Round(radius=3.0))
    assert before == Drawing(count=1, title="x", deep=Deep(note="n"))


@pytest.mark.parametrize("order", [1, -1])
def test_a_new_kind_starts_afresh_in_whatever_order_its_keys_come(order: int) -> None:
    before = Drawing(count=1, shape=Round(radius=9.0))
    changes = [("shape.kind", "angular"), ("shape.corners", 3)][::order]
    assert settings.change(before, dict(changes)).shape == Angular(corners=3)


def test_the_same_kind_keeps_what_was_set() -> None:
    before = Drawing(count=1, shape=Angular(corners=7))
    assert settings.change(before, {"shape.kind": "angular", "shape.style": "soft"}).shape == Angular(
        corners=7, style="soft"
    )


def test_a_part_may_be_replaced_as_a_whole() -> None:
    assert settings.change(DRAWING, {"shape": "angular"}).shape == Angular()
    assert settings.change(DRAWING, {"shape": {"kind": "round", "radius": 4}}).shape == Round(radius=4.0)


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("whole", ["angular", {"kind": "angular"}])
def test_a_part_and_keys_within_it_go_together_in_whatever_order_they_come(order: int, whole: Any) -> None:
    changes = [("shape", whole), ("shape.corners", 3)][::order]
    assert settings.change(Drawing(count=1, shape=Round(radius=9.0)), dict(changes)).shape == Angular(corners=3)
    assert whole in ("angular", {"kind": "angular"})  # what was given is not changed with it


def test_a_word_for_the_kind_that_is_there_starts_it_afresh() -> None:
    assert settings.change(Drawing(count=1, shape=Angular(corners=7)), {"shape": "angular"}).shape == Angular()


def test_a_free_table_is_changed_by_dotted_keys_like_any_other() -> None:
    before = Drawing(count=1, free={"a": 1})
    after = settings.change(before, {"free.b.c": 2, "free.d": "x"})
    assert after.free == {"a": 1, "b": {"c": 2}, "d": "x"}
    assert before.free == {"a": 1}


def test_a_part_that_was_not_there_is_made_by_its_keys() -> None:
    assert settings.change(DRAWING, {"deep.note": "n"}).deep == Deep(note="n")


def test_change_is_as_strict_as_read() -> None:
    with pytest.raises(UsageError, match=r"shape\.corners is not a setting; there are radius"):
        settings.change(DRAWING, {"shape.corners": 3})
    with pytest.raises(UsageError, match=r"coutn is not a setting; did you mean count\?"):
        settings.change(DRAWING, {"coutn": 3})
    with pytest.raises(UsageError, match="count: 'x' is not a whole number"):
        settings.change(DRAWING, {"count": "x"})


def test_a_key_that_leads_into_a_plain_value_is_refused() -> None:
    with pytest.raises(UsageError, match=r"count\.x leads into count, which is a plain value; set count itself"):
        settings.change(DRAWING, {"count.x": 3})


def test_a_model_can_be_changed_into_another_that_is_checked() -> None:
    config = named("ViT-Mu/16")
    after = settings.change(config, {"pool.kind": "mean", "pool.norm": "after", "image": 64, "head": "mlp"})
    assert (after.pool.kind, after.pool.norm, after.image, after.head.kind) == ("mean", "after", (64, 64), "mlp")
    with pytest.raises(UsageError, match="image 100x100 is not a multiple of patch 16x16"):
        settings.change(config, {"image": 100})


def test_the_kind_of_a_model_itself_cannot_be_changed() -> None:
    with pytest.raises(UsageError, match="kind 'resnet' is not vit"):
        settings.change(named("ViT-Mu/16"), {"kind": "resnet"})


# Dotted keys.


def test_dotted_keys_are_the_ways_to_the_plain_values() -> None:
    table = {"a": 1, "b": {"c": [2, 3], "d": {"e": None}}, "f.g": {"h": "x"}}
    assert settings.dotted(table) == {"a": 1, "b.c": [2, 3], "b.d.e": None, "f.g.h": "x"}
    assert settings.dotted({}) == settings.dotted({"a": {}}) == {}


def test_dotted_keys_of_everything_that_is_set_make_it_again() -> None:
    drawing = Drawing(count=4, shape=Angular(corners=3, style="soft"), deep=Deep(note="n"), free={"a": {"b": 2}})
    assert settings.change(DRAWING, settings.dotted(settings.write(drawing))) == drawing


# Words of a command line.


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("a=1", 1),
        ("a = 1", 1),
        ("a=-1", -1),
        ("a=1e-3", 1e-3),
        ("a=true", True),
        ('a="x y"', "x y"),
        ("a='x=y'", "x=y"),
        ("a=[1, 2]", [1, 2]),
        ('a={ kind = "mean", norm = "after" }', {"kind": "mean", "norm": "after"}),
        ("a=mean", "mean"),
        ("a=learned-1d", "learned-1d"),
        ("a=R50+ViT-B/16@384x224", "R50+ViT-B/16@384x224"),
        ("a=data/train.toml", "data/train.toml"),
        ("a=/data/run-1", "/data/run-1"),
        ("a=../runs/digits", "../runs/digits"),
        ("a=~/runs/digits", "~/runs/digits"),
        ("a=timm:regnety_160.deit_in1k", "timm:regnety_160.deit_in1k"),
        ("a=True", "True"),  # TOML's word is true
        ("a=blocks 2", "blocks 2"),
        ("a=~/my runs/digits", "~/my runs/digits"),
        ("a=__import__('os')", "__import__('os')"),
        ('a="1"', "1"),
    ],
)
def test_a_value_is_toml_or_a_bare_word(word: str, value: Any) -> None:
    found = settings.assignments([word])
    assert found == {"a": value}
    assert type(found["a"]) is type(value)


def test_infinity_and_not_a_number_are_toml_too() -> None:
    found = settings.assignments(["a=inf", "b=nan"])
    assert found["a"] == math.inf
    assert math.isnan(found["b"])


@pytest.mark.parametrize("text", ["20k steps", "30 steps", "1 epoch", "2.5 epochs", "5%", "5 %", "10epochs"])
def test_an_amount_with_its_unit_needs_no_quotes(text: str) -> None:
    assert settings.assignments([f"duration={text}"]) == {"duration": text}


def test_keys_stay_dotted_and_the_last_word_counts() -> None:
    assert settings.assignments(["pool.kind=mean", "x=1", "x=2"]) == {"pool.kind": "mean", "x": 2}


@pytest.mark.parametrize("word", ["a", "=1", "", " =1"])
def test_a_word_without_key_or_equals_is_refused(word: str) -> None:
    with pytest.raises(UsageError, match=r"is not a setting; write key=value, for example pool\.kind=mean"):
        settings.assignments([word])


@pytest.mark.parametrize("word", ["a=[1", "a=[x y]", "a={kind=mean}", "a='x", 'a="x y'])
def test_a_value_that_is_neither_toml_nor_a_bare_text_is_refused(word: str) -> None:
    with pytest.raises(UsageError, match=r"is not a TOML value; quote a text, write a list as \[1, 2\]"):
        settings.assignments([word])


def test_a_setting_without_a_value_is_refused_and_an_empty_text_is_quoted() -> None:
    with pytest.raises(UsageError, match="freeze= says nothing: write a value, or freeze='\"\"' for an empty text"):
        settings.assignments(["freeze="])
    assert settings.assignments(['freeze=""']) == {"freeze": ""}


@pytest.mark.parametrize("text", ["x y", "3x", "__import__('os')", "1 2"])
def test_a_bare_text_is_for_settings_that_are_texts(text: str) -> None:
    assert settings.change(DRAWING, settings.assignments([f"title={text}"])).title == text
    for key in ("count", "ratio", "framed", "size", "layers", "limit", "shape", "mode", "copies", "signed", "free"):
        with pytest.raises(UsageError, match=f"^{key}[: ]"):
            settings.change(DRAWING, settings.assignments([f"{key}={text}"]))


def test_words_and_a_file_say_the_same() -> None:
    table = tomllib.loads('count = 2\nsize = [4, 5]\nshape = { kind = "angular", corners = 3 }')
    words = ["count=2", "size=[4, 5]", "shape.kind=angular", "shape.corners=3"]
    assert settings.change(DRAWING, settings.assignments(words)) == settings.read(table, Drawing)


# The nearest name.


@pytest.mark.parametrize(
    ("name", "names", "answer"),
    [
        ("adma", ["adam", "sgd"], "did you mean adam?"),
        ("ADAM", ["adam", "sgd"], "did you mean adam?"),
        ("xyz", ["adam", "sgd"], "there are adam, sgd"),
        ("xyz", ["a"] * 1030, f"there are {', '.join(['a'] * 30)} and 1,000 more"),
        ("xyz", [], "there is nothing to set here"),
    ],
)
def test_the_nearest_name_or_all_of_them(name: str, names: list[str], answer: str) -> None:
    assert settings.nearest(name, names) == answer


@pytest.mark.parametrize("number", [0, 0.0, 0.5, 0.999])
def test_a_share_below_one_is_taken(number: float) -> None:
    settings.below_one(dropout=number)


@pytest.mark.parametrize("number", [-0.1, 1, 1.0, float("nan"), float("inf")])
def test_what_is_no_share_below_one_is_refused_by_name(number: float) -> None:
    with pytest.raises(UsageError, match=f"dropout {number} is no share: choose one from 0 up to, but below, 1"):
        settings.below_one(rate=0.5, dropout=number)
