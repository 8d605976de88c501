"""What is planned: a run on a device, its models without numbers, and the sequences that a step trains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from gnomon.config import RunConfig
from gnomon.config.placement import LearnerPlace
from gnomon.errors import ConfigError, ModelError
from gnomon.learners import TokenSequence
from gnomon.models.backends import fits_flex, packs
from gnomon.models.folder import table
from gnomon.models.packed import Packed
from gnomon.models.policy import Policy, Whole
from gnomon.objectives import Objective
from gnomon.plans.attention import PlannedFlex
from gnomon.plans.depth import Deep
from gnomon.plans.devices import Device
from gnomon.plans.lengths import Lengths, description_folder
from gnomon.plans.passes import meta_policy, texts
from gnomon.run.makers.learner import sparing
from gnomon.run.makers.objective import full_kl, make_objective
from gnomon.run.makers.policy import make_adapter, make_engine_precision, make_precision

__all__ = ["Subject", "subject_of", "trainable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A run on a device, as a plan counts it."""

    config: RunConfig
    device: Device
    lengths: Lengths
    objective: Objective
    learner: Deep
    sampler: Deep
    reference: Deep
    """The reference model, whether or not the run needs one."""
    sequences: Sequence[TokenSequence]
    """Those of a step."""

    @property
    def rollouts(self) -> int:
        """Of a step."""
        return len(self.lengths.prompts) * self.config.rollout.group

    @property
    def weights(self) -> list[Tensor]:
        """Those that the optimiser moves."""
        return list(self.learner.whole.masters.parameters.values())

    @property
    def needs_reference(self) -> bool:
        return self.objective.needs_reference or bool(full_kl(self.config))


def subject_of(config: RunConfig, device: Device, lengths: Lengths) -> Subject:
    """What is planned, from the settings of a run and the `config.json` of its model.

    Raises: ConfigError E073 for a run on the Tinker service; ModelError E340 of `require_packed`.
    """
    if config.placement.learner is LearnerPlace.SERVICE:
        what, fix = "a run on the Tinker service cannot be planned", "learner=local engine=embedded"
        raise ConfigError("E073", what, where="learner", why="its machines are not known", fix=fix)
    require_packed(config)
    whole = layout_of(config, device)
    sampler = sampling_model(config)
    return Subject(
        config=config,
        device=device,
        lengths=lengths,
        objective=make_objective(config),
        learner=Deep(lambda layers: trainable(config, whole, layers)),
        sampler=sampler,
        reference=reference_model(config, whole, sampler),
        sequences=texts(lengths.prompts, lengths.conversations(config.rollout.group), lengths.conversation),
    )


def require_packed(config: RunConfig) -> None:
    """Raises: ModelError E340 for a model that computes by transformers' own forward alone."""
    folder = description_folder(config.policy.path)
    if not packs(folder):
        raise ModelError(
            "E340",
            f"the passes of {table(folder / 'config.json').get('model_type')} cannot be counted",
            where=f"policy.path={config.policy.path}",
            why="they are computed by transformers' own forward, which reads the values of tensors",
            fix="run one step, which reports its time and memory: gnomon train … steps=1",
        )


def sampling_model(config: RunConfig) -> Deep:
    """The policy of an engine."""
    folder, precision = description_folder(config.policy.path), make_engine_precision(config)
    return Deep(lambda layers: meta_policy(folder, precision, make_adapter(config, True), layers))


def reference_model(config: RunConfig, whole: Whole, sampler: Deep) -> Deep:
    """The reference: the sampler's model, unless a setting names another one or the learner's layout differs."""
    if not config.policy.reference and whole is not PlannedFlex:
        return sampler
    folder = description_folder(config.policy.reference or config.policy.path)
    precision = make_engine_precision(config)
    adapter = None if config.policy.reference else make_adapter(config, True)
    return Deep(lambda layers: meta_policy(folder, precision, adapter, layers, whole))


def layout_of(config: RunConfig, device: Device) -> Whole:
    """The attention of the learner on the device, as `attention_of` chooses it there."""
    attention = config.policy.attention
    if attention == "auto" and device.name != "cpu" and config.policy.device != "cpu":
        models = [description_folder(path) for path in (config.policy.path, config.policy.reference) if path]
        attention = "flex" if all(map(fits_flex, models)) else "exact"
    return PlannedFlex if attention not in ("auto", "exact") else Packed


def trainable(config: RunConfig, whole: Whole, layers: int = 0) -> Policy:
    """The policy that a learner trains, without weights. Args: layers: 0 for all."""
    folder = description_folder(config.policy.path)
    return sparing(config, meta_policy(folder, make_precision(config), make_adapter(config, True), layers, whole))
