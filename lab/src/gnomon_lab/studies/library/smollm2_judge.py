"""Whether a small pretrained model can judge sums without their answers, and what its score depends on instead."""

from dataclasses import replace
from statistics import fmean

from gnomon.models import smollm2
from gnomon_lab.addition import Addition
from gnomon_lab.judge import YesNo
from gnomon_lab.reward_model import pairwise
from gnomon_lab.studies import Claim, Study

SWAPPED = "{prompt}\nReply: {reply}\nIs the reply right? Answer No or Yes only."


def judged(seed: int) -> dict[str, float]:
    """Pairs of a right and a wrong number told apart, and what a sentence or another order of the words changes."""
    tasks, ask = Addition(low=1, high=19, seed=seed).tasks("test"), YesNo(model=str(smollm2.folder()))
    said = [(tasks[i].messages[0].content, int(tasks[i].answer) + wrong) for i in range(6) for wrong in (0, 1, -3)]
    number = ask.scores([(prompt, f"{value}") for prompt, value in said])
    swapped = replace(ask, question=SWAPPED).scores([(prompt, f"{value}") for prompt, value in said])
    sentence = ask.scores([(prompt, f"The sum of the two numbers is {value}.") for prompt, value in said])
    truth = [True, False, False] * 6
    values = {"pairs": pairwise(number, truth), "pairs of sentences": pairwise(sentence, truth)}
    return values | {"sentence": fmean(sentence) - fmean(number), "order": fmean(swapped) - fmean(number)}


study = Study(
    question="Does SmolLM2, asked yes or no, prefer right sums in three of five pairs, whatever their form?",
    why="A judge of open answers has no reference. Its score is P(Yes) against P(No), with no sampling. Seen "
    "before, in other wordings: .38 to .51. A sentence, or No before Yes, shall move the mean score by less than .05.",
    arms={"judge": judged},
    seeds=range(4),
    claims=[
        Claim(measure="pairs", arm="judge", above=0.6),
        Claim(measure="sentence", arm="judge", within=0.05),
        Claim(measure="order", arm="judge", within=0.05),
    ],
    prediction={"PASS": 0.02, "FAIL": 0.75, "INCONCLUSIVE": 0.23},
)
