"""The meaning of a run's metrics."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["EVALUATION", "METRICS", "TIMINGS", "meaning"]

METRICS: Mapping[str, str] = {
    "reward": "Mean reward per rollout.",
    "correct": "Fraction of rollouts that are correct.",
    "length": "Mean number of sampled tokens per rollout, over all its turns.",
    "truncated": "Fraction of rollouts that ended at a token limit.",
    "tokens": "Sampled tokens of the step.",
    "all_right": "Fraction of groups in which every rollout is correct.",
    "all_wrong": "Fraction of groups in which no rollout is correct.",
    "spare": "Fraction of groups that were sampled but not trained on (`rollout.refill`, `rollout.candidates`).",
    "replayed": "Fraction of groups that are earlier ones (`rollout.replay`). Where any is not, rewards and lengths "
    "are those of the others, and `tokens` counts only those.",
    "continued": "Fraction of groups that continue a prefix of a failed reply (`rollout.failure_prefix`). Where any "
    "does not, rewards and lengths are those of the others.",
    "continued/correct": "Fraction of their rollouts that are correct.",
    "failed": "Fraction of groups that could not be judged because the environment or the verifier failed.",
    "part/NAME": "Mean value of a part of the reward per rollout, before its weight.",
    "breakdown/tied": "Fraction of groups whose rewards are all equal. A group baseline learns nothing from them.",
    "breakdown/NAME/return": "Mean reward per rollout that a part pays, after weight and gate.",
    "breakdown/NAME/variance": "Covariance of a part with the reward within groups; a group baseline learns from it.",
    "malformed_calls": "Mean number of replies per rollout with a tool call that could not be read; absent if 0.",
    "illegal": "Mean number of replies per rollout without a legal action, in a game; absent if 0.",
    "program/calls": "Mean number of trained replies per rollout that a program plays.",
    "program/branches": "Mean number of conversations per rollout; an edited history or a sub-agent begins another.",
    "program/silent": "Fraction of rollouts whose program received no reply.",
    "program/failed": "Fraction of rollouts whose program ended with an exit status other than 0.",
    "program/limited": "Fraction of rollouts whose program was ended by a limit.",
    "program/limited/NAME": "Fraction of rollouts that reached a limit: `time`, `memory` and `files` end the program; "
    "at `calls`, `tokens` and `context` a call is refused, and the program goes on.",
    "program/refused": "Mean number of refused calls per rollout, those at a limit included.",
    "program/malformed": "Mean number of replies per rollout with a tool call that could not be read.",
    "program/required": "Mean number of calls per rollout that demanded a tool call. They get a free reply.",
    "program/retried": "Mean number of calls per rollout that a client repeated. They get the reply of the first.",
    "program/undelivered": "Mean number of sampled tokens per rollout that the program never received.",
    "logp_mismatch": "Largest difference between the sampler's and the learner's log-probability of a token.",
    "mismatch/mean": "Mean absolute difference between the two log-probabilities of a token, in nats. Like the other "
    "metrics of `mismatch/`, it is recorded where sampler and learner are not equal in every bit.",
    "mismatch/p99": "99th percentile of that difference.",
    "mismatch/kl": "Mean KL divergence from the sampler to the learner per token (k3), in nats.",
    "mismatch/outside": "Fraction of tokens whose ratio of learner to sampler is below 0.5 or above 2.",
    "mismatch/token": "Id of the token with the largest difference.",
    "staleness": "Mean age of the weights that sampled a token, in optimiser steps; where `rollout.lag` or "
    "`rollout.replay` is not 0.",
    "staleness_max": "Largest age of those weights.",
    "engine/restarts": "Worker processes of the engine that were replaced because they ended or hung.",
    "engine/resampled": "Completions that were requested again because their worker was replaced.",
    "weights/version": "Version of the weights that the sampler loaded last, in optimiser steps. Like the other values "
    'of `weights/`, it is in an event of the step, outside the fingerprint (`RunReader.events("weights")`), '
    "where sampler and learner are not equal in every bit and weights changed.",
    "weights/since": "Version that this one is compared with: the last one that was proven to have arrived.",
    "weights/share": "Part of the learner's change since then, in log-probabilities of the probe, that the sampler's "
    "change has. 1 if the update arrived; rounding makes it smaller.",
    "weights/error": "Standard error of that part.",
    "weights/proven": "1 if the sampler changed with the learner by more than chance, otherwise 0.",
    "entropy": "Mean entropy of the next-token distribution at the trained tokens, in nats.",
    "trained": "Tokens that had a gradient, over all updates of the step.",
    "grad_norm": "Norm of the gradient before it is clipped, mean over the updates of the step.",
    "loss_scale": "Factor of the loss after the update, mean over the updates of the step; where "
    "`policy.dtype` is `float16`.",
    "skipped": "Fraction of updates that were not taken because their gradient overflowed in float16.",
    "lr": "Learning rate, mean over the updates of the step.",
    "kl": "Mean KL divergence to the initial policy per trained token, over the whole vocabulary, in nats.",
    "observation_nll": "Mean negative log-likelihood of the tokens that the environment wrote after the first reply, "
    "in nats, at the sampling temperature; of objectives that learn from them.",
    "drift": "Mean KL divergence from the policy at the start of the step to the current one per token (k3), in nats.",
    "clipped": "Fraction of trained tokens whose gradient the clip of the ratio removed.",
    "score_signal": "Squared norm of the mean score of right answers within a group; vocabulary projection only.",
    "score_scatter": "Trace of the covariance of the scores of right answers within a group; vocabulary projection "
    "only.",
    "value_error": "Mean squared error of the critic per token, before its update.",
    "value_explained": "Fraction of the variance of the returns that the critic explains, before its update.",
    "value_grad_norm": "Norm of the critic's gradient before it is clipped, mean over the updates of the step.",
}
"""Metrics of a step. NAME stands for the name of a part of the reward."""

EVALUATION: Mapping[str, str] = {
    "version": "Optimiser steps behind the weights that were measured.",
    "pass_at": "By k: probability that at least one of k rollouts is right. The 95 % interval is over different tasks.",
    "reward": METRICS["reward"],
    "length": METRICS["length"],
    "truncated": METRICS["truncated"],
    "statuses": "Number of rollouts by the status of their verdict.",
}
"""Fields of an evaluation on held-out tasks."""

TIMINGS: Mapping[str, str] = {
    "seconds": "Wall-clock time of a step, with its evaluation.",
    "training": "Wall-clock time of a step, without its evaluation.",
    "cpu_seconds": "Processor time of the process in a step, without its evaluation and without worker processes.",
    "peak_bytes": "Largest memory of the process up to the end of a step: resident, or that of its CUDA devices.",
}
"""What clocks and the system measured. It is stored beside the chain of records, since no rerun repeats it."""


def meaning(metric: str) -> str:
    """The meaning of a recorded metric; empty if it is unknown."""
    head, _, rest = metric.partition("/")
    if not rest or metric in METRICS:
        return METRICS.get(metric, "")
    tail = "/" + rest.rpartition("/")[2] if head == "breakdown" else ""
    family = metric.rpartition("/")[0]
    return METRICS.get(f"{head}/NAME{tail}", "") or METRICS.get(f"{family}/NAME", "")
