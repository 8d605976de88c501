"""A chat template that no family knows, continued by the rule that was proven of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from typing import Protocol, runtime_checkable

from gnomon.errors import ModelError
from gnomon.models.tokenizer import Tokenizer
from gnomon.rendering.base import Origin, Renderer, Reply, Segment, Segments, Tool, joined
from gnomon.rendering.calls import named_call
from gnomon.rendering.encoding import Piece, encoding_of
from gnomon.rendering.proof import CLOSE, ROLES, SHAPES, Continuation, Proof, plain, prove
from gnomon.rendering.published import Published
from gnomon.rendering.sight import Sight, no_sight
from gnomon.rendering.transcript import Transcript
from gnomon.rendering.turns import read_turn, without_thought
from gnomon.types import Message

__all__ = ["Derived", "Proven", "agrees", "derived_of", "proof_of"]


@runtime_checkable
class Proven(Protocol):
    """A renderer whose continuations were proven."""

    proof: Proof


class Derived(Published):
    """Writes prompts with the folder's chat template. What follows a reply is the difference between two of its texts,
    so sampled tokens are never encoded again.

    Args: rule: of the template; proof: what was proven of the rule, without a refusal.
    """

    def __init__(self, tokenizer: Tokenizer, rule: Continuation, proof: Proof) -> None:
        super().__init__(tokenizer, rule.template)
        self.rule, self.proof = rule, proof
        control = self.encoding.control
        self._close = control.get(CLOSE)
        self._opening = joined(self.encoding.encode([Piece(Origin.TEMPLATE, rule.opening)]))
        self._husk = joined(self.encoding.encode([Piece(Origin.TEMPLATE, rule.husk)]))
        self._ends = frozenset(control[end] for end in rule.ends[:1] if end in control)

    @property
    def stop(self) -> frozenset[int]:
        return self.encoding.tokenizer.eos | self._ends

    def start(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> Segments:
        if tools:
            self._require_tools(tools)
        self._require_seen(messages)
        marks = [f"zq{index}zq" for index in range(len(messages))]
        plains = [plain(m.role, mark, len(m.images)) for m, mark in zip(messages, marks, strict=True)]
        pieces = self._fill(self.rule.write(plains, tools), marks, messages, Origin.TASK)
        return Sight(self.encoding, messages).encode(pieces)

    def extend(self, sampled_ids: Sequence[int], messages: Sequence[Message]) -> Segments:
        self._require_seen(messages)
        images = tuple(len(message.images) for message in messages)
        edge = self.rule.border(tuple(message.role for message in messages), images)
        ids = joined(self.encoding.encode([Piece(Origin.TEMPLATE, edge.end)]))
        closed = bool(sampled_ids) and sampled_ids[-1:] == ids[-1:]
        end = Piece(Origin.TEMPLATE, "" if closed else edge.end)
        pieces = [end, *self._fill(edge.rest, edge.marks, messages, Origin.ENVIRONMENT)]
        return Sight(self.encoding, messages).encode(pieces)

    def fork(self, segments: Segments, messages: Sequence[Message]) -> Segments | None:
        if not self.rule.forgets.intersection(message.role for message in messages):
            return None
        past = tuple(self._forget(segments))
        return None if joined(past) == joined(segments) else (*past, *self.extend(past[-1].token_ids, messages))

    def _forget(self, segments: Segments) -> Iterator[Segment]:
        """The sequence whose earlier reasoning is removed, with what the template writes in its place."""
        before: tuple[int, ...] = ()
        for segment, follows in zip(segments, [*segments[1:], None], strict=True):
            if segment.origin is Origin.POLICY and self._husk and before[-len(self._husk) :] != self._husk:
                yield Segment(origin=Origin.TEMPLATE, token_ids=self._husk)
            answer = without_thought(self.encoding, segment, follows, self._close, self._opening, self.rule.lines)
            before = answer.token_ids
            yield answer

    def parse(self, token_ids: Sequence[int], prompt_ids: Sequence[int] = ()) -> Reply:
        reader = None if self.proof.tools else partial(named_call, slot="arguments")
        ids = (*self.encoding.open_marker(prompt_ids or self._usual), *token_ids)
        return read_turn(self.encoding, ids, self.stop, reader)

    def _fill(self, text: str, marks: Sequence[str], messages: Sequence[Message], origin: Origin) -> Iterator[Piece]:
        """The template's text with the contents of messages in the places of their marks."""
        for mark, message in zip(marks, messages, strict=True):
            before, _, text = text.partition(mark)
            yield Piece(Origin.TEMPLATE, before)
            own = Origin.TOOL if message.role == "tool" else origin
            yield Piece(own, self.rule.spell(message.role, message.text))
        yield Piece(Origin.TEMPLATE, text)

    def _require_seen(self, messages: Sequence[Message]) -> None:
        """Raises: ModelError E330 for an image in a tool's result where none is proven."""
        if self.proof.seen_results and any(message.images for message in messages if message.role == "tool"):
            raise no_sight(self.encoding, self.proof.seen_results)

    def _require_tools(self, tools: Sequence[Tool]) -> None:
        """Raises: ModelError E314 where tools cannot be offered."""
        described = json.dumps([tool.schema for tool in tools], ensure_ascii=False)
        forged = next((token for token in self.encoding.control if token in described), "")
        why = f"the description of a tool contains the control token {forged}" if forged else self.proof.tools
        if why:
            raise ModelError(
                "E314",
                "the model's chat template cannot offer these tools",
                where=str(self.encoding.tokenizer.folder),
                why=why,
                fix="use a model of the chatml, qwen3, llama3 or harmony family, or describe the tools in the task",
            )


