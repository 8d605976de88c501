"""Faults of the updates: steps too large or too small, old weights, mismatch, collapse of the entropy."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean, median

from gnomon.config.choices import rates
from gnomon.doctor.data import real_groups
from gnomon.doctor.evidence import END, Evidence
from gnomon.doctor.finding import Finding
from gnomon.doctor.rates import apart, fell, level, percent, pick, rose, windows

__all__ = ["find", "growing"]

QUARTER = 0.75
"""What must remain of the share of right rollouts; below it, training has undone what the policy could do."""
FAR = 20.0
"""Factor below the usual learning rate from which on a step is suspected to be too small."""
MISMATCH = 0.5
"""Median over steps of the largest log-probability difference of sampler and learner, in nats."""
GROWTH = 5.0
"""Factor by which the mismatch grows in a run whose sampler keeps old weights."""
COLLAPSED = 0.1
"""Fraction of its first value to which the entropy falls in a collapse."""
GROUPS = 8
"""Groups below which no collapse is reported."""
LONGER = 2.0
"""Factor by which wrong replies become longer in a runaway."""


def find(evidence: Evidence) -> Iterator[Finding]:
    for check in (stale, mismatch, too_large, too_small, entropy_collapse, length_runaway):
        if finding := check(evidence):
            yield finding


def stale(evidence: Evidence) -> Finding | None:
    """The sampler does not get the new weights."""
    by_version = {rollout.version for group in evidence.groups for rollout in group}
    frozen = len(by_version) == 1 and len(evidence.read) > END and -1 not in by_version
    if not frozen and not growing(evidence):
        return None
    values = evidence.series("logp_mismatch")
    what = f"all rollouts of {len(evidence.read)} steps were sampled by version {min(by_version)} of the weights"
    if not frozen:
        what = (
            f"the largest log-probability difference of sampler and learner grew from {values[0]:.2g} to "
            f"{fmean(values[-END:]):.2g} nats; the sampler has other weights than it reports"
        )
    return Finding(
        name="update.stale",
        sentence=what,
        fix="make the engine's load() take over the weights and compare a probe, as gnomon.loop.Embedded does",
        since=0 if frozen else 1,
        read=pick(evidence.end or evidence.groups, lambda rollout: True),
    )


def growing(evidence: Evidence) -> bool:
    """Whether the mismatch of sampler and learner grows with the steps, far beyond rounding."""
    values = evidence.series("logp_mismatch")
    if len(values) < 2 * END:
        return False
    first, last = fmean(values[:2]), fmean(values[-END:])
    return last > MISMATCH and last > GROWTH * first


def mismatch(evidence: Evidence) -> Finding | None:
    """Sampler and learner disagree from the start."""
    values = evidence.series("logp_mismatch")
    if not values or growing(evidence) or median(values) <= MISMATCH:
        return None
    return Finding(
        name="update.mismatch",
        sentence=f"the largest log-probability difference of sampler and learner is {median(values):.2g} nats in the "
        f"median over steps (tier {evidence.tier or 'unknown'})",
        fix="let the engine return the log-probabilities that it sampled with, after temperature and masks; "
        + evidence.again("policy.dtype=float32"),
        read=pick(evidence.groups, lambda rollout: True),
    )


def too_large(evidence: Evidence) -> Finding | None:
    """The reward and the share of right rollouts fall below what they were."""
    rewards, right = windows(evidence, lambda s: s.reward), windows(evidence, lambda s: float(s.right))
    if rewards is None or right is None:
        return None
    (paid_then, _), (paid_now, _) = rewards
    (then, best), (now, _) = right
    if not (fell(paid_then, paid_now) and fell(then, now)) or now.mean > QUARTER * then.mean:
        return None
    lr, usual = evidence.recipe.get("optim.lr", 0.0), usual_rate(evidence)
    entropy = evidence.series("entropy")
    entropy_change = f"; the entropy went from {entropy[0]:.2f} to {fmean(entropy[-END:]):.2f} nats" if entropy else ""
    than = f", {lr / usual:.3g} times the usual rate" if usual and lr > usual else ""
    lower = usual if usual and lr > 3 * usual else lr / 10
    return Finding(
        name="update.too_large",
        sentence=f"the mean reward fell from {paid_then.mean:.2f} to {paid_now.mean:.2f}, and the share of right "
        f"rollouts from {percent(then.mean)} (step {best}) to {percent(now.mean)}, by {apart(then, now):.0f} standard "
        f"errors{entropy_change} (optim.lr={lr:g}{than})",
        fix=evidence.again(f"optim.lr={lower:g}"),
        since=best + 1,
        read=pick(evidence.end, lambda rollout: not rollout.right),
    )


def too_small(evidence: Evidence) -> Finding | None:
    """Nothing moves, and the learning rate is far below the usual one."""
    lr, usual = evidence.recipe.get("optim.lr", 0.0), usual_rate(evidence)
    rewards = windows(evidence, lambda rollout: rollout.reward)
    first = level([g for g in evidence.groups if g[0].step in evidence.read[:END]], lambda rollout: rollout.reward)
    if not usual or not lr or lr * FAR > usual or rewards is None or first is None or rose(first, rewards[1][0]):
        return None
    entropy = evidence.series("entropy")
    entropy_note = f", and the entropy stayed at {entropy[0]:.2f} to {entropy[-1]:.2f} nats" if entropy else ""
    return Finding(
        name="update.too_small",
        sentence=f"the mean reward went from {first.mean:.2f} to {rewards[1][0].mean:.2f}, which is noise"
        f"{entropy_note}; optim.lr={lr:g} is {usual / lr:.3g} times below the usual rate for this model",
        fix=evidence.again(f"optim.lr={usual:g}"),
        read=pick(evidence.end, lambda rollout: True),
    )


def usual_rate(evidence: Evidence) -> float:
    """The default learning rate for the model of the run; 0 where the recipe names no model, or SGD."""
    path, adapter = evidence.recipe.get("policy.path"), evidence.recipe.get("policy.lora.rank", 0) > 0
    adamw = evidence.recipe.get("optim.type", "adamw") == "adamw"
    return rates(str(path), adapter=adapter).policy if path and adamw else 0.0


def entropy_collapse(evidence: Evidence) -> Finding | None:
    """The entropy is gone, and groups tie although not all replies are right."""
    entropy, last = evidence.series("entropy"), set(evidence.read[-END:])
    groups = [group for group in real_groups(evidence) if group[0].step in last]
    stuck = [
        g for g in groups if len({rollout.reward for rollout in g}) == 1 and not all(rollout.right for rollout in g)
    ]
    if len(entropy) < 2 * END or len(groups) < GROUPS or len(stuck) < len(groups) / 2:
        return None
    before, after = fmean(entropy[:END]), fmean(entropy[-END:])
    if after > COLLAPSED * before:
        return None
    return Finding(
        name="update.entropy_collapse",
        sentence=f"the entropy fell from {before:.3f} to {after:.3f} nats, and in {percent(len(stuck) / len(groups))} "
        "of the last groups all rewards are equal although not all replies are right",
        fix=evidence.again("regularize.entropy=0.01") + "   # or objective=dapo, or a lower optim.lr",
        since=evidence.read[-END],
        read=pick(stuck, lambda rollout: not rollout.right),
    )


def length_runaway(evidence: Evidence) -> Finding | None:
    """Wrong replies become longer, and no more replies are right."""
    first = [g for g in evidence.groups if g[0].step in evidence.read[:END]]
    wrong = [
        level([tuple(s for s in g if not s.right) for g in groups if not all(s.right for s in g)], lambda s: s.tokens)
        for groups in (first, evidence.end)
    ]
    right = [level(groups, lambda rollout: float(rollout.right)) for groups in (first, evidence.end)]
    if wrong[0] is None or wrong[1] is None or right[0] is None or right[1] is None:
        return None
    if not rose(wrong[0], wrong[1]) or wrong[1].mean < LONGER * wrong[0].mean or apart(right[1], right[0]) >= 1:
        return None
    return Finding(
        name="update.length_runaway",
        sentence=f"wrong replies grew from {wrong[0].mean:.0f} to {wrong[1].mean:.0f} tokens, and the share of right "
        f"ones went from {percent(right[0].mean)} to {percent(right[1].mean)}",
        fix=evidence.again("objective=dr_grpo", "regularize.overlong=0.25") + "   # no advantage for length",
        since=evidence.read[-END],
        read=pick(evidence.end, lambda rollout: not rollout.right),
    )
