"""What the exporters of torch say to those who write exporters, kept from those who only use one."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

TALKATIVE = ("torch.export", "torch.onnx", "onnx_ir", "onnxscript")


@contextmanager
def quiet() -> Iterator[None]:
    """Deprecations inside of libraries, and that one of them is without another; errors are raised as ever."""
    loggers = [logging.getLogger(name) for name in TALKATIVE]
    before = [each.level for each in loggers]
    try:
        for each in loggers:
            each.setLevel(logging.CRITICAL)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for each, level in zip(loggers, before, strict=True):
            each.setLevel(level)
