"""Record every rollout of a GRPO trainer of TRL 1.16 in a run folder.

    with record(trainer, "runs/trl", correct="reward >= 1", answer="solution"):
        trainer.train()

`gnomon view`, `tail` and `show` read the folder while the trainer runs. The recorder only reads: random draws, losses
and logs of the trainer are what they are without it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from gnomon.errors import ConfigError
from gnomon.integrations.imports.rollout import Foreign, messages_of, number, parts_of, single_turn, task_of, turns_of
from gnomon.integrations.imports.run import ImportedRun
from gnomon.types import Message, Turn

__all__ = ["record"]

RELEASE = "1.16."
"""Release of TRL whose trainer has the methods that are wrapped. They are not part of its public interface."""
WEIGHTS = 64
"""Weights that are recorded after each step, evenly spread over all that are trained."""


@contextmanager
def record(trainer: Any, folder: str | Path, *, correct: str = "", answer: str = "") -> Iterator[None]:
    """Write the rollouts of a `GRPOTrainer` to a new run folder until the block ends.

    A step is the trainer's `global_step` when the rollouts were generated. Of several processes, the main one records
    its own rollouts. Log-probabilities of the sampler are recorded where TRL has them, which is with vLLM; those of the
    policy, and the coefficient of every token, as its loss is computed (without Liger). A completion of several
    messages has tokens if TRL has a mask of tools for it.

    Args:
        correct: the rule for right and wrong, such as `"reward >= 1"`; empty for no verdicts.
        answer: column of the data set that holds the reference answer.
    Raises: ConfigError E071 for another release of TRL; as `ImportedRun`.
    """
    if not version("trl").startswith(RELEASE):
        raise ConfigError(
            "E071", f"the recorder does not know TRL {version('trl')}", where="gnomon.integrations.trl.record",
            why="it wraps methods of the trainer that each release may change",
            fix=f'pip install "trl=={RELEASE}*", or log_completions=True, logging_steps=1 and gnomon import',
        )  # fmt: skip
    if not trainer.accelerator.is_main_process:
        yield
        return
    with ImportedRun(folder, format="trl recorder", correct=correct, facts={"trl": version("trl")}) as run:
        if run.rule:
            run.rule(dict.fromkeys(("reward", *trainer.reward_func_names)), "gnomon.integrations.trl.record")
        recorder = Recorder(trainer, run, answer)
        for name, observer in recorder.watched.items():
            setattr(trainer, name, watching(getattr(trainer, name), observer))
        try:
            yield
        finally:
            for name in recorder.watched:
                delattr(trainer, name)
            recorder.flush()


def watching(method: Any, observer: Any) -> Any:
    """The method, whose arguments and result are shown to a function."""

    def call(*arguments: Any, **options: Any) -> Any:
        result = method(*arguments, **options)
        observer(result, *arguments, **options)
        return result

    return call


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A rollout of a step that is not stored yet."""

    rollout: Foreign
    tokens: tuple[int, ...]
    """Of prompt and completion, those of tools included."""
    mask: tuple[bool, ...]
    """Which tokens of the completion the policy sampled."""


@dataclass(slots=True, kw_only=True)
class Pass:
    """A forward pass over the policy of which a gradient is taken."""

    tokens: list[tuple[int, ...]]
    """Of every row."""
    there: Any
    """[rows, longest] bool, tokens of completions."""
    logp: Any
    """[rows, longest]"""
    gradient: Any = None
    """[rows, longest] of the loss in them."""


