"""DINO: its loss written out as loops, its centre and teacher step by step, and the number that shows a collapse."""

import math
import multiprocessing
import os
import socket
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from patchwords.errors import UsageError
from patchwords.layers.pool import Mean
from patchwords.layers.position import Learned2D, NoPosition, Relative, SinCos2D
from patchwords.models.names import Config
from patchwords.models.vit import ViTConfig
from patchwords.objectives.dino import Dino, SelfDistillation, agreement, spread
from patchwords.objectives.kinds import ObjectiveKind
from patchwords.objectives.objective import Batch
from patchwords.settings import read, write

Randomised = Callable[[nn.Module], nn.Module]

TINY = ViTConfig(depth=2, width=16, mlp=24, heads=2, patch=(4, 4), image=(16, 16), channels=1, classes=0)
SMALL = Dino(outputs=24, hidden=20, bottleneck=8, held=0.0)


def made(settings: Dino = SMALL, config: Config = TINY) -> SelfDistillation:
    torch.manual_seed(1)
    objective = settings.build(config.build())
    with torch.no_grad():  # a teacher that differs
        for parameter in objective.teacher.parameters():
            parameter += 0.05 * torch.randn_like(parameter)
    return objective


def batch(count: int = 6, small: int = 3, config: Config = TINY) -> Batch:
    torch.manual_seed(2)
    channels, (height, width) = config.channels, config.image
    large = torch.randn(count, 2, channels, height, width)
    found = {"image": large[:, 0], "large": large}
    if small:
        found["small"] = torch.randn(count, small, channels, height // 2, width // 2)
    return found


def piece(given: Batch, rows: slice) -> Batch:
    return {name: tensor[rows] for name, tensor in given.items()}


def step(objective: SelfDistillation, *pieces: Batch, progress: float = 0.5) -> None:
    """As the loop does it, without an optimizer."""
    objective.train()
    objective.before_step()
    for one in pieces:
        objective(one)[0].backward()
    objective.after_step(progress)


@torch.no_grad()
def by_hand(objective: SelfDistillation, given: Batch) -> float:
    """Algorithm 1 of the paper with multi-crop: a loop over the pictures and over the pairs of crops."""
    settings, total, pairs = objective.settings, 0.0, 0
    one = torch.ones(())
    for number in range(given["large"].shape[0]):
        large = [crop[None] for crop in given["large"][number]]
        small = [crop[None] for crop in given["small"][number]] if "small" in given else []
        taught = [objective.teacher.head(objective.teacher.model.represent(crop), one)[0] for crop in large]
        features = [objective.model.represent(crop) for crop in large] + [objective.model.glimpse(c) for c in small]
        answers = [objective.head(feature, one)[0] for feature in features]
        for place, target in enumerate(taught):
            shares = F.softmax((target - objective.centre) / settings.teacher_temperature, 0)
            for other, answer in enumerate(answers):
                if other != place:
                    total -= float((shares * F.log_softmax(answer / settings.temperature, 0)).sum())
                    pairs += 1
    return total / pairs


@pytest.mark.parametrize("small", [0, 3])
def test_the_loss_is_the_papers_over_all_pairs_of_different_crops(small: int) -> None:
    objective, given = made(), batch(small=small)
    objective.centre.normal_(std=0.1)
    loss, _ = objective.train()(given)
    assert loss.item() == pytest.approx(by_hand(objective, given), rel=1e-5)


def test_a_picture_that_comes_alone_is_compared_with_itself() -> None:
    objective, given = made().eval(), batch()
    loss, numbers = objective({"image": given["image"]})
    one = torch.ones(())
    teacher = objective.teacher.head(objective.teacher.model.represent(given["image"]), one) / 0.04
    student = objective.head(objective.model.represent(given["image"]), one) / 0.1
    torch.testing.assert_close(loss, F.cross_entropy(student, teacher.softmax(1)))
    assert numbers["information"] > 0


def test_the_loss_of_a_batch_is_the_mean_of_its_pieces() -> None:
    objective, given = made().train(), batch(6)
    whole = objective(given)[0]
    pieces = [objective(piece(given, slice(start, start + 2)))[0] for start in (0, 2, 4)]
    torch.testing.assert_close(torch.stack(pieces).mean(), whole)


def test_the_crops_of_a_picture_stay_with_it() -> None:
    objective, given = made().train(), batch(5)
    order = torch.tensor([3, 0, 4, 2, 1])
    shuffled = {name: tensor[order] for name, tensor in given.items()}
    torch.testing.assert_close(objective(shuffled)[0], objective(given)[0])


# The centre


def test_the_centre_follows_the_mean_of_the_teachers_logits_and_begins_with_the_first() -> None:
    objective, given = made(replace(SMALL, centre=0.9, momentum=1.0)), batch()
    logits = objective.teacher(given["large"].flatten(0, 1), torch.ones(()))
    step(objective, given)
    torch.testing.assert_close(objective.centre, logits.mean(0))
    objective.centre.zero_()
    step(objective, given)
    torch.testing.assert_close(objective.centre, 0.1 * logits.mean(0))


def test_pieces_give_the_centre_of_the_whole_batch_even_where_they_are_tried_again() -> None:
    given = batch(6)
    whole, parts = made(), made()
    step(whole, given)
    parts.train()
    parts.before_step()
    parts(piece(given, slice(0, 4)))  # and then the memory was full
    step(parts, *(piece(given, slice(start, start + 2)) for start in (0, 2, 4)))
    torch.testing.assert_close(parts.centre, whole.centre)


def test_pictures_to_be_judged_by_do_not_move_it() -> None:
    objective, given = made(), batch()
    objective.before_step()
    objective.eval()({"image": given["image"]})
    assert objective.counted == 0
    assert not objective.total.any()


def centred(rank: int, port: int, told: Connection) -> None:
    """The centre of one of two processes, each with its part of a batch."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    objective = made().train()
    with torch.no_grad():
        objective(piece(batch(6), (slice(0, 2), slice(2, 6))[rank]))
    objective.after_step(0.5)
    told.send(objective.centre.tolist())
    dist.barrier()


def test_two_processes_have_the_centre_of_their_whole_batch() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = multiprocessing.get_context("fork")
    pipes = [context.Pipe(duplex=False) for _ in range(2)]
    processes = [context.Process(target=centred, args=(rank, port, pipes[rank][1])) for rank in range(2)]
    for process in processes:
        process.start()
    assert all(hear.poll(120) for hear, _ in pipes)
    found = [torch.tensor(hear.recv()) for hear, _ in pipes]
    for process in processes:
        process.join(60)
    alone = made()
    step(alone, batch(6))
    assert torch.equal(found[0], found[1])
    torch.testing.assert_close(found[0], alone.centre)


# The teacher


def test_the_momentum_rises_to_one_on_a_cosine() -> None:
    settings = Dino(momentum=0.996)
    assert settings.momentum_at(0.0) == pytest.approx(0.996)
    assert settings.momentum_at(0.5) == pytest.approx(0.998)
    assert settings.momentum_at(1.0) == 1.0


def test_the_teacher_begins_as_the_student_and_follows_it() -> None:
    objective = replace(SMALL, momentum=0.9).build(TINY.build())
    pairs = [
        *zip(objective.teacher.model.parameters(), objective.model.parameters(), strict=True),
        *zip(objective.teacher.head.parameters(), objective.head.parameters(), strict=True),
    ]
    assert all(torch.equal(teacher, student) for teacher, student in pairs)
    with torch.no_grad():
        for _, student in pairs:
            student += 1
    before = [teacher.clone() for teacher, _ in pairs]
    step(objective, batch(), progress=0.25)
    share = 1 - objective.settings.momentum_at(0.25)
    for (teacher, student), old in zip(pairs, before, strict=True):
        torch.testing.assert_close(teacher, old + share * (student - old))


def test_the_teacher_is_always_in_evaluation_and_never_learns() -> None:
    objective = made(config=replace(TINY, dropout=0.5, stochastic_depth=0.5))
    objective.train()
    assert objective.model.training
    assert not any(part.training for part in objective.teacher.modules())
    given = batch()
    torch.testing.assert_close(objective.targets(given["large"]), objective.targets(given["large"]))
    objective(given)[0].backward()
    assert all(parameter.grad is None and not parameter.requires_grad for parameter in objective.teacher.parameters())


def test_the_teachers_temperature_warms_up() -> None:
    settings = replace(SMALL, first_temperature=0.04, teacher_temperature=0.07, warmup=0.3)
    objective, found = settings.build(TINY.build()), []
    for progress in (0.0, 0.15, 0.3, 0.9):
        objective.progress.fill_(progress)
        found.append(objective.teacher_temperature.item())
    assert found == pytest.approx([0.04, 0.055, 0.07, 0.07])
    assert SMALL.build(TINY.build()).teacher_temperature.item() == pytest.approx(0.04)


# Gradients


@pytest.mark.parametrize(
    "change",
    [{}, {"pool": Mean(), "special": ()}, {"pool": Mean(norm="after")}, {"position": Learned2D()},
     {"position": SinCos2D()}, {"position": NoPosition()}, {"layer_scale": 0.1}],
)  # fmt: skip
def test_every_trainable_parameter_receives_a_gradient(change: dict[str, Any], randomised: Randomised) -> None:
    objective = made(config=replace(TINY, **change))
    randomised(objective.model)
    objective.train()(batch())[0].backward()
    for name, parameter in objective.named_parameters():
        if parameter.requires_grad:
            assert parameter.grad is not None, name
            assert parameter.grad.any(), name


@pytest.mark.parametrize("small_config", ["resnet pre", "hybrid", "no positions"], indirect=True)
def test_any_model_that_takes_other_sizes_can_be_taught(small_config: Config) -> None:
    config = replace(small_config, classes=0, image=(32, 32))
    loss, _ = made(config=config).train()(batch(2, small=1, config=config))
    assert loss.isfinite()


def test_positions_that_know_one_grid_are_refused() -> None:
    with pytest.raises(UsageError, match="one grid of patches"):
        made(config=replace(TINY, position=Relative())).train()(batch())


def test_the_last_layer_is_held_at_first_with_gradients_of_zero() -> None:
    objective = made(replace(SMALL, held=0.2)).train()
    objective(batch())[0].backward()
    weight = objective.head.directions.weight
    assert weight.grad is not None
    assert not weight.grad.any()
    assert objective.head.fc1.weight.grad.any()
    objective.progress.fill_(0.2)
    objective(batch())[0].backward()
    assert weight.grad.any()


def test_the_heads_logits_are_cosines() -> None:
    objective = made()
    logits = objective.head(torch.randn(7, 16) * 100, torch.ones(()))
    assert logits.shape == (7, 24)
    assert logits.abs().max() <= 1 + 1e-6
    with torch.no_grad():
        objective.head.directions.weight *= 5  # lengths have no say
    torch.manual_seed(0)
    features = torch.randn(7, 16)
    longer = objective.head(features, torch.ones(()))
    with torch.no_grad():
        objective.head.directions.weight /= 5
    torch.testing.assert_close(objective.head(features, torch.ones(())), longer)


def test_the_usual_head_is_the_papers() -> None:
    settings = Dino()
    assert (settings.outputs, settings.hidden, settings.bottleneck) == (65536, 2048, 256)
    assert (settings.temperature, settings.teacher_temperature, settings.centre) == (0.1, 0.04, 0.9)


# State


def test_what_is_saved_is_all_that_it_needs_to_go_on_to_the_same_bits() -> None:
    first = made(replace(SMALL, warmup=0.5, first_temperature=0.02, held=0.5))
    for number in range(3):
        step(first, batch(), progress=(number + 1) / 6)
    state = {name: tensor.clone() for name, tensor in first.state_dict().items()}
    assert {"centre", "progress", "teacher.head.fc1.weight", "teacher.model.embed.patch.weight"} <= state.keys()
    assert not {"total", "counted"} & state.keys()
    second = first.settings.build(TINY.build())
    second.load_state_dict(state)
    for objective in (first, second):
        step(objective, batch(), progress=0.7)
    assert torch.equal(first.train()(batch())[0], second.train()(batch())[0])
    for name, tensor in first.state_dict().items():
        assert torch.equal(tensor, second.state_dict()[name]), name


def test_settings_are_read_as_they_are_written() -> None:
    assert read(write(SMALL), Dino) == SMALL
    assert isinstance(SMALL, ObjectiveKind)
    assert SMALL.classes(10) == 0


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"outputs": 1}, "outputs 1 is below 2"),
        ({"temperature": 0.0}, "temperature 0.0 is no temperature"),
        ({"momentum": 1.5}, "momentum 1.5 is no share"),
        ({"held": -0.1}, "held -0.1 is no share"),
    ],
)
def test_impossible_settings_are_refused(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        Dino(**given)


# Fast


def test_it_runs_under_bfloat16_with_a_loss_in_float32() -> None:
    objective, given = made().train(), batch()
    with torch.autocast("cpu", torch.bfloat16):
        loss, numbers = objective(given)
    assert {loss.dtype, *(number.dtype for number in numbers.values())} == {torch.float32}
    torch.testing.assert_close(loss, objective(given)[0], rtol=0.05, atol=0.05)


def test_it_compiles_as_one_graph() -> None:
    plain, compiled, given = made().train(), made().train(), batch()
    compiled.compile(fullgraph=True, backend="eager")
    for objective in (plain, compiled):
        step(objective, given, progress=0.1)
        step(objective, given, progress=0.2)
    torch.testing.assert_close(compiled.centre, plain.centre)
    for (name, one), other in zip(plain.named_parameters(), compiled.parameters(), strict=True):
        if one.requires_grad:
            torch.testing.assert_close(other.grad, one.grad, rtol=1e-4, atol=1e-6, msg=name)


# Collapse


def test_the_numbers_say_how_sure_the_teacher_is_and_what_it_tells() -> None:
    same = torch.full((8, 2, 16), 1 / 16).log()  # every output alike
    one = torch.full((8, 2, 16), -60.0)
    one[..., 3] = 0.0  # one output always
    each = torch.full((8, 2, 16), -60.0)
    each[torch.arange(8), :, torch.arange(8)] = 0.0  # an output for each picture
    found = [{name: value.item() for name, value in spread(x.log_softmax(-1)).items()} for x in (same, one, each)]
    assert [numbers["teacher_entropy"] for numbers in found] == pytest.approx([math.log(16), 0, 0], abs=1e-5)
    assert [numbers["information"] for numbers in found] == pytest.approx([0, 0, math.log(8)], abs=1e-5)


def test_a_model_that_sees_nothing_is_known_by_its_information() -> None:
    objective, given = made().train(), batch(16)
    seen = objective(given)[1]["information"]
    with torch.no_grad():
        for parameter in objective.teacher.model.embed.patch.parameters():
            parameter.zero_()
    assert objective(given)[1]["information"].abs() < 1e-5 < seen


def learned(seed: int, **given: float) -> float:
    """What the teacher's answers tell of eight kinds of pictures after some steps."""
    torch.manual_seed(seed)
    objective = Dino(outputs=32, hidden=32, bottleneck=16, momentum=0.9, held=0.0, **given).build(
        replace(TINY, depth=1, width=32, mlp=48, image=(8, 8)).build()
    )
    kinds, steps = torch.randn(8, 1, 8, 8), 90
    trained = [parameter for parameter in objective.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=2e-3, weight_decay=0.0)
    numbers: dict[str, Tensor] = {}
    for number in range(steps):
        large = kinds.repeat(4, 1, 1, 1)[:, None] + 0.3 * torch.randn(32, 2, 1, 8, 8)
        objective.train().before_step()
        optimizer.zero_grad()
        loss, numbers = objective({"image": large[:, 0], "large": large})
        loss.backward()
        optimizer.step()
        objective.after_step((number + 1) / steps)
    return numbers["information"].item()


def test_centring_and_sharpening_keep_it_from_collapsing() -> None:
    assert learned(0) > 0.4
    assert learned(0, centre=1.0, teacher_temperature=0.1) < 0.1


def test_agreement_of_equal_answers_is_their_entropy() -> None:
    shares = torch.randn(3, 1, 6).expand(-1, 2, -1).log_softmax(-1)
    entropy = -(shares.exp() * shares).sum(-1).mean()
    torch.testing.assert_close(agreement(shares.exp(), shares), entropy)
