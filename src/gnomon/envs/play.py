"""Answer a task by hand and see the verdict: `gnomon play ENV`."""

from __future__ import annotations

from collections.abc import Callable

from gnomon.envs.base import Env, SingleTurn
from gnomon.keys import Key
from gnomon.types import Message, Verdict

__all__ = ["play"]


def play(
    env: Env,
    index: int,
    split: str = "train",
    read: Callable[[str], str] = input,
    write: Callable[[str], object] = print,
) -> Verdict:
    """One episode with a person in the place of the policy.

    A person may type the answer alone: where a single-turn environment finds no slot, it is put into one.

    Raises: IndexError when the split has no task `index`; ValueError for an unknown split, or for an episode
    that ends without a verdict; EOFError when nobody answers.
    """
    task = env.tasks(split)[index]
    write(f"{type(env).__name__}, {split} task {index} (id {task.id})")
    episode = env.start(task, Key(0).at("play", split=split, index=index))
    try:
        messages = episode.messages
        for _ in range(env.max_turns):
            show(messages, write)
            reply = read("> ")
            if isinstance(env, SingleTurn) and "<answer>" not in reply:
                reply = f"<answer>{reply}</answer>"
                write(f"no answer slot in the reply; judged as {reply!r}")
            step = episode.step(reply)
            if step.done:
                break
            messages = step.messages
    finally:
        episode.close()
    if not step.done or step.verdict is None:
        raise ValueError(f"the episode of {type(env).__name__} ends without a verdict")
    explain(step.verdict, write)
    return step.verdict


def show(messages: tuple[Message, ...], write: Callable[[str], object]) -> None:
    for message in messages:
        write(f"{message.role}: {message.content}")


def explain(verdict: Verdict, write: Callable[[str], object]) -> None:
    """The verdict as a person reads it: status, reward, parts, what was judged, why."""
    write(f"{verdict.status.value}, reward {verdict.reward:g}")
    width = max((len(part.name) for part in verdict.parts), default=0)
    value = {part.name: part.value for part in verdict.parts}
    for part in verdict.parts:
        shut = part.gate is not None and value[part.gate] <= 0
        earned = 0.0 if shut else part.weight * part.value
        why = f" (shut by {part.gate})" if shut else ""
        write(f"  {part.name:{width}}  {part.value:g} x {part.weight:g} = {earned:g}{why}")
    if verdict.extracted is not None:
        place = f" at characters {verdict.span[0]} to {verdict.span[1]}" if verdict.span else ""
        write(f"  judged {verdict.extracted!r}{place}")
    if verdict.detail:
        write(f"  {verdict.detail}")
