"""The card of an objective by command, and the list of all."""

from __future__ import annotations

import json
import subprocess
import sys
import unicodedata

import pytest

from commands import command
from gnomon.objectives import TABLE
from gnomon.theory import GRID


def test_the_list_has_every_objective_once():
    facts = json.loads(command("objective", "--json").stdout)
    assert [fact["name"] for fact in facts] == sorted(TABLE)
    assert all(fact["expected_gradient"] and fact["source"] for fact in facts)
    lines = command("objective").stdout.splitlines()
    assert [line.split()[0] for line in lines] == sorted(TABLE)
    bare = [unicodedata.normalize("NFD", line).replace("\u0304", "") for line in lines]
    starts = {line.rindex(fact["source"]) for line, fact in zip(bare, facts, strict=True)}
    assert len(starts) == 1, "columns stand under each other"
    assert command("objective").stdout.splitlines() == lines


def test_a_card_as_text_has_a_chart():
    text = command("objective", "grpo").stdout
    for part in ("Shao et al.", "by enumeration", "at the edges", "clip_low = 0.2", "measured", "●", "×"):
        assert part in text
    assert [line.split()[0] for line in text.splitlines()[-len(GRID) :]] == [f"{p:.2f}" for p in GRID]


def test_a_card_as_json_follows_the_group():
    few, many = (
        json.loads(command("objective", "maxrl", "--group", group, "--json").stdout, parse_constant=pytest.fail)
        for group in ("2", "16")
    )
    assert few["exact"]["groups"] == 120 and many["exact"] is None
    for facts, group in ((few, 2), (many, 16)):
        expected = [(1 - (1 - p) ** group) / p for p in facts["curve"]["p"]]
        assert facts["group"] == group and facts["curve"]["w"] == pytest.approx(expected)


def test_a_card_has_the_options_that_are_given_and_a_former_name_leads_there():
    refused = command("objective", "opo_loo").stderr
    fix = next(line for line in refused.splitlines() if "fix:" in line).partition("fix: ")[2].split()
    facts = json.loads(command("objective", *fix, "--json").stdout)
    assert (facts["name"], facts["expected_gradient"]) == ("opo baseline=others", "∇p")
    both = command("objective", *fix, "--compare", "opo").stdout.splitlines()
    assert both[0].split() == ["opo", "baseline=others", "opo"]


def test_nothing_that_moves_is_still_json():
    facts = json.loads(command("objective", "dr_grpo", "--group", "1", "--json").stdout, parse_constant=pytest.fail)
    assert facts["exact"]["noise"] is None and facts["curve"]["relative"] == [None] * len(GRID)


@pytest.mark.parametrize(
    ("words", "code", "fix"),
    [
        (["drgrpo"], "E013", "did you mean dr_grpo"),
        (["rloo", "--group", "1"], "E031", "gnomon objective rloo --group 4"),
        (["opo", "baseline=others", "--group", "1"], "E031", "gnomon objective opo baseline=others --group 4"),
        (["opo", "baseline=other"], "E011", "objective.baseline=group"),
        (["rloo", "--group", "0"], "--group", "greater than or equal to 1"),
    ],
)
def test_a_mistake_is_told_with_a_fix(words, code, fix):
    done = command("objective", *words)
    assert done.returncode == 2 and code in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert fix in done.stderr


def test_an_unknown_name_is_told_before_torch_is_imported():
    code = (
        "import sys\nsys.argv = ['gnomon', 'objective', 'drgrpo']\nfrom gnomon.cli import main\n"
        "try:\n main()\nexcept SystemExit as end:\n assert end.code == 2\n"
        "assert not {'torch', 'transformers', 'numpy'} & sys.modules.keys()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and "E013" in done.stderr, done.stderr


def test_two_objectives_stand_side_by_side():
    text = command("objective", "gpg", "--compare", "gpg_verl", "--group", "3").stdout
    lines = text.splitlines()
    assert lines[0].split() == ["gpg", "gpg_verl"] and max(map(len, lines)) <= 130
    for part in ("target", "the same", "w(p)/w(½)"):
        assert part in text
    weights = [line.split() for line in lines[-len(GRID) :]]
    assert [float(p) for p, _, _ in weights] == list(GRID)
    assert next(row for row in weights if row[0] == "0.50") == ["0.50", "1", "1"]
    assert float(weights[0][2]) > float(weights[0][1]), "dividing by the success rate favours hard prompts"


def test_a_comparison_as_json_has_both_cards():
    found = json.loads(command("objective", "rloo", "--compare", "maxrl", "--json").stdout)
    assert [card["name"] for card in found] == ["rloo", "maxrl"] and len({card["group"] for card in found}) == 1
    done = command("objective", "rloo", "--compare", "bnpo")
    assert done.returncode == 2 and "E013" in done.stderr and "objective=dapo" in done.stderr
