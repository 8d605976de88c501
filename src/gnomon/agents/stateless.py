"""Answers requests with a policy, apart from training: nothing is recorded, and a request decides how it is sampled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from gnomon.agents.exchange import ChatReply, ChatRequest, Refused
from gnomon.agents.recorder import Sample, prompt_of, reply_of, see
from gnomon.agents.tree import Begin, Prompt, Tree
from gnomon.images import SHELF, Image
from gnomon.keys import Key
from gnomon.rendering import Renderer
from gnomon.types import Request, Sampling

__all__ = ["Stateless"]


class Stateless:
    """The policy behind an endpoint for anyone.

    Two requests with the same messages and `seed` get the same reply. Without a seed, every reply is drawn anew.

    Args: max_tokens: largest number of tokens of a reply; others as in `Recorder`.
    """

    def __init__(
        self,
        renderer: Renderer,
        begin: Begin,
        sample: Sample,
        *,
        key: Key,
        max_tokens: int,
        piece: Callable[[int], str],
    ) -> None:
        self.renderer, self.key, self.max_tokens = renderer, key, max_tokens
        self._begin, self._sample, self._piece, self._numbers = begin, sample, piece, count()
        self._images = Counter[Image]()
        """Number of requests in work that have an image."""

    def see(self, images: Collection[Image]) -> None:
        see(self.renderer, images)

    async def answer(self, request: ChatRequest) -> ChatReply:
        """Raises: Refused."""
        temperature, top_p = within("temperature", request.temperature, 2.0), within("top_p", request.top_p, 1.0)
        top_k = 0 if request.top_k in (None, -1) else request.top_k
        if not isinstance(top_k, int) or top_k < 0:
            raise Refused("top_k must be a whole number, with 0 or -1 for all tokens", code="invalid_request")
        with self._prompt(request) as prompt:
            name = {"number": next(self._numbers)} if request.seed is None else {"seed": int(request.seed)}
            key = self.key.at("serve", prompt=prompt.digest.hex(), **name)
            sampling = Sampling(
                max_tokens=min(request.max_tokens or self.max_tokens, self.max_tokens),
                temperature=temperature,
                top_p=top_p,
                top_k=top_k,
                stop=request.stop,
                stop_ids=self.renderer.stop,
            )
            completion = await self._sample(Request(prompt_ids=prompt.token_ids, key=key.bytes, sampling=sampling))
        return reply_of(self.renderer, prompt.token_ids, completion, key.bytes.hex(), request, self._piece)

    def settle(self, outcome: ChatReply | Refused, delivered: bool) -> None:
        """Nothing is recorded."""

    def count(self, request: ChatRequest) -> int:
        with self._prompt(request) as prompt:
            return len(prompt.token_ids)

    @contextmanager
    def _prompt(self, request: ChatRequest) -> Iterator[Prompt]:
        """A request as tokens. Its images are kept meanwhile."""
        self._images.update(request.images)
        try:
            yield prompt_of(Tree(self._begin), self.renderer, request)
        finally:
            self._images.subtract(request.images)
            SHELF.drop(image for image in request.images if not self._images[image])
            self._images = +self._images


def within(name: str, value: Any, most: float) -> float:
    """A number of a request, 1 if it is absent. Raises: Refused if it is not between 0 and the most."""
    number = 1.0 if value is None else value
    if not isinstance(number, int | float) or not 0 <= number <= most:
        raise Refused(f"{name} must be a number between 0 and {most:g}, but it is {value!r}", code="invalid_request")
    return float(number)
