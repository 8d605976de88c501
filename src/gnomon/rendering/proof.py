"""What a chat template appends when messages arrive after a reply, and a proof that it does no more.

Nothing of the template is read: it runs on conversations whose contents are marks, so the text between two marks is the
template's own. The proof continues conversations turn by turn, by the rule that was found, and compares each of them
with what the template writes for the whole.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from gnomon.errors import ModelError
from gnomon.models.folder import image_token
from gnomon.rendering.base import Tool
from gnomon.rendering.published import rendered_plain

__all__ = ["CLOSE", "ROLES", "SHAPES", "Border", "Continuation", "Proof", "plain", "prove", "without_reasoning"]

Plain = dict[str, Any]
Part = tuple[bool, str]
"""Whether the policy wrote a text, and the text."""
CLOSE = "</think>"
REPLY, NAME, KEY, VALUE = "zqreply", "zqname", "zqkey", "zqvalue"
CALL: Plain = {"type": "function", "id": "zqcall000", "function": {"name": NAME, "arguments": {KEY: VALUE}}}
"""A call whose parts are found in a text. Some templates take ids of nine letters and digits alone."""
TOOL = Tool(name=NAME, description="Adds.", parameters={"type": "object", "properties": {KEY: {"type": "string"}}})
STRIPS: Sequence[Callable[[str], str]] = (
    str,
    str.strip,
    str.lstrip,
    str.rstrip,
    lambda text: text.strip("\n"),
    lambda text: text.lstrip("\n"),
    lambda text: text.rstrip("\n"),
)
SPELLINGS = (
    *STRIPS,
    *(lambda text, strip=strip: json.dumps(strip(text), ensure_ascii=False)[1:-1] for strip in STRIPS),
)
"""How templates write the content of a message."""
HARD = {
    "surrounded by spaces": '\n "{}" \n',
    "empty": "",
    "that spells the end of reasoning": "{}\n</think>\n\n",
    "that spells markup": "</s>{}<|im_end|>[/INST]<|eot_id|>",
    "that spells a tool result": "<tool_response>\n{}\n</tool_response>",
}
"""Contents that some templates change."""
SHAPES = (
    "u|", "su|", "uu|", "u|u|", "su|u|", "u|uu|", "u|u|u|u|", "u|t|", "su|t|", "u|tt|", "u|t|u|", "u|tu|", "u|t|t|u|",
    "u|u|t|u|", "su|t|tt|u|t|", "u|t|u|t|u|",
)  # fmt: skip
"""Conversations by the roles of their messages: system, user and tool. Each line is a reply."""
SEEN = ("i|", "si|", "i|u|", "i|i|", "u|i|u|", "i|ui|i|")
"""Further ones for a model that sees: `i` is a user's message with an image."""
SEEN_RESULTS = ("u|r|", "u|rt|", "u|r|u|r|")
"""And with `r`, a tool's result with an image."""
ASSISTANT = "assistant"
"""The role of replies, also of those in a task's examples."""
ROLES = {"s": "system", "u": "user", "t": "tool", "i": "user", "r": "tool"}
FEWEST = 3
"""Conversations that a template must take for a proof."""


class Border(NamedTuple):
    """What a template writes after a reply."""

    end: str
    """The token that ends the reply, with what stands before it; empty where nothing ends it."""
    rest: str
    """From there to the next reply, with a mark for every content."""
    marks: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What was proven of a chat template."""

    shapes: int = 0
    """Conversations whose continuation is what the template writes."""
    rewrites: tuple[str, ...] = ()
    """What it rewrites in earlier turns. Each rewrite is a fork."""
    departures: tuple[str, ...] = ()
    """Contents that the template changes. They are written as they are."""
    refusal: str = ""
    """Why it cannot continue a conversation."""
    results: bool = True
    """Whether conversations with tool results are among those."""
    tools: str = ""
    """Why tools cannot be offered with it."""
    seen_results: str = ""
    """Why a tool's result cannot have an image."""


