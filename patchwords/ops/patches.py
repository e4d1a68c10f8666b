"""Section 3.1: an image as a sequence of flattened patches, and back."""

from torch import Tensor

from patchwords.errors import UsageError


def grid(image: tuple[int, int], patch: tuple[int, int]) -> tuple[int, int]:
    """Rows and columns of patches in an image; a remainder is refused, not cut off."""
    (height, width), (tall, wide) = image, patch
    if min(height, width, tall, wide) < 1 or height % tall or width % wide:
        raise UsageError(
            f"image {height}x{width} is not a multiple of patch {tall}x{wide}: "
            f"choose a patch that divides it, or resize the image"
        )
    return height // tall, width // wide


def check_pictures(images: Tensor, channels: int) -> None:
    """Refuses what is not a batch of pictures as the models take them."""
    if images.dim() != 4 or images.shape[1] != channels or not images.is_floating_point():
        shape = "x".join(map(str, images.shape))
        raise UsageError(
            f"{shape} of {images.dtype} came; pictures are batch x {channels} x height x width, of a floating kind"
        )


def patchify(images: Tensor, patch: tuple[int, int]) -> Tensor:
    """(batch, channels, height, width) to (batch, patches, patch height · patch width · channels), row by row."""
    rows, cols = grid((images.shape[2], images.shape[3]), patch)
    x = images.unflatten(3, (cols, patch[1])).unflatten(2, (rows, patch[0]))
    # (batch, channels, rows, tall, cols, wide)
    return x.permute(0, 2, 4, 3, 5, 1).flatten(3).flatten(1, 2)


def unpatchify(patches: Tensor, patch: tuple[int, int], grid: tuple[int, int]) -> Tensor:
    """The inverse of `patchify`."""
    x = patches.unflatten(2, (*patch, -1)).unflatten(1, grid)  # (batch, rows, cols, tall, wide, channels)
    return x.permute(0, 5, 1, 3, 2, 4).flatten(4).flatten(2, 3)
