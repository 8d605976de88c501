"""The sections of a run's configuration: every setting with its type, limits, default and meaning."""

from __future__ import annotations

import re
from enum import Enum
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from gnomon.config.placement import Dtypes, Placement
from gnomon.objectives.declaration import Declaration, Need
from gnomon.objectives.options import declaration_of

__all__ = [
    "DEFAULTS",
    "AtResume",
    "Bytes",
    "Engine",
    "Env",
    "Eval",
    "EvalSet",
    "Launch",
    "Objective",
    "Players",
    "Policy",
    "Rollout",
    "RunConfig",
    "at_resume",
    "chain_settings",
]


class AtResume(Enum):
    """How a setting may change when a run is resumed. Other settings may not."""

    CHANGE = "change"
    """It may change, and the run records the new value."""
    MOVE = "move"
    """It may change for this process only: the place of a part does not change the run."""


class Bytes(Enum):
    """How a setting enters the first record of a run, which decides the bytes of the run. Others enter as they are."""

    NEVER = "never"
    """No value changes the bytes."""
    IF_SET = "if set"
    """It enters the first record only where its value is not the default."""


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Env(Section):
    """The environment, and its own options beside `type`."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)
    type: str = "countdown"
    """The name of a shipped environment, `package.module:Class` or `file.py:Class`."""

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


class Lora(Section):
    """A low-rank adapter (LoRA), which is trained instead of all weights. Needs `gnomon[lora]`."""

    rank: Annotated[int, Field(ge=0)] = 0
    """Rank of the adapter. 0 trains every weight of the model and has no adapter. For a model of more than ten million
    parameters, the default is 16 if the package peft is installed."""
    alpha: Annotated[int, Field(ge=1)] = 32
    """What the adapter computes is multiplied by alpha / rank."""
    targets: Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)] = ["all-linear"]
    """Layers with an adapter, by the last part of their name, such as `q_proj`. `all-linear` means every linear layer
    except the vocabulary projection."""


class Policy(Section):
    """The model that is trained."""

    path: Annotated[str, Bytes.NEVER] = "tiny"
    """`tiny` or `tiny-fresh`, which ship with the package; a model folder in the format of the Hugging Face hub; or a
    model of the hub, `OWNER/NAME` or `OWNER/NAME@REVISION`, from its cache or fetched. The run keeps its commit. Some
    defaults follow the model (docs/real-models.md)."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Precision of forward and backward passes. Weights that the optimiser moves, gradient sums and log-probabilities
    are float32. `float16` scales the loss; models that overflow in it, such as Gemma, are refused."""
    device: Annotated[Literal["auto", "cpu", "cuda"], Bytes.NEVER] = "auto"
    """Where the policy, its reference and its critic are computed. `auto` is `cuda` where torch finds a CUDA device."""
    reference: str = ""
    """The teacher of `opd`, and the policy that a KL penalty compares with: a model as for `path`, with the same
    tokenizer. Empty means the policy as the run begins."""
    renderer: Literal["auto", "plain", "chatml", "qwen3", "gemma", "llama3", "harmony"] = "auto"
    """Chat format. `auto` chooses the one that the model folder's chat template writes."""
    attention: Literal["auto", "exact", "flex", "cudnn", "transformers"] = "auto"
    """Attention of training passes. `exact` computes the same bits as decoding, on every device. `flex` is torch's
    flex_attention, for CUDA devices, and is many times faster there with long rows. `cudnn` is `flex` with a faster
    kernel for rows of a thousand tokens or more that share no prompt; the last bits of its gradients differ from run
    to run. `transformers` is the model's own: training and sampling use its forward pass and its cache, with padded
    rows. It works for every causal language model of transformers. `auto` is `transformers` for families that have no
    other one (docs/real-models.md), `flex` on a CUDA device that can compute it, and else `exact`."""
    vision: Annotated[Literal["frozen", "trained"], Bytes.IF_SET] = "frozen"
    """Whether the vision tower, and what projects its features, is trained like the other weights: whole, or by an
    adapter on its layers too (`lora`). The features of an image are then computed anew in every pass."""
    activation_checkpointing: Annotated[bool, Bytes.NEVER] = False
    """Keep the activations at the start of every layer alone, and compute the others again in the backward pass: less
    memory, about a third more time. The result is the same in every bit."""
    lora: Lora = Lora()
    """The adapter that is trained instead of all weights."""

    @property
    def trains_adapter(self) -> bool:
        """Whether an adapter is trained instead of all weights."""
        return self.lora.rank > 0


