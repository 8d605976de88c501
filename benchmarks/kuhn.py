"""Self-play at Kuhn poker: how far is a language policy from one that cannot be beaten?

    python benchmarks/kuhn.py runs/kuhn --seeds 0 1 2 3 4

The tiny policy does not know the two moves, so all arms begin from the same warm start, `FOLDER/base`: fitted, one
after the other, to eight ways of playing that were drawn by chance, and then to a beginner's, who bets with J, Q and
K two, five and eight times in ten whatever came before. (What a policy has never told apart moves together for a long
time: without the eight, every change of one state's probability changes those of the other eleven, and the policy
learns to bet always.) A step plays each of the six deals 16 times. Arm `player` compares a player's reward with what
the same player won in the other plays of the same deal, arm `shared` with what both players won in them. Every run is
a run folder of its own, `FOLDER/ARM-SEED`; finished ones are kept.

Prints, and writes to `FOLDER/table.md`, exploitability in chips per hand, exact, from the probabilities of a policy's
two replies in the twelve states. Two players who learn from each other circle the equilibrium, so what counts is the
policy whose weights are the mean over the checkpoints of the run's second half; the last policy, and how far those on
the way were off, stand beside it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING

from training import trained

if TYPE_CHECKING:
    from gnomon.launch.strategy import Strategy
    from gnomon.learners.local import LocalLearner
    from gnomon.training.schedule import Schedule

COMMON = [
    "env.retries=0", "objective=rloo", "steps=600", "rollout.tasks=[0, 1, 2, 5, 7, 10]", "rollout.prompts=6",
    "rollout.group=16", "rollout.max_tokens=8", "optim.lr=5e-5", "regularize.entropy=0.16", "save.every=20",
    "save.keep=99", "eval.every=1000", "eval.tasks=8", "threads=1", 'audit.acknowledge=["exploit.words"]',
]  # fmt: skip
"""The six tasks are the six deals. What is no move loses at once: were it forgiven, the entropy term would pay for it.
A move that wins most deals against nobody in particular is no exploit, so that finding is acknowledged."""
ARMS = {"player": [], "shared": ["players.baseline=shared"], "past": ["players.opponent=past"]}
GOAL = 0.05
REPLIES = 20
"""That the warm start is fitted to, in every state."""
WAYS, EACH, LAST = 8, 40, 300
"""Ways of playing drawn by chance, steps of each, and steps of the beginner's."""


def warm(folder: Path) -> Path:
    """A policy that tells the twelve states apart, and plays as a beginner does."""
    from gnomon.envs.kuhn_value import CARDS, STATES
    from gnomon.keys import Key
    from gnomon.learners.local import LocalLearner
    from gnomon.models.policy import Policy
    from gnomon.training.schedule import Schedule

    if (folder / "model.safetensors").exists():
        return folder
    policy = Policy.load("tiny")
    learner, whole = LocalLearner(policy), Schedule(lr=1e-3, steps=WAYS * EACH)
    for way in range(WAYS):
        rng = Key(0).at("way", index=way).random()
        fit(learner, {state: rng.choice((1, REPLIES - 1)) for state in STATES}, EACH, whole)
    beginner = {(card, line): 4 + 6 * CARDS.index(card) for card, line in STATES}
    fit(LocalLearner(policy), beginner, LAST, Schedule(lr=1e-3, steps=LAST, min_lr_ratio=0.02))
    policy.save(folder)
    return folder


