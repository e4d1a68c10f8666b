"""Who asks a model without classes for some is told how labels come into it."""

import pytest

from patchwords.models.build import configure
from patchwords.training import recipe as recipes
from patchwords.weights.classless import towards_classes


def test_a_tokenizer_is_not_fine_tuned_and_what_learns_its_words_is() -> None:
    said = towards_classes(configure("Tokenizer-64/2"))
    assert "--set objective.tokenizer=MODEL` learns its words" in said
    assert "--weights" not in said
    (recipe,) = (word for word in said.split() if word.startswith("beit/"))
    assert recipes.read(recipe).objective.kind == "beit"


@pytest.mark.parametrize("name", ["ViT-B/16", "MAE-B/16", "BiT-R50x1", "Swin-T"])
def test_any_other_model_is(name: str) -> None:
    assert "`patchwords train DATA --weights MODEL`" in towards_classes(configure(name, classes=0))
