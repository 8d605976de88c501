"""What the official SDK is asked to do in the conformance test. Runs in an environment with `tinker`, without Gnomon.

TINKER_API_KEY=tml-TOKEN TINKER_BASE_URL=http://127.0.0.1:PORT python sdk.py
"""

import json
import sys
import warnings

import numpy as np
import tinker
from tinker import types

PROMPT, REPLY = [5, 6, 7, 8], [9, 10, 11]


def datum(inputs: dict[str, list[float]]) -> types.Datum:
    """PROMPT and REPLY, with arrays over the reply; 0 before it."""
    tokens = [*PROMPT, *REPLY]
    before = len(tokens) - 1 - len(REPLY)
    arrays = {name: np.array([0.0] * before + values, dtype=np.float32) for name, values in inputs.items()}
    targets = np.array(tokens[1:], dtype=np.int64)
    return types.Datum(
        model_input=types.ModelInput.from_ints(tokens[:-1]), loss_fn_inputs={"target_tokens": targets, **arrays}
    )


def logp_of(output: object) -> list[float]:
    return [float(value) for value in output.loss_fn_outputs[0]["logprobs"].to_numpy()]


def main(rank: int) -> None:
    warnings.simplefilter("ignore", FutureWarning)
    service = tinker.ServiceClient()
    found: dict[str, object] = {}
    base = found["base"] = service.get_server_capabilities().supported_models[0].model_name
    training = service.create_lora_training_client(base_model=base, rank=rank, seed=3).result()
    found["info"] = training.get_info().lora_rank
    params = types.AdamParams(learning_rate=1e-3, grad_clip_norm=1.0)
    taught = [datum({"weights": [1.0, 0.5, -0.25]})]
    first, step = training.forward_backward(taught, "cross_entropy"), training.optim_step(params)
    found["cross_entropy"], found["loss"] = logp_of(first.result()), first.result().metrics["loss:sum"]
    found["grad_norm"] = step.result().metrics["grad_norm"]
    state = training.save_state("after-one").result().path
    for round in range(2):  # From the same state, twice.
        if round:
            training = service.create_training_client_from_state_with_optimizer(state).result()
        behavior = logp_of(training.forward(taught, "cross_entropy").result())[-3:]
        moved = [datum({"logprobs": [behavior[0] - 0.1, behavior[1], behavior[2]], "advantages": [1.0, 1.0, -1.0]})]
        training.forward_backward(moved, "importance_sampling").result()
        training.optim_step(params).result()
        found[f"importance_sampling {round}"] = logp_of(training.forward(taught, "cross_entropy").result())
    sampler = training.save_weights_and_get_sampling_client().result()
    drawn = types.SamplingParams(max_tokens=6, temperature=1.0, seed=1)
    samples = sampler.sample(types.ModelInput.from_ints(PROMPT), num_samples=2, sampling_params=drawn).result()
    found["samples"] = [[list(each.tokens), list(each.logprobs)] for each in samples.sequences]
    found["prompt"] = sampler.compute_logprobs(types.ModelInput.from_ints([*PROMPT, *REPLY])).result()
    try:
        training.forward_backward(taught, "dro").result()
    except tinker.RequestFailedError as error:
        found["refused"] = str(error)
    print(json.dumps(found))


if __name__ == "__main__":
    main(int(sys.argv[1]))
