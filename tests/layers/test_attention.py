"""App. A, eq. 5-8, one head at a time."""

import math

import pytest
import torch

from patchwords.layers.attention import Attention, NoOffsets
from patchwords.layers.bias import Bias
from patchwords.layers.offsets import Offsets


def test_multi_head_attention_is_each_head_by_itself_side_by_side_and_projected() -> None:
    width, heads, tokens = 12, 3, 5
    head_width = width // heads
    attention = Attention(width, heads, "qkv", NoOffsets(), 0.0, 0.0).double().eval()
    for parameter in attention.parameters():
        torch.nn.init.normal_(parameter)
    z = torch.randn(2, tokens, width, dtype=torch.float64)
    u_q, u_k, u_v = attention.qkv.weight.split(width)
    b_q, b_k, b_v = attention.qkv.bias.split(width)
    outputs, weights = [], []
    for head in range(heads):
        part = slice(head * head_width, (head + 1) * head_width)
        q, k, v = z @ u_q[part].T + b_q[part], z @ u_k[part].T + b_k[part], z @ u_v[part].T + b_v[part]  # eq. 5
        exponentials = torch.exp(q @ k.mT / math.sqrt(head_width))
        weights.append(exponentials / exponentials.sum(-1, keepdim=True))  # eq. 6
        outputs.append(weights[-1] @ v)  # eq. 7
    expected = torch.cat(outputs, -1) @ attention.out.weight.T + attention.out.bias  # eq. 8
    torch.testing.assert_close(attention(z), expected)
    torch.testing.assert_close(attention.weights(z), torch.stack(weights, 1))


def test_offsets_are_added_to_the_logits_of_forward_and_weights_alike() -> None:
    attention = Attention(8, 2, "qkv", Offsets(4, 4, std=1.0), 0.0, 0.0).double().eval()
    z = torch.randn(2, 4, 8, dtype=torch.float64)
    q, k, v = attention.split(z)
    weights = (q @ k.mT / 2 + attention.offsets(q)).softmax(-1)
    torch.testing.assert_close(attention.weights(z), weights)
    torch.testing.assert_close(attention(z), attention.out((weights @ v).transpose(1, 2).flatten(2)))


def test_offsets_that_differ_by_head_are_added_to_the_heads_that_are_asked_for() -> None:
    attention = Attention(12, 3, "qv", Bias((2, 2), 1, 3), 0.0, 0.0).double().eval()
    for parameter in attention.parameters():
        torch.nn.init.normal_(parameter)
    z = torch.randn(2, 5, 12, dtype=torch.float64)
    q, k, v = attention.split(z)
    weights = (q @ k.mT / 2 + attention.offsets(q)).softmax(-1)
    torch.testing.assert_close(attention.weights(z, slice(1, 3), slice(2, 5)), weights[:, 1:3, 2:5])
    torch.testing.assert_close(attention(z), attention.out((weights @ v).transpose(1, 2).flatten(2)))


def test_a_bias_for_keys_would_change_nothing() -> None:
    without, with_one = (Attention(8, 2, biases, NoOffsets(), 0.0, 0.0).double() for biases in ("qv", "qkv"))
    torch.nn.init.normal_(without.qkv.q_bias)
    torch.nn.init.normal_(without.qkv.v_bias)
    state = dict(without.state_dict())
    bias = [state.pop("qkv.q_bias"), torch.randn(8, dtype=torch.float64), state.pop("qkv.v_bias")]
    with_one.load_state_dict(state | {"qkv.bias": torch.cat(bias)})
    z = torch.randn(2, 5, 8, dtype=torch.float64)
    torch.testing.assert_close(without(z), with_one(z))


def test_queries_keys_and_values_without_a_key_bias_start_as_three_matrices_with_zeros() -> None:
    attention = Attention(64, 2, "qv", NoOffsets(), 0.0, 0.0)
    bound = math.sqrt(6 / 128)
    for part in attention.qkv.weight.chunk(3):
        assert 0.98 * bound < part.abs().max() <= bound
    assert not attention.qkv.q_bias.any()
    assert not attention.qkv.v_bias.any()


@pytest.mark.parametrize(
    ("biases", "names"),
    [
        ("qkv", {"qkv.bias", "out.bias"}),
        ("qv", {"qkv.q_bias", "qkv.v_bias", "out.bias"}),
        ("none", {"out.bias"}),
    ],
)
def test_biases_of_q_k_v_can_be_left_out(biases: str, names: set[str]) -> None:
    attention = Attention(8, 2, biases, NoOffsets(), 0.0, 0.0)
    assert {name for name, _ in attention.named_parameters() if name.endswith("bias")} == names


def test_attention_moves_with_its_tokens() -> None:
    attention = Attention(8, 2, "qkv", NoOffsets(), 0.0, 0.0).double().eval()
    z, order = torch.randn(2, 6, 8, dtype=torch.float64), torch.randperm(6)
    torch.testing.assert_close(attention(z[:, order]), attention(z)[:, order])
