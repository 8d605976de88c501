"""A service with the interface of Tinker: what its losses do, measured by how one step moves log-probabilities.

The service returns no gradient. With β₁ = β₂ = 0 and an ε far above every gradient, a step of Adam is one of plain
gradient descent, δθ = −(lr/ε)·g. To first order, a loss −Σ κ_t log π_t then moves the log-probability of token i by
(lr/ε)·Σ_t κ_t ⟨∇log π_i, ∇log π_t⟩. Steps with κ = 1 at a single token give the columns of this matrix. A loss is right
if its step moves every log-probability as the sum of its columns does, weighted with the κ that it declares.

Source: the documentation of the SDK, tinker 0.38.0, for the losses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.conformance.subject import Cell, Grade
from gnomon.errors import ConfigError
from gnomon.models.tinker import answer, first_model, open_client, sdk

__all__ = ["LOSSES", "Service", "conform_service"]

Values = NDArray[np.float64]
Pass = tuple[str, Sequence[Any]]
"""A loss and its examples."""
ROWS = ((5, 9, 6, 8), (7, 5, 10, 6, 9, 8), (11, 6, 7))
"""Token ids, which every vocabulary has. All but the first of a row are targets."""
LENGTHS = [len(row) - 1 for row in ROWS]
FIX = "mend what the service says, and run gnomon conform URL again"
EPSILON = 1e6
RANK = 8
MOVED = 0.004
"""Nats by which a step with all weights 1 moves a log-probability at most: far above rounding, and nearly linear."""
SAME = 0.05
"""Largest error of a step, relative to its size: of the linear approximation and the rounding of float32."""
NEAR = 0.05
"""Nats between trainer and sampler that rounding explains, in bfloat16 too."""
BAND = (0.8, 1.2)
"""Ratios between which `ppo` does not clip."""
LOSSES = {
    "cross_entropy": "κ_t = weights_t; the sum over tokens is not divided",
    "importance_sampling": "κ_t = r_t · advantages_t with r_t = exp(log π_t − logprobs_t)",
    "ppo": f"κ_t = r_t · advantages_t, or 0 where the ratio clipped to {BAND[0]} … {BAND[1]} gives less",
}
"""The losses that every service has, with the coefficients of ∇log π."""


class Service:
    """A model of the service at its first weights, and the steps that may be taken from there.

    Args: model: its name there; empty for the first that the service names.
    Raises: ConfigError E048 without a key; ResourceError E505, E508.
    """

    def __init__(self, model: str = "") -> None:
        self._client, self._types = open_client(), sdk().types
        self.model = model or first_model(FIX)
        training = self._wait_for(
            self._client.create_lora_training_client(base_model=self.model, rank=RANK, seed=0), f"train {self.model}"
        )
        self._state = self._wait_for(training.save_state("conform", overwrite=True), "save the state").path
        self.before = self._score(training)
        self.rate = 1e-3
        for _ in range(2):  # The second time, the step is small enough to be linear.
            most = float(np.abs(self.logp_change(self.cross(np.ones(len(self.before))))).max())
            if not 0 < most < math.inf:
                break
            self.rate *= MOVED / most
        self.moves = most
        """What the largest step of these moved; not positive and finite if no step can be measured."""

    def sampler_logp(self) -> Values:
        """[tokens] the log-probabilities of the targets under the sampler's base model."""
        sampling = self._wait_for(self._client.create_sampling_client(base_model=self.model), "sample")
        replies = [
            self._wait_for(sampling.compute_logprobs(self._types.ModelInput.from_ints(list(row))), "score")
            for row in ROWS
        ]
        return np.concatenate([np.array(each[1:], dtype=np.float64) for each in replies])

    def logp_change(self, *passes: Pass, share: float = 1.0) -> Values:
        """[tokens] how one step, after these passes, moves the log-probabilities. Args: share: of the usual rate."""
        loading = self._client.create_training_client_from_state_with_optimizer(self._state)
        training = self._wait_for(loading, "load the state")
        for loss, examples in passes:
            self._wait_for(training.forward_backward(list(examples), loss), f"compute {loss}")
        params = self._types.AdamParams(
            learning_rate=share * self.rate * EPSILON, beta1=0.0, beta2=0.0, eps=EPSILON, weight_decay=0.0,
            grad_clip_norm=0.0,
        )  # fmt: skip
        self._wait_for(training.optim_step(params), "take an optimiser step")
        return self._score(training) - self.before

    def cross(self, weights: Values, rows: Sequence[int] = (0, 1, 2)) -> Pass:
        return "cross_entropy", self._examples(rows, {"weights": weights})

    def policy(self, loss: str, ratio: Values, advantages: Values) -> Pass:
        """Args: loss: `importance_sampling` or `ppo`; ratio, advantages: [tokens]."""
        return loss, self._examples((0, 1, 2), {"logprobs": self.before - np.log(ratio), "advantages": advantages})

    def _examples(self, rows: Sequence[int], inputs: Mapping[str, Values]) -> list[Any]:
        own = {name: np.split(values, np.cumsum(LENGTHS)[:-1]) for name, values in inputs.items()}
        return [
            self._types.Datum(
                model_input=self._types.ModelInput.from_ints(list(ROWS[row][:-1])),
                loss_fn_inputs={"target_tokens": np.array(ROWS[row][1:])}
                | {name: values[row].astype(np.float32) for name, values in own.items()},
            )
            for row in rows
        ]

    def _score(self, training: Any) -> Values:
        examples = self._examples((0, 1, 2), {"weights": np.zeros(sum(LENGTHS))})
        output = self._wait_for(training.forward(examples, "cross_entropy"), "score")
        return np.concatenate([each["logprobs"].to_numpy() for each in output.loss_fn_outputs]).astype(np.float64)

    @staticmethod
    def _wait_for(future: Any, verb: str) -> Any:
        return answer(future, verb, FIX)


