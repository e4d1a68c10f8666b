"""Products by cuBLASLt with the fastest of the algorithms that it offers; torch takes the first.

The library says which algorithms fit and guesses an order. For products of very many rows the guess costs up to a fifth
of the time on an H200, so the first product of a shape measures them all, and torch's product beside them. Another run
may so choose another one, whose last bits are others: where determinism is asked for, and while a graph is recorded,
the guess is taken, or torch's product where one is added or has GELU. Sums over rows may be made in parts, side by
side, which need memory of their own and are added up in one order: none of the algorithms adds with atomics.

Of products in eight bits only those are made here that are added to what lies in the result, which torch does not
offer: for the others the library has one algorithm, and torch takes it.

cuBLASLt thinks in columns: what lies here as (rows, width) is its matrix (width, rows).
"""

import ctypes
import logging
import math
import statistics
import weakref
from collections.abc import Callable
from ctypes import POINTER, byref, c_float, c_int, c_int8, c_int64, c_size_t, c_uint32, c_uint64, c_void_p, sizeof
from dataclasses import dataclass, field
from functools import lru_cache, partial
from threading import Lock
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from patchwords.speed.kernels import product as plain
from patchwords.speed.kernels.eight import scaled_product

logger = logging.getLogger("patchwords")

MANY = 4096  # rows: of fewer, a product is over before it matters how it is made
CROWD = 16384  # rows of pictures that somebody asks about: smaller batches come in ever other sizes to measure
MOST = 16  # algorithms that are asked for
CALLS, ROUNDS = 3, 3  # of a way that is measured
ALIGNED = 256  # bytes: where the library may assume that a matrix begins
ROOM = 32 << 20  # bytes for the parts of a sum, as many as torch gives the library
ONE, ZERO = c_float(1.0), c_float(0.0)
TORCH = "torch"  # begins the names of its ways

# From cublasLt.h; the same in CUDA 12 and 13.
SINGLE, SIXTEEN, EIGHT = 0, 14, 28  # cudaDataType: CUDA_R_32F, CUDA_R_16BF and CUDA_R_8F_E4M3
SUMS_IN_SINGLE = 68  # CUBLAS_COMPUTE_32F
# CUBLASLT_MATMUL_DESC_…: TRANSA, TRANSB, EPILOGUE, BIAS_POINTER
TRANSPOSED_FIRST, TRANSPOSED_SECOND, EPILOGUE, BIAS = 3, 4, 7, 8
ALONE, WITH_BIAS, WITH_GELU = 1, 4, 32  # CUBLASLT_EPILOGUE_…: DEFAULT, BIAS, GELU; the last two together GELU_BIAS
SCALE_FIRST, SCALE_SECOND, FAST = 17, 18, 25  # CUBLASLT_MATMUL_DESC_…: A_SCALE_POINTER, B_SCALE_POINTER, FAST_ACCUM
MODE_FIRST, MODE_SECOND = 31, 32  # CUBLASLT_MATMUL_DESC_…: A_SCALE_MODE, B_SCALE_MODE
EACH_ROW = 3  # CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F
SCALES_ROWS = 120900  # the version of the library that brought it
WORKSPACE, PARTS = 1, 3  # CUBLASLT_MATMUL_PREF_…: MAX_WORKSPACE_BYTES, REDUCTION_SCHEME_MASK
IN_TURN = 2 | 4  # CUBLASLT_REDUCTION_SCHEME_…: COMPUTE_TYPE, OUTPUT_TYPE: parts are kept, and added up afterwards
INVALID, MISMATCH, UNSUPPORTED = 7, 8, 15  # CUBLAS_STATUS_…: INVALID_VALUE, ARCH_MISMATCH, NOT_SUPPORTED
REFUSALS = (INVALID, MISMATCH, UNSUPPORTED)


