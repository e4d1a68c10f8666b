"""The sequence knows its special tokens and its grid, so that nobody counts them again."""

import torch

from patchwords.layers.tokens import Special, Tokens


def test_special_tokens_come_first_and_then_the_patches() -> None:
    x = torch.randn(2, 3 + 6, 4)
    tokens = Tokens(x, 3, (2, 3))
    assert torch.equal(tokens.special, x[:, :3])
    assert torch.equal(tokens.patches, x[:, 3:])


def test_the_map_has_patch_row_times_columns_plus_column_at_row_and_column() -> None:
    x = torch.randn(2, 1 + 6, 4)
    picture = Tokens(x, 1, (2, 3)).map
    assert picture.shape == (2, 4, 2, 3)
    for row in range(2):
        for col in range(3):
            assert torch.equal(picture[:, :, row, col], x[:, 1 + 3 * row + col])


def test_replacing_the_sequence_keeps_prefix_and_grid_and_the_old_tokens() -> None:
    tokens = Tokens(torch.zeros(1, 7, 4), 1, (2, 3))
    other = tokens.replace(torch.ones(1, 7, 4))
    assert (other.prefix, other.grid) == (1, (2, 3))
    assert other.x.all()
    assert not tokens.x.any()


def test_each_name_has_one_parameter_with_a_row_for_each_time_it_occurs() -> None:
    special = Special(("class", "register", "register"), 4)
    shapes = {name: tuple(parameter.shape) for name, parameter in special.named_parameters()}
    assert shapes == {"class_token": (1, 1, 4), "register_token": (1, 2, 4)}


def test_every_sample_gets_the_same_special_tokens_in_order() -> None:
    special = Special(("class", "register", "register"), 4)
    torch.nn.init.normal_(special.class_token)
    torch.nn.init.normal_(special.register_token)
    patches = torch.randn(3, 5, 4)
    x = special(patches)
    for sample in range(3):
        assert torch.equal(x[sample], torch.cat([special.class_token[0], special.register_token[0], patches[sample]]))


def test_the_distillation_token_stands_between_the_class_token_and_the_registers() -> None:
    special = Special(("class", "distillation", "register"), 4)
    for place, token in enumerate([special.class_token, special.distillation_token, special.register_token]):
        torch.nn.init.constant_(token, place)
    assert special(torch.full((2, 3, 4), 9.0))[:, :, 0].tolist() == [[0, 1, 2, 9, 9, 9]] * 2


def test_without_names_the_patches_stay_alone() -> None:
    special = Special((), 4)
    patches = torch.randn(3, 5, 4)
    assert torch.equal(special(patches), patches)
    assert list(special.parameters()) == []