class Rollout(Section):
    """What is sampled in a step."""

    prompts: Annotated[int, Field(ge=1)] = 32
    """Tasks per step."""
    group: Annotated[int, Field(ge=1)] = 8
    """Rollouts per task. A batch has prompts × group rollouts."""
    max_tokens: Annotated[int, Field(ge=1)] = 128
    """Most tokens of one reply. An episode of several turns has several replies."""
    temperature: Annotated[float, Field(gt=0)] = 1.0
    """Divides the logits before sampling. The learner's log-probabilities use the same value."""
    top_p: Annotated[float, Field(gt=0, le=1), Bytes.IF_SET] = 1.0
    """Sample from the likeliest tokens alone, as few as have this probability together, in evaluations too. The policy
    that is trained is then the truncated one: sampler and learner share its probability among the kept tokens, and a
    change of which are kept has no gradient. 1 keeps all (docs/engines.md)."""
    top_k: Annotated[int, Field(ge=0), Bytes.IF_SET] = 0
    """Number of likeliest tokens to sample from, before `top_p` and otherwise like it. 0 keeps all."""
    stop: list[Annotated[str, Field(min_length=1)]] = ["</answer>"]
    """Texts that end a reply. The reply keeps them."""
    tasks: list[Annotated[int, Field(ge=0)]] = []
    """Indices of the train tasks to draw from. Empty means all."""
    order_seed: Annotated[int, Field(ge=0), Bytes.IF_SET] = 0
    """Seed of the order in which the batches of a run are taken. Every batch keeps its tasks and random numbers. 0
    leaves the order in which `seed` draws them."""
    turns: Annotated[int, Field(ge=0)] = 0
    """Most replies per episode, of all players together. 0 leaves the limit to the environment."""
    context: Annotated[int, Field(ge=2)] = 4096
    """Most tokens of a conversation: prompts, observations and replies."""
    seconds: Annotated[float, Field(gt=0), Bytes.NEVER] = float("inf")
    """Wall-clock limit for the episodes of a step. A run that meets it cannot be repeated bit for bit."""
    demonstrations: str = ""
    """JSONL file of replies to train tasks, for objectives that learn from demonstrations."""
    offline: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Fraction of the steps, from the first, that sample from the initial policy. Only fcp uses it."""
    refill: Annotated[int, Field(ge=0)] = 0
    """Most times per step that groups with all replies right or all wrong are replaced by new tasks (DAPO)."""
    candidates: Annotated[int, Field(ge=1)] = 1
    """Tasks sampled per task that is trained on. Those with the least certain replies are kept."""
    judged_by: Literal["verifier", "majority", "policy"] = "verifier"
    """Who decides the rewards in training. `majority`: 1 for the most frequent answer of the group, else 0. `policy`:
    the policy is asked whether its reply is right. pass@1 and alarms follow the verifier (docs/rewards.md)."""
    judgements: Annotated[int, Field(ge=1)] = 1
    """Judgements of every rollout with `judged_by=policy`. The reward is the fraction that calls it right."""
    lag: Annotated[int, Field(ge=0), Bytes.IF_SET] = 0
    """Steps that are sampled ahead: step k uses the weights after step k − lag, so sampling goes on while earlier steps
    are trained. 0 samples every step with the newest weights."""
    recorded: Annotated[str, Bytes.IF_SET] = ""
    """Folder of a run whose recorded groups are trained on, with the log-probabilities and verdicts that it stored. It
    must have the same environment, tokenizer and `group`. `replay` is then 1, unless it or `failure_prefix` is set
    (docs/replay.md)."""
    replay: Annotated[float, Field(ge=0, le=1), Bytes.IF_SET] = 0.0
    """Fraction of the tasks of a step whose groups are earlier ones and are not sampled: those of `recorded`, or else
    of the run's own earlier steps."""
    failure_prefix: Annotated[float, Field(ge=0, le=1), Bytes.IF_SET] = 0.0
    """Fraction of the tasks of a step that continue a prefix of a failed reply to them, where one is known: a reply of
    `recorded`, or else of the run's own earlier steps. Only the continuation is trained (docs/replay.md)."""
    curriculum: Annotated[str, Field(pattern="^(uniform|band|easiest|object:.+)$"), Bytes.IF_SET] = "uniform"
    """What chooses the tasks of a step. `band`: again those whose latest success rate lies within `band`, and new ones.
    `easiest`: first those that the environment calls easy. `object:NAME` was passed to `gnomon.train` as a Python
    object."""
    band: Annotated[list[Annotated[float, Field(ge=0, le=1)]], Field(min_length=2, max_length=2)] = [0.2, 0.8]
    """Lowest and highest success rate, in its latest visit, of a task that `curriculum=band` plays again."""
    in_flight: Annotated[bool, Bytes.IF_SET] = False
    """Load new weights into the engine while it samples: completions go on with them. Needs `lag`. One engine samples
    all steps in progress, vLLM too; in a Ray cluster, one per sampler. The run then depends on the clock and is not
    repeated bit for bit."""
    entropy: Annotated[bool, Bytes.IF_SET] = False
    """Record the entropy of the next-token distribution at every sampled token, 2 bytes each. Training is the same in
    every bit; the fingerprint differs, since it covers the records. Only for the embedded engine."""


