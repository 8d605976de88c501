"""The settings of `gnomon.train` as an editor completes them. Written by `python docs/settings.py`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from gnomon.engines.base import Engine
    from gnomon.learners.base import Learner
    from gnomon.objectives import Objective as Row
    from gnomon.rollout.order import Curriculum

__all__ = [
    "AuditSettings",
    "BudgetSettings",
    "CriticSettings",
    "EngineSettings",
    "EvalSettings",
    "LaunchSettings",
    "LoraSettings",
    "Objective",
    "ObjectiveSettings",
    "OptimSettings",
    "PlayersSettings",
    "PolicySettings",
    "RegularizeSettings",
    "RolloutSettings",
    "SaveSettings",
    "Settings",
    "WorkersSettings",
]

Objective = Literal[
    "a_star_po",
    "aspo",
    "bapo",
    "brpo",
    "cispo",
    "clip_cov",
    "cpgd",
    "dapo",
    "dcpo",
    "dppo",
    "dr_grpo",
    "dual_clip_ppo",
    "echo",
    "entropy_mask",
    "fcp",
    "fipo",
    "gdpo",
    "geometric_rejection",
    "gepo",
    "gfpo",
    "gigpo",
    "gmpo",
    "gpg",
    "gpg_verl",
    "gppo",
    "grpo",
    "gspo",
    "hgpo",
    "icepop",
    "kimi_k15",
    "lite_ppo",
    "loop",
    "luffy",
    "luffy_paper",
    "luspo",
    "m2po",
    "magistral",
    "maxrl",
    "maxrl_control",
    "maxrl_released",
    "maxrl_sub",
    "mini_rl",
    "online_cpo",
    "online_dpo",
    "online_kto",
    "online_orpo",
    "online_simpo",
    "opd",
    "opo",
    "opsd",
    "opsm",
    "otb",
    "pass_at_all",
    "pass_at_k_analytic",
    "pkpo",
    "pkpo_loo",
    "pkpo_marginal",
    "ppo",
    "ppo_whitened",
    "prime_ipo",
    "rae",
    "raft_pp",
    "real",
    "rebn",
    "reinforce",
    "reinforce_centred",
    "reinforce_pp",
    "reinforce_pp_loo",
    "reinforce_rej",
    "remax",
    "rft",
    "rl2ml",
    "rl_zvp",
    "rloo",
    "sapo",
    "scale_rl",
    "seed_grpo",
    "sequence_is",
    "sequence_mis",
    "sequence_tis",
    "sft",
    "tba",
    "tilted",
    "tis",
    "topr",
    "tpo",
    "turn_grpo",
    "turn_ppo",
    "turn_reinforce",
    "vapo",
    "vc_ppo",
    "verifree",
    "vespo",
    "w_reinforce",
    "xpo",
]


class LoraSettings(TypedDict, total=False):
    """A low-rank adapter (LoRA), which is trained instead of all weights. Needs `gnomon[lora]`."""

    rank: int
    """Rank of the adapter. 0 trains every weight of the model and has no adapter. For a model of more than ten million
    parameters, the default is 16 if the package peft is installed."""
    alpha: int
    """What the adapter computes is multiplied by alpha / rank."""
    targets: list[str]
    """Layers with an adapter, by the last part of their name, such as `q_proj`. `all-linear` means every linear layer
    except the vocabulary projection."""


class PolicySettings(TypedDict, total=False):
    """The model that is trained."""

    path: str
    """`tiny` or `tiny-fresh`, which ship with the package; a model folder in the format of the Hugging Face hub; or a
    model of the hub, `OWNER/NAME` or `OWNER/NAME@REVISION`, from its cache or fetched. The run keeps its commit. Some
    defaults follow the model (docs/real-models.md)."""
    dtype: Literal["float32", "bfloat16", "float16"]
    """Precision of forward and backward passes. Weights that the optimiser moves, gradient sums and log-probabilities
    are float32. `float16` scales the loss; models that overflow in it, such as Gemma, are refused."""
    device: Literal["auto", "cpu", "cuda"]
    """Where the policy, its reference and its critic are computed. `auto` is `cuda` where torch finds a CUDA device."""
    reference: str
    """The teacher of `opd`, and the policy that a KL penalty compares with: a model as for `path`, with the same
    tokenizer. Empty means the policy as the run begins."""
    renderer: Literal["auto", "plain", "chatml", "qwen3", "gemma", "llama3", "harmony"]
    """Chat format. `auto` chooses the one that the model folder's chat template writes."""
    attention: Literal["auto", "exact", "flex", "cudnn", "transformers"]
    """Attention of training passes. `exact` computes the same bits as decoding, on every device. `flex` is torch's
    flex_attention, for CUDA devices, and is many times faster there with long rows. `cudnn` is `flex` with a faster
    kernel for rows of a thousand tokens or more that share no prompt; the last bits of its gradients differ from run
    to run. `transformers` is the model's own: training and sampling use its forward pass and its cache, with padded
    rows. It works for every causal language model of transformers. `auto` is `transformers` for families that have no
    other one (docs/real-models.md), `flex` on a CUDA device that can compute it, and else `exact`."""
    vision: Literal["frozen", "trained"]
    """Whether the vision tower, and what projects its features, is trained like the other weights: whole, or by an
    adapter on its layers too (`lora`). The features of an image are then computed anew in every pass."""
    activation_checkpointing: bool
    """Keep the activations at the start of every layer alone, and compute the others again in the backward pass: less
    memory, about a third more time. The result is the same in every bit."""
    lora: LoraSettings
    """The adapter that is trained instead of all weights."""


