"""The time of a step by part."""

from __future__ import annotations

from collections.abc import Sequence

from gnomon.objectives import Need, Objective
from gnomon.plans.count import bytes_of
from gnomon.plans.passes import Cost, probing, scoring, texts, training
from gnomon.plans.states import share_of_time, step_seconds
from gnomon.plans.subject import Subject
from gnomon.run.makers.engine import apart

__all__ = ["seconds_by_part", "training_cost"]

PER_ROLLOUT = 1e-3
"""Seconds in which a rollout is rendered, sent to a worker, encoded and stored; measured with the shipped policy."""


def training_cost(subject: Subject) -> Cost:
    """The cost of one pass over the sequences of a step, forward and backward, in one thread."""
    entropy, size = subject.config.regularize.entropy != 0, subject.config.optim.micro_batch
    return subject.learner.cost(
        lambda policy: training(policy, subject.sequences, subject.device, entropy=entropy, micro_batch=size)
    )


def seconds_by_part(subject: Subject, sampling: Cost, train: Cost) -> dict[str, float]:
    """Seconds of a step by part. Args: sampling: its episodes; train: a pass over its sequences."""
    config, device, lengths, weights = subject.config, subject.device, subject.lengths, subject.weights
    share = share_of_time(config, subject.sequences, device, subject.learner.whole.width)
    seconds = {
        "sampling": sampling.seconds,
        "training": lengths.training_share * config.optim.epochs * share * train.seconds,
        "optimiser": config.optim.updates * step_seconds(config, device, weights) / max(1, config.ranks),
        "records": subject.rollouts * PER_ROLLOUT,
        "weights to the engine": 2 * bytes_of(weights) / device.bandwidth
        + 2 * subject.learner.cost(lambda policy: probing(policy, device)).seconds,
    }
    if lengths.program is not None:
        seconds["programs"] = lengths.beside(subject.rollouts)
    if subject.needs_reference:
        seconds["reference"] = share * reference_cost(subject).seconds
    if Need.VALUES in subject.objective.asks:
        seconds["critic"] = seconds["training"] + seconds["optimiser"]
    if config.optim.updates > 1 and (device.name != "cpu" or apart(config)):
        seconds["scoring before the first update"] = share * scoring_cost(subject).seconds
    return seconds


def scoring_cost(subject: Subject) -> Cost:
    """The cost of the learner's log-probabilities of the sequences of a step."""
    size = subject.config.optim.micro_batch
    return subject.learner.cost(lambda policy: scoring(policy, subject.sequences, subject.device, micro_batch=size))


def reference_cost(subject: Subject) -> Cost:
    """The cost of the reference's log-probabilities of the sequences of a step."""
    lengths, size = subject.lengths, subject.config.optim.micro_batch
    prompts = read_by_reference(lengths.prompts, subject.objective)
    sequences = texts(prompts, lengths.conversations(subject.config.rollout.group), lengths.conversation)
    return subject.reference.cost(
        lambda policy: scoring(policy.without_adapter, sequences, subject.device, micro_batch=size)
    )


def read_by_reference(prompts: Sequence[int], row: Objective) -> list[int]:
    """Tokens of the prompts that the reference reads: with a solved example of the task, about twice as many."""
    return [(1 + (Need.SOLUTION in row.asks)) * tokens for tokens in prompts]
