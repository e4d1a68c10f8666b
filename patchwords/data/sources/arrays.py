"""Pictures that are arrays in memory."""

from patchwords.data.sources.source import Labels, Pixels, Source


class Arrays(Source):
    """Pictures of one size, uint8 (n, height, width, channels); called by their place in a part."""

    def __init__(self, images: Pixels, labels: Labels, part: str):
        self.images = images
        self.labels = labels
        self.part = part

    def picture(self, index: int) -> Pixels:
        return self.images[index]

    def name(self, index: int) -> str:
        return f"{self.part}/{index}"

    def size(self, index: int) -> int:
        return self.images[index].nbytes