class RolloutSettings(TypedDict, total=False):
    """What is sampled in a step."""

    prompts: int
    """Tasks per step."""
    group: int
    """Rollouts per task. A batch has prompts × group rollouts."""
    max_tokens: int
    """Most tokens of one reply. An episode of several turns has several replies."""
    temperature: float
    """Divides the logits before sampling. The learner's log-probabilities use the same value."""
    top_p: float
    """Sample from the likeliest tokens alone, as few as have this probability together, in evaluations too. The policy
    that is trained is then the truncated one: sampler and learner share its probability among the kept tokens, and a
    change of which are kept has no gradient. 1 keeps all (docs/engines.md)."""
    top_k: int
    """Number of likeliest tokens to sample from, before `top_p` and otherwise like it. 0 keeps all."""
    stop: list[str]
    """Texts that end a reply. The reply keeps them."""
    tasks: list[int]
    """Indices of the train tasks to draw from. Empty means all."""
    order_seed: int
    """Seed of the order in which the batches of a run are taken. Every batch keeps its tasks and random numbers. 0
    leaves the order in which `seed` draws them."""
    turns: int
    """Most replies per episode, of all players together. 0 leaves the limit to the environment."""
    context: int
    """Most tokens of a conversation: prompts, observations and replies."""
    seconds: float
    """Wall-clock limit for the episodes of a step. A run that meets it cannot be repeated bit for bit."""
    demonstrations: str
    """JSONL file of replies to train tasks, for objectives that learn from demonstrations."""
    offline: float
    """Fraction of the steps, from the first, that sample from the initial policy. Only fcp uses it."""
    refill: int
    """Most times per step that groups with all replies right or all wrong are replaced by new tasks (DAPO)."""
    candidates: int
    """Tasks sampled per task that is trained on. Those with the least certain replies are kept."""
    judged_by: Literal["verifier", "majority", "policy"]
    """Who decides the rewards in training. `majority`: 1 for the most frequent answer of the group, else 0. `policy`:
    the policy is asked whether its reply is right. pass@1 and alarms follow the verifier (docs/rewards.md)."""
    judgements: int
    """Judgements of every rollout with `judged_by=policy`. The reward is the fraction that calls it right."""
    lag: int
    """Steps that are sampled ahead: step k uses the weights after step k − lag, so sampling goes on while earlier steps
    are trained. 0 samples every step with the newest weights."""
    recorded: str
    """Folder of a run whose recorded groups are trained on, with the log-probabilities and verdicts that it stored. It
    must have the same environment, tokenizer and `group`. `replay` is then 1, unless it or `failure_prefix` is set
    (docs/replay.md)."""
    replay: float
    """Fraction of the tasks of a step whose groups are earlier ones and are not sampled: those of `recorded`, or else
    of the run's own earlier steps."""
    failure_prefix: float
    """Fraction of the tasks of a step that continue a prefix of a failed reply to them, where one is known: a reply of
    `recorded`, or else of the run's own earlier steps. Only the continuation is trained (docs/replay.md)."""
    curriculum: str
    """What chooses the tasks of a step. `band`: again those whose latest success rate lies within `band`, and new ones.
    `easiest`: first those that the environment calls easy. `object:NAME` was passed to `gnomon.train` as a Python
    object."""
    band: list[float]
    """Lowest and highest success rate, in its latest visit, of a task that `curriculum=band` plays again."""
    in_flight: bool
    """Load new weights into the engine while it samples: completions go on with them. Needs `lag`. One engine samples
    all steps in progress, vLLM too; in a Ray cluster, one per sampler. The run then depends on the clock and is not
    repeated bit for bit."""
    entropy: bool
    """Record the entropy of the next-token distribution at every sampled token, 2 bytes each. Training is the same in
    every bit; the fingerprint differs, since it covers the records. Only for the embedded engine."""


