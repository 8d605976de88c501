"""Core types: frozen, slotted, keyword-only dataclasses that all packages share.

An environment never sees tokens, an engine never sees rewards, and a learner never sees text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from gnomon.images import Image
from gnomon.notebook import Card, excerpt

if TYPE_CHECKING:
    from rich.table import Table

__all__ = [
    "CALL_LIMITS",
    "Calls",
    "Completion",
    "Conclusion",
    "Finish",
    "Group",
    "Kind",
    "Message",
    "Origin",
    "Parsing",
    "Part",
    "Request",
    "Rollout",
    "Sampling",
    "Segment",
    "Status",
    "Stop",
    "Task",
    "Tool",
    "ToolCall",
    "Turn",
    "Verdict",
]

EMPTY: Mapping[str, Any] = MappingProxyType({})


class Parsing(StrEnum):
    """Whether the tokens of a turn, or of a call in it, could be parsed."""

    OK = "ok"
    MALFORMED = "malformed"
    """Complete, but not in the required format."""
    TRUNCATED = "truncated"
    """The tokens end before the end of the turn or call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call of a tool."""

    name: str
    """Empty if no name could be parsed."""
    arguments: str
    """Their text, as it was sampled or as a program wrote it. For a malformed call, its whole text."""
    id: str = ""
    """By which a result names the call that it answers; empty in a format without ids."""
    parsing: Parsing = Parsing.OK
    problem: str = ""
    """One sentence for the policy: why the call could not be parsed."""

    @property
    def value(self) -> Any:
        """The value of the arguments; a text that is not JSON stands for itself."""
        try:
            return json.loads(self.arguments) if self.arguments.strip() else {}
        except (ValueError, RecursionError):
            return self.arguments

    @property
    def sound(self) -> bool:
        """Whether it is complete, with an object of arguments."""
        return self.parsing is Parsing.OK and isinstance(self.value, dict)

    @property
    def text(self) -> str:
        """The call as text, in the form that environments read."""
        if self.parsing is not Parsing.OK:
            return f"<tool_call>{self.arguments}</tool_call>"
        return f'<tool_call>{{"name": {json.dumps(self.name)}, "arguments": {self.arguments}}}</tool_call>'


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Message:
    """One message of a conversation."""

    role: str
    """The author's role: `system`, `user`, `assistant` or `tool`."""
    content: str = ""
    images: tuple[Image, ...] = ()
    """They stand before the content."""
    calls: tuple[ToolCall, ...] = ()
    """Of an assistant's message, after its content."""
    call_id: str = ""
    """Of a tool's message: the id of the call that it answers."""
    reasoning: str | None = None
    """Of an assistant's message: what it wrote before the content."""

    def __repr__(self) -> str:
        # A recipe can identify its tasks by this text, so what a message lacks is not in it.
        more = {name: value for name in ("calls", "call_id", "reasoning") if (value := getattr(self, name))}
        values = {"role": self.role, "content": self.content, "images": self.images} | more
        return f"Message({', '.join(f'{name}={value!r}' for name, value in values.items())})"

    @property
    def text(self) -> str:
        """The content, with the calls as text."""
        return "\n".join(filter(None, [self.content, *(call.text for call in self.calls)]))

    @property
    def body(self) -> dict[str, Any]:
        """The message in the form that chat templates and reward functions expect, without its images."""
        calls = [
            {"type": "function", "id": call.id, "function": {"name": call.name, "arguments": call.value}}
            for call in self.calls
        ]
        more = {"tool_calls": calls, "tool_call_id": self.call_id, "reasoning_content": self.reasoning}
        return {"role": self.role, "content": self.content} | {name: value for name, value in more.items() if value}


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One problem."""

    id: str
    """Identity of the content. Two tasks with the same id are the same problem."""
    messages: tuple[Message, ...]
    answer: Any
    """For the verifier only; never part of a prompt."""
    info: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A function that the policy may call."""

    name: str
    description: str
    parameters: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})
    """JSON schema of the arguments."""

    @property
    def schema(self) -> dict[str, Any]:
        """The tool in the form that chat templates expect."""
        function = {"name": self.name, "description": self.description, "parameters": dict(self.parameters)}
        return {"type": "function", "function": function}