def conform_service(names: Sequence[str] = (), model: str = "") -> list[Cell]:
    """Every check of the losses of the service.

    Args: names: of `LOSSES`; by default all. model: as in `Service`.
    Raises: ConfigError E096 for a loss that has no check; E048, E505, E508 as in `Service`.
    """
    if unknown := sorted(set(names) - set(LOSSES)):
        fix = f"gnomon conform URL {' '.join(LOSSES)}"
        raise ConfigError("E096", f"there is no check of the loss {unknown[0]!r}", where="OBJECTIVE", fix=fix)
    service = Service(model)
    near = score_cell(service)
    if not 0 < service.moves < math.inf:
        what = "a step moves no log-probability, or moves it without end"
        return [near, cell("cross_entropy", "one step", Grade.FAIL, what)]
    columns = np.stack([service.logp_change(service.cross(one)) for one in np.eye(len(service.before))], axis=1)
    checks = {"cross_entropy": cross_cells, "importance_sampling": weight_cells, "ppo": clip_cells}
    return [near, *(each for name in names or LOSSES for each in checks[name](service, columns))]


def cell(loss: str, check: str, grade: Grade, text: str = "", **sizes: float) -> Cell:
    return Cell(objective=loss, check=check, grade=grade, text=text, equation=LOSSES[loss], **sizes)


def score_cell(service: Service) -> Cell:
    """Log-probabilities of the trainer and of the sampler, before any step."""
    error = float(np.abs(service.before - service.sampler_logp()).max())
    grade = Grade.PASS if error <= NEAR else Grade.FAIL
    return cell("cross_entropy", "log-probabilities", grade, f"sampler and trainer {error:.2g} nats apart", error=error)


def step_cell(loss: str, check: str, moves: Values, right: Values, wrong: Mapping[str, Values]) -> Cell:
    """The grade of a step. Args: moves, right: [tokens]; wrong: the moves of faults, by name."""
    size = float(np.linalg.norm(right))
    error, along = float(np.linalg.norm(moves - right)) / size, float(moves @ right)
    if error <= SAME:
        return cell(loss, check, Grade.PASS, error=error)
    apart = {text: float(np.linalg.norm(moves - each)) / size for text, each in wrong.items()}
    text = min(apart, key=lambda each: apart[each], default="")
    text = text if text and apart[text] <= SAME * max(1.0, float(np.linalg.norm(wrong[text])) / size) else ""
    norm = float(np.linalg.norm(moves))
    cosine = along / (norm * size) if norm else 0.0
    return cell(loss, check, Grade.FAIL, text, error=error, cosine=cosine, scale=along / size**2)