class WorkersSettings(TypedDict, total=False):
    """The worker processes that run environments and verifiers, and their limits."""

    count: int
    """Number of worker processes."""
    seconds: float
    """Processor time in seconds that one call may use, imports excluded, also in the audit before the run. The
    wall-clock limit is ten times as long, in the audit eight times."""
    memory_mib: int
    """Address space of a worker, in MiB, also in the audit before the run."""
    retries: int
    """How often a call is repeated in a new worker after the environment failed."""
    failures: float
    """Fraction of the rollouts of a step that may fail before the run stops."""


class PlayersSettings(TypedDict, total=False):
    """Who plays in an environment of several players."""

    opponent: str
    """Empty: the policy plays every player and is trained on all. `past`: it is trained as one player, and an earlier
    version, drawn anew in every step, plays the others. A model as for `policy.path`: it plays the others."""
    every: int
    """Steps between two versions that are kept as opponents."""
    keep: int
    """Most versions kept as opponents. The first is always kept. Every checkpoint stores all of them."""
    baseline: Literal["player", "shared"]
    """Whether a reward is compared with the rewards of the same player in the group, or with those of all players."""


class RegularizeSettings(TypedDict, total=False):
    """Terms beside the objective, for any objective."""

    kl: float
    """Weight of the KL penalty to the initial policy, or to `policy.reference`, per token."""
    estimator: Literal["k1_in_return", "k2", "k3", "ratio_weighted_k3", "full"]
    """Estimator of the KL penalty. `full` sums over the vocabulary; the others use the sampled token."""
    entropy: float
    """Weight of the entropy bonus, per token, in nats. A negative weight is a penalty."""
    overlong: float
    """Fraction of `max_tokens` at the end of the limit in which the length penalty grows from 0 to 1 (DAPO). The
    longest reply of an episode counts."""


class OptimSettings(TypedDict, total=False):
    """The optimiser of the policy and its schedule. A critic is always trained by AdamW."""

    type: Literal["adamw", "sgd"]
    """`adamw`, or `sgd`: stochastic gradient descent, which keeps nothing beside the weights, or with `momentum` one
    number per weight. Its steps grow with the gradient, so its `lr` has no default."""
    lr: float
    """Peak learning rate. Its default for `adamw` is 1e-3 for models of up to ten million parameters, and for larger
    ones it falls with the hidden size; ten times as much for an adapter (`policy.lora`)."""
    min_lr_ratio: float
    """Learning rate at the last step, as a fraction of `lr`. The decay is linear; 1 keeps the rate constant."""
    warmup: int
    """Optimiser steps in which the learning rate rises linearly to `lr`."""
    max_grad_norm: float
    """Largest norm of the gradient. A larger gradient is scaled down to it."""
    weight_decay: float
    """Decoupled weight decay. Only for `adamw`."""
    states: Literal["float32", "8bit"]
    """Numbers in which AdamW keeps its two moments, a critic's too. `8bit` takes about a quarter of the memory, and
    needs `gnomon[low-memory]`. Only for `adamw`."""
    momentum: float
    """Fraction of the last step that is added to the gradient in the next one. Only for `sgd`."""
    epochs: int
    """How often the rollouts of a step are trained on."""
    minibatches: int
    """Optimiser steps per epoch. Each takes an equal part of the groups."""
    micro_batch: int
    """Tokens of one backward pass. More tokens need more memory. Another number sums gradients in another order, so the
    bits of a run change."""


