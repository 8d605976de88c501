"""The plan of a run: its memory by part, its time by part, and the cost of the whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gnomon.config import RunConfig
from gnomon.config.placement import LearnerPlace
from gnomon.models.policy import Policy
from gnomon.plans.devices import Device
from gnomon.plans.episodes import episodes_of
from gnomon.plans.lengths import Lengths
from gnomon.plans.memory import engine_memory, learner_memory, training_memory
from gnomon.plans.passes import Cost
from gnomon.plans.places import assign, own_machine, vllm_gpus
from gnomon.plans.seconds import seconds_by_part, training_cost
from gnomon.plans.states import micro_batch_counts
from gnomon.plans.subject import subject_of

__all__ = ["Plan", "make_plan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetPlan:
    """What an evaluation set will need."""

    seconds: float
    """Of one evaluation."""
    evaluations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a run will need on a device."""

    device: Device
    lengths: Lengths
    parameters: int
    """Of the model."""
    trainable: int
    """Those that the optimiser moves."""
    memory: Mapping[str, float]
    """Bytes of the device of the run at the moment of a step that needs most, by part."""
    learner: Mapping[str, float]
    """Bytes of every device that only trains, by part: a server's, that of a learner in a cluster, or of each further
    process. Empty for none."""
    sampler: Mapping[str, float]
    """Bytes of every sampler in a cluster, or of every GPU that vLLM has for itself, by part. Empty for none."""
    samplers: int
    """Number of samplers or GPUs in `sampler`."""
    sleeps: bool
    """Whether vLLM sleeps while the policy is trained."""
    own_gpus: bool
    """Whether `sampler` is a GPU that only vLLM uses."""
    together: bool
    """Whether all these processes share the memory of one machine."""
    ranks: int
    served: bool
    """Whether the learner is on a server."""
    apart: bool
    """Whether the learner is in a process of its own in the cluster."""
    micro_batches: int
    """Of a step, if all groups are trained."""
    phase: str
    """That moment: `sampling` or `training`."""
    seconds: Mapping[str, float]
    """Of a step, by part."""
    evaluation: float
    """Seconds of an evaluation."""
    tokens: int
    """Tokens sampled in a step."""
    steps: int
    evaluations: int
    sets: Mapping[str, SetPlan]
    """Of every evaluation set."""

    @property
    def peak(self) -> float:
        """Bytes."""
        return sum(self.memory.values())

    @property
    def sampler_place(self) -> str:
        """Where `sampler` is."""
        return f"each of {self.samplers} {'GPUs of vLLM' if self.own_gpus else 'samplers'}"

    @property
    def total(self) -> float:
        """Bytes of all devices."""
        others = max(1, self.ranks - 1) if not (self.served or self.apart) else 1
        return self.peak + others * sum(self.learner.values()) + self.samplers * sum(self.sampler.values())

    @property
    def most(self) -> float:
        """Bytes of the device that needs most."""
        if self.together:
            return self.total
        return max(self.peak, sum(self.learner.values()), sum(self.sampler.values()))

    @property
    def devices(self) -> int:
        """Devices that the run keeps busy."""
        if self.together:
            return 1
        ranks = max(1, self.ranks) if self.device.name != "cpu" else 1
        return ranks + (self.served and not self.samplers) + self.samplers

    @property
    def step(self) -> float:
        """Seconds of a step."""
        return sum(self.seconds.values())

    @property
    def hours(self) -> float:
        """Of the whole run."""
        sets = sum(each.evaluations * each.seconds for each in self.sets.values())
        return (self.steps * self.step + self.evaluations * self.evaluation + sets) / 3600

    @property
    def fits(self) -> bool:
        return self.most <= self.device.memory

    def body(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "device": self.device.name,
            "measured": self.device.measured,
            "memory_of_device": self.device.memory,
            "parameters": self.parameters,
            "trained": self.trainable,
            "reply_tokens": self.lengths.reply,
            "peak": self.peak,
            "phase": self.phase,
            "memory": dict(self.memory),
            "learner": dict(self.learner),
            "sampler": dict(self.sampler),
            "samplers": self.samplers,
            "total": self.total,
            "ranks": self.ranks,
            "devices": self.devices,
            "step_seconds": self.step,
            "seconds": dict(self.seconds),
            "evaluation_seconds": self.evaluation,
            "sets": {name: asdict(each) for name, each in self.sets.items()},
            "tokens_per_step": self.tokens,
            "programs": None if self.lengths.program is None else asdict(self.lengths.program),
            "hours": self.hours,
            "fits": self.fits,
        }


def make_plan(config: RunConfig, device: Device, lengths: Lengths) -> Plan:
    """The plan of a run, from its settings and the `config.json` of its model.

    Raises: those of `subject_of`.
    """
    subject = subject_of(config, device, lengths)
    episodes, train = episodes_of(subject), training_cost(subject)
    state, passes, (engine, run) = learner_memory(subject), training_memory(subject, train), engine_memory(subject)
    where = assign(config, device, state, engine, run, episodes.largest, passes)
    main = evaluation_plan(config, lengths, "", lengths.held_out, episodes.held_out)
    return Plan(
        device=device,
        lengths=lengths,
        parameters=parameters_of(subject.learner.whole),
        trainable=sum(value.numel() for value in subject.weights),
        memory=some(where.run),
        learner=some(where.beside),
        sampler=some(where.sampler),
        samplers=config.placement.samplers or vllm_gpus(config),
        sleeps=config.engine.sleep,
        own_gpus=bool(vllm_gpus(config)),
        together=own_machine(config, device),
        ranks=config.ranks,
        served=config.placement.learner is LearnerPlace.SERVER,
        apart=config.placement.learner is LearnerPlace.CLUSTER,
        micro_batches=micro_batch_counts(config, subject.sequences)[0],
        phase=where.phase,
        seconds=seconds_by_part(subject, episodes.train, train),
        evaluation=main.seconds,
        tokens=round(subject.rollouts * lengths.calls * lengths.reply),
        steps=config.budget.steps,
        evaluations=main.evaluations,
        sets={
            name: evaluation_plan(config, lengths, name, lengths.sets[name], cost)
            for name, cost in episodes.sets.items()
        },
    )


def evaluation_plan(config: RunConfig, lengths: Lengths, name: str, prompts: Sequence[int], cost: Cost) -> SetPlan:
    """The plan of an evaluation. Args: name: of its set, empty for the main one; cost: of its episodes."""
    own = config.eval.of(name)
    return SetPlan(
        seconds=cost.seconds + lengths.beside(len(prompts) * own.samples), evaluations=times(config, own.every)
    )


def parameters_of(policy: Policy) -> int:
    """Number of parameters of the model, without those of an adapter."""
    adapter = policy.masters.parameters.values() if policy.adapter else ()
    floating = (value for value in policy.model.parameters() if value.dtype.is_floating_point)
    return int(sum(value.numel() for value in floating) - sum(value.numel() for value in adapter))


def some(memory: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in memory.items() if value}


def times(config: RunConfig, every: int) -> int:
    """How often a run evaluates: every so many steps, and after the last."""
    return -(-config.budget.steps // every) + 1
