"""Classes go by their names: outputs are mapped, and said to be; what is not known is refused with a way out."""

import numpy as np
import pytest

from patchwords.errors import DataError, ModelError, UsageError
from patchwords.evaluation.matching import match, mismatch
from patchwords.models.vit import ViTConfig
from patchwords.weights.card import Card


def card(*names: str, outputs: int | None = None) -> Card:
    count = len(names) if outputs is None else outputs
    config = ViTConfig(depth=1, width=8, mlp=8, heads=1, patch=(4, 4), image=(8, 8), classes=count)
    return Card(model=config, classes=names)


def test_the_same_names_in_the_same_order_need_no_word() -> None:
    found = match(card("cat", "dog"), ["cat", "dog"])
    assert found.outputs.tolist() == [0, 1]
    assert found.names == ("cat", "dog")
    assert found.notes == ()


def test_another_order_is_mapped_by_name_and_said() -> None:
    found = match(card("dog", "10", "2"), ["10", "2", "dog"])
    assert found.labels(np.array([0, 1, 2, 0])).tolist() == [1, 2, 0, 1]
    assert found.names == ("dog", "10", "2")
    assert found.notes == ("the model has the data's classes in another order: they are matched by name",)


def test_some_of_the_models_classes_are_mapped_and_said() -> None:
    found = match(card("ant", "bee", "cat", "dog"), ["dog", "bee"])
    assert found.labels(np.array([0, 1])).tolist() == [3, 1]
    assert "the data has 2 of the model's 4 classes, which are matched by name" in found.notes[0]


def test_a_class_that_the_model_lacks_is_refused_by_name() -> None:
    with pytest.raises(DataError, match=r"lacks 2 of the data's 3 classes \(elk, fox; it has ant, bee\)") as got:
        match(card("ant", "bee"), ["ant", "elk", "fox"])
    assert "--by-order" not in str(got.value)
    assert "patchwords train DATA --weights MODEL" in str(got.value)


def test_as_many_other_names_are_refused_with_the_advice_to_take_them_by_order() -> None:
    with pytest.raises(DataError, match="take the outputs in the data's order with --by-order"):
        match(card("ant", "bee"), ["Ameise", "Biene"])
    found = match(card("ant", "bee"), ["Ameise", "Biene"], by_order=True)
    assert found.outputs.tolist() == [0, 1]
    assert found.names == ("Ameise", "Biene")
    assert "in the data's order (Ameise, Biene), not by their own names (ant, bee)" in found.notes[0]


@pytest.mark.parametrize("names", [("ant", "bee"), ()])
def test_by_order_refuses_another_number(names: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match=f"the model has {len(names)}, the data 3"):
        match(card(*names), ["x", "y", "z"], by_order=True)


def test_why_they_do_not_match_is_told_without_advice() -> None:
    assert (
        mismatch(card("ant", "bee"), ["bee", "cat"])
        == "the model lacks 1 of the data's 2 classes (cat; it has ant, bee)"
    )
    assert mismatch(card("ant", "bee"), ["bee"]) == ""
    assert mismatch(card(outputs=0), ["bee"]) == "the model has no classes to choose from"


def test_outputs_without_names_are_taken_in_the_datas_order_and_that_is_said() -> None:
    found = match(card(outputs=2), ["ant", "bee"])
    assert found.names == ("ant", "bee")
    assert "names no classes: its 2 outputs are taken in the data's order (ant, bee)" in found.notes[0]


def test_another_number_of_outputs_without_names_is_refused() -> None:
    with pytest.raises(DataError, match="its 1000 outputs cannot stand for the 2 classes"):
        match(card(outputs=1000), ["ant", "bee"])


def test_a_model_without_a_head_has_no_answers() -> None:
    with pytest.raises(ModelError, match=r"no classes to choose from: fine-tune .* --few-shot, --knn or --probe"):
        match(card(outputs=0), ["ant", "bee"])


def test_names_of_strangers_are_printable_in_sentences() -> None:
    with pytest.raises(DataError) as got:
        match(card("a", "b"), ["\x1b[31mred", "line\nbreak"])
    assert str(got.value).isprintable()
