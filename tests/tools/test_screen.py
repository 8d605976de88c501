"""The screen: what programs write becomes rows of text, and nothing they write breaks it."""

from __future__ import annotations

import random
import time

import pytest

from gnomon.tools import Screen, key_bytes


def shown(data: bytes, rows: int = 4, columns: int = 10) -> list[str]:
    screen = Screen(rows, columns)
    screen.feed(data)
    return screen.text().split("\n")


@pytest.mark.parametrize(
    ("data", "rows"),
    [
        (b"one\r\ntwo", ["one", "two"]),
        (b"0123456789ab", ["0123456789", "ab"]),
        (b"0123456789\r\nab", ["0123456789", "ab"]),  # A full row does not break twice.
        (b"0123456789\rX", ["X123456789"]),
        (b"\x1b[?7l0123456789abc", ["012345678c"]),
        (b"a\tb", ["a       b"]),
        (b"abc\b\bX", ["aXc"]),
        (b"1\r\n2\r\n3\r\n4\r\n5", ["2", "3", "4", "5"]),
        (b"abc\x1b[2;3Hxy", ["abc", "  xy"]),
        (b"abc\x1b[H\x1b[Kx", ["x"]),
        (b"abcdef\x1b[3D\x1b[1K", ["    ef"]),
        (b"a\r\nb\x1b[2J", [""]),
        (b"a\r\nb\r\nc\x1b[2;1H\x1b[L", ["a", "", "b", "c"]),
        (b"a\r\nb\r\nc\x1b[2;1H\x1b[M", ["a", "c"]),
        (b"abcdef\x1b[1;2H\x1b[2P", ["adef"]),
        (b"abcdef\x1b[1;2H\x1b[2@", ["a  bcdef"]),
        (b"abcdef\x1b[1;2H\x1b[2X", ["a  def"]),
        (b"abc\x1b[1;1H\x1b[4hXY", ["XYabc"]),
        (b"x\x1b[4b", ["xxxxx"]),
        (b"1\r\n2\r\n3\r\n4\x1b[2;3r\x1b[3;1H\n5", ["1", "3", "5", "4"]),  # Only the region scrolls.
        (b"1\r\n2\r\n3\r\n4\x1b[2;3r\x1b[2;1H\x1bM5", ["1", "5", "2", "4"]),
        (b"main\x1b[?1049hother\x1b[?1049l", ["main"]),
        (b"main\x1b[?1049h\x1b[Hother", ["other"]),
        (b"\x1b(0lqk\x1b(B lqk", ["┌─┐ lqk"]),
        (b"\x1b]0;a title\x07x\x1b]2;t\x1b\\y", ["xy"]),
        (b"\x1bPq#0;2;0\x1b\\z", ["z"]),
        (b"\x1b[31;1mred\x1b[0m \x1b[?4m\x1b[>4;2mx", ["red x"]),
        ("中文".encode(), ["中文"]),
        ("012345678中".encode(), ["012345678", "中"]),
        ("中文\x1b[1;2HX".encode(), [" X文"]),
        ("中文\x1b[1;3HX".encode(), ["中X"]),
        ("e\u0301\u200bx".encode(), ["e\u0301x"]),
        (b"\xff\xfe ok", ["\ufffd\ufffd ok"]),
        (b"\x1b7abc\x1b8X", ["Xbc"]),
        (b"a\x1b[999999999999999999999Cz", ["a        z"]),
        (b"abc\x1bcx", ["x"]),
    ],
)
def test_what_is_written_is_shown(data, rows):
    assert shown(data) == rows
    byte_by_byte = Screen(4, 10)
    for place in range(len(data)):
        byte_by_byte.feed(data[place : place + 1])
    assert byte_by_byte.text().split("\n") == rows


def test_a_program_hears_where_the_cursor_is_and_cannot_fill_memory_with_questions():
    screen = Screen()
    screen.feed(b"ab\x1b[6n\x1b[c")
    assert screen.answers == b"\x1b[1;3R\x1b[?1;2c"
    screen.feed(b"\x1b[6n" * 100_000)
    assert len(screen.answers) <= 256


def test_what_scrolled_off_is_kept_as_far_as_there_is_room():
    screen = Screen(3, 10, scrollback=5)
    screen.feed(b"".join(b"%d\r\n" % number for number in range(20)))
    assert list(screen.history) == ["13", "14", "15", "16", "17"] and screen.text() == "18\n19"


def test_a_million_bytes_break_nothing():
    """Half of them random, half made of pieces of sequences; every row stays as wide as the screen."""
    rng = random.Random(0)
    pieces = [
        b"\x1b",
        b"\x1b[",
        b"\x1b[?",
        b"\x1b]",
        b"\x1bP",
        b";",
        b"9" * 30,
        b"\xe4\xb8\xad",
        b"\xcc\x81",
        b"\r\n",
        b"\t",
    ]
    pieces += [bytes([sign]) for sign in b"0123456789ABCDEFGHIJKLMPSTXZ@`abcdefghlmnrsu78()#%=>\x0e\x0f\b\x07\x9b\xf0"]
    pieces += [b"\x1b[?1049h", b"\x1b[?1049l", b"\x1b[4h", b"\x1b[?6h", b"\x1b[%d;%dr" % (3, 9), b"\x1b[?7l"]
    screen, fed, began = Screen(10, 31), 0, time.process_time()
    while fed < 1_000_000:
        data = rng.randbytes(2000) if rng.random() < 0.5 else b"".join(rng.choices(pieces, k=1000))
        screen.feed(data)
        fed += len(data)
        if rng.random() < 0.05:
            screen.resize(rng.randint(1, 20), rng.randint(1, 60))
        assert all(len(row) == screen.columns for row in screen.cells) and len(screen.cells) == screen.rows
        assert 0 <= screen.row < screen.rows and 0 <= screen.column < screen.columns
        assert all(len(line) <= 60 * 6 for line in screen.text().split("\n"))
    assert len(screen.history) <= 1000
    assert time.process_time() - began < 30, "of processor time; about 3 s where it was written"


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("ls<Enter>", b"ls\r"),
        ("a\nb", b"a\rb"),
        ("<C-c><Ctrl-D><c-[>", b"\x03\x04\x1b"),
        ("<Esc>:wq<enter>", b"\x1b:wq\r"),
        ("<Up><F1>", b"\x1b[A\x1bOP"),
        ("<lt>b> <nokey> a<b <", b"<b> <nokey> a<b <"),
        ("中<Tab>", "中\t".encode()),
        ("\ud800", b"?"),
    ],
)
def test_keys(text, keys):
    assert key_bytes(text) == keys


def test_arrows_take_the_form_that_the_program_asked_for():
    assert key_bytes("<Up><Home>", application=True) == b"\x1bOA\x1bOH"
