"""Lines that fit a terminal, with every word of the text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon.reading.lines import fit

LINE = "baseline     pass@1 0.250 [0.071, 0.591]   pass@4 0.500 [0.2, 0.8]   length 3.1   truncated 0%"


def test_a_line_breaks_between_fields_and_goes_on_below_the_second():
    assert fit(LINE, 80).split("\n") == [
        "baseline     pass@1 0.250 [0.071, 0.591]   pass@4 0.500 [0.2, 0.8]   length 3.1",
        "             truncated 0%",
    ]


def test_a_field_that_is_too_long_breaks_between_words():
    text = "ALARM        correct.falls at step 40: " + "fewer rollouts are right than before " * 4
    lines = fit(text, 60).split("\n")
    assert max(map(len, lines)) <= 60 and all(line.startswith(" " * 13) for line in lines[1:])


def test_a_word_longer_than_the_line_stays_whole():
    assert fit("run          " + "x" * 100, 80).split("\n")[-1].strip() == "x" * 100


@pytest.mark.parametrize("width", [20, 40, 80])
@given(st.lists(st.lists(st.text("abcdefgh,.[]0123456789", min_size=1, max_size=12), max_size=30), max_size=4))
def test_no_word_is_lost_and_no_line_is_too_long(width: int, rows: list[list[str]]):
    text = "\n".join("  ".join(words) for words in rows)
    found = fit(text, width)
    assert found.split() == text.split()
    assert all(len(line) <= max(width, 3 + 12) for line in found.split("\n") if len(line.split()) > 1 or not line)