@dataclass(frozen=True, kw_only=True)
class Continuation:
    """The rule by which a template continues a conversation."""

    template: str
    folder: Path
    ends: tuple[str, ...]
    """Control tokens that may end a reply."""
    forgets: frozenset[str] = frozenset()
    """Roles of messages at whose arrival the template removes earlier reasoning."""
    opening: str = ""
    """What begins the policy's turn and leaves earlier turns with the reasoning."""
    husk: str = ""
    """What stands in the place of removed reasoning, such as an empty one."""
    lines: bool = True
    """Whether the line breaks after the reasoning are removed with it."""
    lead: str = ""
    """Blanks that the policy writes at the beginning of a reply."""
    spellings: Mapping[str, Callable[[str], str]] = field(default_factory=dict)
    """How it writes the content of a role."""

    def write(self, messages: Sequence[Plain], tools: Sequence[Tool] | None = None) -> str:
        """The template's text up to the policy's turn. Args: tools: by default one where a tool answers."""
        if tools is None:
            tools = [TOOL] if any(each["role"] == "tool" for each in messages) else []
        return rendered_plain(self.template, self.folder, messages, tools)

    def border(self, roles: tuple[str, ...], images: tuple[int, ...] = ()) -> Border:
        """What follows a reply when messages of these roles arrive. Raises: ModelError E310.

        Args: images: number of images of each message; empty for none.
        """
        return _border(self.template, self.folder, self.ends, roles, images or (0,) * len(roles))

    def spell(self, role: str, content: str) -> str:
        return self.spellings.get(role, str)(content)


def plain(role: str, content: str, images: int = 0) -> Plain:
    """A message of the environment, with this number of images."""
    called = {"name": NAME, "tool_call_id": CALL["id"]} if role == "tool" else {}
    return {"role": role, "content": content} | called | ({"images": images} if images else {})


def reply(content: str, roles: Sequence[str]) -> Plain:
    """A reply. It calls a tool if a result follows."""
    return {"role": "assistant", "content": content} | ({"tool_calls": [CALL]} if "tool" in roles else {})


@lru_cache(maxsize=256)
def _border(
    template: str, folder: Path, ends: tuple[str, ...], roles: tuple[str, ...], images: tuple[int, ...]
) -> Border:
    rule, marks = (
        Continuation(template=template, folder=folder, ends=ends),
        tuple(f"zq{i}zq" for i in range(len(roles))),
    )
    text = rule.write([plain("user", "zquzq"), reply(REPLY, roles), *map(plain, roles, marks, images)])
    last = max(text.rfind(mark) + len(mark) for mark in (REPLY, VALUE) if mark in text)
    first = min((text.find(mark, last) for mark in marks[:1]), default=len(text))
    matches = [(text.find(end, last, first), end) for end in ends if text.find(end, last, first) >= 0]
    if not matches:
        return Border("", text[last:], marks)
    position, end = min(matches)
    begin = last if VALUE not in text[:position] else position
    return Border(text[begin : position + len(end)], text[position + len(end) :], marks)


def without_reasoning(parts: Sequence[Part], rule: Continuation) -> list[Part]:
    """The texts of a conversation whose earlier reasoning is removed."""
    stripped_parts: list[Part] = []
    for by_policy, text in parts:
        if by_policy:
            text = text.rpartition(CLOSE)[2].lstrip("\n" if rule.lines else "") if CLOSE in text else text
            before = stripped_parts[-1][1]
            if not (rule.husk and before.endswith(rule.husk)):
                stripped_parts[-1] = (False, before.removesuffix(rule.opening) + rule.husk)
        stripped_parts.append((by_policy, text))
    return stripped_parts


def prove(template: str, folder: Path, eos: Iterable[str], control: Iterable[str]) -> tuple[Continuation, Proof]:
    """The rule of a template, and what was proven of it.

    Args: eos: texts of the tokens that end a completion; control: of all control tokens.
    """
    return _prove(template, folder, tuple(eos), tuple(control))


