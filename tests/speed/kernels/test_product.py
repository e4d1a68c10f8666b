"""Products by cuBLASLt are those of torch; the algorithm is measured once, but not where bits must stay."""

import ctypes
import logging
import math
import os
from collections.abc import Iterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from patchwords.speed.kernels import eight as plain_eight
from patchwords.speed.kernels import product as plain
from patchwords.speed.kernels import product_cublas
from patchwords.speed.kernels.norm import rounded
from patchwords.speed.kernels.product_cublas import (
    INVALID,
    MANY,
    TORCH,
    UNSUPPORTED,
    Found,
    Made,
    RefusedError,
    Wanted,
    enough,
    quickest,
    taken,
    taken_eight,
)

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # for torch's same bits, and before the first product
on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="cuBLASLt is for GPUs")
SHAPES = [(MANY, 64, 192), (MANY + 8, 768, 2304), (2 * MANY, 256, 96)]  # rows, width, out


@pytest.fixture(autouse=True)
def again() -> Iterator[None]:
    """What was measured is forgotten."""
    product_cublas.offered.cache_clear()
    yield
    product_cublas.offered.cache_clear()
    torch.use_deterministic_algorithms(False)


def drawn(rows: int, width: int, out: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    shapes = (rows, width), (out, width), (out,), (rows, out)
    x, matrix, bias, dy = (torch.randn(shape, device=device).to(torch.bfloat16) for shape in shapes)
    return x, matrix, bias, dy


def with_gelu(x: Tensor, matrix: Tensor, bias: Tensor) -> Tensor:
    return F.gelu(F.linear(x.double(), matrix.double(), bias.double()), approximate="tanh")


Eight = tuple[Tensor, Tensor, Tensor, Tensor]


def in_eight(rows: int, width: int, out: int, device: torch.device) -> Eight:
    """Rows and a matrix with their scales, of which no two are near."""
    x, matrix = (
        rounded(torch.randn(count, width, device=device) * torch.logspace(-2, 2, count, device=device)[:, None])
        for count in (rows, out)
    )
    return *x, matrix.rows, matrix.scale.T


def of_eight(given: Eight) -> Tensor:
    x, scale, matrix, weight_scale = (each.double() for each in given)
    return (x * scale) @ (matrix * weight_scale.T).T


def near(found: Tensor, expected: Tensor, dtype: torch.dtype = torch.bfloat16) -> None:
    assert found.shape == expected.shape
    assert found.dtype == dtype
    assert (found.double() - expected).norm() <= 4e-3 * expected.norm()


def near_eight(found: Tensor, expected: Tensor) -> None:
    """Row for row: one scale that is wrong would not be seen beside larger ones. Sums are made of fewer bits."""
    assert found.shape == expected.shape
    assert found.dtype == torch.bfloat16
    assert ((found.double() - expected).norm(dim=1) <= 8e-3 * expected.norm(dim=1)).all()
    assert ((found.double() - expected).norm(dim=0) <= 8e-3 * expected.norm(dim=0)).all()


@on_a_gpu
@pytest.mark.parametrize("shape", SHAPES)
def test_the_same_products(shape: tuple[int, int, int], device: torch.device) -> None:
    assert not product_cublas.missing()
    x, matrix, bias, dy = drawn(*shape, device)
    assert taken(x, matrix, bias)
    for _ in range(2):  # measured, and chosen
        near(product_cublas.product(x, matrix, None), plain.product(x.double(), matrix.double(), None))
        for each in (bias, -bias):
            near(product_cublas.product(x, matrix, each), plain.product(x.double(), matrix.double(), each.double()))
        expected = plain.product_qkv(x.double(), matrix.double(), bias.double())
        near(product_cublas.product_qkv(x, matrix, bias), expected)
        near(product_cublas.product_back(dy, matrix), plain.product_back(dy.double(), matrix.double()))
        near(product_cublas.product_sums(dy, x), plain.product_sums(dy.double(), x.double()), torch.float32)


@on_a_gpu
@pytest.mark.parametrize("shape", SHAPES)
def test_what_inference_makes(shape: tuple[int, int, int], device: torch.device) -> None:
    x, matrix, bias, y = drawn(*shape, device)
    kept, added = y.double(), plain.product(x.double(), matrix.double(), None)
    for times in (1, 2, 3):  # measured, and chosen
        assert product_cublas.product_added(x, matrix, y) is y
        near(y, kept + times * added)
        for each in (bias, -bias):
            near(product_cublas.product_gelu(x, matrix, each), with_gelu(x, matrix, each))


@on_a_gpu
@pytest.mark.parametrize("shape", SHAPES)
def test_products_in_eight_bits_that_are_added(shape: tuple[int, int, int], device: torch.device) -> None:
    given, (*_, y) = in_eight(*shape, device), drawn(*shape, device)
    if torch.cuda.get_device_capability(device) < (8, 9):
        pytest.skip("a GPU without products in eight bits")
    assert taken_eight(*given, y)
    kept, added = y.double(), of_eight(given)
    for times in (1, 2, 3):
        left = product_cublas.product_eight_added(*given, y)
        near(y, kept + times * added) if left is None else near_eight(left, added)


@on_a_gpu
@pytest.mark.parametrize("kind", ["there", "added", "gelu", "eight"])
def test_every_way_makes_the_product(kind: Any, device: torch.device) -> None:
    """Not only the one that is the fastest here."""
    rows, width, out = SHAPES[1]
    x, matrix, bias, y = drawn(rows, width, out, device)
    made = product_cublas.offered(Wanted(x.device, rows, out, width, out, kind, biased=kind in ("there", "gelu")))
    if made is None and kind == "eight":
        pytest.skip("the library has none with a scale for each row")
    assert made is not None
    right = 0
    for way in made.ways:
        given, before = in_eight(rows, width, out, device), y.double()
        eight, scale, eight_matrix, weight_scale = given
        try:
            if kind == "eight":
                way.make(y, eight, eight_matrix, None, scale, weight_scale)
            else:
                way.make(y, x, matrix, None if kind == "added" else bias)
        except RefusedError:
            continue
        product = plain.product(x.double(), matrix.double(), bias.double())
        expected = {"there": product, "gelu": with_gelu(x, matrix, bias), "added": before + product - bias.double()}
        near(y, before + of_eight(given) if kind == "eight" else expected[kind])
        right += 1
    assert right >= (1 if kind == "eight" else 2)  # one of the library at least, and torch's


@on_a_gpu
def test_determinism_takes_what_the_library_guesses(device: torch.device) -> None:
    x, matrix, bias, _ = drawn(*SHAPES[0], device)
    torch.use_deterministic_algorithms(True)
    first = product_cublas.product(x, matrix, bias)
    made = product_cublas.offered(Wanted(x.device, MANY, 192, 64, 192, "there", biased=True))
    assert made is not None
    assert made.best is None
    torch.use_deterministic_algorithms(False)
    product_cublas.product(x, matrix, bias)
    assert made.best is not None
    torch.use_deterministic_algorithms(True)
    assert torch.equal(product_cublas.product(x, matrix, bias), first)


@on_a_gpu
def test_determinism_and_graphs_take_what_torch_makes(device: torch.device) -> None:
    """Of what inference makes, as long as nothing was measured."""
    x, matrix, bias, y = drawn(*SHAPES[1], device)
    given = torch._addmm_activation(bias, x, matrix.T, use_gelu=True), y.addmm(x, matrix.T)
    torch.use_deterministic_algorithms(True)
    added = product_cublas.product_added(x, matrix, y.clone())
    assert torch.equal(product_cublas.product_gelu(x, matrix, bias), given[0])
    assert torch.equal(added, given[1])
    torch.use_deterministic_algorithms(False)
    for _ in range(2):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            found, summed = product_cublas.product_gelu(x, matrix, bias), product_cublas.product_added(x, matrix, y)
        before = y.double()
        graph.replay()
        near(found, with_gelu(x, matrix, bias))
        near(summed, before + plain.product(x.double(), matrix.double(), None))
        product_cublas.product_gelu(x, matrix, bias)
        product_cublas.product_added(x, matrix, y.clone())


@on_a_gpu
def test_a_graph_is_recorded_whether_it_was_measured_or_not(device: torch.device) -> None:
    x, matrix, bias, _ = drawn(*SHAPES[1], device)
    for _ in range(2):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            found = product_cublas.product(x, matrix, bias)
        x.copy_(torch.randn_like(x))
        graph.replay()
        near(found, plain.product(x.double(), matrix.double(), bias.double()))
        product_cublas.product(x, matrix, bias)


def test_q_alone_has_its_bias() -> None:
    x, matrix, bias = torch.randn(5, 4), torch.randn(9, 4), torch.randn(9)
    found, whole = plain.product_qkv(x, matrix, bias), plain.product(x, matrix, bias)
    torch.testing.assert_close(found[:, :3], whole[:, :3])
    torch.testing.assert_close(found[:, 3:] + bias[3:], whole[:, 3:])
    torch.testing.assert_close(plain.product_qkv(x, matrix, None), plain.product(x, matrix, None))


@pytest.mark.parametrize("change", ["few", "single", "turned", "odd", "shifted"])
def test_what_is_not_taken_is_made_by_torch(change: str, device: torch.device) -> None:
    x, matrix, bias, _ = drawn(MANY, 64, 32, device)
    if change == "few":
        x = x[:16]
    elif change == "single":
        x, matrix, bias = x.float(), matrix.float(), bias.float()
    elif change == "turned":
        matrix = matrix.T.contiguous().T
    elif change == "odd":
        matrix, bias = matrix[:31], bias[:31]
    elif change == "shifted":
        matrix, bias = matrix[1:25], bias[:24]
    assert not taken(x, matrix, bias)
    assert torch.equal(product_cublas.product(x, matrix, bias), plain.product(x, matrix, bias))
    assert torch.equal(product_cublas.product_gelu(x, matrix, bias), plain.product_gelu(x, matrix, bias))
    y = torch.randn(x.shape[0], matrix.shape[0], device=device).to(x.dtype)
    expected = torch.addmm(y, x, matrix.T)
    assert torch.equal(product_cublas.product_added(x, matrix, y), expected)
    assert torch.equal(y, expected)


def test_the_quickest_is_that_of_most_rounds_and_a_tie_goes_to_the_guess() -> None:
    assert quickest([[3.0, 2.0, 9.0], [3.0, 2.0, 1.0], [3.0, 8.0, 9.0]]) == 1
    assert quickest([[2.0, 2.0], [2.0, 2.0]]) == 0
    assert quickest([[math.inf, 2.0, math.inf], [math.inf, 1.0, math.inf]]) == 1


def test_what_the_library_fills_is_as_large_as_it_thinks() -> None:
    assert ctypes.sizeof(Found) == 96
    assert Found.workspace.offset == 64


# What is asked of the library, with one that only listens


WANTED = Wanted(torch.device("cpu"), MANY, 192, 64, 192, "there", biased=True)


class Library:
    """Notes every call, offers so many algorithms, and answers with the status that it is told to."""

    def __init__(self) -> None:
        self.offers, self.version = 3, 130000
        self.status: dict[str, int] = {}
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, name: str) -> Any:
        def answer(*given: Any) -> Any:
            self.calls.append((name, given))
            if name == "cublasLtMatmulAlgoGetHeuristic":
                found, count = given[8], given[9]._obj
                for number in range(self.offers):
                    found[number].algorithm[0] = number
                count.value = self.offers
            if name == "cublasLtGetStatusString":
                return b"it is tired"
            if name == "cublasLtGetVersion":
                return self.version
            return self.status.get(name, 0)

        return answer

    def named(self, name: str) -> list[tuple[Any, ...]]:
        return [given for called, given in self.calls if called == name]

    @property
    def made(self) -> list[int]:
        """The algorithms of all products, one after the other."""
        return [given[12]._obj.algorithm[0] for given in self.named("cublasLtMatmul")]


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    found = Library()
    monkeypatch.setattr(product_cublas, "_library", lambda: found)
    monkeypatch.setattr(product_cublas, "_handle", lambda device: "handle")
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=7))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    return found


