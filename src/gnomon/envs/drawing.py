"""Draw images without another package: a grid of colours as a PNG file, with the same bytes on every machine."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence

__all__ = ["COLOURS", "Canvas", "png"]

COLOURS = {
    "white": (255, 255, 255), "black": (0, 0, 0), "red": (220, 40, 40), "green": (30, 150, 60), "blue": (40, 80, 220),
    "grey": (150, 150, 150),
}  # fmt: skip
"""The palette of a drawing."""
NAMES = list(COLOURS)
STORED = 65535
"""Most bytes of a block that is not compressed. Compressed bytes would depend on the version of zlib."""


class Canvas:
    """A square that colours are drawn on, by name.

    Args: side: pixels of a side.
    """

    def __init__(self, side: int) -> None:
        self.side = side
        self._rows = [bytearray(side) for _ in range(side)]

    def fill(
        self, colour: str, inside: Callable[[float, float], bool], box: tuple[int, int, int, int] | None = None
    ) -> None:
        """Colour every pixel whose centre lies inside.

        Args: inside: takes x to the right and y down, in pixels; box: left, top, right and bottom of what may be
            inside.
        """
        value, (left, top, right, bottom) = NAMES.index(colour), box or (0, 0, self.side, self.side)
        for y in range(top, bottom):
            row = self._rows[y]
            for x in range(left, right):
                if inside(x + 0.5, y + 0.5):
                    row[x] = value

    def square(self, colour: str, left: int, top: int, side: int) -> None:
        """Colour every pixel of a square."""
        for row in self._rows[top : top + side]:
            row[left : left + side] = bytes([NAMES.index(colour)]) * side

    def line(self, colour: str, begin: tuple[float, float], end: tuple[float, float], width: float) -> None:
        """Colour every pixel whose centre is at most half a width from the line between two points."""
        (x0, y0), (dx, dy) = begin, (end[0] - begin[0], end[1] - begin[1])
        square = dx * dx + dy * dy or 1.0

        def near(x: float, y: float) -> bool:
            along = min(1.0, max(0.0, ((x - x0) * dx + (y - y0) * dy) / square))
            return (x - x0 - along * dx) ** 2 + (y - y0 - along * dy) ** 2 <= width * width / 4

        edges = [sorted(pair) for pair in zip(begin, end, strict=True)]
        left, top = (max(0, int(low - width / 2)) for low, _ in edges)
        right, bottom = (min(self.side, int(high + width / 2) + 1) for _, high in edges)
        self.fill(colour, near, (left, top, right, bottom))

    def png(self) -> bytes:
        return png(self._rows, list(COLOURS.values()))


def png(rows: Sequence[bytes | bytearray], palette: Sequence[tuple[int, int, int]]) -> bytes:
    """A PNG file. Args: rows: from top to bottom, a byte per pixel, which is the index of its colour in the palette."""
    head = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 3, 0, 0, 0)
    colours = bytes(part for colour in palette for part in colour)
    parts = [
        (b"IHDR", head),
        (b"PLTE", colours),
        (b"IDAT", zlib_stored(b"".join(b"\0" + row for row in rows))),
        (b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )


def zlib_stored(data: bytes) -> bytes:
    """Data as a zlib stream that is not compressed."""
    blocks = [data[start : start + STORED] for start in range(0, len(data), STORED)]
    last = len(blocks) - 1
    body = b"".join(
        struct.pack("<BHH", index == last, len(block), len(block) ^ 0xFFFF) + block
        for index, block in enumerate(blocks)
    )
    return b"\x78\x01" + body + struct.pack(">I", zlib.adler32(data))
