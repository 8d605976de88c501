"""Answers the requests of one rollout with the policy, and records every draw."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Protocol

from gnomon.agents.exchange import ChatReply, ChatRequest, Refused, reply_message
from gnomon.agents.pictures import refused_image
from gnomon.agents.tree import Begin, Node, Prompt, Tree, sampling_key
from gnomon.errors import GnomonError, ResourceError, RunError
from gnomon.images import Image
from gnomon.keys import Key
from gnomon.rendering import Renderer
from gnomon.rendering.plain import Plain
from gnomon.rendering.sight import decode_images
from gnomon.types import CALL_LIMITS, Calls, Completion, Request, Sampling, Turn

__all__ = ["Bounds", "Policy", "Recorder", "Responder", "Sample", "prompt_of", "reply_of", "see"]

IMAGES = 2**26
"""Most bytes of the different images of a rollout: all are kept."""
STOPS = "the policy cannot reply, and the run stops"
Sample = Callable[[Request], Awaitable[Completion]]


class Responder(Protocol):
    """Answers requests that carry one key."""

    async def answer(self, request: ChatRequest) -> ChatReply:
        """Raises: Refused."""
        ...

    def see(self, images: Collection[Image]) -> None:
        """Decode the images of a request, in a thread, before anything else is asked. Raises: Refused."""
        ...

    def settle(self, outcome: ChatReply | Refused, delivered: bool) -> None:
        """Called once for every request. Args: delivered: whether the client was there for all of the reply."""
        ...

    def count(self, request: ChatRequest) -> int:
        """Number of tokens of the prompt. Raises: Refused."""
        ...


class Policy(Responder, Protocol):
    """The policy of one rollout."""

    error: BaseException | None
    """An error that the run must raise."""

    async def close(self) -> None:
        """Called when the program has ended."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Limits of the calls of one rollout."""

    calls: int
    tokens: int | None = None
    """Largest number of sampled tokens over all calls."""
    context: int | None = None
    """Largest number of tokens of one call, prompt and reply."""
    blind: str = ""
    """Why the run takes no images; empty if it does."""


class Recorder:
    """The policy behind the endpoint of one rollout.

    The run's sampling counts, not a request's: its temperature and seed have no effect, and `max_tokens` and `stop`
    only end a reply earlier.

    Args:
        sample: samples a completion.
        begin: begins a transcript with messages and tools.
        key: of the rollout's draws.
        piece: the text of a token.
    """

    def __init__(
        self,
        renderer: Renderer,
        begin: Begin,
        sample: Sample,
        *,
        key: Key,
        sampling: Sampling,
        bounds: Bounds,
        piece: Callable[[int], str],
    ) -> None:
        self.renderer, self.tree, self._sample, self._piece = renderer, Tree(begin), sample, piece
        self.key, self.sampling, self.bounds = key, sampling, bounds
        self.sampled = 0
        """Draws, whose replies may be served several times."""
        self.tokens = 0
        """Sampled tokens."""
        self._refused = Counter[str]()
        self._required = self._retried = 0
        self.error: BaseException | None = None
        """An error of the engine, which the run must raise."""
        self._images: dict[str, int] = {}
        """Bytes of the images that were sent, by hash."""
        self._closed = ""
        self._work: dict[int, asyncio.Task[None]] = {}
        """By identity of the node: what samples it."""
        self._named: dict[str, Node] = {}

    def see(self, images: Collection[Image]) -> None:
        if self.bounds.blind:
            raise refused_image(self.bounds.blind, code="unsupported_image")
        see(self.renderer, images)
        self._images |= {image.sha256: len(image.data) for image in images}
        if sum(self._images.values()) > IMAGES:
            raise Refused(f"the images of the rollout have more than {IMAGES} bytes", status=413, code="limit_images")

    async def answer(self, request: ChatRequest) -> ChatReply:
        """The reply of the policy. Raises: Refused."""
        node, name = self._draw(request)
        node.waiting += 1
        self._required += request.required
        try:
            await asyncio.shield(self._work[id(node)])
        except BaseException:
            node.waiting -= 1
            if self._closed or self.error is not None:
                raise Refused(self._closed or STOPS, status=403, code="rollout_over") from None
            raise
        return self._reply(node, name, request)

    def settle(self, outcome: ChatReply | Refused, delivered: bool) -> None:
        if isinstance(outcome, Refused):
            if not self._closed:  # What arrives later depends on the clock.
                self._refused[outcome.code] += 1
            return
        node = self._named[outcome.name]
        node.waiting -= 1
        node.delivered = node.delivered or (delivered and not self._closed)

    def count(self, request: ChatRequest) -> int:
        return len(self._prompt(request).token_ids)

    def turns(self) -> tuple[Turn, ...]:
        """The turns to train on."""
        return self.tree.turns()

    @property
    def calls(self) -> Calls:
        """What happened beside these turns."""
        lost = [node.completion for node in self.tree.nodes if not node.delivered and node.completion]
        return Calls(
            refused=dict(sorted(self._refused.items())),
            malformed=sum(node.malformed for node in self.tree.nodes if node.delivered),
            required=self._required,
            retried=self._retried,
            undelivered=sum(len(completion.token_ids) for completion in lost),
        )

    async def close(self, why: str = "the rollout is over") -> None:
        """Refuse later requests, and end the replies that are still sampled."""
        self._closed = self._closed or why
        for work in self._work.values():
            work.cancel()
        await asyncio.gather(*self._work.values(), return_exceptions=True)

    def _prompt(self, request: ChatRequest) -> Prompt:
        try:
            return prompt_of(self.tree, self.renderer, request)
        except (OSError, ResourceError, RunError) as error:  # An image cannot be kept.
            self.error = error
            raise Refused(STOPS, status=403, code="rollout_over") from None

    def _draw(self, request: ChatRequest) -> tuple[Node, str]:
        if self._closed:
            raise Refused(self._closed, status=403, code="rollout_over")
        prompt = self._prompt(request)
        node = self.tree.draw(prompt, retry=request.retry)
        name = draw_name(self.key, node)
        if id(node) in self._work:
            self._retried += 1
            return node, name
        try:
            limit = self._limit(request, prompt)
        except Refused:
            self.tree.drop(node)
            raise
        self.sampled += 1
        self._named[name] = node
        self._work[id(node)] = asyncio.ensure_future(self._record(node, name, request, limit))
        return node, name

    def _limit(self, request: ChatRequest, prompt: Prompt) -> int:
        """Largest number of tokens of a reply. Raises: Refused if a limit of the rollout is reached."""
        bounds, limits = self.bounds, [self.sampling.max_tokens]
        if self.sampled >= bounds.calls:
            raise Refused(f"the limit of {bounds.calls} calls is reached", status=403, code=CALL_LIMITS["calls"])
        if bounds.tokens is not None:
            limits.append(bounds.tokens - self.tokens)
            if limits[-1] < 1:
                raise Refused(f"the limit of {bounds.tokens} tokens is reached", status=403, code=CALL_LIMITS["tokens"])
        if bounds.context is not None:
            limits.append(bounds.context - len(prompt.token_ids))
            if limits[-1] < 1:
                raise Refused(
                    f"This model's maximum context length is {bounds.context} tokens, and the request has "
                    f"{len(prompt.token_ids)}",
                    code=CALL_LIMITS["context"],
                )
        return min([*limits, request.max_tokens or limits[0]])

    async def _record(self, node: Node, name: str, request: ChatRequest, limit: int) -> None:
        stop = (*self.sampling.stop, *request.stop)
        sampling = replace(self.sampling, max_tokens=limit, stop=stop, stop_ids=self.renderer.stop)
        prompt = node.prompt.token_ids
        key = sampling_key(self.key, node).bytes
        try:
            completion = await self._sample(Request(prompt_ids=prompt, key=key, sampling=sampling))
        except Exception as error:
            self.error = error
            raise
        self.tokens += len(completion.token_ids)
        # The run's own stop strings end a reply as a part of it: the program did not ask for them.
        reply = reply_of(self.renderer, prompt, completion, name, request, self._piece)
        self.tree.record(node, completion, reply.message, reply.stop, malformed=reply.malformed)

    def _reply(self, node: Node, name: str, request: ChatRequest) -> ChatReply:
        assert node.completion is not None
        parent = node.prompt.parent if node.prompt.continues else None
        cached = len(parent.prompt.token_ids) + len(parent.completion.token_ids) if parent and parent.completion else 0
        reply = reply_of(self.renderer, node.prompt.token_ids, node.completion, name, request, self._piece)
        return replace(reply, cached_tokens=cached)