class Recorder:
    """Gathers the rollouts of a step, and stores them when the next step begins."""

    def __init__(self, trainer: Any, run: ImportedRun, answer: str) -> None:
        self.trainer, self.run, self.answer = trainer, run, answer
        self.waiting: list[Waiting] = []
        self.watched = {
            "_generate_and_score_completions": self.record_generation, "_calculate_rewards": self.record_rewards,
            "_get_per_token_logps_and_entropies": self.record_pass, "_get_grad_norm": self.record_norm,
        }  # fmt: skip
        """Methods of the trainer, with what sees their results."""
        self._arguments: tuple[Any, ...] = ()
        self._rewards: Any = None
        self._passes: list[Pass] = []
        self._norm: float | None = None

    def record_rewards(self, rewards: Any, *arguments: Any) -> None:
        """Keep what was judged, and the rewards. Args: rewards: [rollout of all processes, reward function]."""
        self._arguments, self._rewards = arguments, rewards

    def record_generation(self, output: Mapping[str, Any], inputs: Sequence[Mapping[str, Any]]) -> None:
        """Record the rollouts of one call."""
        rollouts = list(self._rollouts(inputs, output))
        if self.waiting and self._place(self.waiting[0]) != self._place(rollouts[0]):
            self.flush()
        self.waiting += rollouts

    def record_pass(self, result: Any, model: Any, ids: Any, mask: Any, keep: int, *_: Any, **__: Any) -> None:
        """Keep the log-probabilities of a pass whose gradient is taken, and that gradient when it is."""
        logp = result[0]
        if not logp.requires_grad:
            return
        there = mask.bool()
        tokens = [tuple(row[real].tolist()) for row, real in zip(ids, there, strict=True)]
        entry = Pass(tokens=tokens, there=there[:, -keep:].cpu(), logp=logp.detach().double().cpu())
        logp.register_hook(lambda gradient: setattr(entry, "gradient", gradient.detach().double().cpu()))
        self._passes.append(entry)

    def record_norm(self, norm: Any, *_: Any, **__: Any) -> None:
        """Keep the norm of the first gradient after rollouts were sampled."""
        self._norm = float(norm) if self._norm is None and norm is not None else self._norm

    def flush(self) -> None:
        """Store what was gathered."""
        if not self.waiting:
            return
        if self.waiting[0].rollout.held_out:
            self.run.evaluation(self.waiting[0].rollout.step, [each.rollout for each in self.waiting])
        else:
            rollouts = [self._with_pass(each) for each in self.waiting]
            weights = some_weights(self.trainer.model)
            self.run.step(self.waiting[0].rollout.step, rollouts, grad_norm=self._norm, weights=weights)
            self._passes, self._norm = [], None
        self.waiting = []

    def _with_pass(self, each: Waiting) -> Foreign:
        """The rollout with what the first pass over it has computed, if one has."""
        for one in self._passes:
            if each.tokens in one.tokens:
                row = one.tokens.index(each.tokens)
                one.tokens[row] = ()  # Equal rollouts have a row each.
                logp, gradient = (
                    ()
                    if table is None
                    else [x for x, own in zip(table[row][one.there[row]].tolist(), each.mask, strict=True) if own]
                    for table in (one.logp, one.gradient)
                )
                return replace(each.rollout, policy_logp=tuple(logp), coefficients=tuple(-x for x in gradient))
        return each.rollout

    def _place(self, each: Waiting) -> tuple[int, bool]:
        return each.rollout.step, each.rollout.held_out

    def _rollouts(self, inputs: Sequence[Mapping[str, Any]], output: Mapping[str, Any]) -> Iterator[Waiting]:
        _, prompts, completions, ids = self._arguments
        names = self.trainer.reward_func_names
        weights = dict(zip(names, self.trainer.reward_weights.tolist(), strict=True))
        first = self.trainer.accelerator.process_index * len(prompts)
        rewards = self._rewards[first : first + len(prompts)].tolist()
        padded = zip(output["prompt_ids"], output["prompt_mask"], strict=True)
        prompt_ids = [row[mask.bool()].tolist() for row, mask in padded]
        logprobs, tools = output.get("sampling_per_token_logps"), output.get("tool_mask")
        step, training = int(self.trainer.state.global_step), bool(self.trainer.model.training)
        for index, completion in enumerate(completions):
            prompt = messages_of(prompts[index], "user")
            values = dict(zip(names, map(number, rewards[index]), strict=True))
            parts = parts_of(values.items(), weights)
            size = len(ids[index])
            logps = () if logprobs is None else logprobs[index][:size].tolist()
            sampled_mask = (True,) * size if tools is None else tuple(tools[index][:size].bool().tolist())
            rollout = Foreign(
                task=task_of(prompt, inputs[index].get(self.answer) if self.answer else None),
                turns=self._turns(prompt, completion, prompt_ids[index], list(ids[index]), logps, step, sampled_mask),
                source=f"step {step}, row {first + index}",
                step=step,
                held_out=not training,
                reward=sum(part.weight * part.value for part in parts) if parts else None,
                parts=parts,
                values=values,
                advantage=float(output["advantages"][index]) if training else None,
            )
            yield Waiting(rollout=rollout, tokens=(*prompt_ids[index], *ids[index]), mask=sampled_mask)

    def _turns(
        self,
        prompt: tuple[Message, ...],
        completion: Any,
        prompt_ids: list[int],
        ids: list[int],
        logprobs: Sequence[float],
        step: int,
        sampled_mask: Sequence[bool],
    ) -> tuple[Turn, ...]:
        """The turns of a completion, a text or messages; their tokens are known if each reply is a run of the mask."""
        replies = messages_of(completion, "assistant")
        finish = "eos" if ids and ids[-1] in self.trainer.eos_token_ids else "length"
        if len(replies) == 1:
            tokens: dict[str, Any] = {"prompt_ids": prompt_ids, "token_ids": ids, "logprobs": logprobs}
            return single_turn(prompt, replies[0].content, finish=finish, version=step, **tokens)
        single_turns: list[Turn] = []
        turns, parts = turns_of((*prompt, *replies), finish)[1], runs(sampled_mask)
        if len(turns) != len(parts):
            return turns
        for turn, (start, end) in zip(turns, parts, strict=True):
            tokens = {"prompt_ids": [*prompt_ids, *ids[:start]], "token_ids": ids[start:end]}
            tokens |= {"logprobs": logprobs[start:end], "version": step}
            ended = finish if end == len(ids) else "stop"
            single_turns += single_turn(turn.messages, turn.completion.text, finish=ended, **tokens)
        return tuple(single_turns)


def runs(sampled_mask: Sequence[bool]) -> list[tuple[int, int]]:
    """Start and end of every run of sampled tokens."""
    edges = [at for at, (one, next_) in enumerate(pairwise((False, *sampled_mask, False))) if one != next_]
    return list(zip(edges[::2], edges[1::2], strict=True))


def some_weights(model: Any) -> list[float]:
    """`WEIGHTS` of the trained weights, evenly spread over all of them."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    ends = list(accumulate(parameter.numel() for parameter in parameters))
    values = []
    for index in range(min(WEIGHTS, ends[-1] if ends else 0)):
        at = index * ends[-1] // WEIGHTS if ends[-1] > WEIGHTS else index
        which = bisect_right(ends, at)
        values.append(float(parameters[which].detach().flatten()[at - ends[which]]))
    return values
