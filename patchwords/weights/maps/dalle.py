"""DALL-E's published encoder (openai/DALL-E); and with torch's usual names for the same, FLAVA's image codebook."""

from patchwords.weights.rules import Rule, pair

GROUP = "blocks.group_{g+1}"
SIGNS = ("blocks.input.w", f"{GROUP}.group.block_{{b+1}}.res_path.path.conv_1.weight")


def encoder(heads: int) -> list[Rule]:
    return [*openai(), *flava()]


def openai() -> list[Rule]:
    block, ours = f"{GROUP}.block_{{b+1}}", "groups.{g}.blocks.{b}"
    return [
        *short("blocks.input", "input"),
        *short(f"{block}.id_path", f"{ours}.shortcut"),
        *(rule for n in (1, 2, 3, 4) for rule in short(f"{block}.res_path.conv_{n}", f"{ours}.conv{n}")),
        *short("blocks.output.conv", "output"),
    ]


def short(theirs: str, ours: str) -> list[Rule]:
    """Weight and bias, of which DALL-E writes the first letters."""
    return [Rule(f"{theirs}.w", f"{ours}.weight"), Rule(f"{theirs}.b", f"{ours}.bias")]


def flava() -> list[Rule]:
    block, ours = f"{GROUP}.group.block_{{b+1}}", "groups.{g}.blocks.{b}"
    return [
        *pair("blocks.input", "input"),
        *pair(f"{block}.id_path", f"{ours}.shortcut"),
        *(rule for n in (1, 2, 3, 4) for rule in pair(f"{block}.res_path.path.conv_{n}", f"{ours}.conv{n}")),
        *pair("blocks.output.conv", "output"),
    ]