def see(renderer: Renderer, images: Collection[Image]) -> None:
    """Decode images, which takes long, so that rendering finds them decoded. Raises: Refused."""
    try:
        decode_images(renderer, images)
    except GnomonError as error:
        if error.code == "E188":
            raise refused_image(error.why) from None
        raise refused_image(f"{error.what}: {error.why}", code="unsupported_image") from None


def prompt_of(tree: Tree, renderer: Renderer, request: ChatRequest) -> Prompt:
    """A request as tokens. Raises: Refused."""
    if not request.messages or request.messages[-1].role == "assistant":
        raise Refused(
            "the last message is the assistant's: a reply that continues it would not be the policy's own",
            code="unsupported_prefill",
        )
    try:
        # Plain text does not list tools; there, the program's messages describe them.
        return tree.prompt(request.messages, () if isinstance(renderer, Plain) else request.tools)
    except (ResourceError, RunError):  # Not the request's fault.
        raise
    except GnomonError as error:
        code = "unsupported_image" if error.code == "E330" else "unsupported"
        raise Refused(f"the model's format cannot express the request: {error}", code=code) from None


def reply_of(
    renderer: Renderer,
    prompt: tuple[int, ...],
    completion: Completion,
    name: str,
    request: ChatRequest,
    piece: Callable[[int], str],
) -> ChatReply:
    """A completion as a reply, without the stop strings of the request.

    Args: name: of the draw; piece: the text of a token.
    """
    parsed = renderer.parse(completion.token_ids, prompt)
    message, finish, stop = reply_message(parsed, completion, name, request, isinstance(renderer, Plain))
    offered = bool(request.tools) and request.calls
    pairs = zip(completion.token_ids, completion.logprobs, strict=True)
    return ChatReply(
        name=name,
        message=message,
        finish=finish,
        stop=stop,
        prompt_tokens=len(prompt),
        tokens=len(completion.token_ids),
        malformed=offered and parsed.unreadable,
        pieces=tuple((piece(token), logp) for token, logp in pairs) if request.logprobs else (),
    )


def draw_name(key: Key, node: Node) -> str:
    """The name of a draw, the same in every run."""
    return blake2b(sampling_key(key, node).bytes, digest_size=12).hexdigest()
