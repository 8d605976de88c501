"""The checks of `check.py` that play whole episodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gnomon.envs.base import Env
from gnomon.envs.episodes import Fault, Skip, at, interrupt, judge, lines, play, well
from gnomon.types import Status, Task

__all__ = ["check_double_action", "check_expert", "check_replay", "constant"]


def check_replay(env: Env, tasks: Sequence[Task]) -> str:
    """Every scripted player ends its episode in time, and a replay of its completions gives the same episode."""
    count = 0
    for index, task in enumerate(tasks):
        for say in lines(env, tasks, index):
            first = play(env, task, say)
            count += 1
            # Empty replies follow, in case the replay needs more replies than the first episode.
            script = (*first.replies, *[""] * env.max_turns)
            if first != play(env, task, lambda episode, turn, script=script: script[turn]):  # type: ignore[misc]
                raise Fault("an episode that is replayed from its completions differs", at(index))
    return f"{count} episodes end within {env.max_turns} turn(s), and are the same when replayed"


def check_expert(env: Env, tasks: Sequence[Task]) -> str:
    """The expert solves tasks for one player, and plays for several players without breaking a rule."""
    most = 0
    for index, task in enumerate(tasks):
        whole = well(env, task)
        most = max(most, len(whole.replies))
        for player, verdict in enumerate(whole.verdicts):
            if not verdict.correct and (len(whole.verdicts) == 1 or verdict.status is not Status.WRONG):
                why = verdict.detail or "no reason given"
                raise Fault(f"its expert, as player {player}, is judged {verdict.status}: {why}", at(index))
    return f"its expert succeeds in every episode, in at most {most} of {env.max_turns} turns"


def check_double_action(env: Env, tasks: Sequence[Task]) -> str:
    """The expert's last reply, repeated twice in one reply, is not accepted, because it holds two actions."""
    for index, task in enumerate(tasks[:20]):
        last = len(whole := well(env, task).replies) - 1
        if interrupt(env, task, 2 * whole[last], last).correct:
            raise Fault("a reply with two actions is judged correct", at(index))
    return "a reply with two actions is rejected"


def constant(env: Env, tasks: Sequence[Task], most: float) -> str:
    """Plays the expert's first and last replies in every turn. Args: most, fraction that one of them may solve."""
    counts: Counter[str] = Counter()
    for task in tasks[:50]:
        whole = well(env, task)
        if len(whole.verdicts) > 1:
            raise Skip("not applicable to several players: a constant player meets a constant opponent")
        counts.update((whole.replies[0], whole.replies[-1]))
    scores = [
        (sum(judge(env, task, line).correct for task in tasks) / len(tasks), line) for line, _ in counts.most_common(10)
    ]
    share, reply = max(scores)
    summary = f"the best constant reply, {reply!r}, is correct on {share:.1%} of the tasks"
    if share > most:
        raise Fault(f"{summary}; a policy that ignores the observations must not reach {most:.0%}")
    return summary
