"""Defaults that follow the model and the machine, each with its reason; learning rates among them. Needs no torch.

The policy that ships keeps the defaults of the settings. A run stores all of them, so it does not depend on this file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any, NamedTuple

from gnomon import machine
from gnomon.config.sections import DEFAULTS, RunConfig
from gnomon.config.sources import SHORT as NAMES
from gnomon.config.sources import leaves, word_of
from gnomon.models.backends import PACKED
from gnomon.models.facts import Facts, facts
from gnomon.models.folder import SHIPPED
from gnomon.objectives.options import OBJECT

__all__ = ["STAGES", "Choice", "Rates", "choices_of", "rates", "sentences"]

RANK = 16
"""Rank of an adapter where none is set."""
SHORT, LONG = 256, 2048
"""Tokens of a reply in a chat, and of one that reasons before it answers."""
PROMPTS = 8
"""Tasks per step on a CPU."""
SHARE = 4
"""The activations of a training pass may take one part in so many of the memory."""
USUAL, LEAST = 256, 128
"""Tokens of a micro-batch on a CPU, so that a step has some for every thread; and of the smallest one."""
SIDE = "each thread computes micro-batches of its own, and the number of threads changes no bit"

BRIEF = {key: name for name, key in NAMES.items()}
"""Names of settings without their table."""


class Choice(NamedTuple):
    """A default for one model."""

    key: str
    value: Any
    why: str


def adapter(config: RunConfig, model: Facts) -> Iterator[Choice]:
    """LoRA for a pretrained model: its weights and states take a fifth of the memory."""
    if model.pretrained and find_spec("peft") is not None:
        size = f"a model of {model.parameters / 1e6:,.0f} M parameters" if model.parameters else "a pretrained model"
        yield Choice("policy.lora.rank", RANK, f"{size}; lora=0 trains all weights")


def sizes(config: RunConfig, model: Facts) -> Iterator[Choice]:
    """The context of the model, and fewer prompts where there is no GPU."""
    if 1 < model.positions < DEFAULTS["rollout"]["context"]:
        yield Choice("rollout.context", model.positions, f"the model has {model.positions} positions")
    if model.pretrained and on_cpu(config):
        yield Choice("rollout.prompts", PROMPTS, "a pretrained model on a CPU")


def learning_rates(config: RunConfig, model: Facts) -> Iterator[Choice]:
    """Of the policy and of a critic; `sgd` has no default."""
    usual = rates(config.policy.path, adapter=config.policy.trains_adapter)
    yield Choice("critic.lr", usual.critic, usual.why)
    if config.optim.type == "adamw":
        yield Choice("optim.lr", usual.policy, usual.why)


def replies(config: RunConfig, model: Facts) -> Iterator[Choice]:
    """How replies of a chat end. A reward function reads a whole reply, other environments the answer slot."""
    if not model.turn_end:
        return
    why = f"the chat template ends a turn with {model.turn_end}"
    if config.env.type.startswith(OBJECT) and "reward" in config.env.options:
        yield Choice("rollout.stop", [], why)
    most, limit = LONG if model.thinks else SHORT, max(1, config.rollout.context // 2)
    yield Choice("rollout.max_tokens", min(most, limit), f"{why}{' and knows reasoning' * model.thinks}")


def evaluation(config: RunConfig, model: Facts) -> Iterator[Choice]:
    """An evaluation of a pretrained model samples at most as many replies as a step."""
    count = config.rollout.prompts * config.rollout.group // config.eval.samples
    if model.pretrained and count < DEFAULTS["eval"]["tasks"]:
        yield Choice("eval.tasks", max(1, count), "an evaluation samples as many replies as a step")


def computing(config: RunConfig, model: Facts) -> Iterator[Choice]:
    """Precision, and a micro-batch that fits."""
    if not model.pretrained:
        return
    if not on_cpu(config):
        yield Choice("policy.dtype", "bfloat16", "a CUDA device; weights that are trained stay float32")
        return
    room, size = tokens_at_once(config, model), USUAL
    while size > max(LEAST, room):
        size //= 2
    yield Choice("optim.micro_batch", size, SIDE if size == USUAL else f"{machine.memory() / 2**30:.0f} GiB of memory")
    if model.family in PACKED and not config.ranks and not config.placement.samplers:
        yield Choice("threads", max(1, int(min(machine.cores(), room / size))), SIDE)


def tokens_at_once(config: RunConfig, model: Facts) -> float:
    """Tokens whose activations fit this machine."""
    memory, of_token = machine.memory(), model.activations * config.dtypes.learner_bytes
    return memory / (SHARE * of_token) if memory and of_token else float("inf")


Stage = tuple[Callable[[RunConfig, Facts], Iterator[Choice]], ...]
STAGES: tuple[Stage, ...] = ((adapter, sizes), (learning_rates, replies, evaluation, computing))
"""A later stage reads what an earlier one has chosen."""


def on_cpu(config: RunConfig) -> bool:
    return config.policy.device == "cpu" or (config.policy.device == "auto" and not machine.has_cuda())


def choices_of(config: RunConfig, stage: Stage) -> list[Choice]:
    """The choices of a stage. Those that ship have only learning rates."""
    if config.policy.path in SHIPPED:
        return list(learning_rates(config, Facts())) if learning_rates in stage else []
    model = facts(config.policy.path)
    return [choice for part in stage for choice in part(config, model)]


def sentences(config: RunConfig) -> Iterator[str]:
    """What was chosen for the model of a run and why, in a few lines: settings that a command line takes."""
    usual = rates(config.policy.path, adapter=config.policy.trains_adapter)
    default = config.optim.type == "adamw" and config.optim.lr == usual.policy
    yield f"Learning rate {config.optim.lr:g}: {usual.why if default else 'as set'}."
    values, shipped, words = leaves(config.model_dump()), leaves(DEFAULTS), dict[str, list[str]]()
    for choice in (choice for stage in STAGES for choice in choices_of(config, stage)):
        if choice.why != usual.why and values[choice.key] == choice.value != shipped[choice.key]:
            words.setdefault(choice.why, []).append(word_of(BRIEF.get(choice.key, choice.key), choice.value))
    for why, settings in words.items():
        yield f"{' '.join(settings)}: {why}."


ADAPTER = 10
"""How many times higher the rate of an adapter of a small model is than that of all weights."""
LORA, FULL, WIDTH = 6e-4, 3e-5, 576
"""Rates of an adapter and of all weights at this hidden size, measured (docs/results/learning.md)."""
POWER = 0.78
"""Of the hidden size."""
UNKNOWN = 4096


class Rates(NamedTuple):
    """Learning rates of the policy and of a critic, and why."""

    policy: float
    critic: float
    why: str


def rates(path: str, *, adapter: bool = False) -> Rates:
    """The default learning rates for a model as `policy.path` names it.

    The policy that ships, and a model of its size, learn at 1e-3 (docs/results/learning.md). A pretrained model of
    hidden size h learns at `FULL` · (`WIDTH` / h)^`POWER`, and its adapter at the same with `LORA`. A model of unknown
    size counts as one of hidden size `UNKNOWN`.

    Args: adapter: whether an adapter is trained instead of all weights.
    Source: the power of the hidden size, and ten or more times the rate for an adapter: Schulman et al. 2025, "LoRA
        Without Regret", thinkingmachines.ai/blog/lora, and the rule of Tinker's cookbook for Llama; the critic: ten
        times the policy, as in verl's defaults.
    """
    times = ADAPTER if adapter else 1
    model = Facts() if path in SHIPPED else facts(path)
    if path in SHIPPED or not model.pretrained:
        kind = "the policy that ships" if path in SHIPPED else f"a model of {model.parameters / 1e6:.1f} M parameters"
        prefix = f"{ADAPTER} times the default for {kind}, since an adapter is trained"
        return Rates(times * 1e-3, times * 1e-3, prefix if adapter else f"the default for {kind}")
    rate = float(f"{(LORA if adapter else FULL) * (WIDTH / (model.hidden or UNKNOWN)) ** POWER:.1e}")
    size = f"hidden size {model.hidden}" if model.hidden else "a model of unknown size"
    return Rates(rate, 10 * rate if not adapter else rate, f"{'LoRA' if adapter else 'all weights'}, {size}")
