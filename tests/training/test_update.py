"""One update: the same gradients in pieces of any size and on any number of processes, whatever the memory says."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from patchwords.data.augment.augment import Augment
from patchwords.data.finish import Finish
from patchwords.data.mix import Mix
from patchwords.data.order import share
from patchwords.data.preprocess import Preprocess
from patchwords.errors import ResourceError
from patchwords.models.names import Config
from patchwords.objectives.supervised import Classification, Supervised
from patchwords.speed import step as steps
from patchwords.speed.precision import scaler
from patchwords.speed.step import Step
from patchwords.training import optimizer as optimizers
from patchwords.training.distributed import World
from patchwords.training.groups import groups
from patchwords.training.optimizer import SGD, AdamW, Lamb, OptimizerKind, rates
from patchwords.training.update import Loaded, Update, named
from patchwords.training.watch import Log

CPU = torch.device("cpu")
BATCH, CLASSES = 16, 5
PLAIN = Finish(Augment(flip=0.0), Mix(), Preprocess(), CLASSES, seed=3)
MIXED = Finish(Augment(flip=0.5, erase=0.3), Mix(mixup=0.8, cutmix=1.0), Preprocess(), CLASSES, seed=3)


class Heard(Log):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, remark: str) -> None:
        self.notes.append(remark)


@pytest.fixture
def model(small_configs: dict[str, Config], randomised: Callable[[nn.Module], nn.Module]) -> nn.Module:
    torch.manual_seed(1)
    return randomised(small_configs["plain"].build())


@pytest.fixture
def loaded() -> Loaded:
    generator = torch.Generator().manual_seed(2)
    images = torch.randint(0, 256, (BATCH, 3, 32, 24), dtype=torch.uint8, generator=generator)
    return Loaded(images, torch.arange(BATCH) % CLASSES, np.arange(100, 100 + BATCH), np.zeros(BATCH, dtype=np.int64))


def part_of(loaded: Loaded, rows: slice) -> Loaded:
    return Loaded(loaded.images[rows], loaded.labels[rows], loaded.indices[rows], loaded.views[rows])


def update_of(
    model: nn.Module,
    kind: OptimizerKind = SGD(lr=0.1, momentum=0.0),  # noqa: B008
    *,
    micro: int = BATCH,
    finish: Finish = PLAIN,
    clip: float = 0.0,
    skips: bool = False,
    world: World = World(0, 1, CPU),  # noqa: B008
    first: int = 0,
    module: nn.Module | None = None,
    watcher: Log | None = None,
) -> Update:
    objective = Classification(model, Supervised())  # type: ignore[arg-type]
    return Update(
        module=module or objective,
        objective=objective,
        optimizer=optimizers.build(kind, groups(objective, decay=0.0, layer_decay=1.0), CPU),
        scaler=scaler("float32", CPU),
        finish=finish,
        world=world,
        watcher=watcher or Log(),
        precision="float32",
        clip=clip,
        batch=BATCH,
        micro=micro,
        first=first,
        skips=skips,
    )


def gradients(update: Update) -> Tensor:
    return torch.cat([each.grad.flatten() for each in update.parameters])  # type: ignore[union-attr]


def values(model: nn.Module) -> Tensor:
    return torch.cat([each.detach().flatten().clone() for each in model.parameters()])


# Pieces


def test_the_whole_batch_at_once_is_plain_backward(model: nn.Module, loaded: Loaded) -> None:
    objective = Classification(model, Supervised())  # type: ignore[arg-type]
    batch = PLAIN(loaded.images, loaded.labels, indices=loaded.indices, views=loaded.views, step=0, progress=0.0)
    loss, wanted = objective(batch)
    loss.backward()
    by_hand = torch.cat([each.grad.flatten() for each in model.parameters()])  # type: ignore[union-attr]
    before, update = values(model), update_of(model)
    numbers, norm = update(loaded, 0, 0.0)
    torch.testing.assert_close(numbers, {"loss": loss.detach(), "accuracy": wanted["accuracy"]})
    torch.testing.assert_close(norm, by_hand.norm())
    torch.testing.assert_close(values(model), before - 0.1 * by_hand, rtol=0, atol=1e-7)


@pytest.mark.parametrize("micro", [1, 2, 3, 5, 8, 15, 16, 64])
def test_pieces_of_any_size_give_the_same_gradients_and_numbers(model: nn.Module, loaded: Loaded, micro: int) -> None:
    start = {name: each.clone() for name, each in model.state_dict().items()}
    update = update_of(model)
    numbers, norm = update(loaded, 0, 0.0)
    wanted, after = gradients(update), values(model)
    model.load_state_dict(start)
    update = update_of(model, micro=micro)
    in_pieces, norm_in_pieces = update(loaded, 0, 0.0)
    torch.testing.assert_close(gradients(update), wanted, rtol=0, atol=1e-6)
    torch.testing.assert_close(values(model), after, rtol=0, atol=1e-6)
    torch.testing.assert_close(in_pieces, numbers)
    torch.testing.assert_close(norm_in_pieces, norm)


@pytest.mark.parametrize("micro", [2, 4, 6, 10])
def test_pieces_of_pairs_are_augmented_and_mixed_as_the_whole_batch_is(
    model: nn.Module, loaded: Loaded, micro: int
) -> None:
    still = SGD(lr=1e-12, momentum=0.0)
    whole, pieces = update_of(model, still, finish=MIXED), update_of(model, still, finish=MIXED, micro=micro)
    whole(loaded, 5, 0.0)
    wanted = gradients(whole)
    pieces(loaded, 5, 0.0)
    torch.testing.assert_close(gradients(pieces), wanted, rtol=0, atol=1e-6)


@pytest.mark.parametrize("world", [2, 3, 4])
def test_the_mean_over_processes_of_unequal_parts_is_the_gradient_of_the_batch(
    model: nn.Module, loaded: Loaded, world: int
) -> None:
    still = SGD(lr=1e-12, momentum=0.0)
    alone = update_of(model, still, finish=MIXED)
    numbers, _ = alone(loaded, 5, 0.0)
    wanted = gradients(alone)
    found, losses = [], []
    for rank in range(world):
        part = share(BATCH, rank, world)
        one = update_of(model, still, finish=MIXED, micro=4, world=World(rank, world, CPU), first=part.start)
        told, _ = one(part_of(loaded, part), 5, 0.0)
        losses.append(told["loss"])
        found.append(gradients(one))
    torch.testing.assert_close(torch.stack(found).mean(0), wanted, rtol=0, atol=1e-6)
    torch.testing.assert_close(torch.stack(losses).sum(), numbers["loss"])


def test_gradients_of_the_step_before_are_forgotten(model: nn.Module, loaded: Loaded) -> None:
    update = update_of(model, SGD(lr=1e-12, momentum=0.0), micro=4)
    update(loaded, 0, 0.0)
    once = gradients(update).clone()
    update(loaded, 0, 0.0)
    assert torch.equal(gradients(update), once)


# Clipping


def test_the_clip_shortens_what_is_longer_and_tells_the_length_before(model: nn.Module, loaded: Loaded) -> None:
    still = SGD(lr=1e-12, momentum=0.0)
    free = update_of(model, still)
    _, norm = free(loaded, 0, 0.0)
    wanted = gradients(free).clone()
    for clip in (0.01, 0.3 * float(norm)):
        clipped = update_of(model, still, clip=clip, micro=4)
        _, told = clipped(loaded, 0, 0.0)
        torch.testing.assert_close(told, norm)
        torch.testing.assert_close(gradients(clipped).norm(), torch.tensor(clip), rtol=1e-4, atol=0)
        torch.testing.assert_close(gradients(clipped), wanted * clip / norm, rtol=1e-4, atol=1e-7)
    generous = update_of(model, still, clip=10 * float(norm))
    generous(loaded, 0, 0.0)
    torch.testing.assert_close(gradients(generous), wanted)


# Dropout


def test_dropout_is_drawn_by_step_and_place_alone(
    small_configs: dict[str, Config], randomised: Callable[[nn.Module], nn.Module], loaded: Loaded
) -> None:
    model = randomised(replace(small_configs["plain"], dropout=0.5).build())  # type: ignore[type-var]
    update = update_of(model, SGD(lr=1e-12, momentum=0.0), micro=8)

    def drawn(step: int, seed: int, first: int = 0) -> Tensor:
        torch.manual_seed(seed)
        update.first = first
        update(loaded, step, 0.0)
        return gradients(update).clone()

    once = drawn(4, seed=0)
    assert torch.equal(drawn(4, seed=99), once)
    assert not torch.equal(drawn(5, seed=0), once)
    assert not torch.equal(drawn(4, seed=0, first=16), once)


def test_two_pieces_do_not_share_their_dropout(small_configs: dict[str, Config], loaded: Loaded) -> None:
    seen: list[Tensor] = []

    class Watch(nn.Module):
        def __init__(self, objective: nn.Module):
            super().__init__()
            self.objective = objective

        def forward(self, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
            seen.append(torch.rand(4))
            return self.objective(batch)

    model = small_configs["plain"].build()
    update = update_of(model, micro=8, module=Watch(Classification(model, Supervised())))
    update(loaded, 0, 0.0)
    assert len(seen) == 2
    assert not torch.equal(*seen)


# Memory


class Full(nn.Module):
    """A device on which so many pictures fit, forward or backward."""

    def __init__(self, objective: nn.Module, fits: int, at: int = 0):
        super().__init__()
        self.objective = objective
        self.fits = fits
        self.at = at  # the piece with which it is noticed
        self.calls = 0

    def forward(self, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        self.calls += 1
        if len(batch["image"]) > self.fits and self.calls > self.at:
            raise torch.OutOfMemoryError("injected: out of memory")
        loss, numbers = self.objective(batch)
        return loss, numbers


@pytest.mark.parametrize("at", [0, 1])
@pytest.mark.parametrize(("fits", "micro"), [(5, 4), (4, 4), (3, 2), (2, 2)])
def test_where_the_memory_is_full_the_pieces_shrink_and_the_update_is_the_same(
    model: nn.Module, loaded: Loaded, fits: int, micro: int, at: int
) -> None:
    start = {name: each.clone() for name, each in model.state_dict().items()}
    kind = SGD(lr=0.1)
    wanted, norm = update_of(model, kind, finish=MIXED)(loaded, 0, 0.0)
    after = values(model)
    model.load_state_dict(start)
    heard = Heard()
    full = Full(Classification(model, Supervised()), fits, at)  # type: ignore[arg-type]
    update = update_of(model, kind, finish=MIXED, module=full, micro=8 if at else BATCH, watcher=heard)
    numbers, told = update(loaded, 0, 0.0)
    torch.testing.assert_close(numbers, wanted)
    torch.testing.assert_close(told, norm)
    torch.testing.assert_close(values(model), after, rtol=0, atol=1e-6)
    assert update.micro <= micro
    assert update.micro % 2 == 0
    assert f"{update.micro} pictures at a time; the batch stays 16" in heard.notes[-1]
    count = full.calls
    update(loaded, 1, 0.0)  # from here on it fits
    assert full.calls - count == -(-BATCH // update.micro)


def test_where_not_even_a_pair_fits_it_is_an_error_that_says_what_to_do(model: nn.Module, loaded: Loaded) -> None:
    before = values(model)
    update = update_of(model, module=Full(Classification(model, Supervised()), 1))  # type: ignore[arg-type]
    with pytest.raises(ResourceError, match=r"2 pictures at a time: set micro to fewer, recompute=true") as caught:
        update(loaded, 0, 0.0)
    assert caught.value.exit_code == 5
    assert torch.equal(values(model), before)


def test_a_step_that_was_begun_is_not_made_twice(model: nn.Module, loaded: Loaded) -> None:
    """The optimizer's own memory is taken at its first step, when some parameters may have moved already."""
    update = update_of(model)
    step, calls = update.optimizer.step, []

    def torn(*_: object) -> None:
        calls.append(step())
        raise torch.OutOfMemoryError("injected: in the middle of a step")

    update.optimizer.step = torn  # type: ignore[method-assign]
    with pytest.raises(ResourceError, match="out of memory"):
        update(loaded, 0, 0.0)
    assert len(calls) == 1


