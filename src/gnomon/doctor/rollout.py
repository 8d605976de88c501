"""Faults of the rollouts: a wrong template, truncated replies, answers that cannot be parsed, equal replies."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from gnomon.doctor.evidence import Evidence, RecordedRollout
from gnomon.doctor.finding import Finding
from gnomon.doctor.rates import excess_of, percent, pick, share
from gnomon.errors import GnomonError
from gnomon.monitoring.alarms import ADVICE
from gnomon.monitoring.endings import Ending, longer, mostly_truncated
from gnomon.store.layout import RECIPE
from gnomon.types import Stop

__all__ = ["find", "foreign", "has_markers"]

MARKERS = re.compile(
    r"<\|im_(?:start|end)\|>|<\|(?:start|end)_header_id\|>|<start_of_turn>|<\|channel\|>|\[/?INST\]"
    r"|^(?:#+ *)?(?:user|human|assistant|instruction|response):?\s*$",
    re.IGNORECASE | re.MULTILINE,
)
"""How chat templates mark who speaks."""
MARKED = 0.2
"""Share of replies that may hold such a marker."""
POOR = 0.5
"""Share of replies without a parsed answer, from which on a forced renderer is suspected."""
TRUNCATED = 0.2
"""Share of replies that a limit may end. TRL shows it as `completions/clipped_ratio`."""
UNPARSABLE = 0.5
"""Share of replies that may lack an answer although most of them are complete."""
MALFORMED = 0.5
"""Share of rollouts that may have a tool call that could not be read."""
ALIKE = 0.5
"""Share of groups whose replies may all be equal."""
SHORT = 8
"""Tokens below which equal replies are no surprise."""


def find(evidence: Evidence) -> Iterator[Finding]:
    """Findings about rollouts. The more frequent of truncated and unparsable replies comes first."""
    mute = (truncation, unparsable) if by_limit(evidence) else (unparsable, truncation)
    for check in (no_room, template, malformed_calls, no_end, *mute, limits_reached, alike):
        if finding := check(evidence):
            yield finding


def by_limit(evidence: Evidence) -> bool:
    """Whether more replies are truncated than end without an answer that can be parsed."""
    counts = Counter(rollout.ending for group in evidence.start or evidence.groups for rollout in group)
    return mostly_truncated(counts[Ending.TRUNCATED], counts[Ending.UNREADABLE])


def has_markers(rollout: RecordedRollout) -> bool:
    return MARKERS.search(rollout.reply) is not None


def no_room(evidence: Evidence) -> Finding | None:
    """Prompts that fill the context."""
    every = [rollout for group in (*evidence.groups, *evidence.held_out) for rollout in group]
    full = [rollout for rollout in every if rollout.stop == Stop.CONTEXT and not rollout.reply]
    if not full:
        return None
    context = evidence.recipe.get("rollout.context", 0)
    return Finding(
        name="rollout.no_room",
        sentence=f"the prompts of {len(full)} of {len(every)} rollouts fill rollout.context={context}, so they have no "
        "reply",
        fix=evidence.again(f"rollout.context={2 * context}") + "   # or remove these tasks",
        read=tuple(rollout.address for rollout in full[:3]),
    )


def template(evidence: Evidence) -> Finding | None:
    """The renderer is not the one of the model folder and the replies are poor, or replies hold markers of roles."""
    marked = excess_of(evidence, has_markers, MARKED)
    why = foreign(evidence.recipe)
    poor = share(evidence.start, lambda rollout: rollout.ending is not Ending.ANSWERED)
    if why and poor is not None and poor.mean > POOR:
        return Finding(
            name="rollout.template",
            sentence=f"{why}; {percent(poor.mean)} of the first replies have no answer or do not end",
            fix=evidence.again("policy.renderer=auto"),
            read=pick(evidence.start, lambda rollout: rollout.ending is not Ending.ANSWERED),
        )
    if marked is None:
        return None
    return Finding(
        name="rollout.template",
        sentence=f"{percent(marked.rate)} of the replies contain markers of a chat template {marked.when}; the policy "
        "writes the turns of others",
        fix=evidence.again("policy.renderer=auto") + "   # and check eos_token_id in generation_config.json",
        since=marked.since,
        read=marked.addresses,
    )


def malformed_calls(evidence: Evidence) -> Finding | None:
    """Tool calls that cannot be read."""
    excess = excess_of(evidence, lambda rollout: rollout.malformed_call, MALFORMED)
    if excess is None:
        return None
    return Finding(
        name="rollout.malformed_call",
        sentence=f"{percent(excess.rate)} of the rollouts have a tool call that cannot be read {excess.when}",
        fix="show a complete call in the prompt, or "
        + evidence.again(f"rollout.max_tokens={longer(evidence.recipe.get('rollout.max_tokens', 0))}"),
        since=excess.since,
        read=excess.addresses,
    )


def no_end(evidence: Evidence) -> Finding | None:
    """Replies that hold an answer and go on to the limit."""
    excess = excess_of(evidence, lambda rollout: rollout.ending is Ending.ENDLESS, TRUNCATED)
    if excess is None:
        return None
    return Finding(
        name="rollout.no_end",
        sentence=f"{percent(excess.rate)} of the replies contain an answer and go on to the token limit {excess.when}",
        fix=evidence.again("""'rollout.stop=["</answer>"]'""") + "   # or set eos_token_id in generation_config.json",
        since=excess.since,
        read=excess.addresses,
    )


def truncation(evidence: Evidence) -> Finding | None:
    """Replies that a limit ends."""
    excess = excess_of(evidence, lambda rollout: rollout.ending is Ending.TRUNCATED, TRUNCATED)
    if excess is None:
        return None
    limit = evidence.recipe.get("rollout.max_tokens", 0)
    return Finding(
        name="rollout.truncated",
        sentence=f"{percent(excess.rate)} of the replies are truncated before an answer {excess.when} "
        f"(rollout.max_tokens={limit})",
        fix=evidence.again(f"rollout.max_tokens={longer(limit)}"),
        since=excess.since,
        read=excess.addresses,
    )


OTHER_LIMITS = {
    Stop.TURNS: ("rollout.turns", "the turn limit"),
    Stop.CONTEXT: ("rollout.context", "the context limit"),
    Stop.TIME: ("rollout.seconds", "the time limit"),
}
"""Settings that end an episode, with what they set."""


def limits_reached(evidence: Evidence) -> Finding | None:
    """Episodes that end at a limit of turns, context or time before they have an answer."""
    excess = excess_of(evidence, lambda rollout: rollout.ending is Ending.LIMITED, TRUNCATED)
    if excess is None:
        return None
    stops = Counter(s.stop for group in evidence.groups for s in group if s.ending is Ending.LIMITED)
    setting, words = OTHER_LIMITS[Stop(stops.most_common(1)[0][0])]
    return Finding(
        name="rollout.limited",
        sentence=f"{percent(excess.rate)} of the episodes reach a limit before an answer {excess.when}, mostly {words}",
        fix=f"raise {setting} (now {evidence.recipe.get(setting, 0)}), or use shorter tasks",
        since=excess.since,
        read=excess.addresses,
    )


def unparsable(evidence: Evidence) -> Finding | None:
    """Complete replies without an answer that can be parsed; or replies without an answer, most of them complete."""
    unreadable = excess_of(evidence, lambda rollout: rollout.ending is Ending.UNREADABLE, UNPARSABLE)
    if unreadable is None and not by_limit(evidence):
        unreadable = excess_of(
            evidence, lambda rollout: rollout.ending in (Ending.UNREADABLE, Ending.TRUNCATED), UNPARSABLE
        )
    if unreadable is None:
        return None
    groups = evidence.start if unreadable.since == 0 else evidence.end
    mute = [rollout for group in groups for rollout in group if rollout.ending is Ending.UNREADABLE]
    rate = len(mute) / sum(map(len, groups))
    there = sum(mentions(evidence, rollout) for rollout in mute) / len(mute)
    return Finding(
        name="rollout.unparsable",
        sentence=f"{percent(rate)} of the replies end without an answer that can be parsed {unreadable.when}; the "
        f"reference answer stands somewhere in {percent(there)} of them",
        fix=f"{ADVICE['answers.unreadable']}; gnomon replay {evidence.run} env.strictness=last judges these replies "
        f"leniently ({RECIPE} has the present setting)",
        since=unreadable.since,
        read=pick(groups, lambda rollout: rollout.ending is Ending.UNREADABLE),
    )


def mentions(evidence: Evidence, rollout: RecordedRollout) -> bool:
    """Whether the reference answer stands in a reply as a word."""
    split = "test" if rollout.address.startswith("held-out:") else "train"
    answer = str(evidence.tasks.get((split, rollout.task), {}).get("answer") or "")
    return bool(answer) and re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", rollout.reply) is not None


def alike(evidence: Evidence) -> Finding | None:
    """All replies of a group are equal, at the temperature of the run."""
    groups = [g for g in evidence.groups if len(g) > 1 and max(rollout.tokens for rollout in g) >= SHORT]
    first = [group for group in groups if group[0].step == 0]
    equal = [group for group in first if len({rollout.reply for rollout in group}) == 1]
    if len(first) < SHORT or len(equal) <= ALIKE * len(first):
        return None
    return Finding(
        name="rollout.alike",
        sentence=f"in {percent(len(equal) / len(first))} of the first groups all replies are equal "
        f"(rollout.temperature={evidence.recipe.get('rollout.temperature', 1.0):g})",
        fix="give every rollout of a group its own seed, or raise the temperature: "
        + evidence.again("rollout.temperature=1.0"),
        read=pick(equal, lambda rollout: True),
    )


def foreign(recipe: Mapping[str, Any]) -> str:
    """How a forced renderer differs from what the model folder asks for, as a sentence; empty where it does not.

    Empty too where the folder is no longer there.
    """
    name = str(recipe.get("policy.renderer", "auto"))
    if name == "auto":
        return ""
    from gnomon.models.folder import present_folder
    from gnomon.models.tokenizer import Tokenizer
    from gnomon.rendering.choose import departure

    try:
        folder = present_folder(str(recipe.get("policy.path", "tiny")))
        return departure(Tokenizer(folder), name)  # type: ignore[arg-type]
    except GnomonError:
        return ""