class CriticSettings(TypedDict, total=False):
    """The value function of objectives that ask for one."""

    lr: float
    """Peak learning rate of the critic. Its default is that of the policy, and ten times as much where all weights of
    a model of more than ten million parameters are trained."""
    max_grad_norm: float
    """Largest norm of the critic's gradient."""


class BudgetSettings(TypedDict, total=False):
    """How long a run goes on."""

    steps: int
    """Training steps."""
    seconds: float
    """Wall-clock limit. The run stops after the step that exceeds it, and can be resumed."""


class EvalSettings(TypedDict, total=False):
    """Evaluation on held-out tasks."""

    every: int
    """Steps between evaluations. One more follows the last step."""
    tasks: int
    """Held-out tasks, from the first of the test split."""
    samples: int
    """Rollouts per held-out task."""
    pass_at: list[int]
    """Values of k for which pass@k is estimated. None may exceed `samples`."""
    sets: Mapping[str, Any]
    """More evaluations by name: tables of `env`, `temperature`, `every`, `tasks` and `samples` (docs/evaluation.md)."""


class SaveSettings(TypedDict, total=False):
    """Checkpoints."""

    every: int
    """Steps between checkpoints. One more follows the last step."""
    keep: int
    """Checkpoints to keep, the newest first."""


class AuditSettings(TypedDict, total=False):
    """The audit of the environment before a run."""

    acknowledge: list[str]
    """Rules of `gnomon audit` whose findings you accept. They no longer stop the run. An axis stands for all of its
    rules, and is then not tried, which saves time if a verdict is slow."""


class EngineSettings(TypedDict, total=False):
    """What samples."""

    type: str
    """`embedded`: this process. `vllm`: vLLM, in a process and an environment of its own. `tinker`: the Tinker service,
    for a learner there. `object:NAME` was passed to
    `gnomon.train` as a Python object."""
    dtype: Literal["policy", "float32", "bfloat16", "float16"]
    """Precision of the engine. `policy` is that of the learner, `policy.dtype`."""
    device: Literal["policy", "auto", "cpu", "cuda"]
    """Where `embedded` computes. `policy` is the device of the learner, `policy.device`."""
    round_weights: Literal["no", "bfloat16", "float16"]
    """`embedded` rounds all weights to this precision and computes as before, so that it samples from another
    distribution than the learner's: for tests of corrections without a GPU."""
    python: str
    """The Python interpreter of the environment that has vLLM. Only for `vllm`, as are the following settings."""
    gpus: list[int]
    """Indices, from 0, of the GPUs that vLLM uses, such as `1` or `2,3`. Its weights are divided among them. Empty: the
    first GPU, which the learner uses too."""
    cache_gib: float
    """Memory for keys and values on each of vLLM's GPUs, in GiB. 0 lets vLLM choose."""
    seconds: float
    """Time without any answer, in seconds, after which a worker that has work counts as hung and is replaced."""
    restarts: int
    """Most replacements of the worker in a row without a completion between them, before the run stops."""
    batch_invariant: bool
    """vLLM computes a row with the same bits in every batch, so that a request that is sampled again gives the same
    tokens on the same machine. Needs a CUDA device of compute capability 8.0 or more; it is slower."""
    sleep: bool
    """While the policy is trained, vLLM moves its weights to the memory of the host and frees its keys and values, so
    that one GPU is enough for both. Needs a CUDA device."""
    arguments: Mapping[str, Any]
    """More arguments of vLLM's `AsyncEngineArgs`, such as `max_num_seqs`."""


