"""README.md beside published weights: what the model is, what it was trained on and how well, and how to use it."""

import html
import json
from collections.abc import Mapping, Sequence

from patchwords import __version__
from patchwords.export.front_matter import Library, Told, front_matter
from patchwords.export.training import Training, training_of
from patchwords.models.cost import cost
from patchwords.pages.markup import visible
from patchwords.pages.wording import SPACE, percent, plural
from patchwords.weights.card import Card
from patchwords.weights.recognise import family
from patchwords.weights.subject import RANDOM, Subject
from patchwords.weights.zoo import ZOO

README = "README.md"
WIDENED = " (grey; in these files the kernels are widened to colour)"
SHIFT = (
    " Where the resized picture is longer than what is cut out of it by 3, 7, 11, … pixels, transformers begins one "
)
SHIFT += "pixel nearer to the edge."
END = "Made by patchwords; what this says was read from the weights' card and, where there is one, from their run."
MOST_CLASSES = 100  # that are listed one by one
SPECIAL = "\\`*_{}[]#+!|~$"  # of Markdown


def model_card(subject: Subject, library: Library, address: str) -> str:
    """The whole file: the head that the Hub reads, then the text for people."""
    told = Told(subject, library, address, training_of(subject))
    parts = [front_matter(told), f"# {escaped(subject.name)}\n\n{_story(told)}", _numbers(told), _classes(told.card)]
    parts += [_preprocessing(told), _trained(told), _use(told), _licence(told.card), END]
    return "\n\n".join(filter(None, parts)) + "\n"


def escaped(text: str) -> str:
    """A name that somebody else chose, on one line and without any meaning for Markdown or HTML."""
    plain = html.escape(visible(text, keep=""), quote=False)
    return "".join(f"\\{letter}" if letter in SPECIAL else letter for letter in plain).strip()


def _story(told: Told) -> str:
    model = told.card.model
    ends = f"tells {plural(model.classes, 'class', 'classes')} of pictures" if model.classes else "ends with a vector"
    kind = {"vit": "Vision Transformer", "swin": "Swin Transformer", "resnet": "ResNet"}.get(model.kind, "model")
    story = f"A {kind} that {ends}, made with patchwords {__version__}."
    if told.card.source == RANDOM:
        return f"{story} **Its weights are random: nobody trained it.**"
    return story


def _numbers(told: Told) -> str:
    costs, model = cost(told.card.model), told.card.model
    widened = WIDENED if told.library == "transformers" and model.channels == 1 else ""
    rows = [
        ("architecture", ", ".join(dict.fromkeys((model.kind, family(model))))),
        ("parameters", f"{costs.parameters:,}"),
        ("multiply-adds", f"{costs.macs:,} a picture"),
        ("picture", f"{_sides(model.image)}, {plural(model.channels, 'channel')}{widened}"),
        *([("patch", _sides(model.patch))] if hasattr(model, "patch") else []),
        *((word, str(getattr(model, word))) for word in ("depth", "width", "heads") if hasattr(model, word)),
        ("probabilities", "each class on its own (sigmoid)" if told.card.loss == "sigmoid" else "sum to one (softmax)"),
    ]
    return f"## Model\n\n{_table(rows if model.classes else rows[:-1])}"


def _classes(card: Card) -> str:
    if not card.classes:
        return ""
    names = ", ".join(escaped(name) for name in card.classes[:MOST_CLASSES])
    rest = f", and {len(card.classes) - MOST_CLASSES:,} more" if len(card.classes) > MOST_CLASSES else ""
    return f"## Classes\n\nIn the order of the outputs: {names}{rest}."


def _preprocessing(told: Told) -> str:
    value = told.card.preprocess
    fits = {
        "squash": "the whole picture is resized, whatever its shape",
        "crop": f"the short side is resized, and the middle cut out, {value.crop:.4g} of it",
        "centre": f"the whole picture is resized, and the middle cut out, {value.crop:.4g} of each side",
    }
    rows = [
        ("size", _sides(value.size)),
        ("fit", f"{value.fit}: {fits[value.fit]}"),
        ("resampling", f"{value.interpolation}, antialiased"),
        ("mean", _list(value.mean)),
        ("deviation", _list(value.deviation)),
        ("orientation", value.orientation),
    ]
    text = f"## Preprocessing\n\n{_table(rows)}\n\nValues are of 0 to 1 before the mean is taken away."
    if told.library == "transformers":
        text += f" transformers reads the same from `preprocessor_config.json`.{SHIFT if value.fit == 'crop' else ''}"
    return text


def _trained(told: Told) -> str:
    training = told.training
    if not training:
        source = told.card.source
        return f"## Training\n\nThe weights are from {escaped(source)}." if source and source != RANDOM else ""
    rows = [("data", _data(training)), *training.settings.items()]
    if training.weights:
        rows.insert(1, ("fine-tuned from", _origin(training.weights)))
    parts = [f"## Training\n\n{_table([(key, escaped(text)) for key, text in rows])}"]
    if training.scores:
        parts.append(_scores(training.scores))
    return "\n\n".join(parts)


def _data(training: Training) -> str:
    counts = ", ".join(f"{count:,} for {part}" for part, count in training.counts.items())
    return f"{training.data} ({counts})" if counts else training.data


def _origin(weights: str) -> str:
    entry = ZOO.get(weights)
    return f"{weights} ({entry.source}; {entry.licence})" if entry else weights


def _scores(scores: Mapping[str, Mapping[str, float]]) -> str:
    """A row a split, which it did not learn from."""
    lines = ["| pictures it did not learn from | number | accuracy | loss |", "|---|---|---|---|"]
    for split, row in scores.items():
        share, loss = percent(row["accuracy"]).replace(SPACE, " "), f"{row['loss']:.4f}" if "loss" in row else ""
        lines.append(f"| {split} | {row.get('count', '')} | {share} | {loss} |")
    if "test" not in scores:
        lines += ["", "The best checkpoint was chosen by these pictures, so on others it is likely a little worse."]
    return "\n".join(lines)


def _use(told: Told) -> str:
    address = json.dumps(told.address, ensure_ascii=False)
    parts = ["## Use"]
    if told.library == "transformers":
        parts.append(
            "```python\nfrom transformers import pipeline\n\n"
            f'ask = pipeline("{told.task}", model={address})\nprint(ask("picture.jpg"))\n```'
        )
    if "/" in told.address:
        name = told.address.partition("/")[2]
        parts.append(f"```sh\npatchwords hub pull {told.address} {name}\npatchwords predict {name} picture.jpg\n```")
        address = json.dumps(name)
    if told.card.model.classes:
        parts.append(
            f"```python\nimport patchwords\n\n"
            f'print(patchwords.Predictor({address}).predict("picture.jpg"))  # the folder of these files\n```'
        )
    return "\n\n".join(parts)


def _licence(card: Card) -> str:
    return f"## Licence\n\n{escaped(card.licence)}" if card.licence else ""


def _table(rows: Sequence[tuple[str, str]]) -> str:
    return "\n".join(["| | |", "|---|---|", *(f"| {key} | {text} |" for key, text in rows)])


def _sides(size: tuple[int, int]) -> str:
    return f"{size[0]}x{size[1]}"


def _list(numbers: tuple[float, ...]) -> str:
    return ", ".join(f"{number:.6g}" for number in numbers)
