"""The model of the settings: its folder, its precision, and the adapter that is trained in the place of its weights."""

from __future__ import annotations

import torch

from gnomon.config import RunConfig
from gnomon.errors import ConfigError
from gnomon.keys import Key
from gnomon.models.adapter import Adapter
from gnomon.models.backends import fits_flex, packs
from gnomon.models.cudnn import Cudnn
from gnomon.models.flex import Flex
from gnomon.models.folder import model_folder
from gnomon.models.kernels import compiles
from gnomon.models.packed import Packed
from gnomon.models.padded import Padded
from gnomon.models.policy import Policy, Whole
from gnomon.models.precision import Precision

__all__ = [
    "attention_of",
    "make_device",
    "make_engine_precision",
    "make_policy",
    "make_precision",
    "make_whole",
    "policy_of",
    "with_attention",
]


def make_policy(
    config: RunConfig, precision: Precision, *, blank: bool = True, device: str = "", whole: Whole | None = None
) -> Policy:
    """A policy of its own.

    Args: blank: whether an adapter adds nothing at first, as `Adapter.blank`; device: empty for the learner's; whole:
        as in `Policy`, by default the one of sampling.
    """
    target = make_device(device, "engine.device") if device else make_device(config.policy.device)
    whole, trains_vision = whole or usual_whole(config), config.policy.vision == "trained"
    folder, adapter = model_folder(config.policy.path), make_adapter(config, blank)
    return Policy.load(folder, precision, target, adapter, whole, trains_vision=trains_vision)


def usual_whole(config: RunConfig) -> Whole:
    """The passes of sampling."""
    return Padded if attention_of(config) == "transformers" else Packed


def attention_of(config: RunConfig) -> str:
    """The attention of training passes, never `auto`. `auto` is `transformers` where the passes of the policy or its
    reference cannot be packed, `flex` on a CUDA device where Triton can compile and the heads of both are wide enough,
    and else `exact`."""
    if config.policy.attention != "auto":
        return config.policy.attention
    folders = [model_folder(path) for path in (config.policy.path, config.policy.reference) if path]
    if not all(map(packs, folders)):
        return "transformers"
    if make_device(config.policy.device).type != "cuda" or not compiles():
        return "exact"
    return "flex" if all(map(fits_flex, folders)) else "exact"


def with_attention(config: RunConfig) -> RunConfig:
    """The settings with `auto` replaced by this machine's attention, so that processes elsewhere use the same."""
    if config.policy.attention != "auto" or not config.placement.same_numbers:
        return config
    return config.model_copy(update={"policy": config.policy.model_copy(update={"attention": attention_of(config)})})


def make_whole(config: RunConfig) -> Whole:
    """The layout of the passes of the learner, its reference and its critic.

    Raises: ConfigError E338 for an attention on a device where it has no gradient.
    """
    attention = attention_of(config)
    if attention in ("exact", "transformers"):
        return Packed if attention == "exact" else Padded
    device = make_device(config.policy.device)
    if device.type != "cuda":
        raise ConfigError(
            "E338",
            f"policy.attention={attention} cannot train on the device {device.type}",
            where="policy.attention",
            why="torch computes its gradient on CUDA devices only",
            fix="policy.attention=exact, or policy.device=cuda on a machine with a CUDA device",
        )
    return Cudnn if attention == "cudnn" else Flex


def make_device(name: str, where: str = "policy.device") -> torch.device:
    """Args: where: the setting. Raises: ConfigError E039 for CUDA where there is none."""
    if name == "cuda" and not torch.cuda.is_available():
        reason = "finds no CUDA device" if torch.version.cuda else "was built without CUDA"
        raise ConfigError(
            "E039",
            f"{where} is cuda, and there is no CUDA device",
            where=where,
            why=f"torch {torch.__version__} {reason}",
            fix=f"{where}=cpu, or install a driver and a torch with CUDA",
        )
    return torch.device("cuda" if torch.cuda.is_available() and name != "cpu" else "cpu")


def policy_of(part: object) -> Policy | None:
    """The policy of an engine or a learner that computes in this process; None for one that does so elsewhere."""
    policy = getattr(part, "policy", None)
    return policy if isinstance(policy, Policy) else None


def make_adapter(config: RunConfig, blank: bool) -> Adapter | None:
    lora = config.policy.lora
    if not config.policy.trains_adapter:
        return None
    return Adapter(rank=lora.rank, alpha=lora.alpha, targets=tuple(lora.targets), key=Key(config.seed), blank=blank)


def make_precision(config: RunConfig) -> Precision:
    """Of a policy that is trained; `Precision.alone` is that of the others."""
    return Precision(compute=getattr(torch, config.dtypes.learner))


def make_engine_precision(config: RunConfig) -> Precision:
    """Of a policy that samples in this process."""
    return Precision.only(getattr(torch, config.dtypes.engine))
