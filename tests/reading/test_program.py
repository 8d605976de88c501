"""The branches of a program's calls, and how it ended."""

from __future__ import annotations

from gnomon.envs.agent import End
from gnomon.reading.program import origin, parents, program_facts, program_text, tree
from gnomon.types import Calls, Completion, Finish, Turn


def turn(prompt: tuple[int, ...], reply: tuple[int, ...], fork: int) -> Turn:
    logprobs = (-1.0,) * len(reply)
    completion = Completion(token_ids=reply, logprobs=logprobs, text="", finish=Finish.STOP, version=0)
    return Turn(prompt_ids=prompt, completion=completion, fork=fork)


TURNS = (
    turn((1,), (2,), 0),
    turn((1, 2, 3), (4,), 0),
    turn((1, 2, 5), (6,), 1),
    turn((1, 2, 5, 6, 7), (8,), 1),
    turn((9,), (9,), 2),
    turn((1, 2, 5, 6, 9), (1,), 3),
)


def test_a_branch_names_the_turn_that_it_continues():
    assert parents(TURNS) == [None, 0, 0, 2, None, 2]
    facts = program_facts(End(status=0).dumps(), TURNS)
    assert list(tree(facts)) == [(0, [0, 1]), (1, [2, 3]), (0, [4]), (2, [5])] and facts["branches"] == 4
    words = [origin(facts, place) for place in range(len(TURNS))]
    assert words == ["", "", "continues turn 1", "", "a new conversation", "continues turn 3"]
    assert list(tree(program_facts(End(status=0).dumps(), ()))) == []


def test_the_end_of_a_program_as_text():
    before = {"kept": b"1", "gone": b"1", "odd\n": b"1"}
    end = End(status=-9, output="a\x1b[2Jb", files={"kept": b"1", "new": b"\x1b", "odd\n": b"\xff\xfe"})
    text = "\n".join(program_text(program_facts(end.dumps(before), ())))
    assert text.startswith("--- program: exit status -9\n") and "--- removed: gone" in text
    assert "\x1b" not in text and "2 bytes, not text" in text and "kept" not in text
    limited = program_facts(End(status=None, limit="time").dumps(), ())
    assert next(program_text(limited)) == "--- program: the limit of time ended it"


def test_what_happened_to_calls_beside_the_turns():
    calls = Calls(refused={"limit_calls": 2, "odd\x1b": 1}, malformed=1, required=3, retried=4, undelivered=50)
    assert (calls.limits, calls.refusals_except_limits) == (("calls",), {"odd\x1b": 1})
    line = next(program_text(program_facts(End(status=0).dumps(), (), calls)))
    assert line.startswith("--- program: exit status 0; calls refused: limit_calls 2, odd") and "\x1b" not in line
    assert line.endswith("repeated by the client: 4; sampled tokens that the program never received: 50")
