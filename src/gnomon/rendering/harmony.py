"""Harmony, the format of gpt-oss: messages with channels, several in one turn of the policy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gnomon.models.tokenizer import Tokenizer
from gnomon.rendering.base import Origin, Parsing, Reply, Segment, Segments, Tool, ToolCall
from gnomon.rendering.calls import Unreadable, arguments_of, malformed_call
from gnomon.rendering.chatml import template
from gnomon.rendering.encoding import Piece, encoding_of
from gnomon.rendering.qwen3 import History
from gnomon.rendering.refusals import no_place
from gnomon.rendering.turns import last_turn
from gnomon.rendering.typescript import namespace
from gnomon.types import Message

__all__ = ["Harmony"]

CHANNELS = ("analysis", "commentary", "final")
FUNCTIONS = "functions."


@dataclass(frozen=True, slots=True, kw_only=True)
class Utterance:
    """One message of a sampled turn."""

    channel: str
    recipient: str
    """Recipient of a call; empty for a message to the user."""
    body: str
    ids: tuple[int, ...]
    """The sampled ids of the message, including the token that ends it."""
    whole: bool
    """Whether it has a body and an end."""


class Harmony:
    """`<|start|>role<|channel|>channel<|message|> … <|end|>`.

    Args:
        date: date in the system message; empty for none.
        history: what happens to earlier reasoning when a user message follows a final answer.
    Source: the openai-harmony package 0.0.8. The tests compare token ids with it.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        date: str = "",
        history: History = History.FORK,
    ) -> None:
        self.encoding = encoding_of(tokenizer)
        self._start, self._message, self._end, self._channel, self._return, self._call = self.encoding.required_ids(
            "<|start|>", "<|message|>", "<|end|>", "<|channel|>", "<|return|>", "<|call|>"
        )
        self._stop = tokenizer.eos | {self._return, self._call}
        self._ends = self._stop | {self._end}
        self.date, self.history = date, History(history)

    @property
    def stop(self) -> frozenset[int]:
        return self._stop

    def start(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> Segments:
        date = f"Current date: {self.date}\n" if self.date else ""
        called = "\nCalls to these tools must go to the commentary channel: 'functions'." if tools else ""
        pieces = [
            template(
                "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\n"
                f"Knowledge cutoff: 2024-06\n{date}\nReasoning: medium\n\n"
                f"# Valid channels: {', '.join(CHANNELS)}. Channel must be included for every message.{called}<|end|>"
            )
        ]
        instructions = messages[0].content if messages and messages[0].role == "system" else ""
        if instructions or tools:
            pieces += [template("<|start|>developer<|message|>"), *_instructions(instructions)]
            pieces += [template("\n\n")] if instructions and tools else []
            pieces += [*namespace(tools), template("<|end|>")]
        rest = messages[1:] if messages and messages[0].role == "system" else messages
        return self.encoding.encode([*pieces, *self._turns(rest, Origin.TASK, None)])

    def extend(self, sampled_ids: Sequence[int], messages: Sequence[Message]) -> Segments:
        calls = self.parse(sampled_ids).tool_calls
        called = _function(calls[-1]) if calls else FUNCTIONS.rstrip(".")
        return self.encoding.encode([self._closing(sampled_ids), *self._turns(messages, Origin.ENVIRONMENT, called)])

    def fork(self, segments: Segments, messages: Sequence[Message]) -> Segments | None:
        if self.history is History.KEEP or not any(message.role == "user" for message in messages):
            return None
        past = tuple(self._answer(segment) if segment.origin is Origin.POLICY else segment for segment in segments)
        if past == segments:
            return None
        return (*past, *self.extend(last_turn(past), messages))

    def parse(self, token_ids: Sequence[int], prompt_ids: Sequence[int] = ()) -> Reply:
        utterances = list(self._utterances(token_ids))
        ended = bool(utterances) and utterances[-1].ids[-1] in self.stop
        bodies: dict[str, list[str]] = {channel: [] for channel in CHANNELS}
        calls: list[ToolCall] = []
        problem = "" if utterances else "the turn has no message"
        for utterance in utterances:
            if not utterance.whole:
                problem = problem or "a message has no body or no end"
            if utterance.recipient:
                calls.append(self._tool_call(utterance))
            elif utterance.channel in bodies:
                bodies[utterance.channel].append(utterance.body)
            else:
                problem = (
                    problem or f"no channel is named {utterance.channel[:32]!r}: it is one of {', '.join(CHANNELS)}"
                )
        problem = next((call.problem for call in calls if call.problem), problem)
        return Reply(
            text="\n".join(bodies["commentary"] + bodies["final"]),
            reasoning="\n".join(bodies["analysis"]) if bodies["analysis"] else None,
            tool_calls=tuple(calls),
            parsing=Parsing.TRUNCATED if not ended else Parsing.MALFORMED if problem else Parsing.OK,
            problem=problem,
        )

    def _turns(self, messages: Sequence[Message], origin: Origin, called: str | None) -> Iterator[Piece]:
        """All messages, and the beginning of the policy's turn. Args: called: author of a tool's result."""
        authors: dict[str, str] = {}
        for index, message in enumerate(messages):
            if message.calls:
                yield from self._calls(message, origin, any(later.role == "user" for later in messages[index:]))
                authors |= {call.id: _function(call) for call in message.calls}
                called = _function(message.calls[-1])
                continue
            if message.role == "tool" and called is not None:
                yield from [template("<|start|>"), Piece(Origin.TOOL, authors.get(message.call_id, called))]
                yield template(" to=assistant<|channel|>commentary<|message|>")
                yield Piece(Origin.TOOL, message.content)
            elif message.role == "assistant":
                yield from [template("<|start|>assistant<|channel|>final<|message|>"), Piece(origin, message.content)]
            elif message.role == "user":
                yield from [template("<|start|>user<|message|>"), Piece(origin, message.content)]
            elif message.role == "system":
                yield from [template("<|start|>developer<|message|>"), *_instructions(message.content, origin)]
            else:
                raise no_place(
                    "Harmony", f"the role {message.role!r} here", "system, user, assistant; tool after a call"
                )
            yield template("<|end|>")
        yield template("<|start|>assistant")

    def _calls(self, message: Message, origin: Origin, past: bool) -> Iterator[Piece]:
        """A message with calls. Args: past: whether a user's message follows, so that its reasoning is removed."""
        for channel, text in (("analysis", "" if past else message.reasoning), ("commentary", message.content)):
            if text:
                yield template(f"<|start|>assistant<|channel|>{channel}<|message|>")
                yield from [Piece(origin, text), template("<|end|>")]
        for call in message.calls:
            yield from [template("<|start|>assistant to="), Piece(origin, _function(call))]
            yield template("<|channel|>commentary <|constrain|>json<|message|>")
            yield from [Piece(origin, call.arguments), template("<|call|>")]

    def _closing(self, sampled_ids: Sequence[int]) -> Piece:
        """The end of a truncated message. A turn begins in the header of its first message."""
        state = self._start
        for token in reversed(sampled_ids):
            if token in (self._start, self._message) or token in self._ends:
                state = token
                break
        return template({self._start: "<|message|><|end|>", self._message: "<|end|>"}.get(state, ""))

    def _utterances(self, token_ids: Sequence[int]) -> Iterator[Utterance]:
        """The messages of a turn, up to the first token that ends the turn."""
        ids: list[int] = []
        for token in token_ids:
            ids.append(token)
            if token in self._ends:
                yield self._utterance(ids)
                ids = []
            if token in self._stop:
                return
        if ids:
            yield self._utterance(ids)

    def _utterance(self, ids: list[int]) -> Utterance:
        ended = ids[-1] in self._ends
        inside = ids[:-1] if ended else ids
        cut = inside.index(self._message) if self._message in inside else len(inside)
        header = [token for token in inside[:cut] if token != self._start]
        split = header.index(self._channel) if self._channel in header else len(header)
        author, channel = self.encoding.decode(header[:split]), self.encoding.decode(header[split + 1 :])
        words = channel.replace("<|constrain|>", " ").split()
        recipients = [word[3:] for word in (*author.split(), *words) if word.startswith("to=")]
        return Utterance(
            channel=words[0] if words else "",
            recipient=recipients[0] if recipients else "",
            body=self.encoding.decode(inside[cut + 1 :]),
            ids=tuple(ids),
            whole=ended and cut < len(inside),
        )

    def _tool_call(self, utterance: Utterance) -> ToolCall:
        name = utterance.recipient.removeprefix(FUNCTIONS)
        if not utterance.whole:
            problem = "the call is truncated"
            return ToolCall(name=name, arguments=utterance.body, parsing=Parsing.TRUNCATED, problem=problem)
        call = ToolCall(name=name, arguments=utterance.body)
        if utterance.recipient.startswith(FUNCTIONS):
            try:
                arguments_of(call)
            except Unreadable as error:
                return malformed_call(utterance.body, str(error), name)
        return call

    def _answer(self, segment: Segment) -> Segment:
        """A sampled turn with a final answer, without its reasoning and with the end that history has."""
        utterances = list(self._utterances(segment.token_ids))
        if not any(utterance.channel == "final" for utterance in utterances):
            return segment
        visible = [utterance for utterance in utterances if utterance.channel != "analysis"]
        ids = [token for utterance in visible for token in utterance.ids]
        # The template wrote `<|start|>assistant` before the first message of a turn.
        if visible[0] is not utterances[0]:
            ids = ids[ids.index(self._channel) :] if self._channel in ids else ids
        ids = [*ids[:-1], self._end] if ids[-1] == self._return else ids
        return Segment(origin=Origin.POLICY, token_ids=tuple(ids))


def _function(call: ToolCall) -> str:
    """The author of a call's result."""
    return FUNCTIONS + call.name if call.name else FUNCTIONS.rstrip(".")


def _instructions(text: str, origin: Origin = Origin.TASK) -> list[Piece]:
    return [template("# Instructions\n\n"), Piece(origin, text)] if text else []