def fit(learner: LocalLearner, bets: Mapping[tuple[str, str], int], steps: int, schedule: Schedule) -> None:
    """Raise the likelihood of so many bets in every state, of `REPLIES` replies; the others are passes."""
    from gnomon.launch.strategy import REPLIES as SAID
    from gnomon.launch.strategy import prompts
    from gnomon.objectives import objective
    from gnomon.rollout import pack
    from gnomon.rollout.credit import Crediting
    from gnomon.types import Completion, Finish, Group, Rollout, Sampling, Status, Stop, Task, Turn, Verdict

    groups, row, encode = [], objective("sft"), learner.policy.tokenizer.encode
    for index, (state, asked) in enumerate(prompts(learner.policy).items()):
        task = Task(id=f"{index}", messages=(), answer=None)
        for text in [SAID["b"]] * bets[state] + [SAID["p"]] * (REPLIES - bets[state]):
            ids = encode(text)
            said = Completion(token_ids=ids, logprobs=(nan,) * len(ids), text=text, finish=Finish.STOP, version=0)
            rollout = Rollout(
                task=task, sample=0, turns=(Turn(prompt_ids=asked, completion=said),), stop=Stop.DONE,
                verdict=Verdict(status=Status.UNJUDGED, parts=()),
            )  # fmt: skip
            groups.append(Group(task=task, index=index, rollouts=(rollout,)))
    for _ in range(steps):
        batch = Crediting(row)(pack(groups, sampling=Sampling(max_tokens=8), exact=False), learner)
        learner.forward_backward(batch, row)
        learner.optim_step(schedule(learner.version + 1))


def curve(run: Path) -> list[tuple[int, float, float]]:
    """Step, exploitability and least legal probability, at every checkpoint."""
    from gnomon.launch.strategy import read
    from gnomon.models.policy import Policy
    from gnomon.store.checkpoints import stored

    found = [(int(path.name), read(Policy.load(path))) for path in reversed(stored(run))]
    return [(step, play.exploitability, play.least_legal) for step, play in found]


def averaged(run: Path) -> Strategy:
    """How the mean of the weights at the checkpoints of the run's second half plays."""
    import torch

    from gnomon.launch.strategy import read
    from gnomon.models.policy import Policy
    from gnomon.store.checkpoints import stored

    late = stored(run)[: len(stored(run)) // 2]
    policy, states = Policy.load(late[0]), [Policy.load(path).state() for path in late]
    with torch.no_grad():
        for name, weight in policy.state().items():
            weight.copy_(torch.stack([state[name] for state in states]).mean(0))
    return read(policy)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2, 3, 4])
    parser.add_argument("--arms", nargs="*", default=["player", "shared"], choices=list(ARMS))
    parser.add_argument("--set", nargs="*", default=[], metavar="key=value", help="for every run")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    import torch

    from gnomon.launch.strategy import read
    from gnomon.models.policy import Policy

    torch.set_num_threads(1)
    base = warm(options.folder / "base")
    play = read(Policy.load(base))
    print(
        f"the warm start: exploitability {play.exploitability:.3f}, legal at least {play.least_legal:.3f}", flush=True
    )
    lines = ["| arm, seed | mean weights | last | smallest on the way | largest of the second half | least legal |"]
    lines, missed = [*lines, "|---" * 6 + "|"], []
    for arm in options.arms:
        for seed in options.seeds:
            run = options.folder / f"{arm}-{seed}"
            trained(run, "kuhn_poker", [f"policy={base}", f"seed={seed}", *COMMON, *ARMS[arm], *options.set])
            points, mean = curve(run), averaged(run)
            late = [value for step, value, _ in points if step >= points[-1][0] / 2]
            least = min(points, key=lambda point: point[1])
            lines.append(
                f"| {arm}, {seed} | {mean.exploitability:.3f} | {points[-1][1]:.3f} "
                f"| {least[1]:.3f} at step {least[0]} | {max(late):.3f} | {mean.least_legal:.3f} |"
            )
            missed += [run.name] if arm == "player" and mean.exploitability >= GOAL else []
            print(lines[-1], flush=True)
            print("   " + " ".join(f"{step}:{value:.3f}" for step, value, _ in points), flush=True)
    (options.folder / "table.md").write_text("\n".join(lines) + "\n")
    if missed:
        print(f"not below {GOAL}: {', '.join(missed)}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
