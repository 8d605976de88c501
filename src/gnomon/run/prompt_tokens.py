"""The prompt of a task as the tokens that a policy reads, before a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gnomon.config import RunConfig
from gnomon.envs.base import SPLITS, Env, check_isolation
from gnomon.envs.offers import tools
from gnomon.envs.row_checks import number_rows
from gnomon.errors import ConfigError
from gnomon.keys import Key
from gnomon.models.folder import model_folder
from gnomon.models.tokenizer import Tokenizer
from gnomon.rendering import Segments, choose, joined
from gnomon.run.find import make_env
from gnomon.types import Task

__all__ = ["PromptTokens", "prompt_text", "prompt_tokens", "without_room"]

MANY = 2**20
"""Most tasks of a split whose prompts are counted."""
MARKUP = 16
"""Tokens that a template adds to a message beyond the first, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptTokens:
    """The prompt of one task."""

    policy: str
    renderer: str
    """The format in which messages become tokens."""
    task: str
    """Its id."""
    segments: Segments
    tokens: tuple[tuple[str, ...], ...]
    """The text of every token of every segment."""
    ends: tuple[str, ...]
    """Texts of the tokens that end a reply."""

    @property
    def count(self) -> int:
        return sum(map(len, self.tokens))

    def body(self) -> dict[str, Any]:
        """As JSON values."""
        pieces = zip(self.segments, self.tokens, strict=True)
        segments = [{"origin": s.origin.value, "token_ids": list(s.token_ids), "tokens": list(t)} for s, t in pieces]
        facts = {"policy": self.policy, "renderer": self.renderer, "task": self.task, "count": self.count}
        return {**facts, "ends": list(self.ends), "segments": segments}


def prompt_tokens(config: RunConfig, split: str = "train", index: int = 0) -> PromptTokens:
    """The first prompt of a task, token for token as a run with these settings begins it.

    Raises: IndexError for an index that the split does not have; as `choose`.
    """
    env = make_env(config.env)
    check_isolation(env)
    tokenizer = Tokenizer(model_folder(config.policy.path))
    renderer = choose(tokenizer, config.policy.renderer, turns=env.max_turns)
    task = env.tasks(split)[index]
    episode = env.start(task, Key(config.seed).at("preview"))
    try:
        segments = renderer.start(episode.messages, tools(env))
    finally:
        episode.close()
    return PromptTokens(
        policy=config.policy.path,
        renderer=type(renderer).__name__,
        task=task.id,
        segments=segments,
        tokens=tuple(tuple(tokenizer.spell([token]) for token in segment.token_ids) for segment in segments),
        ends=tuple(tokenizer.spell([token]) for token in sorted(renderer.stop)),
    )


def without_room(config: RunConfig, env: Env) -> Iterator[str]:
    """A sentence for each split with prompts that leave no room for a reply. Endless splits are not counted.

    Raises: ConfigError E198 if no train prompt leaves room.
    """
    context = config.rollout.context
    for split in SPLITS:
        tasks = env.tasks(split)
        if not 0 < len(tasks) <= MANY:
            continue
        if not (sizes := long_prompts(config, env, tasks)):
            continue
        longest = max(size for _, size in sizes)
        if split == "train" and len(sizes) == len(tasks):
            raise ConfigError(
                "E198", "no train prompt leaves room for a reply", where="rollout.context",
                why=f"the prompts have up to {longest} tokens, and prompt and reply together at most {context}",
                fix=f"rollout.context={longest + config.rollout.max_tokens}",
            )  # fmt: skip
        yield (
            f"{len(sizes)} of {len(tasks)} {split} prompts have {context} tokens (rollout.context) or more and get no "
            f"reply: {number_rows([index for index, _ in sizes])}; the longest has {longest}."
        )


def long_prompts(config: RunConfig, env: Env, tasks: Sequence[Task]) -> list[tuple[int, int]]:
    """The prompts that fill the context: number of the row, or of the task, and tokens."""
    renderer = choose(Tokenizer(model_folder(config.policy.path)), config.policy.renderer, turns=env.max_turns)
    listed, sizes = tools(env), list[tuple[int, int]]()
    around = len(joined(renderer.start(tasks[0].messages, listed)))  # More than a template adds to a text.
    for index in range(len(tasks)):
        task = tasks[index]
        # A token has at least one byte of text, so most prompts need not be encoded.
        most = around + sum(MARKUP + len(message.content.encode()) for message in task.messages)
        if most >= config.rollout.context:
            size = len(joined(renderer.start(task.messages, listed)))
            row = task.info.get("row")
            if size >= config.rollout.context:
                sizes.append((row if isinstance(row, int) else index, size))
    return sorted(sizes)


def prompt_text(prompt: PromptTokens) -> str:
    """For a reader: one line per segment, with a bar between two tokens."""
    return "\n".join(lines(prompt))


def lines(prompt: PromptTokens) -> Iterator[str]:
    yield f"policy     {prompt.policy}, written by {prompt.renderer}"
    yield f"task       {prompt.task}, {prompt.count} tokens"
    yield f"ends at    {' '.join(prompt.ends) or 'rollout.stop or rollout.max_tokens: the tokenizer has no end token'}"
    for segment, tokens in zip(prompt.segments, prompt.tokens, strict=True):
        yield f"{segment.origin.value:<10} {'|'.join(map(escape, tokens))}"


def escape(token: str) -> str:
    """A token on one line."""
    return token.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
