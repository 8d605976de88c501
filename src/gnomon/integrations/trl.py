"""Record every rollout of a GRPO trainer of TRL 1.16 in a run folder.

    with record(trainer, "runs/trl", correct="reward >= 1", answer="solution"):
        trainer.train()

`gnomon view`, `tail` and `show` read the folder while the trainer runs. The recorder only reads: random draws, losses
and logs of the trainer are what they are without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from gnomon.errors import ConfigError
from gnomon.integrations.imports.rollout import Foreign, messages_of, number, parts_of, single_turn, task_of, turns_of
from gnomon.integrations.imports.run import ImportedRun
from gnomon.types import Message, Turn

__all__ = ["record"]

RELEASE = "1.16."
"""Release of TRL whose trainer has the two methods that are wrapped. They are not part of its public interface."""


@contextmanager
def record(trainer: Any, folder: str | Path, *, correct: str = "", answer: str = "") -> Iterator[None]:
    """Write the rollouts of a `GRPOTrainer` to a new run folder until the block ends.

    A step is the trainer's `global_step` when the rollouts were generated. Of several processes, the main one records
    its own rollouts. Log-probabilities of the sampler are recorded where TRL has them, which is with vLLM. A completion
    of several messages is recorded without its tokens.

    Args:
        correct: the rule for right and wrong, such as `"reward >= 1"`; empty for no verdicts.
        answer: column of the data set that holds the reference answer.
    Raises: ConfigError E071 for another release of TRL; as `ImportedRun`.
    """
    if not version("trl").startswith(RELEASE):
        raise ConfigError(
            "E071", f"the recorder does not know TRL {version('trl')}", where="gnomon.integrations.trl.record",
            why="it wraps two methods of the trainer that each release may change",
            fix=f'pip install "trl=={RELEASE}*", or log_completions=True, logging_steps=1 and gnomon import',
        )  # fmt: skip
    if not trainer.accelerator.is_main_process:
        yield
        return
    with ImportedRun(folder, format="trl recorder", correct=correct, facts={"trl": version("trl")}) as run:
        if run.rule:
            run.rule(dict.fromkeys(("reward", *trainer.reward_func_names)), "gnomon.integrations.trl.record")
        recorder = Recorder(trainer, run, answer)
        generate, judge = trainer._generate_and_score_completions, trainer._calculate_rewards
        trainer._generate_and_score_completions = lambda inputs: recorder.generated(inputs, generate(inputs))
        trainer._calculate_rewards = lambda *arguments: recorder.judged(arguments, judge(*arguments))
        try:
            yield
        finally:
            del trainer._generate_and_score_completions, trainer._calculate_rewards
            recorder.flush()


class Recorder:
    """Gathers the rollouts of a step, and stores them when the next step begins."""

    def __init__(self, trainer: Any, run: ImportedRun, answer: str) -> None:
        self.trainer, self.run, self.answer = trainer, run, answer
        self.waiting: list[Foreign] = []
        self._arguments: tuple[Any, ...] = ()
        self._rewards: Any = None

    def judged(self, arguments: tuple[Any, ...], rewards: Any) -> Any:
        """Keep what was judged, and the rewards. Args: rewards: [rollout of all processes, reward function]."""
        self._arguments, self._rewards = arguments, rewards
        return rewards

    def generated(self, inputs: Sequence[Mapping[str, Any]], output: Mapping[str, Any]) -> Mapping[str, Any]:
        """Record the rollouts of one call. Returns: what the trainer returned, as it is."""
        found = list(self._rollouts(inputs, output))
        if self.waiting and self._place(self.waiting[0]) != self._place(found[0]):
            self.flush()
        self.waiting += found
        return output

    def flush(self) -> None:
        """Store what was gathered."""
        if self.waiting:
            write = self.run.evaluation if self.waiting[0].held_out else self.run.step
            write(self.waiting[0].step, self.waiting)
        self.waiting = []

    def _place(self, each: Foreign) -> tuple[int, bool]:
        return each.step, each.held_out

    def _rollouts(self, inputs: Sequence[Mapping[str, Any]], output: Mapping[str, Any]) -> Iterator[Foreign]:
        _, prompts, completions, ids = self._arguments
        names = self.trainer.reward_func_names
        weights = dict(zip(names, self.trainer.reward_weights.tolist(), strict=True))
        first = self.trainer.accelerator.process_index * len(prompts)
        rewards = self._rewards[first : first + len(prompts)].tolist()
        padded = zip(output["prompt_ids"], output["prompt_mask"], strict=True)
        prompt_ids = [row[mask.bool()].tolist() for row, mask in padded]
        logprobs = output.get("sampling_per_token_logps")
        step, training = int(self.trainer.state.global_step), bool(self.trainer.model.training)
        for place, completion in enumerate(completions):
            asked = messages_of(prompts[place], "user")
            values = dict(zip(names, map(number, rewards[place]), strict=True))
            parts = parts_of(values.items(), weights)
            known = () if logprobs is None else logprobs[place][: len(ids[place])].tolist()
            yield Foreign(
                task=task_of(asked, inputs[place].get(self.answer) if self.answer else None),
                turns=self._turns(asked, completion, prompt_ids[place], list(ids[place]), known, step),
                source=f"step {step}, row {first + place}",
                step=step,
                held_out=not training,
                reward=sum(part.weight * part.value for part in parts) if parts else None,
                parts=parts,
                values=values,
                advantage=float(output["advantages"][place]) if training else None,
            )

    def _turns(
        self,
        asked: tuple[Message, ...],
        completion: Any,
        prompt_ids: list[int],
        ids: list[int],
        logprobs: Sequence[float],
        step: int,
    ) -> tuple[Turn, ...]:
        """The turns of a completion: a text, or messages, of which one alone keeps its tokens."""
        replies = messages_of(completion, "assistant")
        if len(replies) != 1:
            return turns_of((*asked, *replies))[1]
        finish = "eos" if ids and ids[-1] in self.trainer.eos_token_ids else "length"
        tokens: dict[str, Any] = {"prompt_ids": prompt_ids, "token_ids": ids, "logprobs": logprobs}
        return single_turn(asked, replies[0].content, finish=finish, version=step, **tokens)
