"""CUDA graphs for inference: what is launched for a small batch is recorded once, and then launched as one."""

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Literal

import torch
from torch import Tensor

Graphs = Literal["auto", "never", "always"]
SMALL = 16  # pictures: more keep a GPU busier than its launches do
MOST = 8  # shapes that are remembered


class Graphed:
    """A function of one tensor, recorded for each shape of it that is small enough."""

    def __init__(self, function: Callable[[Tensor], Tensor], graphs: Graphs):
        self.function, self.graphs = function, graphs
        self.known: OrderedDict[tuple[torch.Size, torch.dtype], Recorded] = OrderedDict()
        self.lock = Lock()

    @torch.inference_mode()
    def __call__(self, images: Tensor) -> Tensor:
        if self.graphs == "never" or (self.graphs == "auto" and images.shape[0] > SMALL):
            return self.function(images)
        with self.lock:  # its memory is one, and threads may share it
            key = images.shape, images.dtype
            recorded = self.known.get(key) or Recorded(self.function, images)
            self.known[key] = recorded
            self.known.move_to_end(key)
            if len(self.known) > MOST:
                self.known.popitem(last=False)
            return recorded(images)


class Recorded:
    """One graph: pictures are copied to where it reads them, and answers from where it leaves them."""

    def __init__(self, function: Callable[[Tensor], Tensor], images: Tensor):
        self.images = images.clone()
        side = torch.cuda.Stream(images.device)
        side.wait_stream(torch.cuda.current_stream(images.device))
        with torch.cuda.stream(side):  # what is chosen or compiled at the first call must not be recorded
            for _ in range(3):
                function(self.images)
        torch.cuda.current_stream(images.device).wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.answers = function(self.images)

    def __call__(self, images: Tensor) -> Tensor:
        self.images.copy_(images)
        self.graph.replay()
        return self.answers.clone()
