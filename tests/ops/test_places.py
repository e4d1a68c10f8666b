"""Rows of a sequence by their places, others for every sample."""

import torch

from patchwords.ops import places

X = torch.arange(2 * 4 * 3, dtype=torch.float32).reshape(2, 4, 3)
PLACES = torch.tensor([[3, 0], [1, 2]])


def test_rows_are_taken_in_the_order_of_their_places() -> None:
    taken = places.take(X, PLACES)
    assert torch.equal(taken, torch.stack([X[0, [3, 0]], X[1, [1, 2]]]))


def test_rows_are_put_where_they_belong_and_the_others_stay() -> None:
    found = places.put(X, PLACES, -places.take(X, PLACES))
    wanted = X.clone()
    wanted[0, [3, 0]] *= -1
    wanted[1, [1, 2]] *= -1
    assert torch.equal(found, wanted)


def test_one_row_may_be_put_everywhere_and_gets_the_gradients_of_all() -> None:
    token = torch.full((1, 1, 3), 7.0, requires_grad=True)
    found = places.put(X, PLACES, token)
    assert (places.take(found, PLACES) == 7).all()
    found.sum().backward()
    assert token.grad is not None
    assert torch.equal(token.grad, torch.full((1, 1, 3), 4.0))  # two places of two samples
