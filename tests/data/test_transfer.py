"""Arrays come to a device in one, as they are."""

import numpy as np
import pytest
import torch

from patchwords.data.transfer import onto

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", [np.uint8, np.int64, np.float32])
def test_parts_come_one_after_the_other(kind: type, device: str) -> None:
    parts = [np.random.default_rng(count).integers(0, 200, (count, 3, 4)).astype(kind) for count in (2, 1, 5)]
    for given in (parts, parts[:1]):
        found = onto(given, torch.device(device))
        assert found.device.type == device
        assert np.array_equal(found.cpu().numpy(), np.concatenate(given))
        assert found.cpu().numpy().dtype == kind