def proof_of(tokenizer: Tokenizer, template: str) -> tuple[Continuation, Proof]:
    """The rule of a model folder's template, and what was proven of it."""
    control = encoding_of(tokenizer).control
    names = {token_id: text for text, token_id in control.items()}
    return prove(template, tokenizer.folder, sorted(names[token] for token in tokenizer.eos if token in names), control)


def derived_of(tokenizer: Tokenizer, template: str) -> Derived | None:
    """The renderer of a template; None where no rule is proven of it."""
    rule, proof = proof_of(tokenizer, template)
    return None if proof.refusal else Derived(tokenizer, rule, proof)


def agrees(renderer: Renderer, derived: Derived) -> bool:
    """Whether a renderer continues the conversations of the proof with the tokens that the template asks for."""
    for shape, thought in product(SHAPES, ("", "<think>\nhm\n</think>\n\n")):
        if "t" in shape and not (derived.proof.results and "tools" in derived.template):
            continue  # Nothing says how the model was trained on results.
        try:
            one, other = (list(talk(each, shape, thought, derived)) for each in (renderer, derived))
        except ModelError:  # One of them does not take such a conversation.
            continue
        if one != other:
            return False
    return True


def talk(renderer: Renderer, shape: str, thought: str, derived: Derived) -> Iterator[tuple[int, ...]]:
    """The prompts of a conversation. Args: thought: that begins every reply; derived: knows how replies end."""
    turns = [
        [Message(role=ROLES[sign], content=f"{sign}{i}") for sign in part] for i, part in enumerate(shape.split("|"))
    ]
    transcript = Transcript.begin(renderer, turns[0])
    yield transcript.token_ids
    for messages in turns[1:-1]:
        opened = derived.encoding.decode(derived.encoding.open_marker(transcript.token_ids)) if thought else ""
        text = f"{derived.rule.lead}{thought}Yes{derived.rule.ends[0]}".removeprefix(opened)
        transcript = transcript.with_completion(derived.encoding.tokenizer.encode(text)).observe(messages)
        yield transcript.token_ids
