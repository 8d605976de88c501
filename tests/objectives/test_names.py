"""Every published method and every name in the registries of other trainers has its row, or the reason why none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gnomon.objectives import OPTIONS, OptionError, objective
from gnomon.objectives.options import ELSEWHERE, REFUSED

PAGE = Path(__file__).parents[2] / "docs/objective-names.md"

METHODS = {
    "OPO": "opo",
    "GPG, and as verl computes it": "gpg gpg_verl",
    "Lite PPO": "lite_ppo",
    "Magistral": "magistral",
    "ScaleRL": "scale_rl",
    "PSR, W-REINFORCE": "w_reinforce",
    "RAFT++ and Reinforce-Rej": "raft_pp reinforce_rej",
    "entropic risk": "tilted",
    "GDPO": "gdpo",
    "CPGD": "cpgd",
    "DCPO": "dcpo",
    "MiniRL": "mini_rl",
    "Clip-Cov": "clip_cov",
    "GEPO": "gepo",
    "BAPO": "bapo",
    "GPPO": "gppo",
    "ASPO": "aspo",
    "DPPO by total variation and by KL": "dppo",
    "LUSPO": "luspo",
    "VESPO": "vespo",
    "OPSM": "opsm",
    "M2PO": "m2po",
    "ReMax": "remax",
    "optimal token baseline, also over turns": "otb",
    "trajectory balance": "tba",
    "A*-PO": "a_star_po",
    "Kimi's mirror descent": "kimi_k15",
    "REAL": "real",
    "FIPO": "fipo",
    "RL-ZVP": "rl_zvp",
    "token-entropy masking (80/20)": "entropy_mask",
    "GiGPO and HGPO": "gigpo hgpo",
    "KTO, CPO, ORPO and TPO online": "online_kto online_cpo online_orpo tpo",
    "ECHO": "echo",
    "a critic with a λ of its own": "vc_ppo vapo",
    "on-policy distillation by tokens and by answers, and of oneself": "opd opsd",
}
"""Rows of published methods, by what they are called there."""

NONE = {"KL-Cov": "kl_cov", "BNPO": "bnpo", "hierarchical GRPO": "hierarchical_grpo"}
"""Published methods without a row, by the name that is refused with the reason."""

REGISTRIES = {
    "TRL": "grpo dr_grpo dapo bnpo cispo sapo luspo vespo GDPO KTO CPO ORPO TPO GKD GOLD SDFT SDPO OnlineDPOTrainer",
    "verl": "grpo grpo_passk reinforce_plus_plus reinforce_plus_plus_baseline remax rloo opo gpg "
    "optimal_token_baseline tir_optimal_token_baseline gdpo gae vanilla dppo_tv dppo_kl gspo sapo clip_cov kl_cov "
    "geo_mean dro cispo",
    "prime-rl": "grpo max_rl rae hierarchical_grpo opd opsd sft echo ipo",
    "SkyRL": "gae grpo rloo reinforce++ maxrl regular dual_clip gspo cispo rollout_is clip_cov kl_cov sapo "
    "cross_entropy dppo",
    "AReaL": "mean_level std_level mean_leave1out sapo m2po loglinear",
    "NeMo-RL": "grpo gdpo reinforce_plus_plus distillation",
    "slime": "grpo gspo cispo reinforce_plus_plus reinforce_plus_plus_baseline ppo IcePop OPSM distillation",
    "OpenRLHF": "reinforce rloo reinforce_baseline group_norm dr_grpo",
    "ms-swift": "fipo",
    "verl-agent": "gigpo hgpo",
}
"""Names of objectives in the registries of other trainers."""


def tables() -> dict[str, list[list[str]]]:
    """The tables of names of the page, by the trainer: of a section, or of a row in a section of several."""
    found: dict[str, list[list[str]]] = {}
    for section in re.split(r"^## ", PAGE.read_text(), flags=re.M)[1:]:
        title, _, body = section.partition("\n")
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in body.splitlines() if line[:1] == "|"]
        if not rows or rows[0][0] != "name":
            continue
        for row in rows[2:]:
            trainer, _, _ = row[0].partition(", ")
            found.setdefault(title if title in REGISTRIES else trainer, []).append(row)
    return found


@pytest.mark.parametrize("method", METHODS)
def test_a_published_method_has_its_rows(method: str) -> None:
    for name in METHODS[method].split():
        assert objective(name).name == name


@pytest.mark.parametrize("method", NONE)
def test_a_method_without_a_row_is_refused_with_the_reason(method: str) -> None:
    instead, reason = REFUSED[NONE[method]]
    assert instead in OPTIONS
    with pytest.raises(OptionError, match=re.escape(reason)):
        objective(NONE[method])


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_name_of_another_trainer_suggests_the_row_of_the_page(name: str) -> None:
    """And not the row whose name looks most like it, such as `sft` for SDFT."""
    row = ELSEWHERE[name]
    rows = [each for table in tables().values() for each in table]
    on_page = [each for each in rows if re.search(rf"(?<!\w){re.escape(name)}(?![\w+])", each[0], re.IGNORECASE)]
    assert any(f"`{row}`" in each[1] for each in on_page)
    for spelled in (name, name.upper()):
        with pytest.raises(OptionError, match=rf"did you mean {row}\?"):
            objective(spelled)


def test_every_refused_name_is_a_known_method() -> None:
    assert set(REFUSED) == set(NONE.values())


@pytest.mark.parametrize("trainer", REGISTRIES)
def test_every_name_of_a_registry_is_on_the_page(trainer: str) -> None:
    """With a row that exists, or none and the reason."""
    rows = tables()[trainer]
    for name in REGISTRIES[trainer].split():
        near = [row for row in rows if re.search(rf"(?<![\w+]){re.escape(name)}(?![\w+])", row[0])]
        assert near, f"{name} of {trainer} is not on the page"
    for name, row, difference in rows:
        assert row.startswith("none") or row.startswith("the row") or re.search(r"`\w+`", row), name
        assert not row.startswith("none") or difference, f"{name} has no row, and no reason is stated"
        for known in re.findall(r"`(\w+)`", row):
            assert known in OPTIONS, f"{name} of {trainer}: no row is called {known}"
