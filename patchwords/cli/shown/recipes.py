"""A recipe with all its settings, and the list of those in the package."""

from patchwords import settings
from patchwords.cli.output import Output
from patchwords.training import recipe as recipes
from patchwords.training.run.toml import toml


def show_recipes(output: Output) -> None:
    rows = [(name, recipes.cited(name)) for name in recipes.names()]
    for name, says in rows:
        output.json({"name": name, "says": says})
    output.table(("recipe", "what it is"), rows)
    output.note("`patchwords show NAME` shows all settings of one; `patchwords train --recipe NAME` follows it.")


def show_recipe(output: Output, name: str, changes: settings.Table) -> None:
    """As TOML that is a recipe again: `patchwords show scratch > mine.toml`."""
    recipe = recipes.read(name, changes, output.note)
    table = settings.write(recipe)
    says = recipes.cited(name) if name in recipes.names() else ""
    output.json({"name": name, "says": says, "recipe": table})
    if says:
        output.text(f"# {says}")
    output.text(toml(table).rstrip("\n"))
