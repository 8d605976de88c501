"""What settings allow by themselves but not together."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from urllib.parse import urlsplit

from gnomon.config.optimiser import optimiser
from gnomon.config.placement import EngineKind, LearnerPlace
from gnomon.config.rewards import judged_by
from gnomon.config.sections import RunConfig
from gnomon.config.tinker import tinker
from gnomon.errors import ConfigError
from gnomon.objectives.declaration import Data, Need, Rewards
from gnomon.objectives.options import OBJECT, in_family

__all__ = ["contradictions"]

LARGEST_RANK = 512
"""Of an adapter in vLLM."""
REFERENCES = frozenset({Need.REFERENCE, Need.TEACHER, Need.SOLUTION})
"""What an objective asks of another policy."""
ROUNDED = "sampler and learner agree up to rounding, and may keep other tokens"
MEMORY = {"gpu_memory_utilization", "kv_cache_memory_bytes"}
"""Arguments of vLLM that limit its memory."""


def contradictions(config: RunConfig, supplied: Container[str]) -> Iterator[ConfigError]:
    """What each setting allows by itself but not together with another. `where` of an error is the name of a setting.

    Of an objective that was passed as an object nothing is known here. Args: supplied: the settings that somebody set.
    """
    yield from optimiser(config, supplied)
    for check in (engine, lag, replay, truncation, curriculum, ranks, server_conflicts, launch, tinker, sizes):
        yield from check(config)
    if not config.objective.type.startswith(OBJECT):
        for check in (reference, group_size, judged_by, demonstrations, shaping, choice_of_tasks, offline):
            yield from check(config)


def engine(config: RunConfig) -> Iterator[ConfigError]:
    """Settings of the engine that contradict each other or the device."""
    kind, python = config.placement.engine, config.engine.python
    if kind is EngineKind.VLLM and not python:
        yield ConfigError(
            "E045",
            "engine.type=vllm needs engine.python",
            where="engine.type",
            why="vLLM runs in a Python environment of its own, and this is its interpreter",
            fix="engine.python=PATH/bin/python of the environment with vLLM (docs/engines.md)",
        )
    if kind is EngineKind.VLLM and config.policy.lora.rank > LARGEST_RANK:
        yield ConfigError(
            "E045",
            f"engine.type=vllm cannot sample with an adapter of rank {config.policy.lora.rank}",
            where="policy.lora.rank",
            why=f"vLLM holds adapters of rank {LARGEST_RANK} at most",
            fix=f"policy.lora.rank={LARGEST_RANK}, or engine=embedded",
        )
    if kind is EngineKind.VLLM and config.policy.trains_adapter and config.policy.vision == "trained":
        yield ConfigError(
            "E045",
            "engine.type=vllm cannot sample with an adapter of the vision tower",
            where="policy.vision",
            why="vLLM applies an adapter to the language model alone",
            fix="policy.vision=frozen, or policy.lora.rank=0, or engine=embedded",
        )
    if kind is EngineKind.VLLM and config.rollout.entropy:
        yield ConfigError(
            "E045",
            "engine.type=vllm cannot record the entropy of tokens",
            where="rollout.entropy",
            why="vLLM returns the log-probabilities of single tokens, not of the whole vocabulary",
            fix="engine=embedded, or rollout.entropy=false",
        )
    elsewhere = config.placement.learner_has_own_device
    attention = config.policy.attention
    if attention not in ("auto", "exact") and config.policy.device == "cpu" and not elsewhere:
        yield ConfigError(
            "E338",
            f"policy.attention={attention} cannot train with policy.device=cpu",
            where="policy.attention",
            why="torch computes its gradient on CUDA devices only",
            fix="policy.attention=exact, or policy.device=cuda",
        )
    if kind is not EngineKind.VLLM and config.engine.batch_invariant:
        yield ConfigError(
            "E045",
            f"engine.batch_invariant cannot be used with engine.type={kind}",
            where="engine.batch_invariant",
            why="it is a mode of vLLM; the embedded engine computes a row alike in every batch in float32 on a CPU",
            fix="engine.type=vllm, or engine.batch_invariant=false",
        )
    if config.engine.sleep:
        yield from sleep(config)
    if config.engine.gpus:
        yield from gpus(config)
    if kind is not EngineKind.VLLM and python:
        yield ConfigError(
            "E045",
            f"engine.python cannot be used with engine.type={kind}",
            where="engine.python",
            fix=f"engine.type=vllm, or leave out engine.python for {kind}",
        )


def exclusions(setting: str, off: str, wrong: Sequence[tuple[bool, str, str]]) -> Iterator[ConfigError]:
    """Args: off: the value of the setting that fits all others; wrong: whether each conflicts, and why."""
    for there, other, why in wrong:
        if there:
            yield ConfigError(
                "E045",
                f"{setting} cannot be combined with {other}",
                where=setting,
                why=why,
                fix=f"{setting}={off}",
            )


def sleep(config: RunConfig) -> Iterator[ConfigError]:
    """`engine.sleep` where vLLM and the learner do not use one device in turns."""
    learner, placement = config.learner.partition(":")[0], config.placement
    wrong = [
        (placement.engine is not EngineKind.VLLM, f"engine.type={placement.engine}", "only vLLM can sleep"),
        (config.rollout.lag > 0, "rollout.lag", "with a lag, it samples while the policy is trained"),
        (placement.samplers > 0, f"launch={config.launch.type}", "a sampler has a device of its own"),
        (placement.learner_has_own_device, f"learner={learner}", "the learner has a device of its own"),
        (config.ranks > 0, "ranks", "the learner's processes do not free their cached GPU memory for vLLM"),
        (bool(config.engine.gpus), "engine.gpus", "vLLM has GPUs of its own"),
    ]
    yield from exclusions("engine.sleep", "false", wrong)
    if not config.engine.cache_gib and not config.engine.arguments.keys() & MEMORY:
        yield ConfigError(
            "E045",
            "engine.sleep needs engine.cache_gib",
            where="engine.sleep",
            why="vLLM shares the GPU with the learner, and without this setting it uses 92 % of the GPU's memory",
            fix="engine.cache_gib=4",
        )


def gpus(config: RunConfig) -> Iterator[ConfigError]:
    """`engine.gpus` with an engine or launcher that does not support it, or with the learner's GPUs."""
    placement = config.placement
    wrong = [
        (placement.engine is not EngineKind.VLLM, f"engine.type={placement.engine}", "it is a setting of vLLM"),
        (placement.samplers > 0, f"launch={config.launch.type}", "Ray chooses the GPUs of every sampler"),
    ]
    yield from exclusions("engine.gpus", "[]", wrong)
    learners, own = max(1, config.ranks), placement.learner is LearnerPlace.LOCAL and config.policy.device != "cpu"
    if own and min(config.engine.gpus) < learners:
        used = "GPU 0" if learners == 1 else f"GPUs 0 to {learners - 1}"
        free = ",".join(str(learners + index) for index in range(len(config.engine.gpus)))
        yield ConfigError(
            "E045",
            f"engine.gpus={','.join(map(str, config.engine.gpus))} names a GPU that the learner uses",
            where="engine.gpus",
            why=f"the learner uses {used}",
            fix=f"engine.gpus={free}"
            + (", or engine.gpus=[] engine.sleep=true engine.cache_gib=4 for one GPU" if learners == 1 else ""),
        )


