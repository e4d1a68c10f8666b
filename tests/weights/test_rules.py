"""The engine of the rules: names with numbers, there and back, and nothing taken or given in silence."""

import pytest
import torch
from torch import Tensor

from patchwords.errors import ModelError
from patchwords.weights.rules import (
    JOIN,
    Change,
    Rule,
    compare,
    give,
    listed,
    parse,
    shape,
    take,
    write,
)

RULES = [
    Rule("stem/kernel", "stem.weight", Change(lambda x: x.mT, lambda x: (x.mT,))),
    Rule("block{i+1:02}/part{j}/scale", "blocks.{i}.parts.{j}.weight"),
    Rule(("block{i+1:02}/q", "block{i+1:02}/k", "block{i+1:02}/v"), "blocks.{i}.qkv", JOIN),
    Rule("tail", "tail"),
    Rule("old_tail", "tail"),
]


def theirs() -> dict[str, Tensor]:
    """A foreign state with eleven blocks, so that numbers have one digit and two."""
    state = {"stem/kernel": torch.randn(2, 5), "tail": torch.randn(3)}
    for i in range(1, 12):
        state |= {f"block{i:02}/{name}": torch.randn(2, 4) for name in "qkv"}
        state |= {f"block{i:02}/part{j}/scale": torch.randn(4) for j in range(2)}
    return state


@pytest.mark.parametrize(
    ("template", "key", "numbers"),
    [
        ("plain.name", "plain.name", {}),
        ("a.{i}.b", "a.0.b", {"i": 0}),
        ("a.{i}.b", "a.117.b", {"i": 117}),
        ("a.{i}.b.{j}", "a.3.b.4", {"i": 3, "j": 4}),
        ("block{b+1}/unit{u+1}", "block4/unit12", {"b": 3, "u": 11}),
        ("unit{u+1:02}/x", "unit01/x", {"u": 0}),
        ("unit{u+1:02}/x", "unit23/x", {"u": 22}),
        ("unit{u+1:02}/x", "unit123/x", {"u": 122}),
    ],
)
def test_a_template_reads_the_numbers_it_writes(template: str, key: str, numbers: dict[str, int]) -> None:
    assert parse(template, key) == numbers
    assert write(template, numbers) == key


@pytest.mark.parametrize(
    ("template", "key"),
    [
        ("plain.name", "plain_name"),  # a dot is a dot
        ("a.{i}.b", "a.x.b"),
        ("a.{i}.b", "a..b"),
        ("a.{i}.b", "a.1.b.c"),
        ("a.{i}.b", "c.a.1.b"),
        ("a.{i}.b", "a.-1.b"),
        ("a.{i}.b", "a.01.b"),
        ("unit{u+1:02}/x", "unit1/x"),
        ("block{b+1}", "block0"),
        ("a.{i}.b", f"a.{'9' * 5000}.b"),  # more digits than Python reads
    ],
)
def test_a_template_reads_nothing_it_would_not_write(template: str, key: str) -> None:
    assert parse(template, key) is None


def test_take_gives_our_names_and_layouts() -> None:
    state = theirs()
    ours = take(RULES, state)
    assert len(ours) == 2 + 11 * 3
    assert torch.equal(ours["stem.weight"], state["stem/kernel"].mT)
    assert torch.equal(ours["blocks.9.qkv"], torch.cat([state[f"block10/{name}"] for name in "qkv"]))
    assert torch.equal(ours["blocks.0.parts.1.weight"], state["block01/part1/scale"])


def test_give_undoes_take_bit_for_bit() -> None:
    state = theirs()
    back = give(RULES, take(RULES, state), "this")
    assert back.keys() == state.keys()
    assert all(torch.equal(back[key], state[key]) and back[key].is_contiguous() for key in state)


def test_take_undoes_give_bit_for_bit() -> None:
    ours = take(RULES, theirs())
    again = take(RULES, give(RULES, ours, "this"))
    assert again.keys() == ours.keys()
    assert all(torch.equal(again[key], ours[key]) for key in ours)


