"""An engine that samples on the Tinker service, from weights that a learner has saved there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gnomon.engines.base import Tier
from gnomon.engines.endings import Endings
from gnomon.engines.probe import require_equal
from gnomon.engines.receipt import Receipts
from gnomon.errors import ModelError
from gnomon.models.tinker import answer, failure, open_client, sdk
from gnomon.models.tokenizer import Tokenizer
from gnomon.models.weights import Kind, WeightsRef
from gnomon.stats import Stats
from gnomon.types import Completion, Finish, Request, Sampling

__all__ = ["TinkerEngine"]


class TinkerEngine:
    """Its log-probabilities agree with the learner's up to rounding.

    Args: tokenizer: of the base model; bound: largest difference of a probe's log-probability, in nats.
    """

    def __init__(self, tokenizer: Tokenizer, bound: float) -> None:
        self.tier, self.version, self.bound = Tier.MEASURED, 0, bound
        self.tokenizer, self._endings = tokenizer, Endings(tokenizer)
        self._package, self._service = sdk(), open_client()
        self._client: Any = None
        self._receipts = Receipts(rounds=True)  # The service may sample in a coarser dtype than it trains in.

    @property
    def versions(self) -> Mapping[str, str]:
        return {"tinker": self._package.__version__}

    def load(self, weights: WeightsRef) -> None:
        if weights.kind is not Kind.SERVICE:
            why, fix = "they lie on this machine", "learner=tinker:MODEL"
            raise ModelError("E323", "the Tinker service does not have these weights", why=why, fix=fix)
        client = answer(self._service.create_sampling_client(model_path=weights.service), "load weights for sampling")
        probe = self._package.types.ModelInput.from_ints(list(weights.probe))
        logps = answer(client.compute_logprobs(probe), "score a probe")[1:]
        require_equal(logps, weights.probe_logp, self.bound, f"version {weights.version}", decoding=False)
        self._receipts.check(weights, logps)
        self._client, self.version = client, weights.version

    async def sample(self, request: Request) -> Completion:
        types, client, version = self._package.types, self._client, self.version
        sampling = request.sampling
        stop_ids = sorted(sampling.stop_ids | self.tokenizer.eos)
        params = types.SamplingParams(
            max_tokens=sampling.max_tokens,
            temperature=sampling.temperature,
            seed=int.from_bytes(request.key[:4], "big") >> 1,
            stop=list(sampling.stop) or stop_ids or None,
        )
        prompt = types.ModelInput.from_ints(list(request.prompt_ids))
        try:
            response = await client.sample(prompt=prompt, num_samples=1, sampling_params=params)
        except self._package.TinkerError as error:
            raise failure("sample", error) from None
        one = response.sequences[0]
        count, finish = self._end(one.tokens, sampling)
        return Completion(
            token_ids=tuple(one.tokens[:count]),
            logprobs=tuple(one.logprobs[:count]),
            text=self.tokenizer.decode(one.tokens[:count]),
            finish=finish,
            version=version,
        )

    def _end(self, ids: Sequence[int], sampling: Sampling) -> tuple[int, Finish]:
        """Where a completion ends by the rule of every engine, which the service may overrun."""
        for count in range(1, len(ids) + 1):
            if finish := self._endings.finish(ids[:count], sampling):
                return count, finish
        return len(ids), Finish.STOP

    def counts(self) -> Stats:
        """What the loads since the last call have proved."""
        return self._receipts.stats()

    def close(self) -> None:
        self._service.close("success")