def lag(config: RunConfig) -> Iterator[ConfigError]:
    """`rollout.lag` with settings that need samples of the newest weights."""
    if not config.rollout.lag:
        if config.rollout.in_flight:
            yield ConfigError(
                "E046",
                "rollout.in_flight needs rollout.lag",
                where="rollout.in_flight",
                why="without a lag, nothing is being sampled when the weights change",
                fix="rollout.lag=1, or rollout.in_flight=false",
            )
        return
    if config.placement.engine is EngineKind.VLLM and not config.rollout.in_flight:
        yield ConfigError(
            "E046",
            "rollout.lag needs the embedded engine",
            where="rollout.lag",
            why="the batches that are sampled ahead have different weights, each in an engine of its own",
            fix="rollout.in_flight=true, engine=embedded, or rollout.lag=0",
        )
    if config.rollout.in_flight and config.players.opponent == "past":
        yield ConfigError(
            "E046",
            "rollout.in_flight cannot be combined with players.opponent=past",
            where="rollout.in_flight",
            why="the weights change within an episode, so no version is older than all of it by the lag",
            fix='rollout.in_flight=false, or players.opponent="" or a model folder',
        )
    if config.rollout.in_flight and config.rollout.offline:
        yield ConfigError(
            "E046",
            "rollout.in_flight cannot be combined with rollout.offline",
            where="rollout.in_flight",
            why="one engine samples all steps in progress, and an offline step needs the initial weights",
            fix="rollout.in_flight=false, or rollout.offline=0",
        )


