"""The entropy at every sampled token is recorded on request, and changes nothing else."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from statistics import fmean

import pytest

import gnomon
from gnomon.errors import ConfigErrors
from gnomon.store import RunReader
from gnomon.store.codec import floats_of

SMALL = {"threads": 1, "steps": 1, "eval": {"tasks": 2}, "quiet": True}
SHAPES = {
    "several turns": ("guess_number", "dr_grpo"),
    "prefilled tokens": ("char_count", "verifree"),
    "relabelled contexts": ("char_count", "fcp"),
}


def weights(run: Path) -> dict[str, str]:
    return {path.name: sha256(path.read_bytes()).hexdigest() for path in run.glob("checkpoints/*/*.safetensors")}


def bodies(run: Path) -> list[dict[str, object]]:
    """Of every record but the first, without entropies."""
    with RunReader(run) as reader:
        return [{**record.body, "entropy": None} for record in reader.records() if record.kind != "genesis"]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_record_of_entropies_changes_no_weight_and_no_other_record(shape, tmp_path):
    env, objective = SHAPES[shape]
    for name, entropy in (("a", False), ("b", True)):
        rollout = {"prompts": 2, "group": 2, "max_tokens": 12, "entropy": entropy}
        gnomon.train(env, run=tmp_path / name, objective=objective, rollout=rollout, **SMALL).close()
    assert weights(tmp_path / "a") == weights(tmp_path / "b") != {}
    assert bodies(tmp_path / "a") == bodies(tmp_path / "b")
    with RunReader(tmp_path / "a") as reader:
        assert "entropy" not in reader.genesis["config"]["rollout"]
        assert not any("entropy" in record.body for record in reader.records("rollout"))
    with RunReader(tmp_path / "b") as reader:
        records = [*reader.records("rollout"), *reader.records("held_out")]
        steps = {step: body["metrics"]["entropy"] for step, body in enumerate(reader.metrics())}
        bodies_of = [record.body for record in records if "entropy" in record.body]
        recorded = {
            step: [x for record in reader.records("rollout", step) for x in floats_of(record.body, "entropy")]
            for step in steps
            if objective == "dr_grpo"
        }
    if objective != "fcp":
        assert len(bodies_of) == len(records)
    for body in bodies_of:
        known = zip(floats_of(body, "entropy"), floats_of(body, "logprobs"), strict=True)
        assert all((entropy != entropy) == (logp != logp) for entropy, logp in known)
    for step, entropies in recorded.items():
        assert min(entropies) >= 0 and max(entropies) < 6
        # The metric leaves out groups without a gradient, so the two means differ, but not by much.
        assert fmean(entropies) == pytest.approx(steps[step], abs=1.0)


def test_an_engine_that_does_not_know_it_is_refused(tmp_path):
    with pytest.raises(ConfigErrors, match=r"E045.*entropy"):
        settings = {"rollout": {"entropy": True}, "engine": {"type": "vllm", "python": "python"}}
        gnomon.train("char_count", run=tmp_path / "a", quiet=True, **settings)
