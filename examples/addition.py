"""A pretrained chat model learns to add from rows and a reward. Try it: python examples/addition.py"""

import random
import re
import sys

import gnomon


def right(completion: str, answer: str) -> bool:
    """Whether the reply ends in the sum, alone or in a sentence."""
    end = re.search(r"(?:^|= |\bis |\bequals )(\d+)\.?$", completion.strip())
    return end is not None and end[1] == answer


def rows() -> list[dict[str, str]]:
    pairs = [(a, b) for a in range(1, 31) for b in range(1, 31)]
    random.Random(0).shuffle(pairs)
    return [{"prompt": f"What is {a} + {b}? Reply with the number only.", "answer": str(a + b)} for a, b in pairs]


def print_replies(run: gnomon.RunReader, step: int) -> None:
    """The replies to one held-out question, evaluated before a step."""
    group = next(run.groups(step, kind="held_out"))
    print(f"\nafter {step} steps" if step else f"\n{group.task.messages[-1].content}\nbefore training")
    for rollout in group.rollouts:
        print("   ", repr(rollout.text))


if __name__ == "__main__":
    folder = sys.argv[1] if len(sys.argv) > 1 else "runs/addition"
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 30
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    run = gnomon.train(
        rows(), reward=right, policy="smollm2", run=folder, steps=steps, seed=seed,
        rollout={"max_tokens": 20}, eval={"tasks": 32, "samples": 3, "every": 10},
    )  # fmt: skip
    print(run)
    for step in (0, run.steps):
        print_replies(run, step)