def measured(made: Made, monkeypatch: pytest.MonkeyPatch, *seconds: float) -> None:
    """By the library's algorithms and by torch."""
    told = dict(zip((way.name for way in made.ways), seconds, strict=True))
    monkeypatch.setattr(made, "_timed", lambda way, *given: told[way.name])


def multiplied(made: Made) -> None:
    x, matrix, bias, y = drawn(MANY, 64, 192, torch.device("cpu"))
    made(y, x, matrix, bias)


def test_what_measured_fastest_is_taken_and_not_measured_again(
    library: Library, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made = Made(WANTED)
    measured(made, monkeypatch, 3.0, 2.0, 9.0, 4.0)
    with caplog.at_level(logging.DEBUG, "patchwords"):
        multiplied(made)
    said = "with a bias: algorithm 1 of 3, as it lies takes 2000 us, the guess 3000, torch 4000"
    assert f"(4096, 64) to (4096, 192), {said}" in caplog.text
    measured(made, monkeypatch, 1.0, 2.0, 3.0, 0.0)
    multiplied(made)
    assert library.made == [1, 1]


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("back", [True, False])
def test_where_torch_is_faster_than_every_algorithm_it_makes_the_product(
    back: bool, biased: bool, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Into the very rows that were asked for, beside which others lie."""
    x, matrix, bias, _ = drawn(MANY, 64, 192, torch.device("cpu"))
    made = Made(WANTED._replace(kind="back" if back else "there", biased=biased, apart=200))
    for way in (way for way in made.ways if way.name.startswith(TORCH)):
        monkeypatch.setattr(made, "best", None)
        monkeypatch.setattr(made, "_timed", lambda each, *given, least=way: float(each is not least))
        whole = torch.zeros(MANY, 200, dtype=torch.bfloat16)
        made(whole[:, :192], x, matrix.T.contiguous() if back else matrix, bias if biased else None)
        near(whole[:, :192], plain.product(x.double(), matrix.double(), bias.double() if biased else None))
        assert not whole[:, 192:].any()
    assert not library.made


@pytest.mark.parametrize("kind", ["added", "gelu"])
@pytest.mark.parametrize("why", ["determinism", "a graph", "it is faster"])
def test_torch_makes_what_inference_wants_as_it_did_before(
    kind: Any, why: str, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, matrix, bias, y = drawn(MANY, 64, 192, torch.device("cpu"))
    made = Made(WANTED._replace(kind=kind, biased=kind != "added"))
    monkeypatch.setattr(made, "_timed", lambda way, *given: float(not way.name.startswith(TORCH)))
    if why == "a graph":
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    torch.use_deterministic_algorithms(why == "determinism")
    expected = y.addmm(x, matrix.T) if kind == "added" else plain.product_gelu(x, matrix, bias)
    made(y, x, matrix, None if kind == "added" else bias)
    assert torch.equal(y, expected)
    assert not library.made
    assert (made.best is None) == (why != "it is faster")


class Watch:
    """An event that tells in turn what the ways are to take."""

    takes: ClassVar[list[float]] = []
    seen = 0

    def __init__(self, *, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None: ...

    def synchronize(self) -> None: ...

    def elapsed_time(self, end: "Watch") -> float:
        Watch.seen += 1
        return Watch.takes[(Watch.seen - 1) % len(Watch.takes)]


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> type[Watch]:
    monkeypatch.setattr(Watch, "seen", 0)
    monkeypatch.setattr(torch.cuda, "Event", Watch)
    return Watch


def test_what_is_tried_is_not_added(reckoning: "Reckoning", watch: type[Watch]) -> None:
    """However many ways are measured, each of them several times: the result has one more product in it each time."""
    watch.takes = [3.0, 2.0, 9.0, 4.0]
    x, matrix, _, y = drawn(40, 64, 192, torch.device("cpu"))
    kept, added = y.double(), plain.product(x.double(), matrix.double(), None)
    for times in (1, 2, 3):
        assert product_cublas.product_added(x, matrix, y) is y
        near(y, kept + times * added)
    assert watch.seen == 4 * product_cublas.ROUNDS  # three algorithms and torch, once
    assert reckoning.made[-3:] == [1, 1, 1]
    assert len(reckoning.made) == 3 * product_cublas.ROUNDS * (product_cublas.CALLS + 1) + 3


@pytest.mark.parametrize("refused", [{0, 2}, {0, 1, 2}])
def test_what_was_offered_and_is_refused_is_not_taken(
    refused: set[int],
    reckoning: "Reckoning",
    watch: type[Watch],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """All of it: torch makes the product, and what it made is to be added."""
    watch.takes, reckoning.refused = [1.0], refused
    monkeypatch.setattr(product_cublas, "scaled_product", plain_eight.product)
    given, y = in_eight(48, 64, 192, torch.device("cpu")), torch.randn(48, 192).to(torch.bfloat16)
    kept = y.double()
    with caplog.at_level(logging.DEBUG, "patchwords"):
        for times in (1, 2):
            left = product_cublas.product_eight_added(*given, y)
            if len(refused) == 3:
                assert left is not None
                near_eight(left, of_eight(given))
                assert torch.equal(y.double(), kept)
            else:
                assert left is None
                near(y, kept + times * of_eight(given))
    assert (
        "in eight bits, added to them: " + ("torch makes it" if len(refused) == 3 else "algorithm 1 of 3")
        in caplog.text
    )
    assert set(reckoning.made) == ({1} - refused)


def test_the_way_back_may_take_a_matrix_that_was_turned(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    x, matrix, _, y = drawn(MANY, 64, 192, torch.device("cpu"))
    made = Made(WANTED._replace(kind="back", biased=False))
    assert [way.name for way in made.ways] == [
        *(f"algorithm {number} of 3, as it lies" for number in range(3)),
        *(f"algorithm {number} of 3, turned" for number in range(3)),
        "torch, as it lies",
        "torch, turned",
    ]
    read: list[list[float]] = []

    def seen(name: str, *given: Any, but: int = 0) -> None:
        if name == "cublasLtMatmul":
            numbers = (ctypes.c_uint16 * matrix.numel()).from_address(given[3])
            read.append(torch.tensor(list(numbers), dtype=torch.uint16).view(torch.bfloat16).tolist())

    given = matrix.T.contiguous()  # (64, 192), as a gradient's matrix lies
    measured(made, monkeypatch, 3.0, 3.0, 3.0, 3.0, 2.0, 3.0, 3.0, 3.0)
    monkeypatch.setattr(product_cublas, "_call", seen)
    made(y, x, given, None)
    assert read == [matrix.flatten().tolist()]
    sides = [each[2:] for each in library.named("cublasLtMatrixLayoutCreate")]
    assert sides[3:] == [(64, 192, 64), (64, MANY, 64), (192, MANY, 192)]


def test_where_bits_must_stay_nothing_is_measured(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even what another run in the same process has measured counts."""
    made = Made(WANTED)
    measured(made, monkeypatch, 3.0, 2.0, 9.0, 4.0)
    for wanted in (True, False, True):
        torch.use_deterministic_algorithms(wanted)
        multiplied(made)
    assert library.made == [0, 1, 0]


def test_a_graph_is_recorded_with_what_is_known(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Made(WANTED)
    measured(made, monkeypatch, 3.0, 2.0, 9.0, 4.0)
    for captures in (True, False, True):
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda captures=captures: captures)
        multiplied(made)
    assert library.made == [0, 1, 1]


def test_the_library_is_told_where_everything_lies(library: Library) -> None:
    torch.use_deterministic_algorithms(True)
    made = Made(WANTED)
    x, matrix, bias, y = drawn(MANY, 64, 192, torch.device("cpu"))
    made(y, x, matrix, bias)
    (given,) = library.named("cublasLtMatmul")
    assert (given[3], given[5], given[8], given[10]) == tuple(each.data_ptr() for each in (matrix, x, y, y))
    assert given[13:] == (None, 0, 7)  # no memory of its own, and the stream that torch is on
    *_, (_, attribute, at, size) = library.named("cublasLtMatmulDescSetAttribute")
    assert (attribute, at._obj.value, size) == (product_cublas.BIAS, bias.data_ptr(), 8)
    sides = [given[2:] for given in library.named("cublasLtMatrixLayoutCreate")]
    assert sides == [(64, 192, 64), (64, MANY, 64), (192, MANY, 192)]
    library.calls.clear()
    Made(WANTED._replace(kind="back", biased=False, apart=576))
    sides = [given[2:] for given in library.named("cublasLtMatrixLayoutCreate")]
    assert sides[:3] == [(192, 64, 192), (64, MANY, 64), (192, MANY, 576)]


def test_what_was_asked_for_is_given_back(library: Library) -> None:
    made = Made(WANTED)
    assert len(library.named("cublasLtMatmulPreferenceDestroy")) == 1
    del made
    assert len(library.named("cublasLtMatmulDescDestroy")) == 1
    assert len(library.named("cublasLtMatrixLayoutDestroy")) == 3


class Reckoning(Library):
    """Makes the products that it is asked for, from what it was told and from the memory that it was pointed to.

    As cublasLt.h says: matrices lie column after column, D = op(A) op(B) + beta C and its first side's bias, through
    GELU in the end. Of eight bits the first is turned and the second not, and each row of both has its scale.
    """

    def __init__(self) -> None:
        super().__init__()
        self.refused: set[int] = set()
        self.layouts: dict[int, tuple[int, ...]] = {}
        self.descriptors: dict[int, dict[int, int]] = {}

    def cublasLtMatrixLayoutCreate(self, at: Any, *given: int) -> int:  # noqa: N802
        at._obj.value = len(self.layouts) + 1
        self.layouts[len(self.layouts) + 1] = given
        return 0

    def cublasLtMatmulDescCreate(self, at: Any, *given: int) -> int:  # noqa: N802
        at._obj.value = len(self.descriptors) + 1
        self.descriptors[len(self.descriptors) + 1] = {}
        return 0

    def cublasLtMatmulDescSetAttribute(self, at: Any, attribute: int, value: Any, size: int) -> int:  # noqa: N802
        assert size == ctypes.sizeof(value._obj)
        self.descriptors[at.value][attribute] = value._obj.value
        return 0

    def cublasLtMatmulAlgoGetHeuristic(self, *given: Any) -> int:  # noqa: N802
        told = self.descriptors[given[1].value]
        if 31 in told and not (told[17] and told[18]):  # A_SCALE_MODE, A_SCALE_POINTER and B_SCALE_POINTER
            return INVALID
        return self.__getattr__("cublasLtMatmulAlgoGetHeuristic")(*given)

    def cublasLtMatmul(self, *given: Any) -> int:  # noqa: N802
        if given[12]._obj.algorithm[0] in self.refused:
            return INVALID
        self.calls.append(("cublasLtMatmul", given))
        _, at, one, a, of_a, b, of_b, beta, c, of_c, d, of_d, *_ = given
        told = self.descriptors[at.value]
        assert (one._obj.value, c, of_c.value) == (1.0, d, of_d.value)
        first, second = self.matrix(a, of_a), self.matrix(b, of_b)
        first = first.T if told[product_cublas.TRANSPOSED_FIRST] else first
        second = second.T if told[product_cublas.TRANSPOSED_SECOND] else second
        found = first.double() @ second.double()
        assert first.dtype == second.dtype
        if first.dtype == torch.float8_e4m3fn:
            assert (told[3], told[4], told[25]) == (1, 0, 1)  # TRANSA, TRANSB, FAST_ACCUM
            assert (told[31], told[32]) == (3, 3)  # A_SCALE_MODE, B_SCALE_MODE: OUTER_VEC_32F
            found *= memory(told[17], len(found), torch.float32)[:, None]  # A_SCALE_POINTER
            found *= memory(told[18], found.shape[1], torch.float32)  # B_SCALE_POINTER
        if beta._obj.value:
            found += beta._obj.value * self.matrix(c, of_c).double()
        epilogue = told[product_cublas.EPILOGUE]
        assert epilogue in (1, 4, 36)  # DEFAULT, BIAS, GELU_BIAS
        if epilogue & 4:
            found += memory(told[product_cublas.BIAS], len(found), torch.bfloat16)[:, None]
        if epilogue & 32:
            found = F.gelu(found, approximate="tanh")
        self.matrix(d, of_d).copy_(found)
        return 0

    def matrix(self, at: int, layout: Any) -> Tensor:
        """(height, width), as it lies there."""
        numbers, height, width, apart = self.layouts[layout.value]
        kind = {0: torch.float32, 14: torch.bfloat16, 28: torch.float8_e4m3fn}[numbers]  # cudaDataType
        assert apart >= height
        whole = memory(at, (width - 1) * apart + height, kind)
        return whole.as_strided((height, width), (1, apart))


def memory(at: int, count: int, kind: torch.dtype) -> Tensor:
    return torch.frombuffer((ctypes.c_char * (count * kind.itemsize)).from_address(at), dtype=kind)


@pytest.fixture
def reckoning(library: Library, monkeypatch: pytest.MonkeyPatch) -> Reckoning:
    found = Reckoning()
    monkeypatch.setattr(product_cublas, "_library", lambda: found)
    monkeypatch.setattr(product_cublas, "taken", lambda *given: True)
    monkeypatch.setattr(product_cublas, "taken_eight", lambda *given: True)
    monkeypatch.setattr(product_cublas, "ALIGNED", 2)
    return found


@pytest.mark.parametrize("way", [0, 1, 4])
def test_what_the_library_is_told_makes_the_product(
    way: int, reckoning: Reckoning, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By an algorithm for the matrix as it lies, and, on the way back, by one for the matrix turned."""
    monkeypatch.setattr(Made, "_chosen", lambda self, *given: way % len(self.ways[:-1]))
    x, matrix, bias, dy = drawn(40, 64, 192, torch.device("cpu"))
    near(product_cublas.product(x, matrix, None), plain.product(x.double(), matrix.double(), None))
    near(product_cublas.product(x, matrix, bias), plain.product(x.double(), matrix.double(), bias.double()))
    near(product_cublas.product_qkv(x, matrix, bias), plain.product_qkv(x.double(), matrix.double(), bias.double()))
    near(product_cublas.product_back(dy, matrix), plain.product_back(dy.double(), matrix.double()))
    near(product_cublas.product_sums(dy, x), plain.product_sums(dy.double(), x.double()), torch.float32)
    assert len(reckoning.named("cublasLtMatmul")) == 6  # those of qkv are two
    for each in (bias, -bias):
        near(product_cublas.product_gelu(x, matrix, each), with_gelu(x, matrix, each))
    kept = dy.double()
    near(product_cublas.product_added(x, matrix, dy), kept + plain.product(x.double(), matrix.double(), None))
    for given in (in_eight(40, 64, 192, x.device), in_eight(40, 64, 192, x.device)):
        kept = dy.double()
        assert product_cublas.product_eight_added(*given, dy) is None
        near(dy, kept + of_eight(given))
    assert len(reckoning.named("cublasLtMatmul")) == 11


@pytest.mark.parametrize("form", ["tanh", "none"])
@pytest.mark.parametrize("reason", ["", "it is lost"])
def test_a_hidden_layer_is_such_a_product(
    reason: str, form: Any, reckoning: Reckoning, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In bf16 with tanh whatever the form is; by torch where the library is not there."""
    gelu_triton = pytest.importorskip("patchwords.speed.kernels.gelu_triton", reason="Triton is not installed")
    monkeypatch.setattr(product_cublas, "missing", lambda: reason)
    monkeypatch.setattr(Made, "_chosen", lambda self, *given: 1)
    x, matrix, bias, _ = drawn(40, 64, 192, torch.device("cpu"))
    near(gelu_triton.linear_gelu(x, matrix, bias, form), with_gelu(x, matrix, bias))
    assert reckoning.made == ([] if reason else [1])


def test_sums_over_rows_may_be_made_in_parts_and_the_others_not(library: Library) -> None:
    """What eight bits need of memory is theirs."""
    for kind in ("there", "back", "added", "gelu", "sums", "eight"):
        room = product_cublas.ROOM if kind in ("sums", "eight") else 0
        library.calls.clear()
        Made(WANTED._replace(kind=kind, biased=False))
        asked = {given[1]: given[2]._obj.value for given in library.named("cublasLtMatmulPreferenceSetAttribute")}
        assert asked == {product_cublas.WORKSPACE: room, product_cublas.PARTS: 6}  # never in place


def test_what_an_algorithm_needs_for_its_parts_it_is_given(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.use_deterministic_algorithms(True)
    x, _, _, dy = drawn(MANY, 64, 192, torch.device("cpu"))
    monkeypatch.setattr(Found, "workspace", 4096)
    made = Made(Wanted(x.device, MANY, 192, 64, 64, "sums", biased=False))
    made(torch.empty(192, 64), dy, x, None)
    (given,) = library.named("cublasLtMatmul")
    assert given[13]
    assert given[14] == 4096


def test_a_gradient_of_a_matrix_may_be_made_by_torch(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """In single precision, as from the library."""
    monkeypatch.setattr(product_cublas, "taken", lambda *given: True)
    monkeypatch.setattr(Made, "_chosen", lambda self, *given: len(self.ways) - 1)
    made: list[tuple[torch.Size, torch.dtype]] = []

    def mm(a: Tensor, b: Tensor, kind: torch.dtype, *, out: Tensor) -> None:
        made.append((a.shape, kind))
        out.copy_(a.float() @ b.float())

    monkeypatch.setattr(torch.ops.aten.mm, "dtype_out", mm)  # not there on a CPU
    x, _, _, dy = drawn(MANY, 64, 192, torch.device("cpu"))
    near(product_cublas.product_sums(dy, x), plain.product_sums(dy.double(), x.double()), torch.float32)
    assert made == [((192, MANY), torch.float32)]
    assert not library.made


@pytest.mark.parametrize("status", [0, UNSUPPORTED])
def test_a_product_without_an_algorithm_is_made_by_torch_and_told_once(
    status: int, library: Library, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    library.offers, library.status["cublasLtMatmulAlgoGetHeuristic"] = 0, status
    monkeypatch.setattr(product_cublas, "taken", lambda *given: True)
    x, matrix, bias, dy = drawn(MANY, 64, 192, torch.device("cpu"))
    for _ in range(2):
        assert torch.equal(product_cublas.product(x, matrix, bias), plain.product(x, matrix, bias))
    assert caplog.text.count("has no algorithm for a product of (4096, 64) to (4096, 192), with a bias") == 1
    assert torch.equal(product_cublas.product_qkv(x, matrix, bias), plain.product_qkv(x, matrix, bias))
    assert torch.equal(product_cublas.product_back(dy, matrix), plain.product_back(dy, matrix))
    assert torch.equal(product_cublas.product_sums(dy, x), plain.product_sums(dy, x))
    assert not library.made


@pytest.mark.parametrize("kind", ["added", "gelu"])
def test_what_inference_makes_without_an_algorithm_is_made_by_torch(
    kind: str, library: Library, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    library.offers = 0
    monkeypatch.setattr(product_cublas, "taken", lambda *given: True)
    x, matrix, bias, y = drawn(MANY, 64, 192, torch.device("cpu"))
    for _ in range(2):
        if kind == "added":
            expected = y.addmm(x, matrix.T)
            assert torch.equal(product_cublas.product_added(x, matrix, y), expected)
        else:
            assert torch.equal(product_cublas.product_gelu(x, matrix, bias), plain.product_gelu(x, matrix, bias))
    said = {"added": "added to them", "gelu": "with a bias and GELU"}[kind]
    assert caplog.text.count(f"has no algorithm for a product of (4096, 64) to (4096, 192), {said}: torch") == 1


@pytest.mark.parametrize("why", ["older", "none", "unsupported", "invalid"])
def test_a_library_without_scales_for_rows_is_nothing_to_warn_of(
    why: str, library: Library, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if why == "older":
        library.version = 120804
    library.offers = library.offers if why == "older" else 0
    library.status["cublasLtMatmulAlgoGetHeuristic"] = {"unsupported": UNSUPPORTED, "invalid": INVALID}.get(why, 0)
    monkeypatch.setattr(product_cublas, "taken_eight", lambda *given: True)
    monkeypatch.setattr(product_cublas, "scaled_product", plain_eight.product)
    given, (*_, y) = in_eight(MANY, 64, 192, torch.device("cpu")), drawn(MANY, 64, 192, torch.device("cpu"))
    with caplog.at_level(logging.DEBUG, "patchwords"):
        for _ in range(2):
            left = product_cublas.product_eight_added(*given, y)
            assert left is not None
            assert torch.equal(left, plain_eight.product(*given, None))
    (line,) = caplog.records
    assert line.levelno == logging.DEBUG
    assert "has no algorithm for a product of (4096, 64) to (4096, 192), in eight bits" in line.getMessage()
    assert not library.made


@pytest.mark.parametrize("name", ["cublasLtMatmulAlgoGetHeuristic", "cublasLtMatmul"])
def test_a_library_that_fails_ends_the_work(name: str, library: Library) -> None:
    torch.use_deterministic_algorithms(True)
    library.status[name] = 14
    with pytest.raises(RuntimeError, match=rf"{name} answered with status 14 \(it is tired\); kernels = 'plain'"):
        multiplied(Made(WANTED))


@pytest.mark.skipif(torch.version.cuda is not None, reason="this torch has the library")
def test_a_torch_without_cuda_says_what_is_missing() -> None:
    assert product_cublas.missing() == "cuBLASLt is not there: this torch is built without CUDA"


def test_who_answers_measures_products_of_many_pictures_alone() -> None:
    """A service is asked about other numbers of pictures each time."""
    assert enough(MANY)
    assert not enough(MANY - 1)
    with torch.inference_mode():
        assert not enough(64 * 197)
        assert enough(128 * 197)
