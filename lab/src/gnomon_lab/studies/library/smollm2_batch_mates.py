"""Whether the log-probability of a reply of SmolLM2 depends on the replies that share its batch."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from gnomon.models.folder import model_folder
from gnomon.models.policy import Policy
from gnomon.models.scoring import score
from gnomon_lab.studies import Claim, Study


def scorer(plain: bool) -> Callable[[Tensor], Tensor]:
    if plain:
        model = AutoModelForCausalLM.from_pretrained(model_folder("smollm2"), dtype=torch.float32).eval()
        return lambda ids: model(ids).logits[:, :-1].log_softmax(-1).gather(-1, ids[:, 1:, None])
    policy = Policy.load("smollm2")
    return lambda ids: score(policy, [(1,)], [(0, tuple(row)) for row in ids.tolist()])


@torch.no_grad()
def difference(seed: int, plain: bool) -> dict[str, float]:
    """The largest between batches of one and batches of 5 and 16, over 16 replies of 24 tokens."""
    score_of = scorer(plain)
    ids = torch.randint(2, 49_000, (16, 24), generator=torch.Generator().manual_seed(seed))
    one, *more = (torch.cat([score_of(part).flatten() for part in torch.split(ids, size)]) for size in (1, 5, 16))
    return {"difference": max(float((batch - one).abs().max()) for batch in more)}


study = Study(
    question="Does the log-probability of a reply of SmolLM2 depend on its batch in a plain pass, and not in ours?",
    why="A learner that scores other batches than the sampler did is off policy from the first step. The author had "
    "seen another seed, where neither depended on the batch, like the tiny policy.",
    arms={"ours": partial(difference, plain=False), "plain": partial(difference, plain=True)}, exact=True,
    claims=[Claim(measure="difference", arm="ours", within=1e-300), Claim(measure="difference", arm="plain")],
    prediction={"PASS": 0.1, "FAIL": 0.9, "INCONCLUSIVE": 0.0},
)  # fmt: skip
