"""Products by cuBLASLt with the fastest of the algorithms that it offers; torch takes the first.

The library says which algorithms fit and guesses an order. For products of very many rows the guess costs up to a fifth
of the time on an H200, so the first product of a shape measures them all. Another run may so choose another one, whose
last bits are others: where determinism is asked for, and while a graph is recorded, the guess is taken. None of the
algorithms asks for memory of its own, so none of them adds with atomics either.

cuBLASLt thinks in columns: what lies here as (rows, width) is its matrix (width, rows).
"""

import ctypes
import logging
import statistics
import weakref
from ctypes import POINTER, byref, c_float, c_int, c_int64, c_size_t, c_uint64, c_void_p, sizeof
from dataclasses import dataclass, field
from functools import lru_cache
from threading import Lock
from typing import Any, NamedTuple

import torch
from torch import Tensor

from patchwords.speed.kernels import product as plain

logger = logging.getLogger("patchwords")

MANY = 4096  # rows: of fewer, a product is over before it matters how it is made
MOST = 16  # algorithms that are asked for
CALLS, ROUNDS = 3, 3  # of an algorithm that is measured
ALIGNED = 256  # bytes: where the library may assume that a matrix begins

# From cublasLt.h; the same in CUDA 12 and 13.
SINGLE, SIXTEEN = 0, 14  # cudaDataType: CUDA_R_32F and CUDA_R_16BF
SUMS_IN_SINGLE = 68  # CUBLAS_COMPUTE_32F
TRANSPOSED_FIRST, EPILOGUE, BIAS = 3, 7, 8  # CUBLASLT_MATMUL_DESC_…: TRANSA, EPILOGUE, BIAS_POINTER
WITH_BIAS = 4  # CUBLASLT_EPILOGUE_BIAS
WORKSPACE = 1  # CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES
UNSUPPORTED = 15  # CUBLAS_STATUS_NOT_SUPPORTED


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
    wanted = Wanted(dy.device, dy.shape[0], width, deep, width, back=True, biased=False)
    if taken(dy, matrix, None) and (made := offered(wanted)):
        dx = dy.new_empty(dy.shape[0], width)
        made(dx, dy, matrix, None)
        return dx
    return plain.product_back(dy, matrix)


def taken(x: Tensor, matrix: Tensor, bias: Tensor | None) -> bool:
    """Whether there are many rows on a GPU, all in bf16 and as the library wants it to lie."""
    every = [x, matrix] if bias is None else [x, matrix, bias]
    return (
        x.is_cuda
        and x.shape[0] >= MANY
        and all(side % 8 == 0 for side in (*x.shape, *matrix.shape))
        and all(each.dtype == torch.bfloat16 and each.is_contiguous() for each in every)
        and all(each.data_ptr() % ALIGNED == 0 for each in every)
    )


@lru_cache
def missing() -> str:
    """Why the library cannot be used, if so."""
    try:
        _library()
    except (OSError, AttributeError) as error:
        return f"cuBLASLt is not there: {error}"
    return ""


class Wanted(NamedTuple):
    """A product: rows (rows, deep) times a matrix to (rows, out).

    The rows of the result begin `apart` numbers from one another.
    """

    device: torch.device
    rows: int
    out: int
    deep: int
    apart: int
    back: bool  # whether the matrix lies (deep, out), else (out, deep)
    biased: bool

    def __str__(self) -> str:
        sides = "back" if self.back else "with a bias" if self.biased else "without a bias"
        return f"({self.rows}, {self.deep}) to ({self.rows}, {self.out}), {sides}"