def replay(config: RunConfig) -> Iterator[ConfigError]:
    """`rollout.replay` without groups to replay, or `rollout.recorded` that nothing reads."""
    rollout = config.rollout
    if rollout.recorded and not rollout.replay and not rollout.failure_prefix:
        yield ConfigError(
            "E077",
            "rollout.recorded is set, and rollout.replay = 0",
            where="rollout.replay",
            why="no group of the recorded run would be used",
            fix="rollout.replay=1, or leave out rollout.recorded",
        )
    elif rollout.replay and not round(rollout.replay * rollout.prompts):
        yield ConfigError(
            "E077",
            f"rollout.replay = {rollout.replay:g} of {rollout.prompts} prompts is not one task",
            where="rollout.replay",
            fix=f"rollout.replay={1 / rollout.prompts:g}, or more rollout.prompts",
        )
    elif not rollout.recorded and round(rollout.replay * rollout.prompts) == rollout.prompts:
        yield ConfigError(
            "E077",
            "every group would be an earlier one, and nothing would be sampled after the first step",
            where="rollout.replay",
            fix="rollout.replay=0.5, or rollout.recorded=RUN",
        )


def truncation(config: RunConfig) -> Iterator[ConfigError]:
    """A truncated distribution, where a token's probability is asked of a policy that may not keep it."""
    rollout, objective, placement = config.rollout, config.objective, config.placement
    is_object = objective.type.startswith(OBJECT)
    moved = "the policy then keeps other tokens than the one that sampled, and the ratio of a lost token is 0"
    beside = "a reference keeps other tokens, and the divergence from it can be infinite"
    wrong = [
        (
            placement.engine is not EngineKind.EMBEDDED,
            f"engine.type={placement.engine}",
            "its tokens are kept by scores that are the learner's up to rounding at best",
        ),
        (not placement.same_numbers, f"learner={config.learner}", "it scores whole distributions"),
        (config.policy.attention == "transformers", "policy.attention=transformers", ROUNDED),
        (config.optim.epochs > 1, "optim.epochs", moved),
        (config.optim.minibatches > 1, "optim.minibatches", moved),
        (rollout.lag > 0, "rollout.lag", moved),
        (rollout.replay > 0, "rollout.replay", moved),
        (rollout.failure_prefix > 0, "rollout.failure_prefix", moved),
        (config.regularize.kl > 0, "regularize.kl", beside),
        (is_object, "an objective that was passed as an object", "whether it reads a reference is not known here"),
    ]
    if not is_object:
        observes = objective.options.get("observation", 0) > 0
        others = objective.declaration.data is not Data.SAMPLED or observes
        wrong += [
            (bool(REFERENCES & objective.needs), f"objective={objective.type}", beside),
            (others, f"objective={objective.type}", "it trains on tokens that were not sampled from the kept ones"),
        ]
    for name, off, cut in (("top_p", "1", rollout.top_p < 1), ("top_k", "0", rollout.top_k > 0)):
        yield from exclusions(f"rollout.{name}", off, wrong if cut else [])


def curriculum(config: RunConfig) -> Iterator[ConfigError]:
    """A curriculum beside another choice of tasks, or without a band."""
    rollout = config.rollout
    if rollout.curriculum != "uniform" and (rollout.refill or rollout.candidates > 1):
        yield ConfigError(
            "E169",
            "rollout.curriculum cannot be combined with rollout.refill or rollout.candidates",
            where="rollout.curriculum",
            why="these draw further tasks uniformly, which the curriculum did not choose",
            fix="rollout.refill=0 rollout.candidates=1, or rollout.curriculum=uniform",
        )
    if rollout.order_seed and (rollout.curriculum != "uniform" or rollout.replay or rollout.failure_prefix):
        yield ConfigError(
            "E169",
            "rollout.order_seed needs batches that are drawn uniformly and sampled",
            where="rollout.order_seed",
            why="the batches of curriculum, replay and failure_prefix depend on the steps before them",
            fix="rollout.order_seed=0",
        )
    low, high = rollout.band
    if low > high:
        yield ConfigError(
            "E169",
            f"rollout.band goes from {low:g} to {high:g}",
            where="rollout.band",
            fix=f"rollout.band=[{high:g},{low:g}]",
        )
    if rollout.failure_prefix and not round(rollout.failure_prefix * rollout.prompts):
        yield ConfigError(
            "E077",
            f"rollout.failure_prefix = {rollout.failure_prefix:g} of {rollout.prompts} prompts is not one task",
            where="rollout.failure_prefix",
            fix=f"rollout.failure_prefix={1 / rollout.prompts:g}, or more rollout.prompts",
        )


