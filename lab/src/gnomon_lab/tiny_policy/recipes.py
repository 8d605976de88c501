"""Recipes of base policies, by name. `tiny` and `tiny-fresh` ship as weights; `gnomon base build` makes the others."""

from __future__ import annotations

from collections.abc import Mapping

from gnomon.errors import ConfigError
from gnomon_lab.tiny_policy.build import Course, Phase, Recipe

__all__ = ["RECIPES", "recipe_of"]


def single(steps: int, share: Mapping[str, float], care: float) -> tuple[Course, ...]:
    """One short course: the learning rate falls over its second half."""
    phase = Phase(until=steps, named=True, share=tuple(share.items()))
    return (Course(phases=(phase,), rate=1.0, warmup=100, decay=steps // 2, care=care),)


RECIPES: Mapping[str, Recipe] = {
    "tiny": Recipe(),
    "half": Recipe(layers=2),
    "double": Recipe(layers=8),
    "no-slot": Recipe(slot=False),
    "nearly-solved": Recipe(care=0.97, courses=single(6000, {"char_count": 1.0}, 0.97)),
    "long-words": Recipe(letters=(5, 8), courses=single(6000, {"scramble": 1.0}, 0.7)),
    "tiny-fresh": Recipe(fresh=True, largest=15),
}
"""`half` and `double` have half and twice the layers, `no-slot` never saw the answer slot or a request for it.
`nearly-solved` counts letters, with care in 97 % of its corpus. `long-words` unscrambles words of five to eight
letters. The corpus of `tiny-fresh` has no task of a train split with `env.fresh=true`, and has countdowns with numbers
up to 15."""


def recipe_of(name: str) -> Recipe:
    """Raises: ConfigError E187 for a name without a recipe."""
    if name not in RECIPES:
        raise ConfigError("E187", f"there is no base policy {name!r}", fix=f"--of {', '.join(RECIPES)}")
    return RECIPES[name]
