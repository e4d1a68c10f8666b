"""The order in which torch tries its attention kernels."""

import torch
from torch.nn.attention import SDPBackend
from torch.nn.functional import scaled_dot_product_attention as attention

from patchwords.speed.attention import FASTEST_FIRST, fastest


def order() -> list[int]:
    return list(torch._C._get_sdp_priority_order())


def test_on_a_gpu_the_fastest_comes_first_and_afterwards_all_is_as_before() -> None:
    before = order()
    with fastest(torch.device("cuda")):
        assert order()[: len(FASTEST_FIRST)] == [int(backend.value) for backend in FASTEST_FIRST]
        assert order()[0] == SDPBackend.CUDNN_ATTENTION.value
    assert order() == before


def test_a_cpu_is_left_alone() -> None:
    before, (q, k, v) = order(), torch.randn(3, 2, 4, 5, 8).unbind()
    plain = attention(q, k, v)
    with fastest(torch.device("cpu")):
        assert order() == before
        assert torch.equal(attention(q, k, v), plain)
