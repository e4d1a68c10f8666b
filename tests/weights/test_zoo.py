"""The table of public checkpoints: every row can be typed, built and fetched safely, and names its licence."""

import re
import subprocess
import sys
from dataclasses import FrozenInstanceError
from urllib.parse import urlsplit

import pytest

from patchwords.models.build import blank, configure
from patchwords.models.names import NAMES, read
from patchwords.weights.zoo import ENTRIES, ZOO, Entry

entries = pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)


def test_no_name_and_no_address_is_given_twice() -> None:
    assert len(ZOO) == len(ENTRIES)
    assert len({entry.address for entry in ENTRIES}) == len(ENTRIES)


@entries
def test_the_name_is_short_and_typeable(entry: Entry) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", entry.name)
    assert len(entry.name) <= 24


@entries
def test_the_name_is_no_models_name_in_other_letters(entry: Entry) -> None:
    assert entry.name not in {name.lower() for name in NAMES}


@entries
def test_the_model_is_one_we_can_build(entry: Entry) -> None:
    read(entry.model)


@entries
def test_the_address_is_https_and_names_a_file_of_weights(entry: Entry) -> None:
    parts = urlsplit(entry.address)
    assert parts.scheme == "https"
    assert (parts.query, parts.fragment) == ("", "")
    assert parts.path.endswith((".npz", ".pth", ".safetensors"))


@entries
def test_a_checksum_in_the_file_name_is_the_checksum_we_demand(entry: Entry) -> None:
    found = re.search(r"-([0-9a-f]{8})\.pth$", entry.address)
    assert entry.sha256 == (found[1] if found else "")


@entries
def test_classes_are_those_of_the_data_it_was_trained_on(entry: Entry) -> None:
    assert entry.classes in (0, 1000, 21841, 21843)
    assert entry.mebibytes > 0


@entries
def test_licence_and_source_are_named(entry: Entry) -> None:
    assert entry.licence in ("Apache-2.0", "BSD-3-Clause", "CC-BY-NC-4.0", "MIT")
    assert "/" in entry.source


def test_weights_that_may_not_be_sold_say_so() -> None:
    restricted = {name for name, entry in ZOO.items() if entry.licence == "CC-BY-NC-4.0"}
    assert restricted == {name for name in ZOO if name.startswith("mae-") or "swag" in name}


@entries
def test_a_resolution_in_the_file_name_is_in_the_model_name(entry: Entry) -> None:
    found = re.search(r"(?:res|patch\d+)_(\d+)\b|B_16-(224)|L_16-(224)", entry.address)
    image = entry.model.partition("@")[2] or "224"
    if found:
        assert image == next(filter(None, found.groups()))


@pytest.mark.parametrize(
    "entry", [e for e in ENTRIES if e.model.startswith(("DeiT", "MAE", "Swin"))], ids=lambda e: e.name
)
def test_the_size_of_a_torch_file_is_four_bytes_a_parameter(entry: Entry) -> None:
    parameters = blank(configure(entry.model, classes=entry.classes)).parameters()
    assert entry.mebibytes == pytest.approx(sum(p.numel() for p in parameters) / 2**18, abs=1)


def test_every_swin_that_has_a_name_can_be_fetched_as_its_authors_published_it() -> None:
    published = {entry.model for entry in ENTRIES if "SwinTransformer/storage" in entry.address}
    assert published == {"Swin-T", "Swin-S", "Swin-B", "Swin-L", "Swin-B@384", "Swin-L@384"}
    windows = {entry.model: read(entry.model).window for entry in ENTRIES if entry.model.startswith("Swin")}
    for entry in ENTRIES:
        if entry.model in windows and "torchvision" not in entry.name:
            side, image = windows[entry.model][0], read(entry.model).image[0]
            assert f"_patch4_window{side}_{image}" in entry.address


def test_more_classes_make_a_larger_file() -> None:
    assert ZOO["vit-b16-i21k"].mebibytes > ZOO["vit-b16-i1k-384"].mebibytes > ZOO["mae-b16"].mebibytes
    assert ZOO["bit-m-r50x1"].mebibytes > ZOO["bit-m-r50x1-i1k"].mebibytes


def test_the_nine_recommended_augreg_files_are_here_in_both_forms() -> None:
    pretrained = {name.removesuffix("-i21k") for name in ZOO if re.fullmatch(r"augreg-.*-i21k", name)}
    finetuned = {name.removesuffix("-i1k-384") for name in ZOO if re.fullmatch(r"augreg-.*-i1k-384", name)}
    assert pretrained == finetuned
    assert len(pretrained) == 9


@pytest.mark.parametrize("name", [name for name in ZOO if re.fullmatch(r"augreg-.*-i1k-384", name)])
def test_a_fine_tuned_augreg_file_comes_from_the_pretrained_one(name: str) -> None:
    stem = ZOO[name.replace("-i1k-384", "-i21k")].address.removesuffix(".npz")
    assert ZOO[name].address.startswith(f"{stem}--imagenet2012-steps_20k-lr_0.0")


def test_an_entry_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        ZOO["deit-b16"].sha256 = ""  # type: ignore[misc]


def test_the_zoo_and_the_store_load_no_torch() -> None:
    code = "import sys, patchwords.weights.store; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
