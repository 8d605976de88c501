"""Whether the estimators of pass@k have its gradient, from the weights of success counts."""

from functools import partial

from gnomon.objectives import objective
from gnomon.theory import GRID, count_weight
from gnomon_lab.studies import Claim, Study

GROUP, K = 8, 4


def against_pass_at_k(seed: int, name: str, k: int) -> dict[str, float]:
    """Largest error against d/dp of 1 − (1−p)ᵏ, and what a hard task weighs beside an easy one."""
    weight = count_weight(objective(name, **({} if k == 1 else {"k": k})), GROUP)
    assert weight is not None
    w = [weight.weight_at(p) for p in GRID]
    error = max(abs(value - k * (1 - p) ** (k - 1)) for value, p in zip(w, GRID, strict=True))
    return {"error": error, "w(.05) - w(.95)": w[0] - w[-1]}


study = Study(
    question="Does an objective of pass@k maximise pass@k, without bias, from groups larger than k?",
    why="Training on pass@1 leaves pass@k flat, as it was asked to (Yue et al. 2025, arXiv 2504.13837). Estimators of "
    "pass@k claim to maximise it instead (PKPO: Walder & Karkhanis 2025, arXiv 2505.15201). Groups of 8, k = 4.",
    arms={
        "rloo": partial(against_pass_at_k, name="rloo", k=1),
        **{name: partial(against_pass_at_k, name=name, k=K) for name in ("pkpo", "pkpo_loo", "pkpo_marginal")},
    },
    exact=True,
    claims=[
        *(Claim(measure="error", arm=arm, within=1e-12) for arm in ("rloo", "pkpo", "pkpo_loo", "pkpo_marginal")),
        Claim(measure="w(.05) - w(.95)", arm="rloo", within=1e-12),
        Claim(measure="w(.05) - w(.95)", arm="pkpo", above=3.0),
    ],
    prediction={"PASS": 0.95, "FAIL": 0.05, "INCONCLUSIVE": 0.0},
)
