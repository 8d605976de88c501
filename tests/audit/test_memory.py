"""A verifier that needs much memory is judged under the limit of the recipe, in the trial and in the audit."""

from pathlib import Path

import pytest

import gnomon
from audit.holds import Holds
from commands import command, interpreter
from gnomon.audit import VerdictLimits, audit, preflight, subject_of
from gnomon.config import overrides, resolve
from gnomon.envs import Env
from gnomon.errors import VerifierError
from gnomon.run.trial import limits_of, trial

KINDS = {
    "a map": Holds(mib=1536),
    "an object": Holds(mib=1536, kind="object"),
    "a library": Holds(mib=1536, kind="library"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_trial_without_memory_names_the_setting_that_helps(kind: str) -> None:
    with pytest.raises(VerifierError, match="over 1024 MiB of memory") as refusal:
        trial(KINDS[kind])
    assert refusal.value.code == "E107" and refusal.value.fix == "workers.memory_mib=4096"
    limits = limits_of(resolve([overrides([refusal.value.fix])])[0].workers)
    assert {judgement.outcome for judgement in trial(KINDS[kind], limits)} == {"verdict"}


def test_an_audit_has_the_limits_of_its_subject(tmp_path: Path) -> None:
    env: Env = Holds(mib=2560)
    assert preflight(env, limits=VerdictLimits(memory=2**32)).passed
    report = audit(subject_of(env, count=8, limits=VerdictLimits(memory=2**31)), axes=["availability"])
    (finding,) = report.blocking
    assert finding.what.endswith("over 2048 MiB of memory") and finding.fix == "workers.memory_mib=8192"
    script = tmp_path / "repro.py"
    script.write_text(finding.repro)
    done = interpreter(str(script))
    assert done.returncode == 1 and "over 2048 MiB" in done.stdout, done.stderr


@pytest.mark.long
def test_a_recipe_and_a_command_state_the_limit(tmp_path: Path) -> None:
    def train(**settings: object) -> None:
        env = Holds(mib=2560)
        gnomon.train(env, run=tmp_path / "run", steps=1, prompts=2, group=2, max_tokens=8, quiet=True, **settings)

    with pytest.raises(VerifierError, match="over 2048 MiB"):
        train()
    train(workers={"memory_mib": 4096})
    words = "audit", "audit.holds:Holds", "mib=2560", "--tasks", "8"
    refused = command(*words)
    assert refused.returncode == 1 and "over 1024 MiB" in refused.stdout, refused.stdout + refused.stderr
    accepted = command(*words, "workers.memory_mib=4096")
    assert accepted.returncode == 0, accepted.stdout + accepted.stderr
