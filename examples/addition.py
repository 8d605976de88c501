"""A pretrained chat model learns two-digit addition from rows and a reward. Try it: python examples/addition.py"""

import random
import sys

import gnomon


def right(completion: str, answer: str) -> bool:
    return completion.strip() == answer


def rows(count: int) -> list[dict[str, str]]:
    pairs = random.Random(0).sample([(a, b) for a in range(10, 100) for b in range(10, 100)], count)
    return [{"prompt": f"What is {a} + {b}? Reply with the number only.", "answer": str(a + b)} for a, b in pairs]


def print_replies(run: gnomon.RunReader, step: int) -> None:
    """The replies to one held-out question, evaluated before a step."""
    group = next(run.groups(step, kind="held_out"))
    print(f"\nafter {step} steps" if step else f"\n{group.task.messages[-1].content}\nbefore training")
    for rollout in group.rollouts:
        print("   ", repr(rollout.text))


if __name__ == "__main__":
    folder = sys.argv[1] if len(sys.argv) > 1 else "runs/addition"
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    run = gnomon.train(
        rows(2000), reward=right, policy="smollm2", lora=16, lr=3e-4, prompts=8, group=8, steps=steps, run=folder,
        rollout={"max_tokens": 20, "stop": []}, eval={"tasks": 32, "samples": 3, "every": 5},
    )  # fmt: skip
    print(run)
    for step in (0, run.steps):
        print_replies(run, step)