class Workers(Section):
    """The worker processes that run environments and verifiers, and their limits."""

    count: Annotated[int, Field(ge=1), Bytes.NEVER] = 2
    """Number of worker processes."""
    seconds: Annotated[float, Field(gt=0)] = 2.0
    """Processor time in seconds that one call may use, imports excluded, also in the audit before the run. The
    wall-clock limit is ten times as long, in the audit eight times."""
    memory_mib: Annotated[int, Field(ge=64)] = 2048
    """Address space of a worker, in MiB, also in the audit before the run."""
    retries: Annotated[int, Field(ge=0)] = 1
    """How often a call is repeated in a new worker after the environment failed."""
    failures: Annotated[float, Field(ge=0, le=1)] = 0.005
    """Fraction of the rollouts of a step that may fail before the run stops."""


class Players(Section):
    """Who plays in an environment of several players."""

    opponent: str = ""
    """Empty: the policy plays every player and is trained on all. `past`: it is trained as one player, and an earlier
    version, drawn anew in every step, plays the others. A model as for `policy.path`: it plays the others."""
    every: Annotated[int, Field(ge=1)] = 20
    """Steps between two versions that are kept as opponents."""
    keep: Annotated[int, Field(ge=2)] = 8
    """Most versions kept as opponents. The first is always kept. Every checkpoint stores all of them."""
    baseline: Literal["player", "shared"] = "player"
    """Whether a reward is compared with the rewards of the same player in the group, or with those of all players."""