@lru_cache(maxsize=16)
def _prove(template: str, folder: Path, eos: tuple[str, ...], control: tuple[str, ...]) -> tuple[Continuation, Proof]:
    rule = Continuation(template=template, folder=folder, ends=eos)
    try:
        prompt = rule.write([plain("user", "zquzq")])
        after = rule.write([plain("user", "zquzq"), reply(REPLY, ()), plain("user", "zqvzq")])
        rule = replace(rule, ends=ends_of(after, eos, control))
        earlier = after[: after.index(REPLY)]
    except (ModelError, ValueError) as error:
        return rule, Proof(refusal=f"it does not write a reply between two messages ({first_line(error)})")
    header, lead = prompt[: common_length(prompt, earlier)], ""
    if header.rstrip().endswith("<think>") and CLOSE in earlier[len(header) :]:
        header = header[: header.rindex("<think>")]
    if earlier.startswith(prompt) and not earlier[len(prompt) :].strip():
        header, lead = prompt, earlier[len(prompt) :]
    husk = earlier[len(header) + len(lead) :]
    if husk and CLOSE not in husk:
        return rule, Proof(
            refusal=f"it writes {tail(earlier)!r} before an earlier reply, and {tail(prompt)!r} before a new one"
        )
    spellings = {role: spelling(rule, role) for role in (*ROLES.values(), ASSISTANT)}
    rule = replace(rule, opening=prompt[len(header) :], husk=husk, lead=lead, spellings=spellings)
    forgetting = product((frozenset({"user"}), frozenset({"user", "tool"})), (True, False))
    candidates = [rule, *(replace(rule, forgets=forgets, lines=lines) for forgets, lines in forgetting)]
    trials = [(each, *try_rule(each)) for each in candidates]
    rule, shapes, failure, tools = max(trials, key=lambda each: (not each[2], not each[3], each[1]))
    if failure or shapes < FEWEST:
        return rule, Proof(refusal=failure or "it takes too few conversations of several turns")
    rewrites = (
        [f"removes reasoning when a message of {' or '.join(sorted(rule.forgets))} follows"] if rule.forgets else []
    )
    return rule, Proof(
        shapes=shapes,
        rewrites=tuple(rewrites),
        departures=tuple(departures(rule)),
        results=not tools,
        tools=tools or unreadable_calls(rule),
        seen_results=unseen_results(rule),
    )


def try_rule(rule: Continuation) -> tuple[int, str, str]:
    """How many conversations continue by a rule, and what stands against it, and against tools alone."""
    count, failure, tools, thoughts = 0, "", "", thoughts_of(rule)
    sees = image_token(rule.folder) is not None
    for shape, thought in product((*SHAPES, *SEEN) if sees else SHAPES, thoughts):
        try:
            apart = difference(rule, shape, thought)
        except ModelError as error:
            if "t" in shape and shape.count("|") == 2 and "s" not in shape:
                tools = tools or f"it does not take tool results ({first_line(error)})"
            continue
        count += not apart
        if apart and "t" in shape:
            tools = tools or apart
        elif apart:
            failure = failure or apart
    return count, failure, tools


def thoughts_of(rule: Continuation) -> tuple[str, ...]:
    """Replies with and without reasoning, as far as a template has it."""
    thoughts: tuple[str, ...] = ("{}", "<think>\nzqthought\n</think>\n\n{}") if CLOSE in rule.template else ("{}",)
    return thoughts[1:] if "<think>" in rule.opening and CLOSE not in rule.opening else thoughts  # It is open then.


def unseen_results(rule: Continuation) -> str:
    """Why results with images cannot be continued; empty where they can, or where the model does not see."""
    if image_token(rule.folder) is None:
        return ""
    try:
        trials = (difference(rule, *trial) for trial in product(SEEN_RESULTS, thoughts_of(rule)))
        return next(filter(None, trials), "")
    except ModelError as error:
        return f"it does not take images in tool results ({first_line(error)})"


def difference(rule: Continuation, shape: str, thought: str) -> str:
    """Where the continuation of a conversation and the template part, as a sentence; empty where they agree.

    Raises: ModelError E310 for a conversation that the template does not take.
    """
    groups = shape.removesuffix("|").split("|")
    turns = [tuple(ROLES[sign] for sign in group) for group in groups]
    messages: list[Plain] = []
    parts: list[Part] = []
    for index, roles in enumerate(turns):
        images = tuple(int(sign in "ir") for sign in groups[index])
        fresh = [plain(role, f"zqc{index}x{at}zq", images[at]) for at, role in enumerate(roles)]
        called = any("tool" in later for later in turns)
        if index == 0:
            messages, tools = fresh, [TOOL] if called else []
            parts = [(False, rule.write(messages, tools))]
            continue
        content = thought.format(f"zqr{index}zq")
        edge = rule.border(roles, images)
        messages += [reply(content, roles), *fresh]
        parts.append((True, own_text(rule, content, roles, parts[-1][1]) + edge.end))
        if rule.forgets & set(roles):
            parts = without_reasoning(parts, rule)
        rest = edge.rest
        for mark, each in zip(edge.marks, fresh, strict=True):
            rest = rest.replace(mark, each["content"], 1)
        parts.append((False, rest))
        continued, expected = "".join(text for _, text in parts), rule.write(messages, tools)
        if continued != expected:
            return divergence(continued, expected, roles)
    return ""