def altered_kappa(kappa: Values) -> dict[str, Values]:
    """Coefficients of a loss that is divided, shortened or reversed, by what is done to it."""
    lengths = np.repeat(LENGTHS, LENGTHS)
    ends = np.cumsum(LENGTHS)
    first, last = np.ones(len(kappa)), np.ones(len(kappa))
    first[ends - LENGTHS] = last[ends - 1] = 0
    return {
        "the sum is divided by all tokens": kappa / len(kappa),
        "the sum is divided by the rows": kappa / len(LENGTHS),
        "each row is divided by its own length": kappa / lengths,
        "the first token of a row is not in the loss": kappa * first,
        "the last token of a row is not in the loss": kappa * last,
        "its sign is reversed": -kappa,
    }


def comparison(
    loss: str, service: Service, columns: Values, kappa: Values, others: Mapping[str, Values]
) -> Callable[..., Cell]:
    """A function of a check and its passes. Args: kappa, others: [tokens] declared, and those of faults by name."""
    wrong = {text: columns @ each for text, each in {**altered_kappa(kappa), **others}.items()}

    def check(name: str, *passes: Pass) -> Cell:
        return step_cell(loss, name, service.logp_change(*passes), columns @ kappa, wrong)

    return check


def cross_cells(service: Service, columns: Values) -> Iterator[Cell]:
    name, ones = "cross_entropy", np.ones(len(service.before))
    plain = comparison(name, service, columns, ones, {})
    yield plain("one step", service.cross(ones))
    some = np.resize([1.0, 0.5, -0.25, 0.0, 2.0], len(ones))
    absent = {"weights are not used": ones, "negative weights count as none": some.clip(0)}
    yield comparison(name, service, columns, some, absent)("weights", service.cross(some))
    alone = [service.cross(ones, [index]) for index in range(len(ROWS))]
    firsts = np.cumsum(LENGTHS)
    of_last = np.arange(len(ones)) >= firsts[-2]
    lost = {"only the last pass counts": ones * of_last, "passes are averaged": ones / len(ROWS)}
    yield comparison(name, service, columns, ones, lost)("several passes", *alone)
    yield plain("order of rows", service.cross(ones, [2, 0, 1]))
    beside = ones * (np.arange(len(ones)) < LENGTHS[0])
    yield comparison(name, service, columns, beside, {})("beside longer rows", service.cross(beside))
    half = service.logp_change(service.cross(ones), share=0.5)
    yield step_cell(name, "half the rate", half, columns @ ones / 2, {"the learning rate is not used": columns @ ones})


def weight_cells(service: Service, columns: Values) -> Iterator[Cell]:
    name, count = "importance_sampling", len(service.before)
    advantages, ratio = np.resize([1.0, -1.0, 0.5], count), np.resize([1.0, 0.5, 2.0, 1.3], count)
    same = np.ones(count)
    yield comparison(name, service, columns, advantages, {})("one step", service.policy(name, same, advantages))
    faults = {
        "the ratio has no weight": advantages,
        "the ratio is upside down": advantages / ratio,
        "the ratio is clipped": kappa_of(ratio, advantages),
    }
    check = comparison(name, service, columns, ratio * advantages, faults)
    yield check("ratios", service.policy(name, ratio, advantages))


def clip_cells(service: Service, columns: Values) -> Iterator[Cell]:
    name, count = "ppo", len(service.before)
    advantages, same = np.resize([1.0, -1.0, 0.5], count), np.ones(count)
    yield comparison(name, service, columns, advantages, {})("one step", service.policy(name, same, advantages))
    low, high = BAND
    ratio = np.resize([high + 0.05, high - 0.05, low + 0.05, low - 0.05], count)
    inside = (ratio > low) & (ratio < high)
    faults = {
        "the ratio is not clipped": ratio * advantages,
        "the clipped ratio is used alone, without the minimum": np.where(inside, ratio * advantages, 0.0),
        "the ratio has no weight": np.where(kappa_of(ratio, advantages) == 0, 0.0, advantages),
    }
    check = comparison(name, service, columns, kappa_of(ratio, advantages), faults)
    yield check("clip edges", service.policy(name, ratio, advantages))


def kappa_of(ratio: Values, advantages: Values) -> Values:
    """The coefficients of `ppo`."""
    gain = ratio * advantages
    return np.where(gain <= ratio.clip(*BAND) * advantages, gain, 0.0)