class Optim(Section):
    """The optimiser of the policy and its schedule. A critic is always trained by AdamW."""

    type: Annotated[Literal["adamw", "sgd"], Bytes.IF_SET] = "adamw"
    """`adamw`, or `sgd`: stochastic gradient descent, which keeps nothing beside the weights, or with `momentum` one
    number per weight. Its steps grow with the gradient, so its `lr` has no default."""
    lr: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1e-3
    """Peak learning rate. Its default for `adamw` is 1e-3 for models of up to ten million parameters, and for larger
    ones it falls with the hidden size; ten times as much for an adapter (`policy.lora`)."""
    min_lr_ratio: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Learning rate at the last step, as a fraction of `lr`. The decay is linear; 1 keeps the rate constant."""
    warmup: Annotated[int, Field(ge=0)] = 5
    """Optimiser steps in which the learning rate rises linearly to `lr`."""
    max_grad_norm: Annotated[float, Field(gt=0)] = 1.0
    """Largest norm of the gradient. A larger gradient is scaled down to it."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    """Decoupled weight decay. Only for `adamw`."""
    states: Annotated[Literal["float32", "8bit"], Bytes.IF_SET] = "float32"
    """Numbers in which AdamW keeps its two moments, a critic's too. `8bit` takes about a quarter of the memory, and
    needs `gnomon[low-memory]`. Only for `adamw`."""
    momentum: Annotated[float, Field(ge=0, lt=1), Bytes.IF_SET] = 0.0
    """Fraction of the last step that is added to the gradient in the next one. Only for `sgd`."""
    epochs: Annotated[int, Field(ge=1)] = 1
    """How often the rollouts of a step are trained on."""
    minibatches: Annotated[int, Field(ge=1)] = 1
    """Optimiser steps per epoch. Each takes an equal part of the groups."""
    micro_batch: Annotated[int, Field(ge=1), Bytes.IF_SET] = 3072
    """Tokens of one backward pass. More tokens need more memory. Another number sums gradients in another order, so the
    bits of a run change."""

    @property
    def updates(self) -> int:
        """Optimiser steps per step of the run."""
        return self.epochs * self.minibatches


class Regularize(Section):
    """Terms beside the objective, for any objective."""

    kl: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Weight of the KL penalty to the initial policy, or to `policy.reference`, per token."""
    estimator: Literal["k1_in_return", "k2", "k3", "ratio_weighted_k3", "full"] = "k3"
    """Estimator of the KL penalty. `full` sums over the vocabulary; the others use the sampled token."""
    entropy: Annotated[float, Field(allow_inf_nan=False)] = 0.0
    """Weight of the entropy bonus, per token, in nats. A negative weight is a penalty."""
    overlong: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Fraction of `max_tokens` at the end of the limit in which the length penalty grows from 0 to 1 (DAPO). The
    longest reply of an episode counts."""


class Critic(Section):
    """The value function of objectives that ask for one."""

    lr: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1e-3
    """Peak learning rate of the critic. Its default is that of the policy, and ten times as much where all weights of
    a model of more than ten million parameters are trained."""
    max_grad_norm: Annotated[float, Field(gt=0)] = 1.0
    """Largest norm of the critic's gradient."""


class Budget(Section):
    """How long a run goes on."""

    steps: Annotated[int, Field(ge=1)] = 80
    """Training steps."""
    seconds: Annotated[float, Field(gt=0), Bytes.NEVER] = float("inf")
    """Wall-clock limit. The run stops after the step that exceeds it, and can be resumed."""


class EvalSet(Section):
    """An evaluation set beside the main evaluation. It is fixed during a run, and does not change the training."""

    env: dict[str, Any] = {}
    """The environment and its options, as in `env`. It begins with those of the run, unless `type` is another one."""
    temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0
    """Divides the logits before sampling, whatever `rollout.temperature` is. 0 takes the likeliest token (greedy)."""
    every: Annotated[int, Field(ge=1)]
    """As `eval.every`, which is the default; so are `eval.tasks` and `eval.samples` of the next two."""
    tasks: Annotated[int, Field(ge=1)]
    samples: Annotated[int, Field(ge=1)]


