"""Answer a task by hand and see the verdict: `gnomon play ENV`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from gnomon.envs import offers
from gnomon.envs.agent import Launch
from gnomon.envs.base import Env, SingleTurn
from gnomon.envs.episodes import slot
from gnomon.envs.turns import MultiTurn
from gnomon.keys import Key
from gnomon.terminal import put
from gnomon.types import Message, Verdict

__all__ = ["play", "show"]

Write = Callable[[str], object]
Run = Callable[[Launch, Callable[[str], str], Write], str]


def play(
    env: Env,
    index: int,
    split: str = "train",
    read: Callable[[str], str] = input,
    write: Write = put,
    run: Run | None = None,
) -> tuple[Verdict, ...]:
    """Play one episode, with a person as every player. Returns: a verdict for each.

    Args: run: runs the program of an environment whose episode is one.

    The person may type only the answer: if the reply has no answer slot, the text is put into one.

    Raises: IndexError if the split has no task `index`; ValueError for an unknown split, or for an episode
    that ends without a verdict; EOFError if nobody answers.
    """
    task = env.tasks(split)[index]
    write(f"{type(env).__name__}, {split} task {index} (id {task.id})")
    start, several = Key(0).at("play", split=split, index=index), offers.players(env) > 1
    with closing(env.start(task, start)) as episode, TemporaryDirectory(prefix="gnomon-") as pictures:
        messages, player, launch = episode.messages, 0, getattr(episode, "launch", None)
        if launch is not None and run is not None:
            step = episode.step(run(launch, read, write))
        for _ in range(env.max_turns if launch is None else 0):
            if several:
                write(f"player {player}")
            show(messages, Path(pictures), write)
            step = episode.step(put_in_slot(env, read("> "), write))
            if step.done:
                break
            messages, player = step.messages, step.player
    verdicts = step.verdicts or ((step.verdict,) if step.verdict is not None else ())
    if not (step.done and verdicts):
        raise ValueError(f"the episode of {type(env).__name__} ends without a verdict")
    for player, verdict in enumerate(verdicts):
        explain(verdict, write, f"player {player}: " if len(verdicts) > 1 else "")
    return verdicts


def put_in_slot(env: Env, reply: str, write: Write) -> str:
    """The reply, put into an answer slot if it has none."""
    before = env.frame[0] if isinstance(env, SingleTurn) else "<answer>"
    if not isinstance(env, SingleTurn | MultiTurn) or before in reply:
        return reply
    reply = slot(reply, env)
    write(f"no answer slot in the reply; judged as {reply!r}")
    return reply


def show(messages: tuple[Message, ...], pictures: Path, write: Write) -> None:
    """Write messages, and their images to files in a folder, which a person can open."""
    for message in messages:
        for image in message.images:
            file = pictures / f"{image.sha256[:16]}{Path(image.file_name).suffix}"
            file.write_bytes(image.data)
            write(f"[image {file}]")
        if message.text or not message.images:
            write(f"{message.role}: {message.text}")


def explain(verdict: Verdict, write: Write, who: str = "") -> None:
    """Write the verdict: status, reward, parts, the judged text, the reason."""
    write(f"{who}{verdict.status.value}, reward {verdict.reward:g}")
    width = max((len(part.name) for part in verdict.parts), default=0)
    value = {part.name: part.value for part in verdict.parts}
    for part in verdict.parts:
        shut = part.gate is not None and value[part.gate] <= 0
        earned = 0.0 if shut else part.weight * part.value
        why = f" (shut by {part.gate})" if shut else ""
        write(f"  {part.name:{width}}  {part.value:g} x {part.weight:g} = {earned:g}{why}")
    if verdict.extracted is not None:
        span = f" at characters {verdict.span[0]} to {verdict.span[1]}" if verdict.span else ""
        write(f"  judged {verdict.extracted!r}{span}")
    if verdict.detail:
        write(f"  {verdict.detail}")
