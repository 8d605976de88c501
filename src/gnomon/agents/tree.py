"""The recorded turns of one rollout as a tree: every request extends a turn by its tokens, or begins a branch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import count

from gnomon.agents.exchange import meaning, with_stop
from gnomon.keys import Key
from gnomon.rendering import Transcript
from gnomon.types import Completion, Message, Origin, Tool, Turn

__all__ = ["Node", "Prompt", "Tree", "sampling_key"]

Begin = Callable[[Sequence[Message], Sequence[Tool]], Transcript]
"""Begins a transcript with messages and tools."""


@dataclass(slots=True, eq=False)
class Prompt:
    """A request as tokens."""

    digests: tuple[bytes, ...]
    """Of the tools, and of every prefix of the messages."""
    parent: Node | None
    """The turn that it extends; None for a branch that begins anew."""
    transcript: Transcript
    messages: tuple[Message, ...]
    """What is new since the parent; all messages without one."""
    token_ids: tuple[int, ...] = field(init=False)
    digest: bytes = field(init=False)

    def __post_init__(self) -> None:
        self.token_ids = self.transcript.token_ids
        self.digest = blake2b(",".join(map(str, self.token_ids)).encode(), digest_size=16).digest()

    @property
    def continues(self) -> bool:
        """Whether its tokens begin with those of the parent and of its reply."""
        parent = self.parent
        return parent is not None and self.transcript.forks == parent.prompt.transcript.forks


@dataclass(slots=True, eq=False)
class Node:
    """One draw: a prompt, and its number among equal prompts."""

    prompt: Prompt
    number: int
    completion: Completion | None = None
    reply: Message | None = None
    delivered: bool = False
    """Whether the program has received the reply. A later request that contains it is a proof."""
    waiting: int = 0
    """Number of requests that wait for the reply."""
    malformed: bool = False
    """Whether the reply has a tool call that could not be read."""
    children: list[Node] = field(default_factory=list)

    @property
    def order(self) -> tuple[int, bytes, int]:
        """Its place among others, whatever the order in which they arrived."""
        return len(self.prompt.token_ids), self.prompt.digest, self.number


class Tree:
    """Turns of one rollout.

    A request extends the deepest recorded turn whose messages equal its prefix: its prompt is that turn's tokens, the
    sampled tokens and the tokens of the new messages. Any other request begins a branch, which is rendered as a whole;
    a recorded reply in it still appears as the tokens that were sampled.
    """

    def __init__(self, begin: Begin) -> None:
        self._begin = begin
        self.nodes: list[Node] = []
        self._draws: dict[bytes, list[Node]] = {}
        """By digest of the prompt's tokens."""
        self._ends: dict[bytes, list[Node]] = {}
        """By digest of the messages up to the reply."""
        self._replies: dict[str, list[Node]] = {}
        """By meaning of the reply."""

    def prompt(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> Prompt:
        """The tokens of a request. Raises: ModelError E315 if the model's format has no place for a message."""
        digests = tuple(prefixes(messages, tools))
        for length in range(len(messages) - 1, 0, -1):
            if parent := self._find_extension(digests[length], messages[length - 1]):
                new = tuple(messages[length:])
                assert parent.completion is not None
                parent.delivered = True
                transcript = parent.prompt.transcript.with_completion(parent.completion.token_ids).observe(new)
                return Prompt(digests, parent, transcript, new)
        return Prompt(digests, None, self._whole(messages, tools), tuple(messages))

    def draw(self, prompt: Prompt, *, retry: bool = False) -> Node:
        """The draw for a request: an earlier one whose reply was not received, or a new one.

        Args: retry: whether the client repeats a request; it gets the completion that the first one got.
        """
        draws = self._draws.setdefault(prompt.digest, [])
        lost = next((node for node in draws if not node.delivered and not node.waiting), None)
        if lost is not None:
            return lost
        if retry and draws:
            return next((node for node in draws if not node.delivered), draws[-1])
        node = Node(prompt, len(draws))
        draws.append(node)
        return node

    def drop(self, node: Node) -> None:
        """Forget a draw that was refused before it was sampled."""
        self._draws[node.prompt.digest].remove(node)

    def record(
        self,
        node: Node,
        completion: Completion,
        reply: Message,
        stop: str | None = None,
        *,
        malformed: bool = False,
    ) -> None:
        """Add the reply of a draw. Args: stop: the stop string that ended it, and which `reply` lacks."""
        node.completion, node.reply, node.malformed = completion, reply, malformed
        self.nodes.append(node)
        if node.prompt.parent is not None:
            node.prompt.parent.children.append(node)
        for form in filter(None, (reply, with_stop(reply, stop))):
            self._ends.setdefault(follow(node.prompt.digests[-1], meaning(form)), []).append(node)
            self._replies.setdefault(meaning(form), []).append(node)

    def turns(self) -> tuple[Turn, ...]:
        """The turns to train on, branch after branch: every delivered reply once."""
        forks = count()
        return tuple(turn for branch in self.branches() for turn in chain_turns(branch, next(forks)))

    def branches(self) -> Iterator[list[Node]]:
        """Yield the branches, each the turns that continue one another, in an order that arrival does not decide."""
        waiting = sorted((n for n in self.nodes if n.prompt.parent is None and n.delivered), key=lambda n: n.order)
        while waiting:
            branch, begun = [waiting.pop(0)], list[Node]()
            while later := sorted((child for child in branch[-1].children if child.delivered), key=lambda n: n.order):
                heir = next((child for child in later if child.prompt.continues), None)
                begun += [child for child in later if child is not heir]
                if heir is None:
                    break
                branch.append(heir)
            yield branch
            waiting = sorted([*waiting, *begun], key=lambda n: n.order)

    def _find_extension(self, digest: bytes, reply: Message) -> Node | None:
        """The turn that ends with these messages; its reasoning is absent in the request, or the same."""
        matches = [node for node in self._ends.get(digest, ()) if same_reasoning(node, reply)]
        ids = {call.id for call in reply.calls}
        by_call = (node for node in matches if node.reply and ids & {call.id for call in node.reply.calls})
        return next(by_call, min(matches, key=lambda node: node.order, default=None))

    def _whole(self, messages: Sequence[Message], tools: Sequence[Tool]) -> Transcript:
        """A branch from its beginning, with the sampled tokens of recorded replies."""
        transcript: Transcript | None = None
        new: list[Message] = []

        def observe() -> Transcript:
            return self._begin(new, tools) if transcript is None else transcript.observe(tuple(new))

        for index, message in enumerate(messages):
            recorded = self._replies.get(meaning(message), ()) if message.role == "assistant" else ()
            node = min(recorded, key=lambda each: each.order, default=None)
            ends = index + 1 < len(messages) and messages[index + 1].role != "assistant"
            begins = bool(new) and new[-1].role != "assistant"
            if node is None or node.completion is None or not (ends and begins):
                new.append(message)
                continue
            transcript, new = observe().with_completion(node.completion.token_ids), []
        return observe()


def same_reasoning(node: Node, reply: Message) -> bool:
    recorded = node.reply.reasoning if node.reply is not None else None
    return reply.reasoning is None or reply.reasoning.strip() == (recorded or "").strip()


def chain_turns(branch: Iterable[Node], fork: int) -> Iterator[Turn]:
    """Yield the turns of one branch."""
    for index, node in enumerate(branch):
        segments = node.prompt.transcript.segments
        last = max((i + 1 for i, segment in enumerate(segments) if segment.origin is Origin.POLICY), default=0)
        assert node.completion is not None
        yield Turn(
            prompt_ids=node.prompt.token_ids,
            completion=node.completion,
            messages=node.prompt.messages,
            segments=segments[last:] if index else segments,
            fork=fork,
        )


def prefixes(messages: Sequence[Message], tools: Sequence[Tool]) -> Iterator[bytes]:
    """Yield the digest of the tools, and of every prefix of the messages."""
    digest = follow(b"", repr([tool.schema for tool in tools]))
    yield digest
    for message in messages:
        digest = follow(digest, meaning(message))
        yield digest


def follow(digest: bytes, text: str) -> bytes:
    return blake2b(digest + text.encode(errors="surrogatepass"), digest_size=16).digest()


def sampling_key(key: Key, node: Node) -> Key:
    """The key of a draw: it depends on the prompt's tokens and their number, and not on when the request arrived."""
    return key.at("call", prompt=node.prompt.digest.hex(), number=node.number)