class LaunchSettings(TypedDict, total=False):
    """Where a run samples."""

    type: Literal["local", "ray"]
    """`local`: the process of the run samples. `ray`: samplers in a Ray cluster play the episodes. The bits of a run
    are the same. Needs `gnomon[ray]`."""
    address: str
    """HOST:PORT of a Ray cluster, or `auto` for the cluster of this machine. If it is empty, a cluster on this machine
    is started and ended with the run. Only for `ray`, as are the following settings."""
    samplers: int
    """Largest number of samplers. A run goes on as long as the cluster has room for one; others join when it has."""
    episodes: int
    """Most episodes that a sampler plays at once. They are played again if it dies."""
    cpus: float
    """CPUs that Ray reserves for a sampler."""
    gpus: float
    """GPUs that Ray reserves for a sampler."""
    resources: Mapping[str, Any]
    """Other resources of the cluster that Ray reserves for a sampler, such as `launch.resources.sampler=1`."""
    seconds: float
    """Time without any answer, in seconds, after which a sampler counts as hung and is replaced; and the time to wait
    for room in the cluster while there is no sampler. Also of a process of the learner with `ranks`: then the run
    ends."""
    restarts: int
    """Most replacements of a sampler in a row without a finished episode between them, and of the learner without a
    finished call."""
    learner: Mapping[str, Any]
    """What Ray reserves for the learner with `learner=ray`, such as `launch.learner.GPU=1`; one CPU if it is empty."""
    state_every: int
    """Steps between two states of the learner that are kept with `learner=ray`: if it dies, at most so many steps are
    repeated. A state is as large as a checkpoint, and is sent to the node of the run."""


