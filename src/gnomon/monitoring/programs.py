"""What can go wrong between a program and the policy: by rollout, and how often it is worth an alarm."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gnomon.types import Calls

__all__ = ["FAULTS", "Fault", "faults"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something that a rollout may have."""

    share: float
    """Share of the rollouts from which on it is reported."""
    sentence: str
    """Continues `57% of the programs`."""
    advice: str


LIMITS = {
    "time": "raise env.wall_seconds, or let the program make fewer or shorter calls",
    "memory": "raise env.memory_mib, or let the program use less memory",
    "files": "raise `changed_bytes` of the environment's `launch`, or remove temporary files in the program",
    "calls": "raise env.calls, or let the program end after fewer calls",
    "tokens": "raise env.tokens, or lower rollout.max_tokens",
    "context": "raise rollout.context, or let the program shorten its history",
}
"""What to do, by the limit that a program reached."""
FAULTS: Mapping[str, Fault] = {
    "program.silent": Fault(
        share=0.5,
        sentence="received no reply of the policy",
        advice="read their output; the program must call the URL in OPENAI_BASE_URL or ANTHROPIC_BASE_URL and wait for "
        "the reply (docs/agents.md)",
    ),
    "program.failed": Fault(
        share=0.5,
        sentence="ended with an exit status other than 0",
        advice="read their output; if the program is right to end so, let it exit with status 0",
    ),
    **{
        f"program.limit_{name}": Fault(share=0.2, sentence=f"reached the limit of {name}", advice=words)
        for name, words in LIMITS.items()
    },
    "program.refused": Fault(
        share=0.2,
        sentence="made a call that the endpoint refuses",
        advice="read the reason, and let the program leave out what is not served (docs/agents.md#what-is-served)",
    ),
    "program.malformed": Fault(
        share=0.5,
        sentence="got a tool call that cannot be read",
        advice="raise rollout.max_tokens if these replies are truncated; if not, show the form of a call in the prompt",
    ),
    "program.retried": Fault(
        share=0.2,
        sentence="repeated a call, because its client gave up on the first reply",
        advice="raise the timeout of the program's client, or lower rollout.prompts",
    ),
    "program.undelivered": Fault(
        share=0.2,
        sentence="did not receive a reply that was sampled for them; such a reply is not trained",
        advice="let the program wait for every call before it ends, and raise the timeout of its client",
    ),
}
"""By name of the alarm and of the doctor's finding."""


def faults(body: Mapping[str, Any]) -> frozenset[str]:
    """The faults of a stored rollout; none without a program."""
    if not body.get("end"):
        return frozenset()
    end, calls = json.loads(body["end"]), Calls(**body.get("calls", {}))
    checks = {
        "program.silent": "turns" in body and not body["turns"],
        "program.failed": end["status"] not in (0, None),
        "program.refused": bool(calls.refusals_except_limits),
        "program.malformed": calls.malformed > 0,
        "program.retried": calls.retried > 0,
        "program.undelivered": calls.undelivered > 0,
        **{f"program.limit_{name}": name == end["limit"] or name in calls.limits for name in LIMITS},
    }
    return frozenset(name for name, holds in checks.items() if holds)
