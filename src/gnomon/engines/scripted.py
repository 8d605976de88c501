"""An engine whose completions are written beforehand: for tests, and for playing an environment by hand."""

from __future__ import annotations

from collections.abc import Callable

from gnomon.engines.base import Tier
from gnomon.models.tokenizer import Tokenizer
from gnomon.models.weights import WeightsRef
from gnomon.types import Completion, Finish, Request

__all__ = ["Scripted"]


class Scripted:
    """Replies by a function of the prompt's text and the request's key.

    Its log-probabilities are 0: the script is certain of every token.
    """

    tier = Tier.EXACT

    def __init__(self, tokenizer: Tokenizer, reply: Callable[[str, bytes], str]) -> None:
        self.tokenizer, self.reply, self.version = tokenizer, reply, 0

    async def sample(self, request: Request) -> Completion:
        text = self.reply(self.tokenizer.decode(request.prompt_ids), request.key)
        ids, limit = self.tokenizer.encode(text), request.sampling.max_tokens
        tokens = ids[:limit]
        finish = Finish.STOP if len(ids) <= limit else Finish.LENGTH
        return Completion(
            token_ids=tokens,
            logprobs=(0.0,) * len(tokens),
            text=self.tokenizer.decode(tokens),
            finish=finish,
            version=self.version,
        )

    def load(self, weights: WeightsRef) -> None:
        self.version = weights.version

    def close(self) -> None:
        """Nothing is held."""
