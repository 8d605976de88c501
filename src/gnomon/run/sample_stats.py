"""Completions of an engine, scored by a learner: how far the two are apart before anything is trained."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from gnomon.engines.base import Engine, sample_all
from gnomon.keys import Key
from gnomon.learners import batch as learning
from gnomon.learners.base import Learner
from gnomon.learners.mismatch import mismatch
from gnomon.run.loops import run_to_end
from gnomon.stats import Max, Stats, Sum
from gnomon.types import Completion, Request, Sampling

__all__ = ["sample_stats"]


def sample_stats(
    engine: Engine, learner: Learner, prompts: Sequence[tuple[int, ...]], sampling: Sampling, key: Key
) -> Stats:
    """`tokens`, `logp_mismatch` and the metrics of `mismatch/` over one completion of each prompt.

    Args: engine: which holds the learner's weights; key: of the call; every completion has its own below it.
    """
    requests = [
        Request(prompt_ids=prompt, key=key.at("sample", number=number).bytes, sampling=sampling)
        for number, prompt in enumerate(prompts)
    ]
    replies = run_to_end(sample_all(engine, requests))
    rows = [row(request, each, number) for number, (request, each) in enumerate(zip(requests, replies, strict=True))]
    logp = torch.cat([torch.from_numpy(each) for each in learner.score(rows, sampling.temperature)]).double()
    behavior = torch.cat([each.behavior_logp for each in rows])
    gap = float((logp - behavior).abs().max())
    stats: Stats = {"tokens": Sum(len(logp)), "logp_mismatch": Max(gap)}
    return stats | mismatch(behavior, logp, torch.cat([each.targets for each in rows]))


def row(request: Request, completion: Completion, number: int) -> learning.TokenSequence:
    """A completion as a sequence of its own group."""
    prompt, tokens = request.prompt_ids, completion.token_ids
    return learning.TokenSequence(
        token_ids=torch.tensor([*prompt, *tokens]),
        trainable=torch.arange(len(prompt) + len(tokens)) >= len(prompt),
        behavior_logp=torch.tensor(completion.logprobs, dtype=torch.float64),
        version=torch.full((len(tokens),), completion.version),
        turn=torch.zeros(len(tokens), dtype=torch.int64),
        rollout=number,
        group=number,
        player=0,
    )
