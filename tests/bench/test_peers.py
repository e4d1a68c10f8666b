"""The one door to other libraries: the same weights there, or a remark."""

from types import ModuleType

import pytest
import torch

from patchwords.bench import peers
from patchwords.errors import ModelError, UsageError
from patchwords.models.build import build
from patchwords.models.model import Model


def test_who_is_not_installed_is_a_remark(lonely: None, heard: list[str]) -> None:
    assert peers.installed(peers.PEERS, heard.append) == {}
    assert heard == ["timm is not installed", "transformers is not installed", "torchvision is not installed"]


def test_who_is_unknown_is_an_error(heard: list[str]) -> None:
    with pytest.raises(UsageError, match="did you mean timm"):
        peers.installed(("tim",), heard.append)
    with pytest.raises(UsageError, match="did you mean ours"):
        peers.installed(("our",), heard.append)


def test_versions_are_told(timm: ModuleType, heard: list[str]) -> None:
    assert peers.installed(("timm",), heard.append) == {"timm": "9.9"}


def test_what_is_missing_below_is_named(monkeypatch: pytest.MonkeyPatch, heard: list[str]) -> None:
    def broken(name: str) -> ModuleType:
        raise ModuleNotFoundError("No module named 'torchvision'", name="torchvision")

    monkeypatch.setattr("importlib.import_module", broken)
    peers.installed(("timm",), heard.append)
    assert heard == ["timm cannot be imported (No module named 'torchvision')"]


@pytest.mark.parametrize("name", ["ViT-Mu/8", "DeiT-Mu/8"])  # the one computes GELU by tanh, the other by erf
def test_timms_twin_gives_the_same_logits(timm: ModuleType, name: str) -> None:
    from patchwords.bench.values import randomised

    model = randomised(build(name, image=(16, 24), classes=5)).eval()
    images = 3 * torch.randn(2, 3, 16, 24)
    with torch.inference_mode():
        assert torch.allclose(peers.twin("timm", model)(images), model(images), atol=2e-6)


def test_transformers_twin_gives_the_same_logits(model: Model) -> None:
    pytest.importorskip("transformers")
    images = torch.randn(2, 3, 16, 16)
    twin = peers.twin("transformers", model)
    with torch.inference_mode():
        assert torch.allclose(twin(images), model.eval()(images), atol=2e-6)


def test_the_twin_has_weights_of_its_own(timm: ModuleType, model: Model) -> None:
    before = model.head.classifier.weight.detach().clone()
    twin = peers.twin("timm", model)
    with torch.no_grad():
        twin.head.weight.zero_()
    assert torch.equal(model.head.classifier.weight, before)


@pytest.mark.parametrize("name", ["ViT-Lite-2/4", "R50x1", "Axial-ViT-Ti/16"])
def test_what_a_peer_has_not_is_refused(timm: ModuleType, name: str) -> None:
    with pytest.raises(ModelError):
        peers.twin("timm", build(name, classes=3))


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (ModelError("it is another"), "timm is left out: it is another"),
        (RuntimeError("no compiler\nat all"), "timm does not run: RuntimeError: no compiler"),
        (ValueError("Caught ValueError in worker 0.\nbits are wrong"), "timm does not run: ValueError: bits are wrong"),
        (OSError(), "timm does not run: OSError: no reason is given"),
    ],
)
def test_a_peers_trouble_is_a_remark(heard: list[str], error: Exception, sentence: str) -> None:
    def fail() -> int:
        raise error

    assert peers.lenient("timm", fail, heard.append) == []
    assert heard == [sentence]
    assert peers.lenient("timm", lambda: 3, heard.append) == [3]
