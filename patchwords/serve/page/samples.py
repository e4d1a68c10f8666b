"""Pictures to begin with, drawn here: the same on every machine, and nobody else's."""

import io
import math
from collections.abc import Callable
from itertools import pairwise

from PIL import Image, ImageDraw

SIDE, FINER = 256, 4  # pixels of a side; drawn larger and made small, so that edges are soft
Colour = tuple[int, int, int]
Point = tuple[float, float]


class Sheet:
    """A square to draw on, whose sides are one long."""

    def __init__(self, above: Colour, below: Colour):
        side = SIDE * FINER
        column = Image.new("RGB", (1, side))
        for y in range(side):
            column.putpixel((0, y), _between(above, below, y / side))
        self.image = column.resize((side, side), Image.Resampling.NEAREST)
        self.draw = ImageDraw.Draw(self.image)

    def spot(self, centre: Point, radius: float, colour: Colour) -> None:
        self.oval(centre, (radius, radius), 0, colour)

    def oval(self, centre: Point, radii: Point, turned: float, colour: Colour) -> None:
        """An ellipse turned by some degrees."""
        cos, sin = math.cos(math.radians(turned)), math.sin(math.radians(turned))
        round_ = ((math.cos(a) * radii[0], math.sin(a) * radii[1]) for a in (math.tau * n / 72 for n in range(72)))
        self.shape([(centre[0] + x * cos - y * sin, centre[1] + x * sin + y * cos) for x, y in round_], colour)

    def shape(self, corners: list[Point], colour: Colour) -> None:
        self.draw.polygon([(x * SIDE * FINER, y * SIDE * FINER) for x, y in corners], fill=colour)

    def line(self, points: list[Point], width: float, colour: Colour) -> None:
        """A stroke with round ends."""
        for start, end in pairwise(points):
            steps = max(1, round(math.dist(start, end) * 200))
            for step in range(steps + 1):
                at = step / steps
                self.spot((start[0] + (end[0] - start[0]) * at, start[1] + (end[1] - start[1]) * at), width / 2, colour)

    def png(self) -> bytes:
        data = io.BytesIO()
        self.image.resize((SIDE, SIDE), Image.Resampling.LANCZOS).save(data, "PNG", optimize=True)
        return data.getvalue()


def _between(first: Colour, second: Colour, share: float) -> Colour:
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(first, second, strict=True))
    return red, green, blue


def daisy() -> Sheet:
    sheet = Sheet((92, 138, 84), (38, 74, 52))
    for x, y, r in ((0.12, 0.2, 0.13), (0.9, 0.12, 0.16), (0.85, 0.86, 0.18), (0.1, 0.82, 0.12)):
        sheet.spot((x, y), r, (70, 116, 68))  # leaves out of focus
    sheet.line([(0.52, 0.5), (0.56, 0.8), (0.53, 1.05)], 0.035, (104, 150, 72))
    for ring, (length, shade) in enumerate(((0.2, 226), (0.185, 248))):
        for number in range(17):
            angle = 360 * (number + ring / 2) / 17
            x, y = (0.5 + 0.2 * f(math.radians(angle)) for f in (math.cos, math.sin))
            sheet.oval((x, y - 0.06), (length * 0.82, 0.04), angle, (shade, shade, min(255, shade + 6)))
    sheet.spot((0.5, 0.44), 0.115, (222, 158, 30))
    for number in range(60):  # florets, as in nature a golden angle apart
        far, angle = 0.1 * math.sqrt(number / 60), 2.39996 * number
        sheet.spot((0.5 + far * math.cos(angle), 0.44 + far * math.sin(angle)), 0.009, (248, 200, 60))
    return sheet


