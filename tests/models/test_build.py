"""`build`: a model from a name, and what one does with models: compile them, export them."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import patchwords
from patchwords.errors import UsageError
from patchwords.models.build import build, configure
from patchwords.models.model import Model
from patchwords.models.names import Config, read
from patchwords.models.resnet import ResNet
from patchwords.models.vit import ViT, ViTConfig

Randomise = Callable[[nn.Module], nn.Module]

# The compiler's own modules use a function that torch itself has deprecated.
own_warnings_of_the_compiler = pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")


@pytest.fixture
def model(small_config: Config, randomised: Randomise) -> Model:
    return randomised(small_config.build()).eval()


@pytest.fixture
def fresh_compiler() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def pictures(model: Model, batch: int = 3) -> Tensor:
    return torch.randn(batch, model.config.channels, *model.config.image)


def gradients(model: nn.Module, run: Callable[[Tensor], Tensor], images: Tensor) -> dict[str, Tensor]:
    model.zero_grad()
    run(images).square().mean().backward()
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters() if parameter.requires_grad}


def assert_same_run(model: Model, run: Callable[[Tensor], Tensor]) -> None:
    """Outputs and gradients of `run` are those of the model itself."""
    images = pictures(model)
    torch.testing.assert_close(run(images), model(images), rtol=1e-4, atol=1e-5)
    wanted, found = gradients(model, model, images), gradients(model, run, images)
    for name, gradient in wanted.items():
        torch.testing.assert_close(
            found[name], gradient, rtol=1e-3, atol=1e-4, msg=lambda text, name=name: f"{name}: {text}"
        )


def test_build_is_the_face_of_the_package() -> None:
    assert patchwords.build is build


@pytest.mark.parametrize(("name", "kind"), [("ViT-Mu/16", ViT), ("BiT-R26x1", ResNet)])
def test_a_name_becomes_a_model(name: str, kind: type) -> None:
    model = build(name, classes=3, image=32)
    assert isinstance(model, kind)
    assert model.config == configure(name, classes=3, image=32)
    assert model(torch.zeros(1, 3, 32, 32)).shape == (1, 3)


def test_the_three_numbers_can_be_changed_and_others_stay() -> None:
    config = configure("ViT-S/16", classes=7, image=(64, 96), channels=4)
    assert (config.classes, config.image, config.channels) == (7, (64, 96), 4)
    assert configure(config, classes=1000, image=224, channels=3) == read("ViT-S/16")
    assert configure("ViT-S/16") == read("ViT-S/16")


def test_a_patch_must_divide_the_picture_that_is_asked_for_and_no_other() -> None:
    config = configure("ViT-B/15", image=240)
    assert (config.patch, config.image) == ((15, 15), (240, 240))
    assert config == read("ViT-B/15@240")
    assert configure("DeiT-Ti/15", image=(30, 45)) == read("DeiT-Ti/15@30x45")
    with pytest.raises(UsageError, match="image 34x34 is not a multiple of patch 64x64"):
        build("ViT-Mu/64", image=34)


def test_no_classes_is_not_the_same_as_not_saying_how_many() -> None:
    assert configure("ViT-S/16", classes=0).classes == 0
    assert configure("ViT-S/16", classes=None).classes == 1000


def test_a_configuration_of_ones_own_is_built_as_it_is() -> None:
    config = ViTConfig(depth=1, width=8, mlp=8, heads=1, patch=(4, 4), image=(8, 8), classes=2)
    assert build(config).config == config


def test_a_wrong_name_or_size_is_refused() -> None:
    with pytest.raises(UsageError, match="did you mean ViT-B/16"):
        build("ViT-B16")
    with pytest.raises(UsageError, match="image 100x100 is not a multiple of patch 16x16"):
        build("ViT-Mu/16", image=100)


@own_warnings_of_the_compiler
@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("small_config", ["plain", "relative"], indirect=True)
def test_a_compiled_model_gives_and_learns_what_the_model_does(model: Model) -> None:
    assert_same_run(model, torch.compile(model, fullgraph=True))


@own_warnings_of_the_compiler
@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("small_config", ["hybrid"], indirect=True)
def test_a_compiled_hybrid_gives_what_the_hybrid_gives(model: Model) -> None:
    images = pictures(model)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(model, fullgraph=True)(images), model(images), rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("fresh_compiler")
def test_every_model_is_one_graph(model: Model) -> None:
    assert_same_run(model, torch.compile(model, fullgraph=True, backend="aot_eager"))


def test_an_exported_model_takes_any_number_of_pictures(model: Model) -> None:
    batch = torch.export.Dim("batch", min=1, max=64)
    program = torch.export.export(model, (pictures(model),), dynamic_shapes=({0: batch},)).module()
    for size in (1, 2, 7):
        images = pictures(model, size)
        torch.testing.assert_close(program(images), model(images), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"image": 224.0}, "image: 224.0 is not a whole number or a pair"),
        ({"image": "224"}, "image: '224' is not a whole number or a pair"),
        ({"classes": ["a", "b"]}, "classes: .* is not a whole number"),
        ({"channels": 3.0}, "channels: 3.0 is not a whole number"),
    ],
)
def test_a_slip_is_answered_with_a_sentence(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        build("ViT-Mu/16", **options)


def test_none_is_no_name() -> None:
    with pytest.raises(UsageError, match="None is no model's name"):
        build(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["ViT-Mu/16", "R26x1"])
@pytest.mark.parametrize(
    "images",
    [torch.zeros(3, 32, 32), torch.zeros(1, 32, 32, 3), torch.zeros(1, 1, 32, 32), torch.zeros(1, 3, 32, 32).byte()],
    ids=["one picture", "channels last", "grey", "bytes"],
)
def test_what_is_no_batch_of_pictures_is_refused(name: str, images: torch.Tensor) -> None:
    with pytest.raises(UsageError, match="pictures are batch x 3 x height x width"):
        build(name, image=32)(images)


def test_a_resnet_has_no_attention_and_says_so() -> None:
    with pytest.raises(UsageError, match="a ResNet has no attention weights"):
        build("R26x1", image=32).attention(torch.zeros(1, 3, 32, 32), at=[1])
