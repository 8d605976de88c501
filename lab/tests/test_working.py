"""Right intermediate results are told from operands, answers and wrong work."""

from __future__ import annotations

import pytest

from gnomon_lab.working import worked


@pytest.mark.parametrize(
    "reply, has",
    [
        ("46+20=66+8=74\n<answer>74</answer>", True),
        ("46+20=66+8=73\n<answer>73</answer>", True),  # The first result is right.
        ("46+28=74\n<answer>74</answer>", True),
        ("46+28=84\n<answer>84</answer>", False),
        ("46+28\n<answer>74</answer>", False),
        ("<answer>74</answer>", False),
        ("no number", False),
    ],
)
def test_written_work(reply: str, has: bool) -> None:
    assert worked("Compute 46 + 28.", reply) is has


def test_an_operand_is_no_result() -> None:
    assert not worked("Compute 10 + 10 + 20.", "20\n<answer>40</answer>")
    assert worked("Compute 10 + 15 + 20.", "25\n<answer>45</answer>")
