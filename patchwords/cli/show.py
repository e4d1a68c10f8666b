"""`patchwords show NAME`: a model, weights, a recipe, a run, a study, what training will see, or the lists of these."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from patchwords.cli.options import Heads, Image, Json, Mirror, Offline, Quiet, Set, pair
from patchwords.errors import UsageError

LISTS = ("models", "recipes", "zoo")
KINDS: dict[str, tuple[str, tuple[str, ...]]] = {  # what each is called, and the options that it takes
    "list": ("a list", ()),
    "page": ("a page of pictures", ("--image", "--set", "--out", "--offline", "--mirror")),
    "mae": ("reconstructed pictures", ("--set", "--out", "--seed", "--heads")),
    "recipe": ("a recipe, whose settings are changed with --set", ("--set",)),
    "run": ("a run, which says it itself", ()),
    "study": ("a study, which says it itself", ()),
    "file": ("a file, which says it itself", ("--image", "--heads")),
    "entry": ("published weights", ()),
    "model": ("a model, whose parts are changed with --set", ("--classes", "--channels", "--image", "--set")),
}


def show(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="A model (ViT-B/16@384), weights, a recipe, the folder of a run or a study; "
            "`models`, `recipes`, `zoo`, `augment` or `mae`.",
        ),
    ],
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="RECIPE DATA", help="For `augment`; for `mae` a run and its pictures.", show_default=False
        ),
    ] = [],  # noqa: B006
    classes: Annotated[int | None, typer.Option(help="Number of classes; 0 for no head.")] = None,
    channels: Annotated[int | None, typer.Option(help="Channels of the pictures.")] = None,
    image: Image = None,
    heads: Heads = None,
    setting: Set = [],  # noqa: B006
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The page of `augment` or `mae`.", show_default="augment.png, mae.png"),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Which patches `mae` takes away.", min=0, show_default="0")] = None,
    offline: Offline = False,
    mirror: Mirror = "",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show a model, a weights file, a recipe, a run, a study, or lists of these.

    Of a model: parameters, multiply-adds, memory, layers. Of a file: what it holds, without loading it whole.
    Of a recipe: every setting, as a file to change and train with. Of a run or a study: how far it got, how well, what
    to do next.
    `augment` draws a page of pictures as a model will see them when it is trained by RECIPE on DATA.
    `mae RUN IMAGE…` draws pictures, what a masked autoencoder is shown of them, and what it makes of that; RUN is a
    run with objective mae or a ViTMAEForPreTraining, and --set changes its ratio.
    --set changes a part of a model (pool.kind=mean head.kind=mlp width=384 …) or a setting of a recipe.
    """
    from patchwords import settings
    from patchwords.cli.output import Output
    from patchwords.cli.shown import augment, mae, models, recipes, runs, studies, weights
    from patchwords.models.build import configure

    output, path = Output(as_json, quiet), Path(name)
    given: dict[str, object] = {"--classes": classes, "--channels": channels, "--image": image, "--heads": heads}
    given |= {"--set": setting or None, "--out": out, "--offline": offline or None, "--mirror": mirror or None}
    given |= {"--seed": seed}
    kind = _kind(name)
    _refuse(kind, words, given)
    changes = settings.assignments(setting)
    match kind:
        case "list":
            {"models": models.show_models, "recipes": recipes.show_recipes, "zoo": weights.show_zoo}[name](output)
        case "page":
            changes |= {} if image is None else {"image": pair(image)}
            page = out or Path("augment.png")
            augment.show_augment(output, *_two(words), page, changes, offline=offline, mirror=mirror)
        case "mae":
            mae.show_mae(output, words, out or Path("mae.png"), changes, seed=seed or 0, heads=heads)
        case "recipe":
            recipes.show_recipe(output, name, changes)
        case "run":
            runs.show_run(output, path)
        case "study":
            studies.show_study(output, path)
        case "file":
            weights.show_file(output, path, heads, pair(image))
        case "entry":
            weights.show_entry(output, name)
        case "model":
            config = configure(name, classes=classes, channels=channels, image=pair(image))
            models.show_model(output, name, settings.change(config, changes))


def _kind(name: str) -> str:
    """What a name stands for; a recipe of the package goes before a file of that name, as for `train --recipe`."""
    from patchwords.cli.shown import studies
    from patchwords.models import names
    from patchwords.settings import nearest
    from patchwords.studies import grid as grids
    from patchwords.training import recipe
    from patchwords.weights.zoo import ZOO

    path = Path(name)
    found = {
        "list": name in LISTS,
        "page": name == "augment",
        "mae": name == "mae",
        "recipe": name in recipe.names() or (path.suffix == ".toml" and path.is_file()),
        "run": (path / "recipe.toml").is_file(),
        "study": studies.is_study(path),
        "file": bool(name) and path.exists(),
        "entry": name in ZOO,
        "model": names.fits(name),
    }
    for kind, fits in found.items():
        if fits:
            return kind
    if name in grids.names():
        raise UsageError(f"{name} is a grid of studies: `patchwords study NAME DATA --grid {name}` takes it")
    near = nearest(name, [*names.NAMES, *ZOO, *recipe.names(), *LISTS, "augment", "mae"])
    lists = "`patchwords show models`, `show recipes` and `show zoo` list them"
    advice = near if near.startswith("did you mean") else lists
    raise UsageError(
        f"{name!r} does not exist, as a file, a model, a recipe, a run, a study or published weights; {advice}"
    )


def _refuse(kind: str, words: list[str], given: Mapping[str, object]) -> None:
    """An option or a word that would be ignored is refused."""
    what, allowed = KINDS[kind]
    if words and kind not in ("page", "mae"):
        raise UsageError(
            f"{words[0]!r} is a word too many: only `show augment RECIPE DATA` and `show mae RUN IMAGE` take more"
        )
    if wrong := [option for option, value in given.items() if value is not None and option not in allowed]:
        raise UsageError(f"{wrong[0]} does not apply to {what}")


def _two(words: list[str]) -> tuple[str, str]:
    if len(words) != 2:
        raise UsageError("say which recipe and which data, for example: patchwords show augment scratch my_photos")
    return words[0], words[1]