class Found(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_ = (
        ("algorithm", c_uint64 * 8),
        ("workspace", c_size_t),
        ("state", c_int),
        ("waves", c_float),
        ("reserved", c_int * 4),
    )


TAKES: dict[str, list[Any]] = {  # every function answers with a status
    "cublasLtCreate": [POINTER(c_void_p)],
    "cublasLtMatmulDescCreate": [POINTER(c_void_p), c_int, c_int],
    "cublasLtMatmulDescDestroy": [c_void_p],
    "cublasLtMatmulDescSetAttribute": [c_void_p, c_int, c_void_p, c_size_t],
    "cublasLtMatrixLayoutCreate": [POINTER(c_void_p), c_int, c_uint64, c_uint64, c_int64],
    "cublasLtMatrixLayoutDestroy": [c_void_p],
    "cublasLtMatmulPreferenceCreate": [POINTER(c_void_p)],
    "cublasLtMatmulPreferenceDestroy": [c_void_p],
    "cublasLtMatmulPreferenceSetAttribute": [c_void_p, c_int, c_void_p, c_size_t],
    "cublasLtMatmulAlgoGetHeuristic": [*[c_void_p] * 7, c_int, POINTER(Found), POINTER(c_int)],
    "cublasLtMatmul": [*[c_void_p] * 14, c_size_t, c_void_p],
}


def product(x: Tensor, matrix: Tensor, bias: Tensor | None) -> Tensor:
    if taken(x, matrix, bias) and (made := offered(_wanted(x, matrix, bias))):
        y = x.new_empty(x.shape[0], matrix.shape[0])
        made(y, x, matrix, bias)
        return y
    return plain.product(x, matrix, bias)


def product_added(x: Tensor, matrix: Tensor, y: Tensor) -> Tensor:
    if taken(x, matrix, y) and (made := offered(_wanted(x, matrix, None, kind="added"))):
        made(y, x, matrix, None)
        return y
    return plain.product_added(x, matrix, y)


def product_gelu(x: Tensor, matrix: Tensor, bias: Tensor) -> Tensor:
    if taken(x, matrix, bias) and (made := offered(_wanted(x, matrix, bias, kind="gelu"))):
        y = x.new_empty(x.shape[0], matrix.shape[0])
        made(y, x, matrix, bias)
        return y
    return plain.product_gelu(x, matrix, bias)


def product_eight_added(x: Tensor, scale: Tensor, matrix: Tensor, weight_scale: Tensor, y: Tensor) -> Tensor | None:
    made = offered(_wanted(x, matrix, None, kind="eight")) if taken_eight(x, scale, matrix, weight_scale, y) else None
    if made and not made.refused:
        try:
            made(y, x, matrix, None, scale, weight_scale)
            return None
        except RefusedError as error:  # before anything was added
            made.refused = True
            logger.debug("%s: torch makes it (%s)", made.wanted, error)
    return scaled_product(x, scale, matrix, weight_scale, None)


def product_qkv(x: Tensor, matrix: Tensor, bias: Tensor | None) -> Tensor:
    """Of two products, the narrow one with a bias: with all of them it would cost a seventh more."""
    if bias is None:
        return product(x, matrix, None)
    width = matrix.shape[0] // 3
    (of_q, others), first = matrix.split([width, 2 * width]), bias[:width]
    y = x.new_empty(x.shape[0], 3 * width)
    if taken(x, of_q, first) and taken(x, others, None) and y[:, width:].data_ptr() % ALIGNED == 0:
        narrow, wide = offered(_wanted(x, of_q, first, 3 * width)), offered(_wanted(x, others, None, 3 * width))
        if narrow and wide:
            narrow(y[:, :width], x, of_q, first)
            wide(y[:, width:], x, others, None)
            return y
    return plain.product_qkv(x, matrix, bias)


def product_back(dy: Tensor, matrix: Tensor) -> Tensor:
    deep, width = matrix.shape
    wanted = Wanted(dy.device, dy.shape[0], width, deep, width, "back", biased=False)
    if taken(dy, matrix, None) and (made := offered(wanted)):
        dx = dy.new_empty(dy.shape[0], width)
        made(dx, dy, matrix, None)
        return dx
    return plain.product_back(dy, matrix)


def product_sums(dy: Tensor, x: Tensor) -> Tensor:
    out, width = dy.shape[1], x.shape[1]
    wanted = Wanted(dy.device, dy.shape[0], out, width, width, "sums", biased=False)
    if taken(dy, x, None) and (made := offered(wanted)):
        found = dy.new_empty(out, width, dtype=torch.float32)
        made(found, dy, x, None)
        return found
    return plain.product_sums(dy, x)


def taken(x: Tensor, matrix: Tensor, besides: Tensor | None) -> bool:
    """Whether there are many rows on a GPU, all in bf16 and as the library wants it to lie."""
    return (
        x.is_cuda
        and enough(x.shape[0])
        and all(side % 8 == 0 for side in (*x.shape, *matrix.shape))
        and all(_lies(each, torch.bfloat16) for each in (x, matrix, besides))
    )


def taken_eight(x: Tensor, scale: Tensor, matrix: Tensor, weight_scale: Tensor, y: Tensor) -> bool:
    """The same for rows and a matrix in eight bits, with their scales, and what they are added to."""
    return (
        x.is_cuda
        and enough(x.shape[0])
        and not missing()
        and all(side % 16 == 0 for side in matrix.shape)
        and all(_lies(each, torch.float8_e4m3fn) for each in (x, matrix))
        and all(_lies(each, torch.float32) for each in (scale, weight_scale))
        and _lies(y, torch.bfloat16)
    )


def enough(rows: int) -> bool:
    """Whether it is worth measuring how a product of so many is made."""
    return rows >= (CROWD if torch.is_inference_mode_enabled() else MANY)


def _lies(each: Tensor | None, dtype: torch.dtype) -> bool:
    """As the library wants it, if it is there."""
    return each is None or (each.dtype == dtype and each.is_contiguous() and each.data_ptr() % ALIGNED == 0)


@lru_cache
def missing() -> str:
    """Why the library cannot be used, if so."""
    try:
        _library()
    except (OSError, AttributeError) as error:
        return f"cuBLASLt is not there: {error}"
    return ""


Kind = Literal["there", "back", "sums", "added", "gelu", "eight"]
ADDED: tuple[Kind, ...] = ("added", "eight")  # to what lies in the result


class Wanted(NamedTuple):
    """A product: rows (rows, deep) times a matrix to (rows, out); its rows begin `apart` numbers from one another.

    There the matrix lies (out, deep), and back (deep, out). For `sums` rows (rows, out) meet others, (rows, deep), in
    the place of the matrix, to (out, deep) in single precision. The others are as there: `added` to what lies in the
    result, with GELU in the form with tanh, or added and of `eight` bits, with a scale for each row of both sides.
    """

    device: torch.device
    rows: int
    out: int
    deep: int
    apart: int
    kind: Kind
    biased: bool

    def __str__(self) -> str:
        if self.kind == "sums":
            return f"({self.out}, {self.rows}) to ({self.out}, {self.deep}), over rows"
        bias = "with a bias" if self.biased else "without a bias"
        others = {
            "back": "back",
            "added": "added to them",
            "gelu": f"{bias} and GELU",
            "eight": "in eight bits, added to them",
        }
        return f"({self.rows}, {self.deep}) to ({self.rows}, {self.out}), {others.get(self.kind, bias)}"


class Told(NamedTuple):
    """What the library knows of a product: its descriptor, and the layouts of the matrix, the rows and the result."""

    descriptor: c_void_p
    matrix: c_void_p
    rows: c_void_p
    result: c_void_p


class Way(NamedTuple):
    """How a product can be made: y, from x, a matrix and perhaps a bias, and the scales of x and the matrix."""

    name: str
    make: Callable[..., None]


Laid = Callable[[Tensor], Tensor]  # a matrix as a way reads it


@dataclass(eq=False)
class Made:
    """A product, the ways to make it, and the one that is taken."""

    wanted: Wanted
    ways: list[Way] = field(init=False)  # the library's guess first; none, if it has no algorithm
    usual: int = field(default=0, init=False)  # the one where nothing may be measured
    best: int | None = field(default=None, init=False)
    refused: bool = field(default=False, init=False)  # whatever was offered, when it was to be done
    lock: Lock = field(default_factory=Lock, init=False)  # a descriptor knows one bias at a time

    def __post_init__(self) -> None:
        wanted = self.wanted
        lying = [(wanted, "as it lies", _same)]
        if wanted.kind == "back":  # a copy the other way round is little work beside so many rows, and may be faster
            lying.append((wanted._replace(kind="there"), "turned", _turned))
        self.ways = [way for each in lying for way in self._of_library(*each)]
        if self.ways and wanted.kind != "eight":
            self.ways += [Way(f"{TORCH}, {name}", partial(_by_torch, each, laid)) for each, name, laid in lying]
            self.usual = len(self.ways) - 1 if wanted.kind in ("added", "gelu") else 0

    def __call__(self, y: Tensor, x: Tensor, matrix: Tensor, bias: Tensor | None, *scales: Tensor) -> None:
        with torch.cuda.device(self.wanted.device), self.lock:
            self.ways[self._chosen(y, x, matrix, bias, *scales)].make(y, x, matrix, bias, *scales)

    def _of_library(self, wanted: Wanted, name: str, laid: Laid) -> list[Way]:
        """One for each algorithm, in the order that the library guesses."""
        if wanted.kind == "eight" and _library().cublasLtGetVersion() < SCALES_ROWS:
            return []
        told = _told(wanted)
        weakref.finalize(self, _freed, _library(), told).atexit = False
        found = _algorithms(wanted, told)
        every = (partial(_by_library, wanted, told, each, laid) for each in found)
        return [Way(f"algorithm {number} of {len(found)}, {name}", make) for number, make in enumerate(every)]

    def _chosen(self, y: Tensor, *given: Any) -> int:
        if torch.are_deterministic_algorithms_enabled():
            return self.usual
        if self.best is None:
            if torch.cuda.is_current_stream_capturing():
                return self.usual
            tried = y.clone() if self.wanted.kind in ADDED else y  # of what is tried nothing may stay in a sum
            times = [[self._timed(way, tried, *given) for way in self.ways] for _ in range(ROUNDS)]
            self.best = quickest(times)
            medians = [1e3 * statistics.median(column) for column in zip(*times, strict=True)]
            others = (took for took, way in zip(medians, self.ways, strict=True) if way.name.startswith(TORCH))
            by_torch = min(others, default=math.nan)
            said = "%s: %s takes %.0f us, the guess %.0f, torch %.0f"
            logger.debug(said, self.wanted, self.ways[self.best].name, medians[self.best], medians[0], by_torch)
        return self.best

    def _timed(self, way: Way, *given: Any) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        try:
            way.make(*given)
        except RefusedError:  # of what it has offered the library looks at some only now
            return math.inf
        start.record()
        for _ in range(CALLS):
            way.make(*given)
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / CALLS


def quickest(times: list[list[float]]) -> int:
    """The way that took least, of rounds in which each was measured; the library's guess wins a tie."""
    medians = [statistics.median(column) for column in zip(*times, strict=True)]
    return medians.index(min(medians))


@lru_cache(maxsize=256)
def offered(wanted: Wanted) -> Made | None:
    """How the library makes it; None, once with a line in the log, where it has no algorithm.

    For eight bits that is nothing to warn of: older libraries and GPUs have none.
    """
    made = Made(wanted)
    if made.ways:
        return made
    level = logging.DEBUG if wanted.kind == "eight" else logging.WARNING
    logger.log(level, "cuBLASLt has no algorithm for a product of %s: torch makes it", wanted)
    return None


def _wanted(x: Tensor, matrix: Tensor, bias: Tensor | None, apart: int = 0, kind: Kind = "there") -> Wanted:
    """The product of rows with a matrix that lies (out, deep), to rows `apart` from one another, or side by side."""
    out, deep = matrix.shape
    return Wanted(x.device, x.shape[0], out, deep, apart or out, kind, biased=bias is not None)


def _same(matrix: Tensor) -> Tensor:
    return matrix


def _turned(matrix: Tensor) -> Tensor:
    return matrix.T.contiguous()


def _by_torch(wanted: Wanted, laid: Laid, y: Tensor, x: Tensor, matrix: Tensor, bias: Tensor | None) -> None:
    if wanted.kind == "sums":
        torch.ops.aten.mm.dtype_out(x.T, matrix, torch.float32, out=y)
        return
    by = laid(matrix) if wanted.kind == "back" else laid(matrix).T
    if wanted.kind == "added":
        y.addmm_(x, by)
    elif bias is None:
        torch.mm(x, by, out=y)
    elif wanted.kind == "gelu":
        torch._addmm_activation(bias, x, by, use_gelu=True, out=y)
    else:
        torch.addmm(bias, x, by, out=y)


def _by_library(
    wanted: Wanted,
    told: Told,
    found: Found,
    laid: Laid,
    y: Tensor,
    x: Tensor,
    matrix: Tensor,
    bias: Tensor | None,
    *scales: Tensor,
) -> None:
    for attribute, each in zip((BIAS, SCALE_SECOND, SCALE_FIRST), (bias, *scales), strict=False):
        if each is not None:
            _set(told.descriptor, attribute, c_void_p(each.data_ptr()))
    device, matrix = wanted.device, laid(matrix)
    given = matrix.data_ptr(), told.matrix, x.data_ptr(), told.rows
    result = y.data_ptr(), told.result, y.data_ptr(), told.result
    stream = torch.cuda.current_stream(device).cuda_stream
    sums = byref(ONE), *given, byref(ONE if wanted.kind in ADDED else ZERO), *result
    parts = torch.empty(found.workspace, dtype=torch.uint8, device=device) if found.workspace else None
    room = None if parts is None else parts.data_ptr(), found.workspace
    _call("cublasLtMatmul", _handle(device), told.descriptor, *sums, byref(found), *room, stream)


def _told(wanted: Wanted) -> Told:
    descriptor = c_void_p()
    _call("cublasLtMatmulDescCreate", byref(descriptor), SUMS_IN_SINGLE, SINGLE)
    _set(descriptor, TRANSPOSED_FIRST, c_int(wanted.kind not in ("back", "sums")))
    _set(descriptor, TRANSPOSED_SECOND, c_int(wanted.kind == "sums"))
    epilogue = (WITH_BIAS if wanted.biased else 0) | (WITH_GELU if wanted.kind == "gelu" else 0)
    _set(descriptor, EPILOGUE, c_int(epilogue or ALONE))
    if wanted.kind == "eight":
        _set(descriptor, FAST, c_int8(1))
        for mode, scale in ((MODE_FIRST, SCALE_FIRST), (MODE_SECOND, SCALE_SECOND)):
            _set(descriptor, mode, c_int(EACH_ROW))
            _set(descriptor, scale, c_void_p(ALIGNED))  # without one nothing is offered; nobody looks there yet
    rows, out, deep = wanted.rows, wanted.out, wanted.deep
    if wanted.kind == "sums":
        return Told(
            descriptor, _layout(deep, rows, deep), _layout(out, rows, out), _layout(deep, out, wanted.apart, SINGLE)
        )
    sides = (out, deep) if wanted.kind == "back" else (deep, out)
    numbers = EIGHT if wanted.kind == "eight" else SIXTEEN
    given = _layout(*sides, sides[0], numbers), _layout(deep, rows, deep, numbers)
    return Told(descriptor, *given, _layout(out, rows, wanted.apart))


def _set(descriptor: c_void_p, attribute: int, value: Any) -> None:
    _call("cublasLtMatmulDescSetAttribute", descriptor, attribute, byref(value), sizeof(value))


def _algorithms(wanted: Wanted, told: Told) -> list[Found]:
    """Those that need no more memory of their own than there is."""
    preference, eight = c_void_p(), wanted.kind == "eight"
    room = ROOM if eight or wanted.kind == "sums" else 0
    found, count = (Found * MOST)(), c_int(0)
    _call("cublasLtMatmulPreferenceCreate", byref(preference))
    try:
        for attribute, value in ((WORKSPACE, c_size_t(room)), (PARTS, c_uint32(IN_TURN))):
            _call("cublasLtMatmulPreferenceSetAttribute", preference, attribute, byref(value), sizeof(value))
        sought = (*told, told.result, preference, MOST, found, byref(count))
        unsupported = REFUSALS if eight else (UNSUPPORTED,)
        _call("cublasLtMatmulAlgoGetHeuristic", _handle(wanted.device), *sought, but=unsupported)
    finally:
        _call("cublasLtMatmulPreferenceDestroy", preference)
    return [each for each in found[: count.value] if each.state == 0]


def _layout(height: int, width: int, apart: int, numbers: int = SIXTEEN) -> c_void_p:
    layout = c_void_p()
    _call("cublasLtMatrixLayoutCreate", byref(layout), numbers, height, width, apart)
    return layout


def _freed(library: ctypes.CDLL, told: Told) -> None:
    library.cublasLtMatmulDescDestroy(told.descriptor)
    for layout in told[1:]:
        library.cublasLtMatrixLayoutDestroy(layout)


@lru_cache
def _handle(device: torch.device) -> c_void_p:
    handle = c_void_p()
    with torch.cuda.device(device):
        _call("cublasLtCreate", byref(handle))
    return handle


@lru_cache
def _library() -> ctypes.CDLL:
    """The one that torch itself has loaded."""
    if torch.version.cuda is None:
        raise OSError("this torch is built without CUDA")
    major = torch.version.cuda.partition(".")[0]
    library = ctypes.CDLL(f"libcublasLt.so.{major}")
    for name, takes in TAKES.items():
        getattr(library, name).argtypes = takes
    library.cublasLtGetStatusString.argtypes, library.cublasLtGetStatusString.restype = [c_int], ctypes.c_char_p
    library.cublasLtGetVersion.argtypes, library.cublasLtGetVersion.restype = [], c_size_t
    return library


class RefusedError(RuntimeError):
    """The library does not make a product, or not in this way."""


def _call(name: str, *given: Any, but: tuple[int, ...] = ()) -> None:
    """`but`: what is an answer too."""
    status = getattr(_library(), name)(*given)
    if status and status not in but:
        reason = _library().cublasLtGetStatusString(status).decode()
        kind = RefusedError if status in REFUSALS else RuntimeError
        raise kind(f"{name} answered with status {status} ({reason}); kernels = 'plain' does without it")
