"""Find the end of a sampled turn, and split it at control tokens."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from gnomon.rendering.base import Origin, Parsing, Reply, Segment, Segments, ToolCall
from gnomon.rendering.calls import malformed_call
from gnomon.rendering.encoding import Encoding

__all__ = ["cut_at_end", "last_turn", "read_turn", "without_thought"]


def cut_at_end(token_ids: Sequence[int], stop: Collection[int]) -> tuple[list[int], bool]:
    """The ids before the first end token, and whether there is one."""
    for index, token in enumerate(token_ids):
        if token in stop:
            return list(token_ids[:index]), True
    return list(token_ids), False


def last_turn(segments: Segments) -> tuple[int, ...]:
    """The ids of the last turn of a sequence."""
    return segments[-1].token_ids if segments else ()


def without_thought(
    encoding: Encoding,
    segment: Segment,
    follows: Segment | None,
    close: int | None,
    opening: tuple[int, ...],
    lines: bool = True,
) -> Segment:
    """A segment of a sequence whose earlier reasoning is removed.

    Args: close: the token that ends reasoning; opening: what the template wrote at the beginning of the policy's turns;
        lines: whether the line breaks after the reasoning are removed too.
    """
    ids = segment.token_ids
    if segment.origin is Origin.POLICY and close in ids:
        ids = ids[len(ids) - ids[::-1].index(close) :]
        while lines and ids and (blank := encoding.decode(ids[:1])) and not blank.strip("\n"):
            ids = ids[1:]
    elif follows is not None and follows.origin is Origin.POLICY:
        length = len(opening)
        ids = ids[:-length] if length and ids[-length:] == opening else ids
    return Segment(origin=segment.origin, token_ids=ids)


def read_turn(
    encoding: Encoding,
    token_ids: Sequence[int],
    stop: Collection[int],
    reader: Callable[[str], ToolCall] | None,
) -> Reply:
    """Parse reasoning, text and calls of a turn with `<think>` and `<tool_call>` tokens.

    Args:
        reader: parses the text between `<tool_call>` and `</tool_call>`; None if the family has no calls.
    """
    ids, ended = cut_at_end(token_ids, stop)
    think, close = (encoding.control.get(token) for token in ("<think>", "</think>"))
    reasoning: str | None = None
    problem = ""
    if close is not None and close in ids:
        index = ids.index(close)
        inside = ids[:index]
        start = inside.index(think) + 1 if think is not None and think in inside else 0
        reasoning, ids = encoding.decode(inside[start:]).strip("\n"), ids[index + 1 :]
    elif think is not None and think in ids:
        index = ids.index(think)
        reasoning, ids = encoding.decode(ids[index + 1 :]).strip("\n"), ids[:index]
        problem = "the reasoning does not end: </think> is missing"
    text, calls = _calls(encoding, ids, ended, reader) if reader else (encoding.decode(ids), ())
    if reasoning is not None:
        text = text.lstrip("\n")
    problem = problem or next((call.problem for call in calls if call.problem), "")
    parsing = Parsing.TRUNCATED if not ended else Parsing.MALFORMED if problem else Parsing.OK
    return Reply(text=text, reasoning=reasoning, tool_calls=calls, parsing=parsing, problem=problem)


def _calls(
    encoding: Encoding, ids: list[int], ended: bool, reader: Callable[[str], ToolCall]
) -> tuple[str, tuple[ToolCall, ...]]:
    """The text outside calls, and the calls in order."""
    begin, end = encoding.control.get("<tool_call>"), encoding.control.get("</tool_call>")
    outside: list[int] = []
    calls: list[ToolCall] = []
    index = 0
    while index < len(ids):
        if ids[index] != begin:
            if ids[index] == end:
                calls.append(malformed_call("", "</tool_call> has no <tool_call> before it"))
            else:
                outside.append(ids[index])
            index += 1
            continue
        close = next((i for i in range(index + 1, len(ids)) if ids[i] in (begin, end)), len(ids))
        text = encoding.decode(ids[index + 1 : close])
        if close < len(ids) and ids[close] == end:
            calls.append(reader(text.strip()))
            index = close + 1
        elif close == len(ids) and not ended:
            problem = "the call is truncated"
            calls.append(ToolCall(name="", arguments=text, parsing=Parsing.TRUNCATED, problem=problem))
            index = close
        else:
            calls.append(malformed_call(text, "the call does not end: </tool_call> is missing"))
            index = close
    text = encoding.decode(outside)
    return text.rstrip("\n") if calls else text, tuple(calls)