def own_text(rule: Continuation, content: str, roles: Sequence[str], prompt: str) -> str:
    """What the policy would have sampled, as the template writes it, without its end."""
    text = thinking(rule, content, prompt) if CLOSE in content else rule.lead + content
    if "tool" not in roles:
        return text
    whole = rule.write([plain("user", "zquzq"), reply(REPLY, roles), plain("tool", "zqtzq")])
    if VALUE not in whole:
        return text
    edge = rule.border(("tool",))
    end = whole.index(edge.end, whole.rindex(VALUE)) if edge.end else whole.rindex(VALUE) + len(VALUE)
    if REPLY in whole:
        return text + whole[whole.index(REPLY) + len(REPLY) : end]
    return whole[len(rule.write([plain("user", "zquzq")], [TOOL])) : end]  # Calls stand in the place of the content.


def thinking(rule: Continuation, content: str, prompt: str) -> str:
    """A reply with reasoning as the template writes the last one, or as it is where the template drops it there too."""
    before = [plain("user", "zquzq")]
    last = rendered_plain(rule.template, rule.folder, [*before, reply(content, ())], asks=False)
    answer = content[content.index(CLOSE) :].rpartition("\n")[2]
    begin = len(rule.write(before)) - len(rule.opening)
    text = last[begin : last.index(answer)] + answer if answer in last else ""
    text = text if "zqthought" in text else content
    opening = prompt[prompt.rindex("<think>") :] if prompt.rstrip().endswith("<think>") else ""
    return text.removeprefix(opening)


def divergence(continued: str, expected: str, roles: Sequence[str]) -> str:
    """Where two texts part."""
    at = common_length(continued, expected)
    return (
        f"when a message of {' and '.join(dict.fromkeys(roles))} follows, it rewrites what came before: "
        f"{continued[at : at + 40]!r} becomes {expected[at : at + 40]!r}, after {tail(expected[:at])!r}"
    )


def common_length(one: str, other: str) -> int:
    """Characters that two texts begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((length for length, (a, b) in pairs if a != b), min(len(one), len(other)))


def ends_of(after: str, eos: Sequence[str], control: Sequence[str]) -> tuple[str, ...]:
    """The tokens that may end a reply: those of the model, and the one that the template writes after a reply."""
    behind = after.partition(REPLY)[2].lstrip()
    first = [token for token in control if behind.startswith(token)]
    return tuple(dict.fromkeys([*sorted(first, key=len, reverse=True)[:1], *eos]))


def spelling(rule: Continuation, role: str) -> Callable[[str], str]:
    """How a template writes a content with spaces around it and quotes in it."""
    hard = HARD["surrounded by spaces"].format("zqhzq")
    return next((each for each in SPELLINGS if holds(rule, role, hard, each)), str)


def holds(rule: Continuation, role: str, content: str, spell: Callable[[str], str]) -> bool:
    """Whether the template writes a content as it is spelled."""
    asked = plain("user", "zquzq")
    before = {"system": [], ASSISTANT: [asked]}.get(role, [asked, reply(REPLY, (role,))])
    after = [plain("user", "zqvzq")] if role in ("system", ASSISTANT) else []
    try:
        marked, hard = (rule.write([*before, plain(role, each), *after]) for each in ("zqmzq", content))
    except ModelError:
        return True  # It takes no such message.
    return marked.replace("zqmzq", spell(content)) == hard


def departures(rule: Continuation) -> Iterator[str]:
    """Contents that the template changes, as phrases."""
    for role in dict.fromkeys(ROLES.values()):
        for name, content in HARD.items():
            if not holds(rule, role, content.format("zqhzq"), rule.spellings[role]):
                yield f"a message of {role} {name}"


def unreadable_calls(rule: Continuation) -> str:
    """Why calls of a template cannot be parsed; empty where they can."""
    try:
        text = rule.write([plain("user", "zquzq"), reply("", ("tool",)), plain("tool", "zqtzq")])
    except ModelError as error:
        return f"it does not take tool results ({first_line(error)})"
    inside = text.rpartition("<tool_call>")[2].partition("</tool_call>")
    try:
        call = json.loads(inside[0]) if inside[1] else {}
    except ValueError:
        call = {}
    if call == {"name": NAME, "arguments": {KEY: VALUE}}:
        return ""
    return "its calls are not JSON objects between <tool_call> and </tool_call>"


def tail(text: str) -> str:
    return text[-30:]


def first_line(error: Exception) -> str:
    return str(getattr(error, "what", error)).splitlines()[0][:120]