# Gradients that are no numbers


class Poisoned(nn.Module):
    """Gives a loss, or gradients alone, that are not finite."""

    def __init__(self, objective: nn.Module, factor: float, offset: float):
        super().__init__()
        self.objective, self.factor, self.offset = objective, factor, offset

    def forward(self, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        loss, numbers = self.objective(batch)
        return loss * self.factor + self.offset, numbers


@pytest.mark.parametrize(("factor", "offset"), [(float("nan"), 0.0), (float("inf"), 0.0), (1.0, float("inf"))], ids=str)
@pytest.mark.parametrize("clip", [0.0, 1.0])
def test_a_skipped_update_leaves_parameters_and_optimizer_untouched(
    model: nn.Module, loaded: Loaded, factor: float, offset: float, clip: float
) -> None:
    update = update_of(model, AdamW(lr=0.1), skips=True, clip=clip)
    update(loaded, 0, 0.0)
    before = values(model), optimizers.state(update.optimizer)[0]
    kept = {name: each.clone() for name, each in before[1].items()}
    good = update.module
    update.module = Poisoned(good, factor, offset)
    numbers, norm = update(loaded, 1, 0.0)
    assert not numbers["loss"].isfinite()
    assert not norm.isfinite()
    assert torch.equal(values(model), before[0])
    after, _ = optimizers.state(update.optimizer)
    assert all(torch.equal(after[name], kept[name]) for name in kept)
    update.module = good
    _, norm = update(loaded, 2, 0.0)
    assert norm.isfinite()
    assert not torch.equal(values(model), before[0])


def test_without_skipping_the_step_is_made_and_told(model: nn.Module, loaded: Loaded) -> None:
    update = update_of(model, module=Poisoned(Classification(model, Supervised()), float("nan"), 0.0))  # type: ignore[arg-type]
    _, norm = update(loaded, 0, 0.0)
    assert norm.isnan()
    assert values(model).isnan().any()


# A step that is recorded and replayed


class Tape:
    """A graph of the CPU: what is recorded is not done yet, and each replay works in the same memory."""

    def __init__(self, update: Update):
        self.update, self.replays = update, 0

    def __call__(self, work: Callable[[], Tensor], device: torch.device) -> tuple[Tensor, Callable[[], None]]:
        state = [*self.update.objective.state_dict().values(), *optimizers.state(self.update.optimizer)[0].values()]
        before = [tensor.clone() for tensor in state]
        with torch.random.fork_rng(devices=[]):
            left = work()
        for tensor, value in zip(state, before, strict=True):
            tensor.copy_(value)

        def replay() -> None:
            self.replays += 1
            left.copy_(work())

        return left, replay


def recorded(update: Update, monkeypatch: pytest.MonkeyPatch) -> Tape:
    tape = Tape(update)
    monkeypatch.setattr(steps, "captured", tape)
    update.whole = Step(update._whole, graph="always", alone=True, device=CPU, note=update.watcher.note)
    return tape


@pytest.mark.parametrize("kind", [AdamW(lr=0.01), SGD(lr=0.1), Lamb(lr=0.01)], ids=lambda kind: kind.kind)
def test_a_recorded_step_is_the_same_step(
    small_configs: dict[str, Config], loaded: Loaded, kind: OptimizerKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = []
    for record in (False, True):
        torch.manual_seed(1)
        model = replace(small_configs["plain"], dropout=0.2, stochastic_depth=0.2).build()  # type: ignore[type-var]
        update = update_of(model, kind, finish=MIXED, clip=0.5)
        tape = recorded(update, monkeypatch) if record else None
        told = []
        for step in range(9):
            rates(update.optimizer, 0.01 / (1 + step))
            if step == 6:
                update.forget()
            numbers, norm = update(loaded, step, step / 9)
            told.append(torch.stack([numbers["loss"], numbers["accuracy"], norm]))
        ends.append((values(model), torch.stack(told), optimizers.state(update.optimizer)[0]))
        assert tape is None or tape.replays == 3  # and launched three times at first, and after it was forgotten
    assert torch.equal(ends[0][0], ends[1][0])
    assert torch.equal(ends[0][1], ends[1][1])
    assert all(torch.equal(tensor, ends[1][2][name]) for name, tensor in ends[0][2].items())


def test_a_recorded_step_whose_memory_is_full_goes_on_in_pieces(
    model: nn.Module, loaded: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = Heard()
    full = Full(Classification(model, Supervised()), BATCH)  # type: ignore[arg-type]
    update = update_of(model, module=full, watcher=heard)
    tape = recorded(update, monkeypatch)
    for step in range(5):
        update(loaded, step, 0.0)
    assert tape.replays == 2
    full.fits = 4
    before = full.calls
    numbers, norm = update(loaded, 5, 0.0)
    assert numbers["loss"].isfinite()
    assert norm.isfinite()
    assert (tape.replays, full.calls - before) == (3, 1 + 1 + 4)
    assert "4 pictures at a time" in heard.notes[-1]


# Waiting for the device


class Waits(TorchDispatchMode):
    """Counts the moments at which a program would wait for its device: a number taken out of a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.count += func in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.nonzero.default)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("kind", [AdamW(lr=0.1), SGD(lr=0.1)], ids=lambda kind: kind.kind)
def test_an_update_does_not_wait_for_the_device(model: nn.Module, loaded: Loaded, kind: OptimizerKind) -> None:
    update = update_of(model, kind, finish=MIXED, clip=1.0, micro=8)
    update(loaded, 0, 0.0)
    with Waits() as waits:
        update(loaded, 1, 0.0)
    assert waits.count == 0
    with Waits() as waits:
        float(torch.ones(1)[0])
    assert waits.count == 1  # the count counts


# Small things


def test_every_group_gets_the_rate_times_its_factor(model: nn.Module) -> None:
    objective = Classification(model, Supervised())  # type: ignore[arg-type]
    found = optimizers.build(SGD(lr=1.0), groups(objective, decay=0.1, layer_decay=0.5), CPU)
    rates(found, 0.25)
    assert {group["scale"] for group in found.param_groups} == {1.0, 0.5, 0.25, 0.125}
    assert all(group["lr"] == 0.25 * group["scale"] for group in found.param_groups)


def test_pictures_are_named_up_to_a_few() -> None:
    class Numbered:
        def name(self, index: int) -> str:
            return f"{index}.jpg"

    assert named(Numbered(), np.array([3, 1])) == "3.jpg, 1.jpg"
    assert named(Numbered(), range(11), most=2) == "0.jpg, 1.jpg and 9 more"
