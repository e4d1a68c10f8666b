"""Pictures that are files below a folder."""

import errno
import os
from pathlib import Path

from patchwords.data.sources.names import Names, printable
from patchwords.data.sources.reading import reading
from patchwords.data.sources.source import Labels, Source

MOST_BYTES = 1 << 30  # of one file: what is larger is no picture


class Files(Source):
    """Files by their paths relative to a folder, so that a data set that was moved is still the same."""

    def __init__(self, folder: Path, names: Names, labels: Labels):
        self.folder = os.path.abspath(folder)
        self.names = names
        self.labels = labels

    def path(self, index: int) -> str:
        return os.path.join(self.folder, self.names[index])

    def picture(self, index: int) -> bytes:
        with open(self.path(index), "rb") as file:
            if os.fstat(file.fileno()).st_size > MOST_BYTES:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), self.name(index))
            return file.read()

    def name(self, index: int) -> str:
        return printable(self.names[index])

    def size(self, index: int) -> int:
        with reading(self.path(index)):
            return os.stat(self.path(index)).st_size
