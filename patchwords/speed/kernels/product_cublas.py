"""Products by cuBLASLt with the fastest of the algorithms that it offers; torch takes the first.

The library says which algorithms fit and guesses an order. For products of very many rows the guess costs up to a fifth
of the time on an H200, so the first product of a shape measures them all; where determinism is asked for, and while a
graph is recorded, the guess is taken. None of the algorithms asks for memory of its own.

cuBLASLt thinks in columns: what lies here as (rows, width) is its matrix (width, rows).
"""

import ctypes
import statistics
from ctypes import POINTER, byref, c_float, c_int, c_int64, c_size_t, c_uint64, c_void_p, sizeof
from dataclasses import dataclass, field
from functools import lru_cache
from threading import Lock
from typing import Any

import torch
from torch import Tensor

from patchwords.speed.kernels import product as plain

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
    "cublasLtMatmulDescSetAttribute": [c_void_p, c_int, c_void_p, c_size_t],
    "cublasLtMatrixLayoutCreate": [POINTER(c_void_p), c_int, c_uint64, c_uint64, c_int64],
    "cublasLtMatmulPreferenceCreate": [POINTER(c_void_p)],
    "cublasLtMatmulPreferenceSetAttribute": [c_void_p, c_int, c_void_p, c_size_t],
    "cublasLtMatmulAlgoGetHeuristic": [*[c_void_p] * 7, c_int, POINTER(Found), POINTER(c_int)],
    "cublasLtMatmul": [*[c_void_p] * 14, c_size_t, c_void_p],
}


def product(x: Tensor, matrix: Tensor, bias: Tensor | None) -> Tensor:
    if not taken(x, matrix, bias):
        return plain.product(x, matrix, bias)
    y = x.new_empty(x.shape[0], matrix.shape[0])
    _into(y, x, matrix, bias)
    return y


def product_qkv(x: Tensor, matrix: Tensor, bias: Tensor | None) -> Tensor:
    """Of two products, the narrow one with a bias: with all of them it would cost a seventh more."""
    if bias is None:
        return product(x, matrix, None)
    width = matrix.shape[0] // 3
    (of_q, others), first = matrix.split([width, 2 * width]), bias[:width]
    y = x.new_empty(x.shape[0], 3 * width)
    if not (taken(x, of_q, first) and taken(x, others, None) and y[:, width:].data_ptr() % ALIGNED == 0):
        return plain.product_qkv(x, matrix, bias)
    _into(y[:, :width], x, of_q, first)
    _into(y[:, width:], x, others, None)
    return y


def product_back(dy: Tensor, matrix: Tensor) -> Tensor:
    if not taken(dy, matrix, None):
        return plain.product_back(dy, matrix)
    dx = dy.new_empty(dy.shape[0], matrix.shape[1])
    _shape(dy.device, *dx.shape, dy.shape[1], dx.stride(0), True, False)(dx, dy, matrix, None)
    return dx


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


@dataclass
class Shape:
    """One product: rows (rows, deep) times a matrix to (rows, out), with its algorithms and the one that is taken.

    The rows of the result begin `apart` numbers from one another.
    """

    device: torch.device
    rows: int
    out: int
    deep: int
    apart: int
    back: bool  # whether the matrix lies (deep, out), else (out, deep)
    biased: bool
    descriptor: c_void_p = field(default_factory=c_void_p, init=False)
    layouts: tuple[c_void_p, c_void_p, c_void_p] = field(init=False)  # of the matrix, the rows and the result
    algorithms: list[Any] = field(init=False)  # in the order that the library guesses
    best: int | None = field(default=None, init=False)
    lock: Lock = field(default_factory=Lock, init=False)  # a descriptor knows one bias at a time

    def __post_init__(self) -> None:
        _call("cublasLtMatmulDescCreate", byref(self.descriptor), SUMS_IN_SINGLE, SINGLE)
        self._set(TRANSPOSED_FIRST, c_int(not self.back))
        self._set(EPILOGUE, c_int(WITH_BIAS if self.biased else 1))
        sides = (self.out, self.deep) if self.back else (self.deep, self.out)
        self.layouts = (
            _layout(*sides, sides[0]),
            _layout(self.deep, self.rows, self.deep),
            _layout(self.out, self.rows, self.apart),
        )
        preference, none = c_void_p(), c_size_t(0)
        _call("cublasLtMatmulPreferenceCreate", byref(preference))
        _call("cublasLtMatmulPreferenceSetAttribute", preference, WORKSPACE, byref(none), sizeof(none))
        found, count = (Found * MOST)(), c_int(0)
        sought = (self.descriptor, *self.layouts, self.layouts[2], preference, MOST, found, byref(count))
        _call("cublasLtMatmulAlgoGetHeuristic", _handle(self.device), *sought)
        self.algorithms = [each for each in found[: count.value] if each.state == 0]
        assert self.algorithms, "every product of sides that are multiples of 8 has one"

    def __call__(self, y: Tensor, x: Tensor, matrix: Tensor, bias: Tensor | None) -> None:
        with torch.cuda.device(self.device), self.lock:
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
        return self.best

    def _timed(self, each: int, x: Tensor, matrix: Tensor, y: Tensor) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self._make(each, x, matrix, y)
        start.record()
        for _ in range(CALLS):
            self._make(each, x, matrix, y)
        end.record()
        end.synchronize()
        return start.elapsed_time(end)

    def _make(self, each: int, x: Tensor, matrix: Tensor, y: Tensor) -> None:
        one, zero = c_float(1.0), c_float(0.0)
        of_matrix, of_rows, of_result = self.layouts
        given = matrix.data_ptr(), of_matrix, x.data_ptr(), of_rows
        result = y.data_ptr(), of_result, y.data_ptr(), of_result
        stream = torch.cuda.current_stream(self.device).cuda_stream
        algorithm = byref(self.algorithms[each])
        sums = byref(one), *given, byref(zero), *result
        _call("cublasLtMatmul", _handle(self.device), self.descriptor, *sums, algorithm, None, 0, stream)

    def _set(self, attribute: int, value: Any) -> None:
        _call("cublasLtMatmulDescSetAttribute", self.descriptor, attribute, byref(value), sizeof(value))


def quickest(times: list[list[float]]) -> int:
    """The algorithm that took least, of rounds in which each was measured; the library's guess wins a tie."""
    medians = [statistics.median(column) for column in zip(*times, strict=True)]
    return medians.index(min(medians))


@lru_cache(maxsize=256)
def _shape(device: torch.device, rows: int, out: int, deep: int, apart: int, back: bool, biased: bool) -> Shape:
    return Shape(device, rows, out, deep, apart, back, biased)


def _into(y: Tensor, x: Tensor, matrix: Tensor, bias: Tensor | None) -> None:
    _shape(x.device, *y.shape, x.shape[1], y.stride(0), False, bias is not None)(y, x, matrix, bias)


def _layout(height: int, width: int, apart: int) -> c_void_p:
    layout = c_void_p()
    _call("cublasLtMatrixLayoutCreate", byref(layout), SIXTEEN, height, width, apart)
    return layout


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
    return library


def _call(name: str, *given: Any) -> None:
    if status := getattr(_library(), name)(*given):
        raise RuntimeError(f"{name} answered with status {status}")
