"""How many tokens the prompts and replies of a run have, and the shapes of models that the shipped recipes name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path

from gnomon.config import RunConfig
from gnomon.envs import Env
from gnomon.envs.agent import Launch
from gnomon.errors import ConfigError, ModelError, RunError
from gnomon.models.folder import TINY, config_folder, image_token
from gnomon.models.hub import cache_folder, hub_name
from gnomon.models.tokenizer import Tokenizer
from gnomon.plans.programs import Program, launch_of_first, program_of, recorded_program
from gnomon.rendering import choose, joined
from gnomon.run.evaluation_envs import set_envs
from gnomon.run.find import make_env
from gnomon.store import RunReader
from gnomon.store.codec import decode
from gnomon.store.layout import RECIPE
from gnomon.training.evaluate import first

__all__ = ["Lengths", "description_folder", "recorded_lengths", "supposed_lengths"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Tokens of a step's rollouts."""

    prompts: tuple[int, ...]
    """Of every prompt of a step."""
    reply: int
    """Of every reply."""
    held_out: tuple[int, ...]
    """Of every prompt of an evaluation."""
    sets: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Of every prompt of each evaluation set."""
    training_share: float = 1.0
    """Share of the sampled tokens that are trained: groups without a difference in reward are not."""
    program: Program | None = None
    """That of the first task, where programs play the episodes. `prompts` are then their first ones."""

    @property
    def calls(self) -> float:
        """Replies in an episode."""
        return self.program.calls if self.program else 1.0

    @property
    def conversation(self) -> int:
        """Tokens of a conversation after its first prompt."""
        return self.program.conversation(self.reply) if self.program else self.reply

    def conversations(self, group: int) -> int:
        """Number of conversations in a group."""
        return round(group * self.program.branches) if self.program else group

    def beside(self, rollouts: int) -> float:
        """Seconds of programs beside sampling."""
        return self.program.time(rollouts) if self.program else 0.0


def supposed_lengths(config: RunConfig, prompt: int | None = None, reply: int | None = None) -> Lengths:
    """Lengths of the first prompts of each split, as the policy's tokenizer makes them.

    Args:
        prompt: length of every prompt; then no tokenizer is needed.
        reply: length of every reply; `rollout.max_tokens` unless set. `rollout.context` limits it beside a prompt.
    Raises: ConfigError E074 for a model folder without a tokenizer.
    """
    reply, env = reply or config.rollout.max_tokens, make_env(config.env)
    launch = launch_of_first(env)
    if prompt is not None:
        reply = min(reply, room(config, [prompt]))
        train, test = (prompt,) * config.rollout.prompts, (prompt,) * config.eval.tasks
        sets = {name: (prompt,) * own.tasks for name, own in config.eval.sets.items()}
        program = without_tokens(launch).limit_calls(launch, config.rollout.context, prompt, reply) if launch else None
        return Lengths(prompts=train, reply=reply, held_out=test, sets=sets, program=program)
    folder = with_tokenizer(config.policy.path)
    if not (folder / "tokenizer.json").is_file():
        raise ConfigError(
            "E074", "the model folder has no tokenizer.json, so the length of a prompt is unknown",
            where=str(folder), fix="state how many tokens a prompt has: --prompt 200",
        )  # fmt: skip
    tokenizer = Tokenizer(folder)

    def lengths(env: Env, split: str, count: int) -> tuple[int, ...]:
        renderer = choose(tokenizer, config.policy.renderer, turns=env.max_turns)
        return tuple(len(joined(renderer.start(task.messages))) for _, task in first(env.tasks(split), count))

    prompts = lengths(env, "train", config.rollout.prompts)
    reply = min(reply, room(config, prompts))
    supposed = Lengths(
        prompts=prompts,
        reply=reply,
        held_out=lengths(env, "test", config.eval.tasks),
        sets={name: lengths(its, "test", config.eval.sets[name].tasks) for name, _, its in set_envs(config, env)},
    )
    if launch is None:
        return supposed
    (task,) = lengths(env, "train", 1)
    renderer = choose(tokenizer, config.policy.renderer, turns=env.max_turns)
    program = program_of(launch, tokenizer, renderer, task, blind_of(config, folder))
    return with_program(supposed, program.limit_calls(launch, config.rollout.context, max(supposed.prompts), reply))


def room(config: RunConfig, prompts: Sequence[int]) -> int:
    """Tokens of a reply to the shortest of some prompts, at most."""
    return max(1, config.rollout.context - min(prompts))


def blind_of(config: RunConfig, folder: Path) -> str:
    """As `Limits.blind`, for a policy that sees."""
    if image_token(folder) is None:
        return ""
    # Imported where a policy sees, because it needs torch.
    from gnomon.run.makers.actor import make_limits

    return make_limits(config).blind


def without_tokens(launch: Launch) -> Program:
    """The program where no tokenizer tells how many tokens it adds."""
    tokenizer = Tokenizer(TINY)
    return replace(program_of(launch, tokenizer, choose(tokenizer, turns=launch.calls), 0), added=0, growth=0)


def with_program(lengths: Lengths, program: Program) -> Lengths:
    """The prompts of the tasks become the first prompts of programs."""

    def longer(prompts: Sequence[int]) -> tuple[int, ...]:
        return tuple(prompt + program.added for prompt in prompts)

    return replace(
        lengths,
        prompts=longer(lengths.prompts),
        held_out=longer(lengths.held_out),
        sets={name: longer(prompts) for name, prompts in lengths.sets.items()},
        program=program,
    )


def with_tokenizer(path: str) -> Path:
    """The model folder; for a model of the hub, its tokenizer is fetched if it can be."""
    with suppress(ModelError):
        return config_folder(path)
    return description_folder(path)


def recorded_lengths(config: RunConfig, reader: RunReader) -> Lengths:
    """Lengths that a run has recorded: the mean of its replies, and the share of them that was trained."""
    steps = [row["metrics"] for row in reader.metrics()]
    if not steps:
        raise RunError(
            "E409", "the run has no finished step", where=str(reader.folder),
            why="the lengths of its replies are not known", fix=f"gnomon plan {reader.folder / RECIPE}",
        )  # fmt: skip
    calls = mean([step.get("program/calls", 1.0) for step in steps])
    supposed = supposed_lengths(config, reply=max(1, round(mean([step["length"] for step in steps]) / max(1.0, calls))))
    shares = [step["trained"] / max(1.0, step["tokens"]) for step in steps if "trained" in step]
    lengths = replace(supposed, training_share=mean(shares) if shares else 1.0)
    if lengths.program is None:
        return lengths
    last = [record.step for record in reader.records("step")][-1]
    rollouts = [rollout for group in decode(reader.records(step=last)) for rollout in group.rollouts]
    return with_program(lengths, recorded_program(lengths.program, rollouts, steps, mean(lengths.prompts)))


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def description_folder(path: str) -> Path:
    """The model folder, or the model in the cache of the hub; where it is not there, the shipped configuration of the
    model that it is named after, else what the hub has beside weights.

    Raises: ModelError, as `config_folder`, where there is none of them.
    """
    name = hub_name(path)
    last = name.repo.rpartition("/")[2] if name else Path(path).name
    shipped = Path(str(files("gnomon.recipes").joinpath("shapes", last)))
    there = cache_folder(name) is not None if name else Path(path).exists()
    return shipped if not there and shipped.is_dir() else config_folder(path)
