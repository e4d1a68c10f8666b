"""Rows as text."""

from patchwords.bench.row import Row
from patchwords.bench.table import best, caption, cells, markdown

SIZES = {"bench": "inference", "model": "ViT-B/16", "batch": 8, "image": (224, 224), "milliseconds": 2.5}


def made(who: str, precision: str, **given: object) -> Row:
    return Row(who=who, how="", precision=precision, images_per_second=3200.4, **SIZES | given)


def test_columns_without_anything_are_left_out() -> None:
    heads, table = cells([made("ours", "bf16"), made("timm", "bf16", memory=3 << 30)])
    assert heads == ["who", "precision", "images/s", "ms", "memory"]
    assert table == [["ours", "bf16", "3,200", "2.50", ""], ["timm", "bf16", "3,200", "2.50", "3.00 GiB"]]


def test_what_all_have_in_common_is_said_once() -> None:
    rows = [made("ours", "bf16"), made("timm", "bf16")]
    assert caption(rows) == "inference, ViT-B/16, batch 8, image 224x224"
    rows.append(made("ours", "bf16", batch=1))
    assert caption(rows) == "inference, ViT-B/16, image 224x224"
    assert cells(rows)[0][0] == "batch"


def test_what_one_bench_tells_has_a_column() -> None:
    heads, table = cells([made("ours", "bf16", further={"busy": 0.913, "agreement": 0.995})])
    assert heads[-2:] == ["agreement", "busy"]
    assert table[0][-2:] == ["99.50 %", "91.3 %"]


def test_the_ratio_is_to_the_fastest_in_the_same_precision() -> None:
    ratios = {"timm eager bf16": 2.0, "timm compiled bf16": 1.5, "timm compiled float32": 1.2, "timm epoch": 1.0}
    assert best(made("ours", "bf16", ratios=ratios)) == ("timm compiled bf16", 1.5)
    assert best(made("ours", "fp8", ratios=ratios)) == ("timm compiled float32", 1.2)
    assert best(made("ours", "fp8")) is None


def test_markdown() -> None:
    assert markdown(["a", "b"], [["1", "2"]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |"
