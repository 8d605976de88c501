"""Images in messages, named by the hash of their bytes.

In a prompt, an image is a run of equal token ids. The id is below zero and names the image, so prompts with different
images are different tokens. `SHELF` has the bytes that such an id names.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from gnomon.errors import ConfigError, GnomonError, ResourceError, RunError

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

__all__ = ["SHELF", "Image", "Shelf"]

PNG, JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"
SUFFIXES = {PNG: "png", JPEG: "jpg"}
OTHERS = {b"GIF8": "GIF", b"RIFF": "WebP", b"BM": "BMP", b"II*\0": "TIFF", b"MM\0*": "TIFF", b"<svg": "SVG"}
"""How files of other formats begin."""
SIDE, PIXELS, BYTES = 8192, 2**24, 2**25
"""Most pixels of a side, pixels of an image and bytes of a file."""
NAME = 13
"""Hexadecimal digits of the hash that a token id holds. JSON readers keep integers of 53 bits exactly."""
FRAMES = (0xC0, 0xC1, 0xC2, 0xC3, 0xC5, 0xC6, 0xC7, 0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF)
"""Markers of a JPEG file that hold its size."""


@dataclass(frozen=True, slots=True)
class Image:
    """A PNG or JPEG file."""

    sha256: str
    """Of the bytes of the file, in hexadecimal digits."""
    data: bytes = field(default=b"", repr=False, compare=False)
    """The file. Empty for an image that was read from a record; `SHELF` may have it."""
    source: str = field(default="", repr=False, compare=False)
    """Where it comes from, for an error. Records do not have it."""

    @classmethod
    def of(cls, data: bytes, where: str = "") -> Image:
        """The image of a file's bytes. Its size is read, and its pixels are not decoded.

        Args: where: it comes from, for an error.
        Raises: ConfigError E188 for another format, an animation, or a file that is too large.
        """
        if len(data) > BYTES:
            raise unusable(where, f"it has {len(data)} bytes, and the limit is {BYTES}", "save it in a smaller size")
        try:
            width, height = size_of(data)
        except (ValueError, IndexError, struct.error) as error:
            fix = "save it as a PNG or JPEG file with one picture, or remove the row"
            raise unusable(where, str(error) if isinstance(error, ValueError) else "it is cut off", fix) from None
        if max(width, height) > SIDE or width * height > PIXELS:
            why = f"it has {width} x {height} pixels; a side has at most {SIDE} and an image at most {PIXELS}"
            raise unusable(where, why, "save it in a smaller size, or remove the row")
        return cls(sha256(data).hexdigest(), bytes(data), where)

    @classmethod
    def read(cls, path: Path | str, row: str = "") -> Image:
        """The image in a file. Args: row: that names it. Raises: ConfigError E188, as `of`, and for a file that cannot
        be read."""
        where = f"{path} ({row})" if row else str(path)
        try:
            with open(path, "rb") as file:
                return cls.of(file.read(BYTES + 1), where)
        except OSError as error:
            fix = "correct its name, which is relative to the file of rows, or remove the row"
            raise unusable(where, error.strerror or str(error), fix) from error

    @property
    def token(self) -> int:
        """The id of its tokens in a prompt."""
        return -1 - int(self.sha256[:NAME], 16)

    @property
    def area(self) -> int:
        """Pixels of the file."""
        width, height = size_of(self.data)
        return width * height

    @property
    def file_name(self) -> str:
        return f"{self.sha256}.{next((s for begin, s in SUFFIXES.items() if self.data.startswith(begin)), 'png')}"

    def pixels(self) -> Picture:
        """The picture in RGB, upright.

        Raises: ConfigError E188 for a damaged file; ResourceError E505 without Pillow; RunError E441, as `Shelf.get`.
        """
        if not find_spec("PIL"):
            raise ResourceError(
                "E505", "the package pillow is not installed", where=self.source or self.sha256,
                why="it decodes the images of a task", fix='pip install "gnomon[vision]"',
            )  # fmt: skip
        from PIL import Image as Pillow
        from PIL import ImageOps

        data = self.data or SHELF.get(self.token).data
        try:
            picture: Picture = Pillow.open(BytesIO(data), formats=("PNG", "JPEG"))
            picture.load()
            if picture.mode.startswith("I"):  # 16 bits of grey, which `convert` would clip to 8.
                picture = picture.point(lambda value: value / 257).convert("L")
            return ImageOps.exif_transpose(picture).convert("RGB")
        except Exception as error:  # Pillow raises many types for a file that anybody may have made.
            fix = "save the image again, or remove the row"
            says = str(error).partition(" <")[0]  # Without the address of an object.
            raise unusable(self.source or self.sha256, f"it is damaged: {says}", fix) from error


class Shelf:
    """The images of a process by the token id that names them: in memory, and in a folder once one is opened."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        """Takes a file for every image from now on."""
        self._images: dict[int, Image] = {}

    @contextmanager
    def keep_in(self, folder: Path) -> Iterator[None]:
        """Images are kept in a folder, and found there."""
        before, self.folder = self.folder, folder
        try:
            yield
        finally:
            self.folder = before

    def keep(self, image: Image) -> int:
        """Keep an image. Returns: the id of its tokens. Raises: ResourceError E501 or OSError of a full disk."""
        if image.token in self._images and self.folder is None:
            return image.token
        if self.folder is None:
            self._images[image.token] = image
        elif not (path := self.folder / image.file_name).exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            fresh = path.with_name(f".{path.name}.{os.getpid()}")
            with open(fresh, "wb") as file:
                file.write(image.data)
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(path)
        return image.token

    def drop(self, images: Iterable[Image]) -> None:
        """Forget images that are in memory."""
        for image in images:
            self._images.pop(image.token, None)

    def get(self, token: int) -> Image:
        """The image that a token id names. Raises: RunError E441 where it is missing or not what its name says."""
        if token in self._images:
            return self._images[token]
        stem = f"{-1 - token:0{NAME}x}"
        path = next(iter(self.folder.glob(f"{stem}*.*")) if self.folder else iter(()), None)
        data = path.read_bytes() if path else b""
        if path is None or sha256(data).hexdigest() != path.stem:
            raise RunError(
                "E441", f"the image {stem} is {'damaged' if path else 'missing'}",
                where=str(path or self.folder or "this process"), why="a prompt of the run contains it",
                fix="copy the folder images of the run again, with every file",
            )  # fmt: skip
        return Image(path.stem, data)


SHELF = Shelf()
"""The one of this process. Names are hashes, so images of several runs do not collide."""


def size_of(data: bytes) -> tuple[int, int]:
    """Width and height of a PNG or JPEG file. Raises: ValueError for another format, an animation or no size."""
    if data.startswith(PNG):
        return png_size(data)
    if data.startswith(JPEG):
        return next(jpeg_sizes(data))
    kind = next((name for begin, name in OTHERS.items() if data.startswith(begin)), "")
    raise ValueError(f"its format is {kind}, and not PNG or JPEG" if kind else "it is neither a PNG nor a JPEG file")


def png_size(data: bytes) -> tuple[int, int]:
    offset, size = len(PNG), (0, 0)
    while True:
        length, kind = struct.unpack_from(">I4s", data, offset)
        if kind == b"IHDR":
            size = struct.unpack_from(">II", data, offset + 8)
        if kind == b"acTL":
            raise ValueError("it is animated")
        if kind in (b"IDAT", b"IEND"):
            if 0 in size:
                raise ValueError("it has no pixels")
            return size
        offset += 12 + length


def jpeg_sizes(data: bytes) -> Iterator[tuple[int, int]]:
    offset = 2
    while data[offset] == 0xFF and data[offset + 1] != 0xDA:
        if data[offset + 1] in FRAMES:
            height, width = struct.unpack_from(">HH", data, offset + 5)
            yield width, height
        offset += 2 + struct.unpack_from(">H", data, offset + 2)[0]
    raise ValueError("it has no size")


def unusable(where: str, why: str, fix: str) -> GnomonError:
    return ConfigError("E188", "an image cannot be used", where=where, why=why, fix=fix)
