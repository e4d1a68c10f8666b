"""On a CUDA device every model gives what it gives on the CPU, eager and compiled, and trains in bfloat16."""

import pytest
import torch

from patchwords.models.names import Config

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.filterwarnings("ignore"),  # inductor's advice on precision is not ours to mend
]


@pytest.fixture(autouse=True)
def exact() -> None:
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False


def test_the_device_agrees_with_the_cpu(small_config: Config, randomised) -> None:
    model = randomised(small_config.build()).eval()
    images = torch.randn(3, small_config.channels, *small_config.image)
    with torch.inference_mode():
        expected = model(images)
        found = model.cuda()(images.cuda()).cpu()
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize(
    "small_config",
    ["plain", "relative", "beit", "beit shared", "axial", "map", "hybrid", "resnet pre", "swin odd"],
    indirect=True,
)
def test_compiled_agrees_with_eager_forward_and_backward(small_config: Config, randomised) -> None:
    torch._dynamo.reset()
    model = randomised(small_config.build()).cuda().eval()
    images = torch.randn(3, small_config.channels, *small_config.image, device="cuda")
    gradients = []
    for forward in (model, torch.compile(model, fullgraph=True)):
        model.zero_grad()
        forward(images).square().sum().backward()
        gradients.append([parameter.grad.clone() for parameter in model.parameters()])
    for eager, compiled in zip(*gradients, strict=True):
        torch.testing.assert_close(compiled, eager, atol=2e-4, rtol=2e-3)


def test_a_step_in_bfloat16_is_finite(small_config: Config, randomised) -> None:
    model = randomised(small_config.build()).cuda()
    images = torch.randn(4, small_config.channels, *small_config.image, device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(images).float().square().mean()
    loss.backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())
