"""What pages are built of."""

import io

import pytest
from PIL import Image

from patchwords.errors import DataError
from patchwords.pages.parts import SHRUNK, sheet


def png(width: int, height: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (width, height)).save(file, "PNG")
    return file.getvalue()


def test_a_figure_lies_within_the_page_smaller_than_its_pixels() -> None:
    text = sheet(png(1000, 30), "Filters", "filters.png")
    assert text.startswith('<figure class="sheet"><div class="pan" tabindex="0" role="region" aria-label="Filters">')
    assert f'alt="Filters" width="{round(SHRUNK * 1000)}"' in text
    assert 'src="data:image/png;base64,' in text
    assert text.endswith("<figcaption>filters.png</figcaption></figure>")


def test_no_caption_can_write_the_page() -> None:
    assert "<i>" not in sheet(png(1, 1), "<i>", "<i>")


def test_what_is_no_picture_is_refused() -> None:
    with pytest.raises(DataError, match="neither a JPEG nor a PNG"):
        sheet(bytes(24), "Filters", "filters.png")