def ranks(config: RunConfig) -> Iterator[ConfigError]:
    """Several learner processes with what only one process can train."""
    if not config.ranks:
        return
    if config.placement.learner is LearnerPlace.OBJECT:
        yield ConfigError(
            "E047",
            "ranks cannot be used with a learner that was passed as an object",
            where="ranks",
            why="such a learner runs in this process only",
            fix="ranks=0, or do not pass a learner",
        )


def server_conflicts(config: RunConfig) -> Iterator[ConfigError]:
    """A learner on a server: its address, and an objective that only this process has."""
    if config.placement.learner is LearnerPlace.SERVER and not address(config.learner):
        yield ConfigError(
            "E048",
            f"{config.learner} is not an address",
            where="learner",
            fix="learner=http://HOST:PORT, as gnomon serve-learner prints it",
        )
    if config.placement.learner is LearnerPlace.SERVER and config.objective.type.startswith(OBJECT):
        yield ConfigError(
            "E048",
            "a learner on a server cannot use an objective that was passed as an object",
            where="learner",
            why="objectives are sent to the server by name",
            fix="learner=local, or an objective that gnomon objective lists",
        )


def launch(config: RunConfig) -> Iterator[ConfigError]:
    """`learner=ray` without a Ray cluster."""
    if not config.placement.samplers and config.placement.learner is LearnerPlace.CLUSTER:
        yield ConfigError(
            "E049",
            "learner=ray needs launch.type=ray",
            where="learner",
            why="the learner would be in the Ray cluster of the samplers, and this run has none",
            fix="launch.type=ray, or learner=local",
        )


def address(url: str) -> bool:
    """Whether a URL has a host, and a port that can be one."""
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False


def reference(config: RunConfig) -> Iterator[ConfigError]:
    """An objective without its teacher, a reference that nothing reads, or two that read different prompts."""
    name, needs, reference_path = config.objective.type, config.objective.needs, config.policy.reference
    if Need.TEACHER in needs and reference_path in ("", config.policy.path):
        key = "policy.reference" if reference_path else "objective.type"
        yield ConfigError(
            "E055",
            f"{name} learns from a teacher, and {'it is the policy itself' if reference_path else 'none is set'}",
            where=key,
            why="policy and teacher would give every token the same probability, so there would be nothing to learn",
            fix="objective=opsd, or policy.reference=FOLDER of a model with the same tokenizer",
        )
    if reference_path and Need.REFERENCE not in needs and not config.regularize.kl:
        yield ConfigError(
            "E055",
            f"{name} does not read a reference policy",
            where="policy.reference",
            why="policy.reference is read by objectives with a teacher, such as opd, and by a KL penalty",
            fix='policy.reference="", or objective=opd, or regularize.kl=0.001',
        )
    if Need.SOLUTION in needs and config.regularize.kl:
        yield ConfigError(
            "E041",
            f"{name} cannot be combined with regularize.kl",
            where="regularize.kl",
            why="its reference reads the answer in its prompt, and a KL penalty needs one prompt for both policies",
            fix="regularize.kl=0, or objective=opd",
        )


def group_size(config: RunConfig) -> Iterator[ConfigError]:
    """Groups that an objective cannot compare, and a parameter that it cannot have in them."""
    objective, group = config.objective, config.rollout.group
    least, most = objective.min_group, objective.declaration.max_group
    if group < least == 2:
        yield ConfigError(
            "E031",
            f"with group = {group}, every advantage of {objective.type} is zero",
            where="rollout.group",
            why="it compares a rollout with the others of its group, and here there are none",
            fix="rollout.group=8, or objective=reinforce",
        )
    elif group < least:
        yield ConfigError(
            "E031",
            f"group = {group} is too small for {objective.type} with these options",
            where="rollout.group",
            why=f"it needs groups of at least {least} rollouts",
            fix=f"rollout.group={max(8, least)}, or objective=reinforce",
        )
    if most is not None and group > most:
        yield ConfigError(
            "E036",
            f"group = {group} is too large for {objective.type}",
            where="rollout.group",
            why="a demonstrated task has a single reply",
            fix=f"rollout.group={most}, and more rollout.prompts",
        )
    if objective.type == "rl2ml":
        family, parameter = objective.options["family"], objective.options["parameter"]
        if not in_family(family, parameter, group):
            yield ConfigError(
                "E033",
                f"family {family} does not allow the parameter {parameter:g} in groups of {group}",
                where="objective.parameter",
                fix="use an objective.parameter between 0 (REINFORCE) and 1 (maximum likelihood)",
            )


