"""What counts as solving a scrambled word: the original alone, or any word of its letters."""

from functools import partial

from gnomon.envs.dictionary import dictionary
from gnomon.envs.scramble import Scramble
from gnomon_lab.studies import Claim, Study


def judged(seed: int, only: bool) -> dict[str, float]:
    """Over 500 tasks: how often the original, another word of its letters, and the letters themselves are accepted."""
    env, tasks, others = Scramble(length=(3, 5), anagrams=1 if only else 9, seed=seed), 500, 0
    by_letters: dict[str, list[str]] = {}
    for word in dictionary():
        by_letters.setdefault("".join(sorted(word)), []).append(word)
    found = dict.fromkeys(("original", "letters", "other words", "tasks with others"), 0.0)
    for task in map(env.tasks("train").__getitem__, range(tasks)):
        word, letters = task.info["word"], task.info["letters"]
        same = set(by_letters["".join(sorted(word))]) - {word}
        found["original"] += env.verify(task, f"<answer>{word}</answer>").correct / tasks
        found["letters"] += letters not in dictionary() and env.verify(task, f"<answer>{letters}</answer>").correct
        others += len(same)
        found["other words"] += sum(env.verify(task, f"<answer>{w}</answer>").correct for w in same)
        found["tasks with others"] += bool(same) / tasks
    return {**found, "other words": found["other words"] / max(1, others)}


study = Study(
    question="Is every word of the letters accepted, or is there only one, as the option of the task says?",
    why="`silent` is an answer to the letters of `listen`. A verifier that knows the original alone punishes it.",
    arms={"any word": partial(judged, only=False), "one word": partial(judged, only=True)}, exact=True,
    claims=[
        *(Claim(measure="original", arm=arm, above=0.999) for arm in ("any word", "one word")),
        *(Claim(measure="letters", arm=arm, within=1e-12) for arm in ("any word", "one word")),
        Claim(measure="other words", arm="any word", above=0.999),
        Claim(measure="tasks with others", arm="any word", above=0.1),
        Claim(measure="tasks with others", arm="one word", within=1e-12),
    ],
    prediction={"PASS": 0.85, "FAIL": 0.15, "INCONCLUSIVE": 0.0},
)  # fmt: skip