def test_of_two_names_for_one_of_ours_both_are_read_and_the_first_is_written() -> None:
    tail = torch.randn(3)
    assert torch.equal(take(RULES, {"old_tail": tail})["tail"], tail)
    assert give(RULES, {"tail": tail}, "this").keys() == {"tail"}


def test_a_missing_partner_is_named() -> None:
    state = theirs()
    del state["block03/k"], state["block03/v"]
    with pytest.raises(ModelError, match=r"block03/q is there, but block03/k, block03/v is not"):
        take(RULES, state)


@pytest.mark.parametrize("lost", ["q", "k", "v"])
def test_a_part_without_its_partners_is_never_left_over_in_silence(lost: str) -> None:
    state = theirs()
    del state[f"block03/{lost}"]
    with pytest.raises(ModelError, match="block03"):
        take(RULES, state)


def test_two_tensors_for_one_of_ours_are_refused_with_both_names() -> None:
    with pytest.raises(ModelError, match=r"old_tail and tail both hold tail: keep one"):
        take(RULES, theirs() | {"old_tail": torch.zeros(3)})


def test_a_tensor_that_no_rule_knows_is_named() -> None:
    with pytest.raises(ModelError, match="no rule knows extra/one, extra/two"):
        take(RULES, theirs() | {"extra/two": torch.zeros(1), "extra/one": torch.zeros(1)})


@pytest.mark.parametrize("name", ["stem.weight", "blocks.0.qkv"])
def test_a_tensor_of_theirs_that_bears_one_of_our_names_is_no_exception(name: str) -> None:
    with pytest.raises(ModelError, match=f"no rule knows {name}"):
        take(RULES, theirs() | {name: torch.zeros(1)})


def test_only_what_is_ignored_by_name_is_left_out() -> None:
    state = theirs()
    ours = take(RULES, state | {"decoder.3.w": torch.zeros(1)}, ignore=("decoder.{i}.w",))
    assert ours.keys() == take(RULES, state).keys()
    with pytest.raises(ModelError, match=r"decoder\.3\.b"):
        take(RULES, state | {"decoder.3.b": torch.zeros(1)}, ignore=("decoder.{i}.w",))


def test_what_a_format_has_no_name_for_is_refused_with_its_name() -> None:
    with pytest.raises(ModelError, match=r"the odd format has no place for registers: .* native holds everything"):
        give(RULES, {"tail": torch.zeros(3), "registers": torch.zeros(1)}, "odd")


def test_compare_lists_all_three_ways_in_which_weights_do_not_fit() -> None:
    found = {"a": torch.zeros(2, 3), "both": torch.zeros(4, 5), "scalar": torch.zeros(())}
    wanted = {"b": torch.zeros(7), "both": torch.zeros(4, 6), "scalar": torch.zeros(())}
    with pytest.raises(ModelError) as caught:
        compare(found, wanted)
    said = str(caught.value)
    assert "missing in the file: b 7" in said
    assert "not in the model: a 2x3" in said
    assert "of another shape: both is 4x5 in the file and 4x6 in the model" in said


def test_compare_says_nothing_of_sides_that_agree() -> None:
    compare({"a": torch.zeros(2)}, {"a": torch.empty(2, device="meta")})
    with pytest.raises(ModelError) as caught:
        compare({}, {"a": torch.zeros(2)})
    assert "missing in the file: a 2" in str(caught.value)
    assert "not in the model" not in str(caught.value)


def test_long_lists_are_cut_and_counted() -> None:
    assert listed(["b", "a"]) == "a, b"
    said = listed(f"name{i:02}" for i in range(30))
    assert said.startswith("name00, name01")
    assert said.endswith("name11 and 18 more")


def test_shapes_read_like_sizes() -> None:
    assert (shape(torch.zeros(2, 3)), shape(torch.zeros(4)), shape(torch.zeros(()))) == ("2x3", "4", "scalar")


def test_a_number_may_be_counted_in_steps_of_two() -> None:
    assert parse("features.{2s+1}.{b}", "features.5.3") == {"s": 2, "b": 3}
    assert parse("features.{2s+1}.{b}", "features.4.3") is None
    assert parse("features.{2s+2}", "features.0") is None
    assert write("features.{2s+2}", {"s": 1}) == "features.4"
