"""Whether the log-probability of a reply depends on the replies that share its batch."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from gnomon.models.folder import model_folder
from gnomon.models.policy import Policy
from gnomon.models.scoring import score
from gnomon_lab.studies import Claim, Study


def ours(ids: Tensor) -> Tensor:
    return score(Policy.load("tiny"), [(1,)], [(0, tuple(row)) for row in ids.tolist()])


@torch.inference_mode()
def plain(ids: Tensor) -> Tensor:
    logits = AutoModelForCausalLM.from_pretrained(model_folder("tiny"), dtype=torch.float32)(ids).logits[:, :-1]
    return torch.gather(logits.log_softmax(-1), -1, ids[:, 1:, None])


def difference(seed: int, of: Callable[[Tensor], Tensor]) -> dict[str, float]:
    """The largest between batches of one and batches of 7 and 64, over 64 replies of 40 tokens."""
    ids = torch.randint(2, 100, (64, 40), generator=torch.Generator().manual_seed(seed))
    one, *more = (torch.cat([of(part).flatten() for part in torch.split(ids, size)]) for size in (1, 7, 64))
    return {"difference": max(float((batch - one).abs().max()) for batch in more)}


study = Study(
    question="Does the log-probability of a reply depend on its batch in a plain forward pass, and not in ours?",
    why="A learner that scores other batches than the sampler sampled is off policy from the first step.",
    arms={"ours": partial(difference, of=ours), "plain": partial(difference, of=plain)},
    exact=True,
    claims=[Claim(measure="difference", arm="ours", within=1e-300), Claim(measure="difference", arm="plain")],
    prediction={"PASS": 0.9, "FAIL": 0.1, "INCONCLUSIVE": 0.0},
)
