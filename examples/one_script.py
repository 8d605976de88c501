"""A whole experiment in one file: an environment, a policy, a run. Try it: python examples/one_script.py"""

import random
import sys
from dataclasses import dataclass

import gnomon
from gnomon.envs import SingleTurn, identity
from gnomon.types import Message, Task
from gnomon.verifiers import integer


@dataclass(frozen=True, kw_only=True)
class Vowels(SingleTurn):
    """How many vowels are in a string? (The tiny policy has only ever counted single letters.)"""

    def make(self, rng: random.Random) -> Task:
        word = "".join(rng.choices("abcdeiou", k=rng.randint(4, 7)))
        question = f'How many "aeiou" are in "{word}"? End with <answer>...</answer>'
        count = sum(letter in "aeiou" for letter in word)
        return Task(id=identity("vowels", word), messages=(Message(role="user", content=question),), answer=count)

    def check(self, task: Task, answer: str) -> bool:
        return integer(answer) == task.answer

    def solution(self, task: Task) -> str:
        return str(task.answer)


if __name__ == "__main__":
    folder = sys.argv[1] if len(sys.argv) > 1 else "runs/vowels"
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 60
    run = gnomon.train(Vowels(), run=folder, steps=steps, eval={"tasks": 128})
    print("baseline", run.baseline["pass_at"]["1"])
    print("held-out", run.held_out["pass_at"]["1"])
    print("fingerprint", run.fingerprint)
