"""Images: what is refused before a pixel is decoded, what decoding refuses, and the shelf that has them by name."""

import struct
import zlib
from pathlib import Path

import pytest

from gnomon.envs.drawing import Canvas, png
from gnomon.errors import ConfigError, RunError
from gnomon.images import Image, Shelf


def drawn(colour: str = "red", side: int = 8) -> bytes:
    canvas = Canvas(side)
    canvas.fill(colour, lambda x, y: x < side / 2)
    return canvas.png()


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def declared(width: int, height: int, *between: bytes) -> bytes:
    """A PNG file that says it has this size, with hardly any bytes."""
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    pixels = zlib.compress(bytes(100_000))
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + b"".join(between) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    )


REFUSED = {
    "20,000 x 20,000": (declared(20_000, 20_000), "20000 x 20000 pixels"),
    "a bomb within the longest side": (declared(8000, 8000), "8000 x 8000 pixels"),
    "no pixels": (declared(0, 5), "no pixels"),
    "animated": (declared(8, 8, chunk(b"acTL", bytes(8))), "animated"),
    "a GIF": (b"GIF89a" + bytes(50), "GIF"),
    "a WebP": (b"RIFF....WEBP", "WebP"),
    "text": (b"hello", "neither a PNG nor a JPEG"),
    "nothing": (b"", "neither a PNG nor a JPEG"),
    "cut off in its head": (drawn()[:20], "cut off"),
    "cut off before its pixels": (drawn()[:34], "cut off"),
    "a JPEG of three bytes": (b"\xff\xd8\xff", "cut off"),
    "a JPEG without a size": (b"\xff\xd8\xff\xda" + bytes(9), "no size"),
    "33 MiB": (drawn() + bytes(33 * 2**20), "bytes"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_cannot_be_used_is_refused_with_its_place(name: str) -> None:
    data, why = REFUSED[name]
    with pytest.raises(ConfigError, match=rf"E188(.|\n)*at row 3(.|\n)*{why}(.|\n)*fix: save it") as caught:
        Image.of(data, "row 3")
    assert caught.value.exit_code == 2


@pytest.mark.needs("PIL")
@pytest.mark.parametrize("cut", [-40, -60, 60])
def test_a_damaged_file_is_refused_as_it_is_decoded(cut: int) -> None:
    data = drawn()
    damaged = data[:cut] if cut < 0 else data[:cut] + b"\0\1\2" + data[cut + 3 :]
    with pytest.raises(ConfigError, match=r"E188(.|\n)*at rows/3.png\W(.|\n)*damaged"):
        Image.of(damaged, "rows/3.png").pixels()


@pytest.mark.needs("PIL")
def test_text_that_unpacks_to_gigabytes_is_refused() -> None:
    bomb = chunk(b"zTXt", b"comment\0\0" + zlib.compress(bytes(2**28)))
    with pytest.raises(ConfigError, match=r"E188(.|\n)*damaged"):
        Image.of(declared(8, 8, bomb)).pixels()


@pytest.mark.needs("PIL")
def test_pixels_are_those_that_were_drawn() -> None:
    picture = Image.of(drawn()).pixels()
    assert picture.mode == "RGB" and picture.size == (8, 8)
    assert [picture.getpixel((x, 3)) for x in (0, 3, 4, 7)] == [(220, 40, 40)] * 2 + [(255, 255, 255)] * 2


@pytest.mark.needs("PIL")
def test_sixteen_bits_of_grey_are_scaled_and_a_turned_photograph_is_upright() -> None:
    from io import BytesIO

    from PIL import Image as Pillow

    grey, turned = BytesIO(), BytesIO()
    Pillow.new("I;16", (2, 2), 257 * 100).save(grey, "PNG")
    assert Image.of(grey.getvalue()).pixels().getpixel((0, 0)) == (100, 100, 100)
    exif = Pillow.Exif()
    exif[0x0112] = 6
    Pillow.new("RGB", (16, 8)).save(turned, "JPEG", exif=exif)
    assert Image.of(turned.getvalue()).pixels().size == (8, 16)


def test_bytes_of_a_drawing_are_fixed() -> None:
    """Ids of tasks are hashes of such files, so they must not depend on a version of zlib."""
    assert Image.of(drawn()).sha256[:16] == "289a5c1757f72672"
    assert len(png([bytes(300)] * 300, [(0, 0, 0)])) == 300 * 301 + 2 * 5 + 6 + 12 * 4 + 13 + 3 + 8


def test_a_shelf_finds_an_image_by_its_id_in_memory_and_in_a_folder(tmp_path: Path) -> None:
    image, shelf = Image.of(drawn()), Shelf()
    token = shelf.keep(image)
    assert -(2**52) <= token < 0 and shelf.get(token) == image
    shelf.folder = tmp_path / "images"
    other = Image.of(drawn("blue"))
    assert shelf.get(shelf.keep(other)).data == other.data and shelf.get(token) == image
    fresh = Shelf()
    fresh.folder = shelf.folder
    assert fresh.get(other.token).data == other.data
    with pytest.raises(RunError, match=r"E441(.|\n)*missing"):
        fresh.get(token)
    (shelf.folder / other.file_name).write_bytes(other.data[:-1])
    with pytest.raises(RunError, match=r"E441(.|\n)*damaged"):
        fresh.get(other.token)
