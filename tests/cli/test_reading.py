"""The reading commands: every number leads to the text, and all of them speak JSON."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import gnomon
from commands import command
from gnomon.engines.base import Tier
from gnomon.reading.summary import numerics_text
from gnomon.run.session import numerics


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("read") / "r"
    gnomon.train(
        "char_count",
        run=folder,
        quiet=True,
        steps=2,
        rollout={"prompts": 3, "group": 4, "max_tokens": 48},
        eval={"tasks": 4},
    ).close()
    return folder


def test_show_tells_what_the_run_is_worth(run):
    text = command("show", str(run)).stdout
    for word in ("fingerprint", "baseline", "held-out", "reward", "length", "exact", "log-probability: 0 at the start"):
        assert word in text
    facts = json.loads(command("show", str(run), "--json").stdout)
    assert facts["status"] == "finished" and facts["steps"] == 2 and len(facts["fingerprint"]) == 64
    for name in ("baseline", "held_out"):
        interval = facts[name]["pass_at"]["1"]
        assert interval["low"] <= interval["value"] <= interval["high"] and interval["n"] == 4
    assert len(facts["curve"]["reward"]) == 2


@pytest.mark.parametrize(
    ("facts", "line"),
    [
        (
            {"tier": "exact", "start_logp_mismatch": 0.0, "max_logp_mismatch": None},
            "exact   largest {}: 0 at the start",
        ),
        (
            {"tier": "measured", "start_logp_mismatch": 6.3e-4, "max_logp_mismatch": 2e-6},
            "measured   largest {}: 0.00063 at the start, 2e-06 in training",
        ),
    ],
)
def test_show_says_how_far_sampler_and_learner_agree(facts, line):
    assert numerics_text(facts) == ["numerics     " + line.format("|sampler - learner| log-probability")]


def test_a_run_begins_by_saying_its_tier_and_why():
    assert numerics(Tier.EXACT, 0.0).startswith("Tier exact: ") and "equal in every bit" in numerics(Tier.EXACT, 0.0)
    assert "Tier measured: " in numerics(Tier.MEASURED, 6.3e-4) and "up to 0.00063" in numerics(Tier.MEASURED, 6.3e-4)


def test_show_leads_from_a_step_to_a_rollout(run):
    rows = json.loads(command("show", str(run), "1", "--json").stdout)
    assert len(rows) == 12
    place = rows[5]["address"]
    assert place in command("show", str(run), "1").stdout
    facts = json.loads(command("show", str(run), place, "--json").stdout)
    assert facts["reward"] == rows[5]["reward"] and facts["reply"] and facts["asked"]["messages"]
    text = command("show", str(run), place).stdout
    assert "--- prompt" in text and f"verdict: {facts['status']}" in text and "advantage" in text


def test_show_leads_to_what_was_measured_on_held_out_tasks(run):
    rows = json.loads(command("show", str(run), "held-out:0", "--json").stdout)
    assert [row["address"] for row in rows] == [f"held-out:0:{task}:0" for task in range(4)]
    facts = json.loads(command("show", str(run), rows[2]["address"], "--json").stdout)
    assert facts["reward"] == rows[2]["reward"] and facts["asked"]["of"] == "held_out" and "advantage" not in facts


def test_a_missing_rollout_is_an_error(run):
    assert "E409" in command("show", str(run), "1:5:99").stderr
    missing = command("show", str(run), "500")
    assert missing.returncode == 1 and "E409" in missing.stderr and f"gnomon show {run} 1" in missing.stderr
    assert f"gnomon show {run} held-out:2" in command("show", str(run), "held-out:7").stderr
    assert "E004" in command("show", str(run), "one").stderr


def test_verify_and_diff(run, tmp_path):
    assert command("verify", str(run)).returncode == 0
    other = tmp_path / "other"
    gnomon.train(
        "char_count", run=other, quiet=True, seed=1, steps=2,
        rollout={"prompts": 3, "group": 4, "max_tokens": 48}, eval={"tasks": 4},
    ).close()  # fmt: skip
    parted = command("diff", str(run), str(other), "--json")
    assert parted.returncode == 1
    facts = json.loads(parted.stdout)
    assert "config.seed" in facts["config"] and facts["parted"]
    text = command("diff", str(run), str(other)).stdout
    assert f"A is {run}, B is {other}" in text and "B − A " in text and "held-out length: " in text, text
    assert facts["held_out"].keys() >= {"length"} and not re.search(r"metric .*\d\.\d{8}", text), text
    assert command("diff", str(run), str(run)).returncode == 0


def test_config_show_names_origins():
    text = command("config", "show", "group=4").stdout
    assert "rollout.group" in text and "argument 1" in text and "default" in text


def test_settings_as_json_are_json():
    facts = json.loads(command("config", "show", "--json").stdout, parse_constant=lambda name: pytest.fail(name))
    assert facts["budget.seconds"] == "inf" and facts["rollout.group"] == 8


def test_a_later_setting_may_choose_another_environment_or_objective(tmp_path):
    recipe = tmp_path / "r.toml"
    recipe.write_text('[env]\ntype = "countdown"\nlargest = 5\n[objective]\ntype = "grpo"\nepsilon = 1e-4\n')
    facts = json.loads(command("config", "show", str(recipe), "env=scramble", "objective=rloo", "--json").stdout)
    assert facts["env.type"] == "scramble" and "env.largest" not in facts and "objective.epsilon" not in facts
    kept = json.loads(command("config", "show", str(recipe), "env=countdown", "env.target=9", "--json").stdout)
    assert kept["env.largest"] == 5 and kept["objective.epsilon"] == 1e-4


def test_control_signs_of_a_model_do_not_reach_the_terminal():
    from gnomon.terminal import printable

    assert printable("a\x1b[31mb\r\x07é\ud800\n") == "a\\x1b[31mb\\r\\x07é\\ud800\n"


def test_exact_prints_what_an_objective_climbs():
    text = command("exact", "dr_grpo", "--group", "3").stdout
    for word in ("target", "bias", "cosine", "variance"):
        assert word in text
    assert "did you mean dr_grpo" in command("exact", "drgrpo").stderr
    assert "E031" in command("exact", "rloo", "--group", "1").stderr


def test_check_and_play():
    assert command("check", "char_count").returncode == 0
    played = subprocess.run(
        [sys.executable, "-m", "gnomon", "play", "arithmetic"], input="-5\n", capture_output=True, text=True
    )
    assert played.returncode == 0 and "correct" in played.stdout, played.stdout + played.stderr
    unanswered = command("play", "arithmetic")
    assert unanswered.returncode == 1 and "The input ended before the episode" in unanswered.stderr


def test_show_tells_a_conversation_turn_by_turn(tmp_path):
    """The tiny policy was never told this game; 32 episodes of at most 5 guesses hold one of more than one turn."""
    small = {"prompts": 8, "group": 4, "max_tokens": 32}
    gnomon.train("guess_number", run=tmp_path / "r", quiet=True, steps=1, rollout=small, eval={"tasks": 1}).close()
    lines = json.loads(command("show", str(tmp_path / "r"), "0", "--json").stdout)
    texts = (command("show", str(tmp_path / "r"), line["address"]).stdout for line in lines)
    talk = next(text for text in texts if "--- observation" in text)
    assert talk.startswith("--- prompt (task ") and "Guess 1-20" in talk
    assert talk.count("--- reply (") == talk.count("--- observation") + 1 and "--- verdict: " in talk