class Kind(StrEnum):
    """The kind of a verdict. All kinds except `FAILED` and `UNJUDGED` are results of the policy's reply."""

    SCORED = "scored"
    """The reply has an answer, and it was judged."""
    UNPARSABLE = "unparsable"
    """The reply has no answer that can be judged."""
    REJECTED = "rejected"
    """The reply has an answer that breaks a rule."""
    EXCEEDED = "exceeded"
    """Judging the reply exceeded a limit."""
    FAILED = "failed"
    """The verifier failed. This is never counted as a wrong answer or as the reward 0."""
    UNJUDGED = "unjudged"
    """The reply was not judged."""


class Status(StrEnum):
    """The result of judging a reply."""

    CORRECT = "correct"
    WRONG = "wrong"
    NO_ANSWER = "no_answer"
    """No answer slot was found."""
    SEVERAL = "several"
    """There is more than one answer where one is allowed."""
    MALFORMED = "malformed"
    """The slot does not contain an answer of the required kind."""
    OUT_OF_PLACE = "out_of_place"
    """The strictness does not allow the text around the slot."""
    REJECTED = "rejected"
    """The answer breaks a rule of the task, which `detail` names."""
    EXCEEDED = "exceeded"
    """Judging the reply exceeded the limit of time, memory or output."""
    UNJUDGED = "unjudged"
    """The reply was not judged, because the answer was supplied and not sampled."""
    FAILED = "failed"
    """The verifier failed on every try."""

    @property
    def kind(self) -> Kind:
        if self in (Status.CORRECT, Status.WRONG):
            return Kind.SCORED
        if self in (Status.NO_ANSWER, Status.SEVERAL, Status.MALFORMED, Status.OUT_OF_PLACE):
            return Kind.UNPARSABLE
        return Kind(self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One named component of a reward, with its weight."""

    name: str
    value: float
    """Unweighted, in the range the verifier declares (by default 0 … 1)."""
    weight: float = 1.0
    gate: str | None = None
    """Name of the part that must be positive for this one to count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of judging one reply."""

    status: Status
    parts: tuple[Part, ...]
    extracted: str | None = None
    """The judged text, as it occurs in the reply."""
    span: tuple[int, int] | None = None
    """Start and end of `extracted` in the reply, in characters."""
    detail: str = ""
    """One sentence that explains the status."""
    feedback: str = ""
    """The environment's words on the reply, for objectives that train on feedback (`offers.Praising`)."""

    def __post_init__(self) -> None:
        names = [part.name for part in self.parts]
        if len(set(names)) != len(names):
            raise ValueError(f"a part of a verdict is named twice: {names}")
        for part in self.parts:
            if not math.isfinite(part.value * part.weight):
                raise ValueError(f"part {part.name!r} of a verdict is not finite: {part.value} x {part.weight}")
            if part.gate is not None and part.gate not in names:
                raise ValueError(f"part {part.name!r} is gated on {part.gate!r}, which is not a part of the verdict")

    @property
    def reward(self) -> float:
        """Weighted sum of the parts whose gate is met."""
        value = {part.name: part.value for part in self.parts}
        return math.fsum(p.weight * p.value for p in self.parts if p.gate is None or value[p.gate] > 0)

    @property
    def correct(self) -> bool:
        return self.status is Status.CORRECT


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """The distribution to sample from, and when to stop."""

    max_tokens: int
    """Length limit of one completion, in tokens, the ending token included."""
    temperature: float = 1.0
    """0 means greedy."""
    top_p: float = 1.0
    """As `rollout.top_p`."""
    top_k: int = 0
    """As `rollout.top_k`."""
    stop: tuple[str, ...] = ()
    """The completion ends with the first token after which its text contains one of these."""
    stop_ids: frozenset[int] = frozenset()
    """The completion ends with the first of these tokens, in addition to the model's own end tokens."""
    entropy: bool = False
    """Whether the completion has the entropy at every token, from an engine that knows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One completion to sample. Requests with equal `prompt_ids` share their prefill."""

    prompt_ids: tuple[int, ...]
    key: bytes
    """16 bytes that determine every random draw of this completion (`Key.bytes`)."""
    sampling: Sampling


class Finish(StrEnum):
    """Why a completion ended."""

    EOS = "eos"
    STOP = "stop"
    LENGTH = "length"
    UNKNOWN = "unknown"
    """It was not logged, by other software that sampled the completion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """An engine's answer to a request."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    """Natural logarithm, per token, under the distribution actually sampled; NaN for a prefilled token."""
    text: str
    finish: Finish
    version: int
    """Version of the weights that sampled its first token."""
    changes: tuple[tuple[int, int], ...] = ()
    """Where the weights changed while it was sampled: the index of the first token that newer weights sampled, and
    their version. Indices rise from 1. Empty unless weights change under way (`rollout.in_flight`)."""
    entropies: tuple[float, ...] = ()
    """Entropy of the distribution that each token was sampled from, in nats; NaN for a prefilled token. Empty where it
    was not asked for or the engine does not know it."""

    def spans(self) -> tuple[tuple[int, int], ...]:
        """Versions of the weights that sampled its tokens, in order, each with the number of these tokens."""
        starts, versions = zip((0, self.version), *self.changes, strict=True)
        ends = (*starts[1:], len(self.token_ids))
        return tuple((v, end - start) for v, start, end in zip(versions, starts, ends, strict=True))

    def versions(self) -> tuple[int, ...]:
        """Version of the weights that sampled each token."""
        return tuple(version for version, tokens in self.spans() for _ in range(tokens))


class Stop(StrEnum):
    """Why a rollout ended."""

    DONE = "done"
    """The environment ended the episode."""
    TRUNCATED = "truncated"
    """The last completion reached its token limit."""
    TURNS = "turns"
    """The limit of turns was reached."""
    CONTEXT = "context"
    """The conversation has no room for another token."""
    TIME = "time"
    """The time limit was reached."""
    EXCEEDED = "exceeded"
    """A reply made the environment exceed the limits of a step."""
    FAILED = "failed"
    """The environment failed."""


class Conclusion(StrEnum):
    """Of a test with an error rate or a threshold: on a claim, on a study, on a training run."""

    PASS = "PASS"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"


class Origin(StrEnum):
    """Who wrote the tokens of a segment. Apart from sampled tokens, only the template's can be control tokens."""

    TEMPLATE = "template"
    """The renderer: roles, turn boundaries and fixed text."""
    TASK = "task"
    """The first messages of an episode."""
    ENVIRONMENT = "environment"
    """Observations of the environment."""
    TOOL = "tool"
    """Descriptions and results of tools."""
    POLICY = "policy"
    """Sampled tokens, id for id as the engine returned them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Consecutive tokens of one origin."""

    origin: Origin
    token_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One turn: the prompt that the policy saw and its completion."""

    prompt_ids: tuple[int, ...]
    """All tokens that it saw. In a later turn: the prompt and completion of the turn before, token for token, and then
    the observation."""
    completion: Completion
    messages: tuple[Message, ...] = ()
    """The observation since the turn before; in the first turn, the whole prompt."""
    segments: tuple[Segment, ...] = ()
    """The new end of the prompt in this turn, by origin."""
    fork: int = 0
    """Number of its training sequence. A new one begins where a template rewrites history."""

    @property
    def prefix(self) -> tuple[int, ...]:
        """The end of the prompt, if it is the beginning of the reply; empty for a reply that begins by itself."""
        last = self.segments[-1:]
        return last[0].token_ids if last and last[0].origin is Origin.POLICY else ()


CALL_LIMITS: Mapping[str, str] = MappingProxyType(
    {"calls": "limit_calls", "tokens": "limit_tokens", "context": "context_length_exceeded"}
)
"""The limits of a program's calls, each with the code of the refusal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """What happened to actions and tool calls of the policy, and to a program's calls of it, beside the turns that are
    trained."""

    refused: Mapping[str, int] = field(default_factory=dict)
    """Number of refused calls, by the code of the error that the program got."""
    malformed: int = 0
    """Replies with a call of an offered tool that could not be read. A program gets them as text."""
    illegal: int = 0
    """Replies without a legal action."""
    required: int = 0
    """Requests that demanded a tool call and got a free reply."""
    retried: int = 0
    """Requests that got the reply of an earlier one, because the client repeated them."""
    undelivered: int = 0
    """Sampled tokens of replies that the program never received. They are not trained."""

    @property
    def limits(self) -> tuple[str, ...]:
        """The limits at which a call was refused."""
        return tuple(name for name, code in CALL_LIMITS.items() if code in self.refused)

    @property
    def refusals_except_limits(self) -> dict[str, int]:
        """Number of refused calls by code, except those of a limit."""
        return {code: count for code, count in self.refused.items() if code not in CALL_LIMITS.values()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """One sampled episode, from the view of one player."""

    task: Task
    sample: int
    """Its number among the rollouts of the task, from 0."""
    turns: tuple[Turn, ...]
    verdict: Verdict
    stop: Stop
    player: int = 0
    end: str = ""
    """How the program ended that played the episode, as the text that was judged. Empty without a program."""
    calls: Calls = field(default_factory=Calls)

    def __post_init__(self) -> None:
        for before, after in pairwise(self.turns):
            if after.fork != before.fork:
                continue
            prefix = before.prompt_ids + before.completion.token_ids
            if after.prompt_ids[: len(prefix)] != prefix:
                raise ValueError("a turn does not continue the tokens of the turn before")

    @property
    def reward(self) -> float:
        return self.verdict.reward

    @property
    def tokens(self) -> int:
        """Number of trainable (sampled) tokens."""
        return sum(len(turn.completion.token_ids) for turn in self.turns)

    @property
    def text(self) -> str:
        return "".join(turn.completion.text for turn in self.turns)

    def card(self) -> Card:
        """The conversation, and the verdict below it."""
        lines: list[tuple[str, str]] = []
        for turn in self.turns:
            lines += [(message.role, message.text) for message in turn.messages]
            lines.append(
                (f"reply, {len(turn.completion.token_ids)} tokens, {turn.completion.finish}", turn.completion.text)
            )
        parts = "  ".join(f"{part.name} {part.value:g} x {part.weight:g}" for part in self.verdict.parts)
        lines.append(
            ("verdict", f"{self.verdict.status}, reward {self.reward:g}: {parts} {self.verdict.detail}".rstrip())
        )
        title = f"rollout of task {self.task.id}, sample {self.sample}, answer {self.task.answer}"
        return Card(title=title, columns=("who", "text"), rows=lines)

    def _repr_html_(self) -> str:
        return self.card().html()

    def __rich__(self) -> Table:
        return self.card().rich()


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The rollouts of one task, all of one player."""

    task: Task
    index: int
    """Index of the task in its split."""
    rollouts: tuple[Rollout, ...]
    spare: bool = False
    """Sampled, recorded and counted, but not trained on."""
    greedy: Rollout | None = None
    """One more rollout, of temperature 0, for an objective that compares the others with it. It is recorded, and
    neither counted nor trained on."""
    replayed: tuple[int, int] | None = None
    """Seed of the run and number of the step that sampled it; None for a group that this step sampled."""

    @property
    def rewards(self) -> tuple[float, ...]:
        return tuple(rollout.reward for rollout in self.rollouts)

    @property
    def continued(self) -> bool:
        """Whether its rollouts continue a prefix of a failed reply (`rollout.failure_prefix`)."""
        return any(rollout.turns and rollout.turns[0].prefix for rollout in self.rollouts)

    @property
    def judged(self) -> bool:
        """Whether every rollout was judged. Other groups are never trained on."""
        compared = self.rollouts if self.greedy is None else (*self.rollouts, self.greedy)
        return all(rollout.verdict.status is not Status.FAILED for rollout in compared)

    def card(self) -> Card:
        """The task, and a row for each rollout."""
        question = excerpt("\n".join(message.content for message in self.task.messages))
        rows = [(r.sample, r.verdict.status.value, f"{r.reward:g}", r.tokens, excerpt(r.text)) for r in self.rollouts]
        title = f"task {self.index}: {question}\nanswer {self.task.answer}"
        return Card(title=title, columns=("sample", "status", "reward", "tokens", "reply"), rows=rows)

    def _repr_html_(self) -> str:
        return self.card().html()

    def __rich__(self) -> Table:
        return self.card().rich()