def demonstrations(config: RunConfig) -> Iterator[ConfigError]:
    """An objective without the demonstrations that it needs, or demonstrations that it does not use."""
    name, demonstrated, path = (
        config.objective.type,
        config.objective.declaration.demonstrated,
        config.rollout.demonstrations,
    )
    if demonstrated and not path:
        yield ConfigError(
            "E035",
            f"{name} trains on demonstrations, and there are none",
            where="objective.type",
            fix='rollout.demonstrations=FILE, with lines like {"task": 17, "reply": "..."}',
        )
    if path and not demonstrated:
        yield ConfigError(
            "E035",
            f"{name} trains on sampled rollouts and ignores demonstrations",
            where="rollout.demonstrations",
            fix="objective=sft, or leave out rollout.demonstrations",
        )


def shaping(config: RunConfig) -> Iterator[ConfigError]:
    """A length penalty on rewards that an objective counts, or does not read."""
    rewards = config.objective.declaration.rewards
    if config.regularize.overlong and rewards is not Rewards.REAL:
        yield ConfigError(
            "E042",
            f"regularize.overlong cannot be used with {config.objective.type}",
            where="regularize.overlong",
            why="this objective needs rewards of 0 or 1"
            if rewards is Rewards.BINARY
            else "this objective uses no reward",
            fix="regularize.overlong=0, or objective=dr_grpo",
        )


def choice_of_tasks(config: RunConfig) -> Iterator[ConfigError]:
    """Two ways to choose the tasks of a step, or one that finds nothing to choose by."""
    in_use = {"refill": config.rollout.refill > 0, "candidates": config.rollout.candidates > 1}
    row = config.objective.declaration
    for name, why in (
        ("refill", "rollout.refill and rollout.candidates exclude each other" if all(in_use.values()) else ""),
        ("refill", f"the rollouts of {row.name} are not judged" if row.data is Data.SPLICED else ""),
        ("refill", f"{row.name} samples nothing that could be right" if row.data is Data.DEMONSTRATED else ""),
        ("candidates", f"{row.name} samples nothing that could be uncertain" if row.data is Data.DEMONSTRATED else ""),
    ):
        if why and in_use[name]:
            yield ConfigError(
                "E043",
                f"rollout.{name} cannot be used here",
                where=f"rollout.{name}",
                why=why,
                fix="rollout.refill=0 rollout.candidates=1",
            )


def offline(config: RunConfig) -> Iterator[ConfigError]:
    """Steps that sample from the initial policy, for an objective that has no use for them."""
    if config.rollout.offline and config.objective.declaration.data is not Data.CONDITIONED:
        yield ConfigError(
            "E044",
            f"{config.objective.type} has no offline steps",
            where="rollout.offline",
            why="only objectives with feedback in the prompt begin with rollouts of the base policy",
            fix="rollout.offline=0, or objective=fcp",
        )


def sizes(config: RunConfig) -> Iterator[ConfigError]:
    """Sizes that must fit each other."""
    if config.optim.minibatches > config.rollout.prompts:
        yield ConfigError(
            "E034",
            f"cannot split {config.rollout.prompts} prompts into {config.optim.minibatches} minibatches",
            where="optim.minibatches",
            why="a minibatch contains at least one whole group",
            fix=f"optim.minibatches={config.rollout.prompts}",
        )
    if too_large := [k for k in config.eval.pass_at if k > config.eval.samples]:
        yield ConfigError(
            "E032",
            f"pass@{max(too_large)} cannot be estimated from {config.eval.samples} rollouts per task",
            where="eval.pass_at",
            why="the unbiased estimate needs at least k rollouts",
            fix=f"eval.samples={max(too_large)}",
        )