@dataclass(eq=False)
class Made:
    """A product as the library makes it: its algorithms, and the one that is taken."""

    wanted: Wanted
    descriptor: c_void_p = field(default_factory=c_void_p, init=False)
    layouts: tuple[c_void_p, c_void_p, c_void_p] = field(init=False)  # of the matrix, the rows and the result
    algorithms: list[Any] = field(init=False)  # in the order that the library guesses
    best: int | None = field(default=None, init=False)
    lock: Lock = field(default_factory=Lock, init=False)  # a descriptor knows one bias at a time

    def __post_init__(self) -> None:
        wanted = self.wanted
        _call("cublasLtMatmulDescCreate", byref(self.descriptor), SUMS_IN_SINGLE, SINGLE)
        self._set(TRANSPOSED_FIRST, c_int(not wanted.back))
        self._set(EPILOGUE, c_int(WITH_BIAS if wanted.biased else 1))
        sides = (wanted.out, wanted.deep) if wanted.back else (wanted.deep, wanted.out)
        self.layouts = (
            _layout(*sides, sides[0]),
            _layout(wanted.deep, wanted.rows, wanted.deep),
            _layout(wanted.out, wanted.rows, wanted.apart),
        )
        weakref.finalize(self, _freed, _library(), self.descriptor, self.layouts).atexit = False
        self.algorithms = _algorithms(wanted.device, self.descriptor, self.layouts)

    def __call__(self, y: Tensor, x: Tensor, matrix: Tensor, bias: Tensor | None) -> None:
        with torch.cuda.device(self.wanted.device), self.lock:
            if bias is not None:
                self._set(BIAS, c_void_p(bias.data_ptr()))
            self._make(self._chosen(x, matrix, y), x, matrix, y)

    def _chosen(self, x: Tensor, matrix: Tensor, y: Tensor) -> int:
        if torch.are_deterministic_algorithms_enabled():
            return 0
        if self.best is None:
            if torch.cuda.is_current_stream_capturing():
                return 0
            times = [[self._timed(each, x, matrix, y) for each in range(len(self.algorithms))] for _ in range(ROUNDS)]
            self.best = quickest(times)
            guess, best = (1e3 * statistics.median(one[each] for one in times) for each in (0, self.best))
            said = "%s: algorithm %d of %d takes %.0f us, the guess %.0f"
            logger.debug(said, self.wanted, self.best, len(self.algorithms), best, guess)
        return self.best

    def _timed(self, each: int, x: Tensor, matrix: Tensor, y: Tensor) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self._make(each, x, matrix, y)
        start.record()
        for _ in range(CALLS):
            self._make(each, x, matrix, y)
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / CALLS

    def _make(self, each: int, x: Tensor, matrix: Tensor, y: Tensor) -> None:
        one, zero = c_float(1.0), c_float(0.0)
        of_matrix, of_rows, of_result = self.layouts
        given = matrix.data_ptr(), of_matrix, x.data_ptr(), of_rows
        result = y.data_ptr(), of_result, y.data_ptr(), of_result
        stream = torch.cuda.current_stream(self.wanted.device).cuda_stream
        algorithm = byref(self.algorithms[each])
        sums = byref(one), *given, byref(zero), *result
        _call("cublasLtMatmul", _handle(self.wanted.device), self.descriptor, *sums, algorithm, None, 0, stream)

    def _set(self, attribute: int, value: Any) -> None:
        _call("cublasLtMatmulDescSetAttribute", self.descriptor, attribute, byref(value), sizeof(value))


def quickest(times: list[list[float]]) -> int:
    """The algorithm that took least, of rounds in which each was measured; the library's guess wins a tie."""
    medians = [statistics.median(column) for column in zip(*times, strict=True)]
    return medians.index(min(medians))


@lru_cache(maxsize=256)
def offered(wanted: Wanted) -> Made | None:
    """How the library makes it; None, once with a line in the log, where it has no algorithm."""
    made = Made(wanted)
    if made.algorithms:
        return made
    logger.warning("cuBLASLt has no algorithm for a product of %s: torch makes it", wanted)
    return None


def _wanted(x: Tensor, matrix: Tensor, bias: Tensor | None, apart: int = 0) -> Wanted:
    """The product of rows with a matrix that lies (out, deep), to rows `apart` from one another, or side by side."""
    out, deep = matrix.shape
    return Wanted(x.device, x.shape[0], out, deep, apart or out, back=False, biased=bias is not None)


def _algorithms(device: torch.device, descriptor: c_void_p, layouts: tuple[c_void_p, c_void_p, c_void_p]) -> list[Any]:
    """Those that need no memory of their own."""
    preference, none = c_void_p(), c_size_t(0)
    found, count = (Found * MOST)(), c_int(0)
    _call("cublasLtMatmulPreferenceCreate", byref(preference))
    try:
        _call("cublasLtMatmulPreferenceSetAttribute", preference, WORKSPACE, byref(none), sizeof(none))
        sought = (descriptor, *layouts, layouts[2], preference, MOST, found, byref(count))
        _call("cublasLtMatmulAlgoGetHeuristic", _handle(device), *sought, but=UNSUPPORTED)
    finally:
        _call("cublasLtMatmulPreferenceDestroy", preference)
    return [each for each in found[: count.value] if each.state == 0]


def _layout(height: int, width: int, apart: int) -> c_void_p:
    layout = c_void_p()
    _call("cublasLtMatrixLayoutCreate", byref(layout), SIXTEEN, height, width, apart)
    return layout


def _freed(library: ctypes.CDLL, descriptor: c_void_p, layouts: tuple[c_void_p, ...]) -> None:
    library.cublasLtMatmulDescDestroy(descriptor)
    for layout in layouts:
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
    return library


def _call(name: str, *given: Any, but: int = 0) -> None:
    """`but`: a status that is an answer too."""
    status = getattr(_library(), name)(*given)
    if status not in (0, but):
        reason = _library().cublasLtGetStatusString(status).decode()
        raise RuntimeError(f"{name} answered with status {status} ({reason}); kernels = 'plain' does without it")
