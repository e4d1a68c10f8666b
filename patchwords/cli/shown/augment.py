"""A page of pictures as training will see them."""

from dataclasses import replace
from pathlib import Path

from patchwords import settings
from patchwords.cli.output import Output
from patchwords.cli.shown.page import check_page, write_page
from patchwords.data.finish import Finish
from patchwords.data.loader import Cut
from patchwords.data.preprocess import Preprocess
from patchwords.data.sheet import draw, look
from patchwords.data.sources.door import open_data, open_pictures
from patchwords.data.sources.source import Data
from patchwords.errors import UsageError
from patchwords.models import names
from patchwords.models.build import configure
from patchwords.training import recipe as recipes
from patchwords.training.recipe import Recipe
from patchwords.weights import card as cards
from patchwords.weights.card import Card
from patchwords.weights.checkpoint import open_checkpoint
from patchwords.weights.zoo import ZOO


def show_augment(
    output: Output, name: str, given: str, out: Path, changes: settings.Table, *, offline: bool, mirror: str
) -> None:
    """Writes the page; everything that random draws decide is what a run of this recipe would draw."""
    check_page(out)
    recipe = recipes.read(name, changes)
    opening = open_data if recipe.objective.classes(2) else open_pictures
    with output.download(given) as progress:
        data = opening(given, split=recipe.data.validation, offline=offline, mirror=mirror, progress=progress)
    preprocess, channels = _prepared(name, recipe, data)
    fed, glimpses = recipe.data, recipe.data.glimpses
    cut = Cut(data.train, fed.crop, preprocess, channels, recipe.seed, glimpses)
    finish = Finish(fed.augment, fed.mix, preprocess, len(data.classes), recipe.seed, glimpses)
    seen = look(cut, finish, data.classes)
    for damage in seen.damages:
        output.note(f"{damage.name} cannot be read ({damage.reason}); another is shown")
    height, width = preprocess.size
    page = draw(seen, f"{name} on {data.name}, {height}x{width}, seed {recipe.seed}")
    write_page(out, page)
    output.json({"name": name, "data": data.name, "page": str(out), "size": [height, width], "pictures": seen.names})
    output.text(f"{out}: {len(seen.names)} pictures of {data.name} as {name} shows them to a model of {height}x{width}")


def _prepared(name: str, recipe: Recipe, data: Data) -> tuple[Preprocess, int]:
    """How pictures are prepared, and their channels: those of the model that a run would begin with, never built."""
    if recipe.model or recipe.weights:
        card = _stored(recipe) if recipe.weights else _named(recipe, data)
        return recipe.data.preprocess(card.preprocess), card.model.channels
    if recipe.image is None:
        raise UsageError(f"{name} leaves model and size open: say --image 224, or --set model=ViT-B/16 or weights=FILE")
    channels = 3 if data.channels == 1 else data.channels  # models take colours, also of what is grey
    half = (0.5,) * channels
    return recipe.data.preprocess(Preprocess(size=recipe.image, mean=half, deviation=half)), channels


def _named(recipe: Recipe, data: Data) -> Card:
    channels = None if data.channels in (1, 3) else data.channels
    config = configure(recipe.model, image=recipe.image, channels=channels)
    return cards.fitted(Card(model=config), config, ())


def _stored(recipe: Recipe) -> Card:
    """The card of a file, of which only the head is read; published weights need not be fetched."""
    if recipe.weights in ZOO and not Path(recipe.weights).exists():
        entry = ZOO[recipe.weights]
        card = Card(model=names.read(entry.model), preprocess=entry.preprocess)
    else:
        card = replace(open_checkpoint(recipe.weights, wish=recipe.image, depth="shapes").card, classes=())
    return cards.fitted(card, configure(card.model, image=recipe.image), ())