class ObjectiveSettings(TypedDict, total=False):
    """An objective and its options."""

    type: Objective
    """The name of a row."""
    alpha: float
    """α, how much less a group of uncertain answers counts (seed_grpo). Of seed_grpo, rl_zvp, vapo, hgpo, cpgd,
    online_cpo, xpo."""
    baseline: float | Literal["group", "others"] | Literal["none", "group"] | Literal["others", "group"]
    """Taken off every rollout of every group; it changes the variance alone (rl2ml). Of rl2ml, tilted, opo,
    seed_grpo, otb, reinforce_pp, brpo."""
    baseline_on: Literal["reasoning", "all"]
    """Which tokens have a baseline: those of the reasoning; or all, which is biased (sail-sg/VeriFree,
    sft_coef_source = adv). Of verifree."""
    beta: float
    """β, risk-seeking, per unit of reward; near 0 it is `reinforce_centred` (tilted). Of tilted, a_star_po,
    reinforce_pp, reinforce_pp_loo, kimi_k15, tba, online_dpo, online_simpo, online_cpo, online_kto, xpo."""
    bootstrap: Literal["none", "reply", "limit"]
    """Rollouts whose end has the critic's value in place of 0: none, those whose last reply was cut by its token
    limit, or all that a limit ended. Of ppo, vc_ppo, vapo."""
    by: Literal["length", "efficiency"] | Literal["probability", "divergence"]
    """Which rollouts teach: the shortest, or those of most reward per token (token efficiency) (gfpo). Of gfpo,
    dppo."""
    cap: float
    """Ceiling of the ratio (scale_rl). Of scale_rl, tis, sequence_tis, sequence_mis, dppo, aspo, cpgd, mini_rl."""
    ceiling: float
    """Ceiling of the ratio where the advantage is negative (dual_clip_ppo). Of dual_clip_ppo, gppo, dcpo, bapo."""
    clip_high: float
    """How far the ratio may rise above 1 before it is clipped (grpo). Of grpo, echo, dr_grpo, w_reinforce, raft_pp,
    reinforce_rej, tilted, gdpo, lite_ppo, magistral, loop, dual_clip_ppo, gspo, gmpo, dapo, cispo, tis, icepop,
    sequence_tis, sequence_mis, geometric_rejection, seed_grpo, gfpo, rae, entropy_mask, rl_zvp, luffy_paper, ppo,
    vc_ppo, vapo, ppo_whitened, reinforce_pp, reinforce_pp_loo, turn_ppo, gigpo, hgpo, turn_grpo, rebn, brpo, dppo,
    luspo, gppo, dcpo, aspo, clip_cov, fipo, cpgd, mini_rl, opsm, gepo."""
    clip_low: float
    """How far the ratio may fall below 1 before it is clipped (grpo). Of grpo, echo, dr_grpo, w_reinforce, raft_pp,
    reinforce_rej, tilted, gdpo, lite_ppo, magistral, loop, dual_clip_ppo, gspo, gmpo, dapo, tis, icepop,
    sequence_tis, sequence_mis, geometric_rejection, seed_grpo, gfpo, rae, entropy_mask, rl_zvp, luffy_paper, ppo,
    vc_ppo, vapo, ppo_whitened, reinforce_pp, reinforce_pp_loo, turn_ppo, gigpo, hgpo, turn_grpo, rebn, brpo, dppo,
    luspo, gppo, dcpo, aspo, clip_cov, fipo, cpgd, mini_rl, opsm, gepo."""
    compared: Literal["rollouts", "reached", "turns", "rewards"]
    """With what: the returns of all rollouts, 0 where one has ended; of the rollouts that reach the turn; of all
    turns; or each reward where its turn is reached, then summed. Of turn_grpo."""
    credit: Literal["token", "answer"]
    """Whose log(π_T/π) a token is credited with: its own, or the sum to the end of the answer. Of opd."""
    deviation: Literal["population", "sample"]
    """What rewards are divided by: the deviation over N, as published; or over N−1, as trainers release it,
    √((N−1)/N) times the first. Of grpo."""
    epsilon: float
    """Added to the standard deviation (grpo). Of grpo, echo, maxrl_released, gdpo, lite_ppo, magistral, gspo, gmpo,
    sapo, dapo, cispo, scale_rl, gfpo, entropy_mask, rl_zvp, luffy_paper, ppo_whitened, reinforce_pp, turn_grpo, rebn,
    luspo, gppo, dcpo, bapo, clip_cov, m2po, fipo, gepo."""
    fade: Literal["linear", "exponential", "focal"]
    """Form of the weight. Of seed_grpo."""
    failure: float
    """Weight of a failure; 0 is PSR, where successes alone teach (w_reinforce). Of w_reinforce, reinforce_rej,
    online_kto."""
    family: Literal["A", "B", "C", "D"]
    """Rising factorial, power, mixed denominator or geometric. Of rl2ml."""
    floor: float
    """Lower end of the first band of the ratio. Of bapo."""
    floor_end: float
    """Lower end of the last band. Of bapo."""
    gain: float
    """How fast the ratio fades for tokens to be raised. Of sapo."""
    gain_decay: float
    """λ of rollouts to be raised. Of vespo."""
    gain_power: float
    """K of rollouts to be raised. Of vespo."""
    gamma: float
    """γ of the shape π/(π + γ) of demonstrated tokens (luffy). Of luffy, luffy_paper, ppo, ppo_whitened,
    turn_reinforce, turn_ppo, gigpo, hgpo, turn_grpo, rebn."""
    half_life: float
    """Tokens after which a log-ratio counts half. Of fipo."""
    history: int
    """H, observations of the past that distinguish turns, beside the last. Of hgpo."""
    k: int
    """Groups smaller than k are refused (pkpo). Of pkpo, pkpo_loo, pkpo_marginal, pass_at_k_analytic."""
    keep: int
    """Rollouts of a group that are trained on; smaller groups are kept whole. Of gfpo."""
    lam: float
    """λ: 1 uses the critic as a baseline alone, 0 for everything that follows (ppo). Of ppo, vc_ppo, ppo_whitened,
    turn_ppo."""
    lam_critic: float
    """λ of the returns that the critic learns; 1 is what rollouts earn. Of vc_ppo."""
    least: float
    """Lower end of the band of the weight (icepop). Of icepop, geometric_rejection, clip_cov."""
    likelihood: float | Literal["token", "answer"]
    """μ, weight of the log-likelihood of rollouts with a reward of at least 1; 0.1 in the source (vapo). Of vapo,
    online_orpo."""
    limit: float
    """τ, largest mean of the squared log-ratio π/μ, in squared nats (m2po). Of m2po, opsm."""
    loss: float | Literal["logistic", "squared", "hinge"]
    """How fast the ratio fades for tokens to be lowered (sapo). Of sapo, online_dpo."""
    loss_decay: float
    """λ of rollouts to be lowered. Of vespo."""
    loss_power: float
    """K of rollouts to be lowered. Of vespo."""
    margin: float
    """γ; half of β is usual. Of online_simpo."""
    mean_per: Literal["step", "rollout"]
    """After what the running mean moves: the step, or each rollout as released. Of rae."""
    most: float
    """Upper end of the band of the weight (icepop). Of icepop, geometric_rejection, clip_cov, fipo."""
    observation: float
    """λ, weight of the mean log-likelihood of observed tokens; 0 is `grpo`. Of echo."""
    order: int
    """T; groups smaller than T are refused. Of maxrl_sub."""
    parameter: float
    """0 is REINFORCE, 1 maximum likelihood, more is beyond; above −1 in A, below N/(N−1) in C, ≥ 0 in D. Of rl2ml."""
    ratio: Literal["answer", "token"]
    """Of what the log-ratio is: the whole answer, or each token (the loss `dro` of Tinker). Of kimi_k15."""
    scale: Literal["deviation", "none"] | float | Literal["none", "deviation"]
    """What credit is divided by: the deviation, as published; or none, for the gradient of pass@k, scaled
    (pass_at_k_analytic). Of pass_at_k_analytic, reinforce_pp_loo, turn_grpo."""
    share: float
    """Share of the step's tokens that teach; 1 is `dapo` (entropy_mask). Of entropy_mask, clip_cov."""
    stride: float
    """How far an end moves at a time. Of bapo."""
    success: float
    """λ, weight of a success; 0 is NSR (w_reinforce). Of w_reinforce, online_kto."""
    temperature: float
    """β₁ of the value: towards 0 it is the best reward seen, else the mean (a_star_po). Of a_star_po, real, tpo."""
    timestep: int
    """Tokens that share a ratio, 0 for the whole answer: less noise, and bias where it lags. Of sequence_is."""
    top: float
    """Upper end of the first band. Of bapo."""
    top_end: float
    """Upper end of the last band. Of bapo."""
    turns: Literal["alike", "discounted"]
    """How turn t counts: as every other; or discounted by γᵗ, for the gradient of the discounted return. Of
    turn_reinforce."""
    value_clip: float
    """How far a value may move in one batch before the critic's loss lets it go; inf: any. Of ppo, vc_ppo, vapo."""
    value_steps: int
    """Batches at the start of a run that teach the critic alone. Of ppo, vc_ppo, vapo."""
    weight: float
    """ω, weight of the comparison of turns (gigpo). Of gigpo, online_orpo."""
    width: float
    """How far the probability π may be from μ. Of prime_ipo."""


