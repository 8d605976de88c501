"""The table of options: every row with its options and their limits, what it needs, a sentence on it and its source.

The configuration, the rows, the cards, the pages and `gnomon explain` read it. It imports no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import NamedTuple

from gnomon.objectives.declaration import Data, Declaration, Need, Option, OptionError, Rewards, Value
from gnomon.objectives.spelling import nearest

__all__ = ["OPTIONS", "REFUSED", "RENAMED", "Former", "declaration_of", "in_family", "nearest_row"]

OBJECT = "object:"
"""Before the name of a part of a run that was passed as a Python object."""


def clip(low: float, high: float, of: str = "the ratio", centre: int = 1) -> dict[str, Option]:
    """The band outside which a clip takes the gradient away."""
    return {
        "clip_low": Option(low, f"how far {of} may fall below {centre} before it is clipped", least=0, most=inf),
        "clip_high": Option(high, f"how far {of} may rise above {centre} before it is clipped", least=0, most=inf),
    }


def band(least: float, most: float, of: str) -> dict[str, Option]:
    """The band of a weight."""
    return {
        "least": Option(least, f"lower end of the band of {of}", least=0, most=1),
        "most": Option(most, f"upper end of the band of {of}", least=1, most=inf),
    }


def epsilon(default: float, to: str = "standard deviation") -> dict[str, Option]:
    """What keeps a division from zero."""
    return {"epsilon": Option(default, f"added to the {to}", least=0)}


def cap(default: float, text: str) -> dict[str, Option]:
    """A ceiling of a weight or a ratio."""
    return {"cap": Option(default, text, least=1, most=inf)}


def beta(default: float, text: str) -> dict[str, Option]:
    """A coefficient that cannot be zero."""
    return {"beta": Option(default, text, above=0)}


def anchor(text: str = "β, reward taken off per nat of divergence from the initial policy") -> dict[str, Option]:
    """A penalty within the reward, which needs a reference once it weighs anything."""
    return {"beta": Option(0.0, text, least=0, asks=frozenset({Need.LOGP, Need.REFERENCE}))}


def discount(default: float, per: str) -> dict[str, Option]:
    """γ."""
    return {"gamma": Option(default, f"γ, discount per {per}", least=0, most=1)}


def subset(least: int, text: str) -> dict[str, Option]:
    """k."""
    return {"k": Option(2, text, least=least)}


CLIP = clip(0.2, 0.2)
BASELINE = {"baseline": Option("group", "what a rollout is compared with: its whole group, itself included, as "
    "published; or the others alone, so that its own reward does not bend the gradient",
    choices=("group", "others"), if_set=True)}  # fmt: skip
LAM = {"lam": Option(1.0, "λ: 1 uses the critic as a baseline alone, 0 for everything that follows", least=0, most=1)}
CRITIC = {
    "value_clip": Option(inf, "how far a value may move in one batch before the critic's loss lets it go; inf: any",
        above=0, most=inf, if_set=True),
    "value_steps": Option(0, "batches at the start of a run that teach the critic alone", least=0, if_set=True),
    "bootstrap": Option("none", "rollouts whose end has the critic's value in place of 0: none, those whose last reply "
        "was cut by its token limit, or all that a limit ended", choices=("none", "reply", "limit"),
        asks=frozenset({Need.BEYOND}), if_set=True),
}  # fmt: skip
KEEP = {"keep": Option(4, "rollouts of a group that are trained on; smaller groups are kept whole", least=2)}
SHAPE = {"gamma": Option(0.1, "γ of the shape π/(π + γ) of demonstrated tokens", above=0)}
ENTROPY = {
    "alpha": Option(0.5, "α, how much less a group of uncertain answers counts", least=0, below=1),
    "fade": Option("linear", "form of the weight", choices=("linear", "exponential", "focal")),
}
DIAL = {
    "family": Option("A", "rising factorial, power, mixed denominator or geometric", choices=("A", "B", "C", "D")),
    "parameter": Option(0.5,
        "0 is REINFORCE, 1 maximum likelihood, more is beyond; above −1 in A, below N/(N−1) in C, ≥ 0 in D", least=-1),
    "baseline": Option(0.0, "taken off every rollout of every group; it changes the variance alone"),
}  # fmt: skip
SQUARES = frozenset({Need.LOGP, Need.COLLISION})
UNCERTAIN = frozenset({Need.ENTROPY})
REFERENCE, VALUES = frozenset({Need.REFERENCE}), frozenset({Need.VALUES})
SCORED = frozenset({Need.LOGP, Need.REFERENCE})
TEACHER = SCORED | {Need.TEACHER}
BINARY, SHOWN, BUDGETS = Rewards.BINARY, frozenset({Need.DEMONSTRATIONS}), frozenset({Need.BUDGETS})

TABLE = (
    Declaration("reinforce", "REINFORCE: the score function times the reward.",
        "Williams 1992, doi 10.1007/BF00992696", min_group=1),
    Declaration("rloo", "RLOO: REINFORCE with the mean of the other rollouts for a baseline.",
        "Ahmadian et al. 2024, arXiv 2402.14740"),
    Declaration("reinforce_centred",
        "REINFORCE with the mean of the whole group, the rollout's own reward included, for a baseline.",
        "Liu et al. 2025, arXiv 2503.20783, without its division by length"),
    Declaration("grpo", "GRPO: standardised rewards, clipped token ratios, mean over the tokens of each rollout.",
        "Shao et al. 2024, arXiv 2402.03300; with the sample deviation verl, compute_grpo_outcome_advantage",
        CLIP | epsilon(1e-6)
        | {"deviation": Option("population", "what rewards are divided by: the deviation over N, as published; or over "
        "N−1, as trainers release it, √((N−1)/N) times the first", choices=("population", "sample"), if_set=True)}),
    Declaration("echo",
        "ECHO: GRPO, and the mean log-likelihood of the tokens that the environment wrote after the first reply.",
        "Shrivastava et al. 2026, arXiv 2605.24517; prime-rl, echo",
        {"observation": Option(0.1, "λ, weight of the mean log-likelihood of observed tokens; 0 is `grpo`", least=0)}
        | CLIP | epsilon(1e-6)),
    Declaration("dr_grpo",
        "Dr. GRPO: GRPO without the two divisions that bend the gradient, by deviation and by own length.",
        "Liu et al. 2025, arXiv 2503.20783", CLIP),
    Declaration("maxrl",
        "MaxRL: the mean score of the successes, exact maximum likelihood up to order N. Rewards are 0 or 1.",
        "Tajwar et al. 2026, arXiv 2602.02710", min_group=1, rewards=BINARY),
    Declaration("maxrl_control",
        "MaxRL less the mean score of the group, a control variate: the same expectation, with less noise.",
        "Tajwar et al. 2026, arXiv 2602.02710", min_group=1, rewards=BINARY),
    Declaration("maxrl_released",
        "MaxRL as released: rewards relative to the mean of their group, which is maximum likelihood of order N−1.",
        "tajwarfahim/maxrl, compute_maxrl_outcome_advantage", epsilon(1e-6, "mean"), rewards=BINARY),
    Declaration("maxrl_sub",
        "MaxRL of an order T below the group: between REINFORCE (T = 1) and MaxRL (T = N). Rewards are 0 or 1.",
        "tajwarfahim/maxrl, c_sub_TN", {"order": Option(2, "T; groups smaller than T are refused", least=1)},
        min_group=lambda options: int(options["order"]), rewards=BINARY),
    Declaration("rl2ml",
        "RL2ML: one dial from REINFORCE (0) over maximum likelihood of order N (1) to beyond. Rewards are 0 or 1.",
        "Zheng 2026, arXiv 2605.30154 (abstract); families derived", DIAL, min_group=1, rewards=BINARY),
    Declaration("pkpo",
        "PKPO without a baseline: the exact gradient of the expected best of k rollouts, pass@k for rewards 0 and 1.",
        "Walder & Karkhanis 2025, arXiv 2505.15201", subset(1, "groups smaller than k are refused"),
        min_group=lambda options: int(options["k"])),
    Declaration("pkpo_loo", "PKPO less the best of k among the other rollouts.",
        "Walder & Karkhanis 2025, arXiv 2505.15201", subset(1, "groups of k or fewer are refused"),
        min_group=lambda options: int(options["k"]) + 1),
    Declaration("pkpo_marginal",
        "PKPO by what a rollout adds to the best of k−1 others (the baseline called leave-one-out minus one).",
        "Walder & Karkhanis 2025, arXiv 2505.15201", subset(2, "groups smaller than k are refused"),
        min_group=lambda options: int(options["k"])),
    Declaration("pass_at_all",
        "The best of the group less the best of the others: the gradient of the best of N, over N.",
        "Tang, Zheng, Synnaeve & Munos 2025, arXiv 2503.19595"),
    Declaration("pass_at_k_analytic",
        "Pass@k training in closed form: subsets of k pass or fail, their standardised outcome is credit. 0 or 1 only.",
        "Chen et al. 2025, arXiv 2508.10751",
        subset(1, "groups of k or fewer are refused: no credit is left")
        | {"scale": Option("deviation", "what credit is divided by: the deviation, as published; or none, for the "
        "gradient of pass@k, scaled", choices=("deviation", "none"), if_set=True)},
        min_group=lambda options: int(options["k"]) + 1, rewards=BINARY),
    Declaration("w_reinforce",
        "W-REINFORCE: successes are raised and failures lowered, each with a weight. Rewards are 0 or 1.",
        "Zhu et al. 2025, arXiv 2506.01347; TianHongZXY/RLVR-Decomposed",
        {"success": Option(0.1, "λ, weight of a success; 0 is NSR", least=0)} | CLIP
        | {"failure": Option(1.0, "weight of a failure; 0 is PSR, where successes alone teach", least=0, if_set=True)},
        min_group=1, rewards=BINARY),
    Declaration("raft_pp", "RAFT++: REINFORCE on positive rewards alone, under clipped token ratios.",
        "Xiong et al. 2025, arXiv 2504.11343; RLHFlow/Minimal-RL", CLIP, min_group=1),
    Declaration("reinforce_rej",
        "Reinforce-Rej: REINFORCE on the groups that hold a success and a failure. Rewards are 0 or 1.",
        "Xiong et al. 2025, arXiv 2504.11343; RLHFlow/Minimal-RL",
        {"failure": Option(-1.0, "what a failure counts, where a success counts 1", most=0)} | CLIP, rewards=BINARY),
    Declaration("tilted",
        "Entropic risk (RS-GRPO): rewards by their exponential relative to its mean, from the mean to the best reward.",
        "Jiang et al. 2025, arXiv 2509.24261; Jackory/RS-GRPO",
        beta(2.0, "β, risk-seeking, per unit of reward; near 0 it is `reinforce_centred`") | CLIP | BASELINE),
    Declaration("opo",
        "OPO: rewards less the mean reward of the tokens of the group, so that long rollouts count more in it.",
        "Hao et al. 2025, arXiv 2505.23585; verl, compute_opo_outcome_advantage", BASELINE),
    Declaration("gdpo",
        "GDPO: every part of the reward standardised in its group by itself, their weighted sum over the whole step.",
        "NVIDIA 2026, arXiv 2601.05242; TRL, normalize_then_sum", CLIP | epsilon(1e-4)),
    Declaration("gpg",
        "GPG: centred rewards without a ratio, over the share of the groups that decide anything.",
        "Chu et al. 2025, arXiv 2504.02546; AMAP-ML/GPG"),
    Declaration("gpg_verl",
        "GPG as verl computes it: divided by the share of the rollouts whose reward is not zero, mean over all tokens.",
        "verl, compute_gpg_outcome_advantage"),
    Declaration("lite_ppo",
        "Lite PPO: rewards less the mean of the group, over the deviation of all rewards of the step.",
        "Liu et al. 2025, arXiv 2508.08221; TRL, scale_rewards = batch", CLIP | epsilon(1e-4)),
    Declaration("magistral",
        "Magistral: centred rewards over their deviation in the step, a clip with more room above, mean per prompt.",
        "Mistral 2025, arXiv 2506.10910, §2.1", clip(0.2, 0.28) | epsilon(1e-6)),
    Declaration("loop", "LOOP: leave-one-out credit under clipped token ratios.",
        "Chen et al. 2025, arXiv 2502.01600", CLIP),
    Declaration("dual_clip_ppo",
        "PPO's clip with a second one: an unwanted token that has become far more likely is let go.",
        "Ye et al. 2020, arXiv 1912.09729",
        CLIP | {"ceiling": Option(3.0, "ceiling of the ratio where the advantage is negative", above=1, most=inf)}),
    Declaration("sequence_is",
        "RLOO under the importance ratio of the whole answer: the policy gradient, whatever policy sampled.",
        "Precup et al. 2000, ICML",
        {"timestep": Option(0, "tokens that share a ratio, 0 for the whole answer: less noise, and bias where it lags",
            least=0)}),
    Declaration("gspo",
        "GSPO: standardised rewards under the clipped geometric mean of a rollout's ratios. On policy it is GRPO.",
        "Zheng et al. 2025, arXiv 2507.18071", clip(3e-4, 4e-4, "the mean ratio") | epsilon(1e-6)),
    Declaration("gmpo",
        "GMPO: standardised rewards under the geometric mean of clipped token ratios. On policy it is GRPO.",
        "Zhao et al. 2025, arXiv 2507.20673", clip(0.4, 0.4, "the log-ratio", 0) | epsilon(1e-6)),
    Declaration("sapo",
        "SAPO: standardised rewards under token ratios that fade out smoothly. On policy it is GRPO.",
        "Gao et al. 2025, arXiv 2511.20347",
        {"gain": Option(1.0, "how fast the ratio fades for tokens to be raised", above=0),
         "loss": Option(1.05, "how fast the ratio fades for tokens to be lowered", above=0)} | epsilon(1e-6)),
    Declaration("dapo",
        "DAPO: standardised rewards, a clip with more room above, the mean over all tokens of the step.",
        "Yu et al. 2025, arXiv 2503.14476", clip(0.2, 0.28) | epsilon(1e-6),
        brings={"rollout.refill": 10, "regularize.overlong": 0.2}),
    Declaration("cispo",
        "CISPO: standardised rewards under token ratios with a ceiling of 1 + clip_high; no token loses its gradient.",
        "MiniMax 2025, arXiv 2506.13585, §3.1",
        {"clip_high": Option(0.2, "how far the ceiling of the ratio is above 1", least=0, most=inf)} | epsilon(1e-6)),
    Declaration("scale_rl",
        "ScaleRL: CISPO around the sampler, the deviation of the whole step, the mean over the tokens of each prompt.",
        "Khatri et al. 2025 (ScaleRL), arXiv 2510.13786, §4", cap(5.0, "ceiling of the ratio") | epsilon(1e-6)),
    Declaration("tis", "TIS: token weights of the sampler's mismatch, truncated, on a clipped objective.",
        "Yao et al. 2025, fengyao.notion.site/off-policy-rl", cap(2.0, "ceiling of the weight") | CLIP),
    Declaration("icepop",
        "IcePop: token weights of the sampler's mismatch inside a band, zero outside. With `least` 0: decoupled PPO.",
        "Ling team 2025, arXiv 2510.18855; with `least` 0 Fu et al. 2025 (AReaL), arXiv 2505.24298",
        band(0.5, 5.0, "the weight") | CLIP),
    Declaration("sequence_tis",
        "The weight of the whole answer for the sampler's mismatch, truncated. Exact where the cap does not bind.",
        'Liu et al. 2025, "When speed kills stability"', cap(2.0, "ceiling of the weight") | CLIP),
    Declaration("sequence_mis",
        "The weight of the whole answer for the sampler's mismatch; answers above the cap are dropped.",
        "Qi et al. 2025, arXiv 2510.26788", cap(10.0, "answers with a larger weight are dropped") | CLIP),
    Declaration("geometric_rejection",
        "Answers whose mean mismatch leaves a band are dropped; the others are taken as they are.",
        "verl, docs/algo/rollout_corr_math.md", band(0.999, 1.001, "the geometric mean of the weights") | CLIP),
    Declaration("seed_grpo", "SEED-GRPO: groups whose answers lie far apart move the policy less.",
        "Chen et al. 2025, arXiv 2505.12346", ENTROPY | CLIP | BASELINE),
    Declaration("gfpo",
        "GFPO: only the shortest rollouts of a group teach, or those of most reward per token, beside each other.",
        "Shrivastava et al. 2025, arXiv 2508.09726",
        KEEP | CLIP | epsilon(1e-6)
        | {"by": Option("length", "which rollouts teach: the shortest, or those of most reward per token (token "
        "efficiency)", choices=("length", "efficiency"), if_set=True)}),
    Declaration("rae",
        "RAE: rewards less a running mean of past ones, kept for each game and role by whoever plays them.",
        "Liu et al. 2025 (SPIRAL), arXiv 2506.24119",
        CLIP | {"mean_per": Option("step", "after what the running mean moves: the step, or each rollout as released",
        choices=("step", "rollout"))}, min_group=1, needs=frozenset({Need.BASELINE})),
    Declaration("entropy_mask",
        "DAPO on the most uncertain tokens alone: the fifth of a step's tokens with the highest entropies.",
        "Wang et al. 2025, arXiv 2506.01939; TRL, top_entropy_quantile",
        {"share": Option(0.2, "share of the step's tokens that teach; 1 is `dapo`", above=0, most=1)}
        | clip(0.2, 0.28) | epsilon(1e-6), needs=UNCERTAIN),
    Declaration("rl_zvp",
        "RL-ZVP: DAPO, and tokens by their entropy in groups that are all right or all wrong. Rewards are 0 or 1.",
        "Le et al. 2025, arXiv 2509.21880, eq. 5",
        {"alpha": Option(0.1, "α, advantage per nat of entropy in groups of a single reward", above=0)}
        | clip(0.2, 0.28) | epsilon(1e-6), min_group=1, rewards=BINARY, needs=UNCERTAIN),
    Declaration("a_star_po",
        "A*-PO: reward less β·log(π/π_ref) of the answer, by least squares against the task's best regularised value.",
        "Brantley et al. 2025, arXiv 2505.20686",
        beta(1e-3, "β, reward per nat of log(π/π_ref); β₂ in the source")
        | {"temperature": Option(0.5, "β₁ of the value: towards 0 it is the best reward seen, else the mean", above=0)},
        min_group=1, needs=REFERENCE | {Need.BASELINE}),
    Declaration("otb",
        "OTB: at every position its own baseline, the mean reward by what each rollout's squared score sums to there.",
        "verl, optimal_token_baseline and tir_optimal_token_baseline", BASELINE, min_group=1, needs=SQUARES),
    Declaration("remax",
        "ReMax: rewards less the reward of the greedy answer, which is one more rollout of each task.",
        "Li et al. 2023, arXiv 2310.10505", min_group=1, needs=frozenset({Need.GREEDY})),
    Declaration("luffy",
        "LUFFY as released: sampled rollouts and demonstrations in one group, each less the mean reward of the group.",
        "Yan et al. 2025, arXiv 2504.14945; ElliottYan/LUFFY, train.sh", SHAPE, data=Data.MIXED, needs=SHOWN),
    Declaration("luffy_paper",
        "LUFFY on top of GRPO as its paper begins: standardised rewards, a clip, the mean over all tokens of the step.",
        "Yan et al. 2025, arXiv 2504.14945",
        SHAPE | clip(0.2, 0.2, "the ratio of sampled rollouts") | epsilon(1e-6), data=Data.MIXED, needs=SHOWN),
    Declaration("ppo",
        "PPO: generalised advantage estimates over tokens, clipped token ratios, sum over tokens by a constant.",
        "Schulman et al. 2017, arXiv 1707.06347", discount(1.0, "token") | LAM | CLIP | CRITIC,
        min_group=1, needs=VALUES),
    Declaration("vc_ppo",
        "VC-PPO: PPO with a λ below one for the policy and a λ of its own, one, for what the critic learns.",
        "Yuan et al. 2025 (VC-PPO), arXiv 2503.01491",
        {"lam": Option(0.95, "λ of the policy's advantages", least=0, most=1),
         "lam_critic": Option(1.0, "λ of the returns that the critic learns; 1 is what rollouts earn", least=0, most=1)}
        | CLIP | CRITIC, min_group=1, needs=VALUES),
    Declaration("vapo",
        "VAPO: PPO whose λ grows with the length of the rollout, and a critic that learns what rollouts earn.",
        "VAPO 2025, arXiv 2504.05118",
        {"alpha": Option(0.05, "α of λ = 1 − 1/(α·length), at least 0", above=0),
         "likelihood": Option(0.0, "μ, weight of the log-likelihood of rollouts with a reward of at least 1; 0.1 in "
         "the source", least=0)} | clip(0.2, 0.28) | CRITIC, min_group=1, needs=VALUES),
    Declaration("ppo_whitened",
        "PPO with advantages whitened over the tokens of the step, as trainers release it.",
        "verl, compute_gae_advantage_return", discount(1.0, "token") | LAM | CLIP | epsilon(1e-8, "variance"),
        min_group=1, needs=VALUES),
    Declaration("reinforce_pp",
        "REINFORCE++: reward less the way strayed from a reference, to go, whitened over the tokens of the step.",
        "Hu et al. 2025, arXiv 2501.03262",
        anchor() | CLIP | epsilon(1e-8, "variance")
        | {"baseline": Option("none", "what is taken off every reward before tokens are whitened: nothing, or the mean "
        "of the group (REINFORCE++-baseline)", choices=("none", "group"), if_set=True)},
        min_group=lambda options: 1 if options["beta"] or options["baseline"] == "none" else 2),
    Declaration("reinforce_pp_loo",
        "REINFORCE++ made exact: the mean of the others, a scale that stands still, sum over tokens by a constant.",
        "Hu et al. 2025, arXiv 2501.03262",
        anchor() | {"scale": Option(1.0, "what credit is divided by, in units of reward", above=0)} | CLIP),
    Declaration("turn_reinforce",
        "REINFORCE over turns as it is mostly written: every turn by what is earned from it on, discounted to it.",
        "axon-rl/gem, examples/train_oat, without its normalisation; with discounted turns Nota & Thomas 2020, arXiv "
        "1906.07073",
        discount(1.0, "turn")
        | {"turns": Option("alike", "how turn t counts: as every other; or discounted by γᵗ, for the gradient of the "
        "discounted return", choices=("alike", "discounted"), if_set=True)}, min_group=1),
    Declaration("turn_ppo", "PPO over turns: generalised advantage estimates with a critic read as each turn begins.",
        "Schulman et al. 2016, arXiv 1506.02438, over turns as in sail-sg/oat, ppo_multiturn",
        discount(1.0, "turn") | LAM | CLIP, min_group=1, needs=VALUES),
    Declaration("gigpo",
        "GiGPO: rollouts compared with their group, and turns with those that reply to the same observation.",
        "Feng et al. 2025, arXiv 2505.10978; langfengQ/verl-agent, gigpo",
        discount(0.95, "turn") | {"weight": Option(1.0, "ω, weight of the comparison of turns", least=0)} | CLIP,
        min_group=1),
    Declaration("hgpo",
        "HGPO: turns compared with those that reply to the same observation, and those that share more of the past.",
        "He et al. 2026, arXiv 2602.22817; langfengQ/verl-agent, recipe/hgpo",
        discount(0.95, "turn")
        | {"history": Option(2, "H, observations of the past that distinguish turns, beside the last", least=0),
           "alpha": Option(1.0, "α of the weight (h + 2)^α of turns that share h observations of the past", least=0)}
        | CLIP, min_group=1),
    Declaration("turn_grpo",
        "GRPO over turns: what is earned from each turn on, compared within the group in one of four ways.",
        "MT-GRPO 2025, arXiv 2505.11821; verl-project/verl#7244",
        discount(1.0, "turn")
        | {"compared": Option("rollouts",
               "with what: the returns of all rollouts, 0 where one has ended; of the rollouts that reach the turn; "
               "of all turns; or each reward where its turn is reached, then summed",
               choices=("rollouts", "reached", "turns", "rewards")),
           "scale": Option("none", "whether the difference is divided by the deviation of what it is compared with",
               choices=("none", "deviation"))}
        | CLIP | epsilon(1e-6)),
    Declaration("rebn",
        "ReBN: returns of turns, standardised over every turn of the step; no group is compared with itself.",
        "GEM 2025, arXiv 2510.01051; axon-rl/gem, examples/train_oat",
        discount(1.0, "turn") | CLIP | epsilon(1e-9, "deviation"), min_group=1),
    Declaration("brpo",
        "BRPO: tokens by the scores at the budgets still to come, over own past scores and the others' mean.",
        "Qi et al. 2025, arXiv 2505.13438; with `baseline` group sail-sg/AnytimeReasoner, brpo.py",
        CLIP | {"baseline": Option("others", "whose mean is taken off: the others'; or the whole group's, as released, "
        "which shrinks early segments most", choices=("others", "group"), if_set=True)},
        min_group=lambda options: 2 if options["baseline"] == "others" else 1, needs=BUDGETS),
    Declaration("dppo",
        "DPPO: truncated token weights to the sampler, and no gradient once a probability moved by the band's width.",
        "DPPO 2026, arXiv 2602.04879",
        clip(0.2, 0.2, "the probability π − μ", 0) | cap(20.0, "ceiling of the weight")
        | {"by": Option("probability", "what the band is of: the probability π − μ; or the two-way KL divergence of a "
        "token in nats, where 0.05 is usual", choices=("probability", "divergence"), if_set=True)}),
    Declaration("kimi_k15",
        "Kimi k1.5's mirror descent: the regularised reward by least squares, r ≈ V + β·log(π/μ) of answers.",
        "Kimi 2025, arXiv 2501.12599, §2.3.2; with the ratio of tokens Tinker, loss dro; verl, dro",
        {"beta": Option(0.05, "β of the squared log-ratio (τ in the source); 0 is `reinforce_centred`", least=0),
         "ratio": Option("answer", "of what the log-ratio is: the whole answer, or each token (the loss `dro` of "
         "Tinker)", choices=("answer", "token"), if_set=True)}),
    Declaration("luspo",
        "LUSPO: GSPO times the length of the rollout, so that long rollouts are not diluted.",
        "LUSPO 2026, arXiv 2602.05261; TRL, loss_type = luspo", clip(2e-3, 2.5e-3, "the mean ratio") | epsilon(1e-6)),
    Declaration("vespo",
        "VESPO: the whole answer's ratio to the sampler in a smooth kernel Wᵏ·e^{λ(1−W)}; nothing is clipped.",
        "VESPO 2026, arXiv 2602.10693; TRL, loss_type = vespo",
        {"gain_power": Option(2.0, "k of rollouts to be raised", above=0),
         "gain_decay": Option(3.0, "λ of rollouts to be raised", above=0),
         "loss_power": Option(3.0, "k of rollouts to be lowered", above=0),
         "loss_decay": Option(2.0, "λ of rollouts to be lowered", above=0)}),
    Declaration("gppo",
        "GPPO: standardised rewards under token ratios held at the edges of the clip; clipped tokens keep a gradient.",
        "Su et al. 2025, arXiv 2508.07629",
        clip(0.2, 0.28) | {"ceiling": Option(3.0, "ceiling of the ratio where the advantage is negative", above=1,
        most=inf)} | epsilon(1e-6)),
    Declaration("dcpo",
        "DCPO: rewards standardised over all visits of a task, a clip that is wider the less likely a token was.",
        "Yang et al. 2025, arXiv 2509.02333; lime-RL/DCPO",
        {"clip_low": Option(0.2, "largest (1 − ρ)·ρ·q below one, q the probability of the token", least=0, most=inf),
         "clip_high": Option(0.28, "largest (ρ − 1)·ρ·q above one", least=0, most=inf),
         "ceiling": Option(10.0, "ceiling of the ratio", above=1, most=inf)} | epsilon(1e-6),
        needs=frozenset({Need.VISITS})),
    Declaration("aspo",
        "ASPO: PPO's clip with the ratio of tokens to be raised turned over; those left behind are raised most.",
        "Wang et al. 2025, arXiv 2510.06062; Archer2.0", CLIP | cap(3.0, "ceiling of ratio and inverse ratio")),
    Declaration("bapo",
        "BAPO: standardised rewards, a clip whose band widens until what is raised weighs as much as what is lowered.",
        "WooooDyy/BAPO",
        {"floor": Option(0.6, "lower end of the first band of the ratio", least=0, most=1),
         "floor_end": Option(0.8, "lower end of the last band", least=0, most=1),
         "top": Option(1.2, "upper end of the first band", least=1),
         "top_end": Option(2.0, "upper end of the last band", least=1),
         "stride": Option(0.05, "how far an end moves at a time", least=0.01),
         "ceiling": Option(3.0, "ceiling of the ratio where the advantage is negative", above=1, most=inf)}
        | epsilon(1e-6)),
    Declaration("clip_cov",
        "Clip-Cov: DAPO, less of it on the tokens whose advantage and log-probability deviate most from their means.",
        "Cui et al. 2025, arXiv 2505.22617; verl, clip_cov",
        {"share": Option(2e-4, "share of the step's tokens that lose their gradient, at least one", least=0, most=1),
         "least": Option(1.0, "lower end of the band of the covariance", least=0),
         "most": Option(5.0, "upper end of the band of the covariance", above=0, most=inf)}
        | CLIP | epsilon(1e-6)),
    Declaration("m2po",
        "M2PO: standardised rewards under token ratios, without the tokens that bring the second moment above a limit.",
        "Zheng et al. 2025, arXiv 2510.01161; AReaL, m2_threshold",
        {"limit": Option(0.04, "τ, largest mean of the squared log-ratio π/μ, in squared nats", above=0, most=inf)}
        | epsilon(1e-6)),
    Declaration("fipo",
        "FIPO: DAPO, more of it on tokens before a part that the policy has come to prefer.",
        "Ma et al. 2026, arXiv 2603.19835; ms-swift, loss_type = fipo",
        {"half_life": Option(32.0, "tokens after which a log-ratio counts half", above=0),
         "most": Option(1.2, "ceiling of the weight of a token; 1 is `dapo`", least=1)} | clip(0.2, 0.28)
        | epsilon(1e-6)),
    Declaration("cpgd",
        "CPGD: PPO's clip without the ratio, and a penalty on what the policy drifts.",
        "Liu et al. 2025, arXiv 2505.12504, eq. 2",
        {"alpha": Option(0.1, "α, weight of the drift", least=0),
         "cap": Option(5.0, "c, largest drift ρ − 1 that counts", above=0, most=inf)} | CLIP),
    Declaration("mini_rl",
        "MiniRL: centred rewards under clipped token ratios and truncated weights to the sampler, summed over tokens.",
        "Zheng et al. 2025, arXiv 2512.01374", cap(5.0, "ceiling of the weight") | clip(0.2, 0.27)),
    Declaration("opsm",
        "Off-policy sequence masking: failures that the policy would hardly give any more are left out whole.",
        "DeepSeek-AI 2025, arXiv 2512.02556, §3.1",
        {"limit": Option(0.5, "δ, largest mean log-ratio μ/π of a failure, in nats per token", least=0, most=inf)}
        | CLIP),
    Declaration("prime_ipo",
        "The loss `ipo` of prime-rl: token ratios to the sampler, zero where a probability moved too far either way.",
        "prime-rl, loss ipo", {"width": Option(0.1, "how far the probability π may be from μ", least=0, most=1)}),
    Declaration("gepo",
        "GEPO: an answer's likelihood per token over the group's expectation of it, clipped like a ratio.",
        "GEPO 2025, arXiv 2508.17850", clip(0.2, 0.2, "the weight") | epsilon(1e-6)),
    Declaration("real",
        "REAL: rewards as labels of a classifier; each rollout moves by its share of its side. Rewards are 0 or 1.",
        "REAL 2026, arXiv 2602.05630",
        {"temperature": Option(1.0, "τ of the mean log-ratio", above=0)}, min_group=1, rewards=BINARY),
    Declaration("tba",
        "TBA: reward less β·log(π/π_ref) of the answer, less the mean of the group, by least squares.",
        "Bartoldson et al. 2025 (TBA), arXiv 2503.18929; GVPO 2025, arXiv 2504.19599",
        beta(0.05, "β, reward per nat of log(π/π_ref)"), needs=REFERENCE),
    Declaration("topr",
        "TOPR: what is to be raised counts in full, what is to be lowered by the ratio of its answer, at most one.",
        "Le Roux et al. 2025, arXiv 2503.14286"),
    Declaration("sft",
        "Supervised fine-tuning: the log-likelihood of the rollouts, as a mean over tokens. Rewards play no part.",
        "Ouyang et al. 2022, arXiv 2203.02155, §3.5", min_group=1, max_group=1, data=Data.DEMONSTRATED,
        rewards=Rewards.NONE, brings={"rollout.group": 1, "rollout.prompts": 256}),
    Declaration("rft",
        "Rejection fine-tuning: the log-likelihood of the successes alone, as a mean over tokens. Rewards are 0 or 1.",
        "Yuan et al. 2023, arXiv 2308.01825", min_group=1, rewards=BINARY, any_sampler=True),
    Declaration("fcp",
        "Feedback-conditional policy: supervised fine-tuning where the prompt carries the feedback on the answer.",
        "FCP 2025, arXiv 2509.22638", min_group=1, data=Data.CONDITIONED, rewards=Rewards.NONE,
        brings={"rollout.offline": 0.9, "optim.epochs": 4}),
    Declaration("verifree",
        "VeriFree: raises the likelihood of a known answer after the policy's own reasoning; nothing is verified.",
        "Zhou et al. 2025, arXiv 2505.21493",
        {"baseline_on": Option("reasoning", "which tokens have a baseline: those of the reasoning; or all, which is "
        "biased (sail-sg/VeriFree, sft_coef_source = adv)", choices=("reasoning", "all"),
        if_set=True)},
        data=Data.SPLICED, rewards=Rewards.NONE, needs=frozenset({Need.LOGP})),
    Declaration("opd",
        "On-policy distillation: each token is credited with log(π_T/π), where π_T is the teacher.",
        "Lu & Thinking Machines 2025, thinkingmachines.ai/blog/on-policy-distillation; by answers Gu et al. 2023 "
        "(MiniLLM), arXiv 2306.08543, without its length normalisation and mixed sampling",
        {"credit": Option("token", "whose log(π_T/π) a token is credited with: its own, or the sum to the end of the "
        "answer", choices=("token", "answer"), if_set=True)},
        min_group=1, rewards=Rewards.NONE, needs=TEACHER),
    Declaration("opsd",
        "On-policy self-distillation: the teacher is the policy that the run begins with, shown the reference answer.",
        "Zhao et al. 2026 (OPSD), arXiv 2601.18734", min_group=1, rewards=Rewards.NONE,
        needs=SCORED | {Need.SOLUTION}),
    Declaration("online_dpo",
        "Online DPO: a loss on the margin between the best and the worst rollout of a group.",
        "Rafailov et al. 2023, arXiv 2305.18290; online as in Guo et al. 2024, arXiv 2402.04792; IPO: Azar et al. "
        "2023, arXiv 2310.12036; SLiC: Zhao et al. 2023, arXiv 2305.10425",
        beta(0.1, "β of the margin; a larger one stays nearer to the reference")
        | {"loss": Option("logistic", "of the margin: logistic (DPO); squared distance from 1/(2β), where it rests "
        "(IPO); or hinge, the full gradient until the margin is one, then none (SLiC)",
        choices=("logistic", "squared", "hinge"), if_set=True)}, needs=REFERENCE),
    Declaration("online_simpo",
        "Online SimPO: the logistic loss on log-probabilities per token, beyond a margin; no reference.",
        "Meng et al. 2024, arXiv 2405.14734",
        beta(2.0, "β of the log-probability per token") | {"margin": Option(1.0, "γ; half of β is usual", least=0)}),
    Declaration("online_cpo",
        "Online CPO: the logistic loss without a reference, and the log-likelihood of the better rollout.",
        "Xu et al. 2024, arXiv 2401.08417",
        beta(0.1, "β of the margin")
        | {"alpha": Option(1.0, "weight of the log-likelihood of the better rollout", least=0)}),
    Declaration("online_orpo",
        "Online ORPO: the logistic loss on log-odds per token, and the log-likelihood per token of the better rollout.",
        "Hong et al. 2024, arXiv 2403.07691",
        {"weight": Option(0.1, "λ of the odds ratio", above=0),
         "likelihood": Option("token", "what the log-likelihood of better rollouts is a mean over: all their tokens in "
            "the step, or the tokens of each answer", choices=("token", "answer"))}),
    Declaration("online_kto",
        "Online KTO: each rollout by itself, desired or not, with a slope that fades far from the mean. 0 or 1 only.",
        "Ethayarajh et al. 2024, arXiv 2402.01306",
        beta(0.1, "β of the log-ratio to the reference")
        | {"success": Option(1.0, "λ₊, weight of a success", above=0),
           "failure": Option(1.0, "λ₋, weight of a failure", above=0)},
        min_group=1, rewards=BINARY, needs=REFERENCE),
    Declaration("tpo",
        "TPO: the answers of a group brought to shares that their standardised rewards tilt, by cross-entropy.",
        "Kaddour 2026, arXiv 2604.06159; JeanKaddour/tpo",
        {"temperature": Option(1.0, "η, how gently rewards tilt the shares", above=0)}, needs=frozenset({Need.LOGP})),
    Declaration("xpo", "XPO: online DPO, and away from what the reference would answer, in order to explore.",
        "Xie et al. 2024, arXiv 2405.21046",
        beta(0.1, "β of the margin")
        | {"alpha": Option(5e-6, "weight of the log-likelihood of the reference's answers", least=0)},
        needs=REFERENCE),
)  # fmt: skip

OPTIONS: dict[str, Declaration] = {row.name: row for row in TABLE}
"""Every declaration by the name of its row."""


class Former(NamedTuple):
    """What a name that was one of a row is now."""

    row: str
    why: str
    options: Mapping[str, Value] = {}
    """Of the row, where they are not the defaults."""

    @property
    def words(self) -> str:
        """As in a command."""
        options = [f"objective.{name}={value}" for name, value in self.options.items()]
        return " ".join([f"objective={self.row}", *options])


DRO = "it penalises distance to the sampler, as in Kimi k1.5; DRO (arXiv 2405.19107) uses a reference policy"
RENAMED = {
    "dro": Former("kimi_k15", DRO),
    "dro_token": Former("kimi_k15", DRO, {"ratio": "token"}),
    "gspo_token": Former("gspo", "one advantage to a rollout gives its tokens the coefficients of GSPO"),
    "cispo_cap": Former("cispo", "the ceiling of the ratio is 1 + clip_high", {"clip_high": 4.0}),
    "decoupled_ppo": Former("icepop", "its weights have an upper end alone, cap, which is most here", {"least": 0.0}),
    "nsr": Former("w_reinforce", "only failures teach where a success has the weight 0", {"success": 0.0}),
    **{
        f"{row}_loo": Former(row, "leaving the rollout itself out of its baseline is an option", {"baseline": "others"})
        for row in ("opo", "otb", "tilted", "seed_grpo")
    },
    "gfpo_efficiency": Former("gfpo", "what the best rollouts are chosen by is an option", {"by": "efficiency"}),
    "grpo_sample_std": Former("grpo", "the deviation over N−1 is an option", {"deviation": "sample"}),
    "pass_at_k_centred": Former("pass_at_k_analytic", "whether credit is divided is an option", {"scale": "none"}),
    "psr": Former(
        "w_reinforce", "successes alone teach where a failure has the weight 0", {"success": 1.0, "failure": 0.0}
    ),
    "reinforce_pp_baseline": Former("reinforce_pp", "the mean of the group is an option", {"baseline": "group"}),
    "turn_reinforce_discounted": Former(
        "turn_reinforce", "the weight γᵗ of a turn is an option", {"gamma": 0.9, "turns": "discounted"}
    ),
    "brpo_released": Former("brpo", "the mean of the whole group is an option", {"baseline": "group"}),
    "dppo_kl": Former(
        "dppo", "what the band is of is an option", {"by": "divergence", "clip_low": 0.05, "clip_high": 0.05}
    ),
    "kimi_k15_token": Former("kimi_k15", "the log-ratio of each token is an option", {"ratio": "token"}),
    "verifree_advantage": Former("verifree", "a baseline on the answer is an option", {"baseline_on": "all"}),
    "opd_sequence": Former("opd", "credit by whole answers is an option", {"credit": "answer"}),
    "online_ipo": Former("online_dpo", "the loss of the margin is an option", {"loss": "squared"}),
    "online_slic": Former("online_dpo", "the loss of the margin is an option", {"loss": "hinge"}),
}
"""Former name to what it is now: another name, or a row with an option."""


REFUSED = {
    "kl_cov": (
        "clip_cov",
        "the penalty of KL-Cov has its full slope, either way, as soon as a probability moves at all: rounding decides "
        "its sign, and its error does not shrink with the lag",
    ),
    "hierarchical_grpo": (
        "reinforce_centred",
        "hierarchical GRPO compares the solvers of one proposed problem, and no environment has a policy that proposes "
        "problems; between rollouts of one task it subtracts their mean reward",
    ),
    "bnpo": ("dapo", "BNPO divides by the tokens of each micro-batch, so its gradient depends on how a step is split"),
}
"""Objectives of other trainers that no row can be: the row to take instead, and the reason."""


ELSEWHERE = {
    "cpo": "online_cpo",
    "gae": "ppo_whitened",
    "geo_mean": "gmpo",
    "gkd": "opd",
    "grpo_passk": "pass_at_all",
    "ipo": "prime_ipo",
    "kto": "online_kto",
    "max_rl": "maxrl_released",
    "optimal_token_baseline": "otb",
    "orpo": "online_orpo",
    "reinforce++": "reinforce_pp",
    "sdft": "opsd",
}
"""Names in other trainers that resemble no row, or another one: the row, as on the page of names."""


def declaration_of(name: str) -> Declaration:
    """The declaration of a row. Raises: OptionError for a name that the table does not have, with the nearest.

    Of a row that was passed as an object nothing is known by its name.
    """
    if name.startswith(OBJECT):
        return Declaration(name, "A row that was passed as a Python object.", "", min_group=1)
    if name in RENAMED:
        former = RENAMED[name]
        raise OptionError(f"the objective {name!r} is now {former.words}: {former.why}")
    if name in REFUSED:
        instead, reason = REFUSED[name]
        raise OptionError(f"there is no objective {name!r}: {reason}; take {instead}")
    if name not in OPTIONS:
        near = nearest_row(name)
        hint = f"did you mean {near}?" if near else f"one of {', '.join(sorted(OPTIONS))}"
        raise OptionError(f"unknown objective {name!r} ({hint})")
    return OPTIONS[name]


COMMON = ("grpo", "ppo", "dapo", "dr_grpo", "rloo", "reinforce", "gspo", "cispo")
"""Rows that most users mean: a misspelled name that is as near to several rows is one of them."""


def nearest_row(name: object) -> str:
    """The row that was meant by a name that does not exist; the empty text where none is near."""
    return ELSEWHERE.get(str(name).lower()) or nearest(str(name), (*COMMON, *OPTIONS))


def in_family(family: str, parameter: float, group: int) -> bool:
    """Whether a family of rl2ml has a parameter in groups of this size."""
    least = 0 if family == "D" else -1
    below = group / (group - 1) if family == "C" and group > 1 else inf
    return least <= parameter < below and not (family == "A" and parameter == -1)
