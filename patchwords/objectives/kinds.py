"""Every objective that a recipe can name."""

from typing import Literal, get_args

from patchwords.objectives.beit import BEiT
from patchwords.objectives.dino import Dino
from patchwords.objectives.distill import Distill
from patchwords.objectives.mae import MAE
from patchwords.objectives.masked_patch import MaskedPatch
from patchwords.objectives.supervised import Supervised
from patchwords.objectives.tokenizer import Tokenize

ObjectiveKind = Supervised | Distill | MaskedPatch | MAE | BEiT | Tokenize | Dino

WITHOUT_LABELS = frozenset(kind.kind for kind in get_args(ObjectiveKind) if not kind().classes(2))


def loss_of(objective: ObjectiveKind) -> Literal["softmax", "sigmoid"]:
    """The law by which a model's logits answer; without labels it has none, and the usual one is said."""
    match objective:
        case Supervised(loss=loss) | Distill(loss=loss):
            return loss
    return "softmax"


def guides_of(objective: ObjectiveKind) -> dict[str, str]:
    """The models that are learned from, by the setting that names each."""
    match objective:
        case Distill(teacher=name):
            return {"objective.teacher": name}
        case BEiT(tokenizer=name):
            return {"objective.tokenizer": name}
    return {}