def tulip() -> Sheet:
    sheet = Sheet((196, 222, 240), (238, 240, 226))
    sheet.shape([(0, 0.86), (1, 0.8), (1, 1), (0, 1)], (122, 158, 92))
    sheet.line([(0.5, 0.5), (0.49, 0.75), (0.5, 1.02)], 0.03, (86, 138, 70))
    sheet.oval((0.37, 0.78), (0.23, 0.05), 62, (78, 130, 72))
    sheet.oval((0.62, 0.8), (0.2, 0.045), -66, (98, 152, 84))
    sheet.oval((0.41, 0.35), (0.085, 0.2), -8, (196, 38, 62))
    sheet.oval((0.59, 0.35), (0.085, 0.2), 8, (196, 38, 62))
    sheet.oval((0.5, 0.37), (0.1, 0.21), 0, (228, 66, 84))
    sheet.oval((0.5, 0.46), (0.155, 0.13), 0, (216, 52, 74))
    sheet.oval((0.47, 0.38), (0.022, 0.13), 4, (246, 130, 138))
    return sheet


def goldfish() -> Sheet:
    sheet = Sheet((72, 148, 176), (18, 66, 104))
    for x, y, r in ((0.16, 0.24, 0.03), (0.21, 0.14, 0.018), (0.13, 0.1, 0.022)):
        sheet.spot((x, y), r, (172, 214, 226))
        sheet.spot((x, y), r * 0.75, (94, 164, 188))
    for x, tall in ((0.08, 0.3), (0.14, 0.2), (0.9, 0.34), (0.84, 0.22)):
        sheet.line([(x, 1), (x + 0.03, 1 - tall / 2), (x - 0.01, 1 - tall)], 0.022, (42, 116, 92))
    sheet.shape([(0.66, 0.52), (0.95, 0.3), (0.88, 0.53), (0.95, 0.76)], (240, 122, 34))
    sheet.shape([(0.38, 0.4), (0.5, 0.22), (0.66, 0.42)], (236, 112, 30))
    sheet.shape([(0.42, 0.66), (0.56, 0.8), (0.58, 0.62)], (236, 112, 30))
    sheet.oval((0.46, 0.52), (0.27, 0.165), 0, (248, 148, 44))
    sheet.oval((0.45, 0.58), (0.22, 0.09), 0, (252, 184, 88))
    sheet.oval((0.5, 0.53), (0.07, 0.035), 22, (230, 108, 28))
    sheet.spot((0.3, 0.47), 0.036, (255, 250, 240))
    sheet.spot((0.295, 0.47), 0.02, (24, 26, 34))
    return sheet


def lights() -> Sheet:
    """A traffic light."""
    sheet = Sheet((150, 190, 226), (226, 222, 214))
    sheet.shape([(0, 0.7), (0.2, 0.7), (0.2, 0.5), (0.34, 0.5), (0.34, 1), (0, 1)], (168, 160, 158))
    sheet.shape([(0.72, 1), (0.72, 0.6), (0.88, 0.6), (0.88, 0.42), (1, 0.42), (1, 1)], (178, 168, 164))
    sheet.line([(0.5, 0.7), (0.5, 1.05)], 0.05, (62, 64, 70))
    sheet.shape([(0.37, 0.1), (0.63, 0.1), (0.63, 0.78), (0.37, 0.78)], (38, 40, 46))
    for y, colour in ((0.22, (236, 58, 48)), (0.44, (96, 74, 22)), (0.66, (22, 74, 46))):
        sheet.spot((0.5, y), 0.095, (24, 26, 30))
        sheet.spot((0.5, y), 0.082, colour)
    sheet.spot((0.475, 0.195), 0.024, (255, 150, 138))
    return sheet


def digit() -> Sheet:
    """A seven, light on dark as the built-in digits are."""
    sheet = Sheet((0, 0, 0), (0, 0, 0))
    sheet.line([(0.28, 0.2), (0.7, 0.2), (0.5, 0.52), (0.4, 0.82)], 0.12, (250, 250, 250))
    return sheet


SAMPLES: dict[str, Callable[[], Sheet]] = {
    "daisy": daisy,
    "tulip": tulip,
    "goldfish": goldfish,
    "lights": lights,
    "digit": digit,
}


def sample(name: str) -> bytes:
    """One of them as a PNG."""
    return SAMPLES[name]().png()