class Eval(Section):
    """Evaluation on held-out tasks."""

    every: Annotated[int, Field(ge=1)] = 20
    """Steps between evaluations. One more follows the last step."""
    tasks: Annotated[int, Field(ge=1)] = 256
    """Held-out tasks, from the first of the test split."""
    samples: Annotated[int, Field(ge=1)] = 1
    """Rollouts per held-out task."""
    pass_at: list[Annotated[int, Field(ge=1)]] = [1]
    """Values of k for which pass@k is estimated. None may exceed `samples`."""
    sets: Annotated[dict[Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$")], EvalSet], Bytes.IF_SET] = {}
    """More evaluations by name: tables of `env`, `temperature`, `every`, `tasks` and `samples` (docs/evaluation.md)."""

    @model_validator(mode="before")
    @classmethod
    def complete(cls, supplied: Any) -> Any:
        """With what sets take from the main evaluation."""
        if not isinstance(supplied, dict) or not isinstance(supplied.get("sets"), dict):
            return supplied
        usual = {name: supplied.get(name, cls.model_fields[name].default) for name in ("every", "tasks", "samples")}
        sets = {name: {**usual, **own} if isinstance(own, dict) else own for name, own in supplied["sets"].items()}
        return {**supplied, "sets": sets}

    def of(self, name: str) -> Eval:
        """The evaluation of one set, as if it were the main one; the main one itself for an empty name."""
        if not name:
            return self
        own = self.sets[name]
        few = [k for k in self.pass_at if k <= own.samples]
        return Eval(every=own.every, tasks=own.tasks, samples=own.samples, pass_at=few)


class Save(Section):
    """Checkpoints."""

    every: Annotated[int, Field(ge=1)] = 20
    """Steps between checkpoints. One more follows the last step."""
    keep: Annotated[int, Field(ge=1)] = 2
    """Checkpoints to keep, the newest first."""


class Audit(Section):
    """The audit of the environment before a run."""

    acknowledge: list[str] = []
    """Rules of `gnomon audit` whose findings you accept. They no longer stop the run. An axis stands for all of its
    rules, and is then not tried, which saves time if a verdict is slow."""


class Objective(Section):
    """What the policy learns from its rollouts: a row of the table of objectives, and the options of that row."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)
    type: str = "dr_grpo"
    """The name of a row."""

    @model_validator(mode="before")
    @classmethod
    def complete(cls, supplied: Any) -> Any:
        """With the defaults of the options that are missing."""
        if not isinstance(supplied, dict):
            return supplied
        name = supplied.get("type", cls.model_fields["type"].default)
        options = {key: value for key, value in supplied.items() if key != "type"}
        return {"type": name, **declaration_of(name).complete(options)}

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.model_extra or {})

    @property
    def declaration(self) -> Declaration:
        return declaration_of(self.type)

    @property
    def min_group(self) -> int:
        """The smallest group that can move the policy."""
        return self.declaration.least_group(self.options)

    @property
    def needs(self) -> frozenset[Need]:
        """Everything that a learner must provide for the objective with these options."""
        return self.declaration.needs_with(self.options)


def numbers(value: object) -> object:
    """A number, or numbers between commas, as a list; anything else as it is."""
    if isinstance(value, str) and re.fullmatch("[0-9]+(,[0-9]+)*", value):
        return [int(number) for number in value.split(",")]
    return [value] if isinstance(value, int) and not isinstance(value, bool) else value


def different(values: list[int]) -> list[int]:
    """Raises: PydanticCustomError for a number that occurs twice."""
    if len({*values}) < len(values):
        raise PydanticCustomError("numbers", "input should not contain a number twice")
    return values


class Engine(Section):
    """What samples."""

    type: Annotated[str, Field(pattern="^(embedded|vllm|tinker|object:.+)$")] = "embedded"
    """`embedded`: this process. `vllm`: vLLM, in a process and an environment of its own. `tinker`: the Tinker service,
    for a learner there. `object:NAME` was passed to
    `gnomon.train` as a Python object."""
    dtype: Literal["policy", "float32", "bfloat16", "float16"] = "policy"
    """Precision of the engine. `policy` is that of the learner, `policy.dtype`."""
    device: Literal["policy", "auto", "cpu", "cuda"] = "policy"
    """Where `embedded` computes. `policy` is the device of the learner, `policy.device`."""
    round_weights: Literal["no", "bfloat16", "float16"] = "no"
    """`embedded` rounds all weights to this precision and computes as before, so that it samples from another
    distribution than the learner's: for tests of corrections without a GPU."""
    python: str = ""
    """The Python interpreter of the environment that has vLLM. Only for `vllm`, as are the following settings."""
    gpus: Annotated[list[Annotated[int, Field(ge=0)]], BeforeValidator(numbers), AfterValidator(different)] = []
    """Indices, from 0, of the GPUs that vLLM uses, such as `1` or `2,3`. Its weights are divided among them. Empty: the
    first GPU, which the learner uses too."""
    cache_gib: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Memory for keys and values on each of vLLM's GPUs, in GiB. 0 lets vLLM choose."""
    seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 600.0
    """Time without any answer, in seconds, after which a worker that has work counts as hung and is replaced."""
    restarts: Annotated[int, Field(ge=0)] = 3
    """Most replacements of the worker in a row without a completion between them, before the run stops."""
    batch_invariant: bool = False
    """vLLM computes a row with the same bits in every batch, so that a request that is sampled again gives the same
    tokens on the same machine. Needs a CUDA device of compute capability 8.0 or more; it is slower."""
    sleep: bool = False
    """While the policy is trained, vLLM moves its weights to the memory of the host and frees its keys and values, so
    that one GPU is enough for both. Needs a CUDA device."""
    arguments: dict[str, bool | int | float | str] = {}
    """More arguments of vLLM's `AsyncEngineArgs`, such as `max_num_seqs`."""


def countable(amount: float) -> float:
    """Raises: PydanticCustomError for an amount that Ray cannot count."""
    if 0 < amount < 1e-4:
        raise PydanticCustomError("amount", "input should be 0 or at least 0.0001, since Ray counts no less")
    return amount


def whole(gpus: float) -> float:
    """Raises: PydanticCustomError for a part of a GPU beside a whole one."""
    if gpus > 1 and gpus % 1:
        raise PydanticCustomError("amount", "more than one GPU should be a whole number, since Ray divides only one")
    return gpus


def reservable(amounts: dict[str, float]) -> dict[str, float]:
    """Raises: PydanticCustomError for what Ray cannot reserve for a process."""
    memory = "object_store_memory"
    whole(amounts.get("GPU", 0.0))
    if memory in amounts:
        raise PydanticCustomError("amount", f"input should not have {memory}, which Ray reserves for no process")
    return amounts


Amount = Annotated[float, Field(ge=0, allow_inf_nan=False), AfterValidator(countable)]
Amounts = Annotated[dict[str, Amount], AfterValidator(reservable)]
"""Of the resources of a Ray cluster, by name."""


class Launch(Section):
    """Where a run samples."""

    type: Literal["local", "ray"] = "local"
    """`local`: the process of the run samples. `ray`: samplers in a Ray cluster play the episodes. The bits of a run
    are the same. Needs `gnomon[ray]`."""
    address: str = ""
    """HOST:PORT of a Ray cluster, or `auto` for the cluster of this machine. If it is empty, a cluster on this machine
    is started and ended with the run. Only for `ray`, as are the following settings."""
    samplers: Annotated[int, Field(ge=1)] = 2
    """Largest number of samplers. A run goes on as long as the cluster has room for one; others join when it has."""
    episodes: Annotated[int, Field(ge=1)] = 64
    """Most episodes that a sampler plays at once. They are played again if it dies."""
    cpus: Amount = 1.0
    """CPUs that Ray reserves for a sampler."""
    gpus: Annotated[Amount, AfterValidator(whole)] = 0.0
    """GPUs that Ray reserves for a sampler."""
    resources: Amounts = {}
    """Other resources of the cluster that Ray reserves for a sampler, such as `launch.resources.sampler=1`."""
    seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 300.0
    """Time without any answer, in seconds, after which a sampler counts as hung and is replaced; and the time to wait
    for room in the cluster while there is no sampler. Also of a process of the learner with `ranks`: then the run
    ends."""
    restarts: Annotated[int, Field(ge=0)] = 3
    """Most replacements of a sampler in a row without a finished episode between them, and of the learner without a
    finished call."""
    learner: Amounts = {}
    """What Ray reserves for the learner with `learner=ray`, such as `launch.learner.GPU=1`; one CPU if it is empty."""
    state_every: Annotated[int, Field(ge=1)] = 1
    """Steps between two states of the learner that are kept with `learner=ray`: if it dies, at most so many steps are
    repeated. A state is as large as a checkpoint, and is sent to the node of the run."""


class RunConfig(Section):
    """Everything that decides a run's bytes, besides the machine."""

    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of every random draw of the run."""
    threads: Annotated[int, Field(ge=1), AtResume.MOVE] = 1
    """CPU threads that sample and learn side by side: some of the rows each, and a micro-batch each. Another number
    changes the time, the memory and, in the tier `exact`, no bit. For a pretrained model on a CPU: the number of cores.
    A model that computes by transformers' own forward uses one."""
    ranks: Annotated[int, Field(ge=0), AtResume.MOVE] = 0
    """Processes that share the weights, gradients and optimiser states of the learner (FSDP2). 0 trains in the process
    of the run. 1, 2, 4, 8, … give the same bits."""
    env: Env = Env()
    policy: Policy = Policy()
    rollout: Rollout = Rollout()
    workers: Workers = Workers()
    players: Players = Players()
    objective: Objective = Objective()
    regularize: Regularize = Regularize()
    optim: Optim = Optim()
    critic: Critic = Critic()
    budget: Annotated[Budget, AtResume.CHANGE] = Budget()
    eval: Annotated[Eval, AtResume.CHANGE] = Eval()
    save: Annotated[Save, AtResume.CHANGE, Bytes.NEVER] = Save()
    audit: Annotated[Audit, Bytes.NEVER] = Audit()
    engine: Engine = Engine()
    launch: Annotated[Launch, AtResume.MOVE, Bytes.NEVER] = Launch()
    learner: Annotated[str, Field(pattern="^(local|ray|https?://.+|tinker:.+|object:.+)$"), AtResume.MOVE] = "local"
    """What trains: `local`, in this process; `ray`, in a process of the Ray cluster of `launch.type=ray`; the address
    that `gnomon serve-learner` printed; or `tinker:MODEL`, an adapter of this base model on the Tinker service.
    `object:NAME` was passed to `gnomon.train` as a Python object."""

    @property
    def placement(self) -> Placement:
        """Where the run samples and learns."""
        return Placement.of(self.learner, self.engine.type, self.ranks, self.launch.samplers, self.launch.type)

    @property
    def dtypes(self) -> Dtypes:
        """In which precision the run samples and learns."""
        return Dtypes.of(self.policy.dtype, self.engine.dtype)

    @property
    def ahead(self) -> int:
        """Most steps between the sampling of a batch and its training."""
        return min(self.rollout.lag, self.budget.steps)

    def env_of(self, name: str) -> Env:
        """The environment of an evaluation set; that of the run for an empty name."""
        if not name:
            return self.env
        own = self.eval.sets[name].env
        kind = own.get("type", self.env.type)
        options = self.env.options if kind == self.env.type else {}
        return Env.model_validate({**options, **own, "type": kind})


def at_resume(key: str) -> AtResume | None:
    """How a setting may change when a run is resumed; None if it may not. Args: key: dotted."""
    field = RunConfig.model_fields.get(key.partition(".")[0])
    return next((mark for mark in field.metadata if isinstance(mark, AtResume)), None) if field else None


def chain_settings(section: Section) -> dict[str, Any]:
    """The settings that enter the first record, as `Bytes` says."""
    body: dict[str, Any] = section.model_dump()
    prune(section, body)
    return body


def prune(section: Section, body: dict[str, Any]) -> None:
    for name in section.declaration.unrecorded_options(section.options) if isinstance(section, Objective) else ():
        del body[name]
    for name, field in type(section).model_fields.items():
        mark = next((mark for mark in field.metadata if isinstance(mark, Bytes)), None)
        value = getattr(section, name)
        if mark is Bytes.NEVER or (mark is Bytes.IF_SET and value == field.get_default()):
            del body[name]
        elif isinstance(value, Section):
            prune(value, body[name])


DEFAULTS: dict[str, Any] = RunConfig().model_dump()