class Settings(TypedDict, total=False):
    """Of a run; tables by name, and short names."""

    seed: int
    """Seed of every random draw of the run."""
    threads: int
    """CPU threads that sample and learn side by side: some of the rows each, and a micro-batch each. Another number
    changes the time, the memory and, in the tier `exact`, no bit. For a pretrained model on a CPU: the number of cores.
    A model that computes by transformers' own forward uses one."""
    ranks: int
    """Processes that share the weights, gradients and optimiser states of the learner (FSDP2). 0 trains in the process
    of the run. 1, 2, 4, 8, … give the same bits."""
    env: str | Mapping[str, Any]
    policy: PolicySettings | str | Path
    rollout: RolloutSettings
    workers: WorkersSettings
    players: PlayersSettings
    objective: Objective | ObjectiveSettings | Row
    regularize: RegularizeSettings
    optim: OptimSettings
    critic: CriticSettings
    budget: BudgetSettings
    eval: EvalSettings
    save: SaveSettings
    audit: AuditSettings
    engine: str | EngineSettings | Engine
    launch: LaunchSettings
    learner: str | Learner
    """What trains: `local`, in this process; `ray`, in a process of the Ray cluster of `launch.type=ray`; the address
    that `gnomon serve-learner` printed; or `tinker:MODEL`, an adapter of this base model on the Tinker service.
    `object:NAME` was passed to `gnomon.train` as a Python object."""
    agent: str
    """`env.agent`."""
    model: str | Path
    """`policy.path`."""
    lora: int
    """`policy.lora.rank`."""
    prompts: int
    """`rollout.prompts`."""
    group: int
    """`rollout.group`."""
    max_tokens: int
    """`rollout.max_tokens`."""
    temperature: float
    """`rollout.temperature`."""
    curriculum: str | Curriculum
    """`rollout.curriculum`."""
    steps: int
    """`budget.steps`."""
    seconds: float
    """`budget.seconds`."""
    lr: float
    """`optim.lr`."""
