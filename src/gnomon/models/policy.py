"""A causal language model as sampler and learner see it: flat tokens and a layout in, log-probabilities out."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from transformers import AttentionInterface, AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText, utils
from transformers.integrations.moe import ExpertsInterface
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.utils import logging

from gnomon.errors import GnomonError, ModelError
from gnomon.models.adapter import WEIGHTS as ADAPTER_WEIGHTS
from gnomon.models.adapter import Adapter, Down
from gnomon.models.attention import MIN_ROWS, NAME, Layout, attend_by_layout
from gnomon.models.backends import packs
from gnomon.models.conformance import foreign, require_conformance
from gnomon.models.decode import Decode
from gnomon.models.delta_decode import DeltaDecode
from gnomon.models.delta_layer import connect
from gnomon.models.experts import mix, settle_experts
from gnomon.models.folder import AGAIN, base_hash, image_token, model_folder
from gnomon.models.fused import fuse, is_fused
from gnomon.models.kernels import compiles, settle
from gnomon.models.packed import Packed
from gnomon.models.padded import Padded, cap_of, composed, freeze_unread, scale_of
from gnomon.models.precision import Masters, Moved, Precision, require_fitting, require_range, shapes_of
from gnomon.models.projection import WHOLE, Projection, Truncation, full_kl, token_collision, token_logp
from gnomon.models.steady import settle_layers
from gnomon.models.stored import Stored, weights_of
from gnomon.models.tokenizer import Tokenizer
from gnomon.models.trie import Trie
from gnomon.models.vision import Vision
from gnomon.models.weights import Kind

__all__ = ["Anchor", "Pass", "Policy", "Scored", "family_of", "place_parameters"]

logging.disable_progress_bar()
if sys.flags.optimize > 1:
    # Without docstrings (python -OO), the decorator that completes them in transformers' models raises.
    utils.auto_docstring = lambda thing=None, **_: thing or (lambda other: other)
AttentionInterface.register(NAME, attend_by_layout)
ExpertsInterface.register(NAME, mix)
settle()


CONFORMING: set[tuple[str, str | None]] = set()
"""Configurations of models, and attentions, whose passes this process has compared with transformers' own."""
FROZEN = "policy.vision=frozen"
LONG = 8192
"""Tokens of a pass from which on its conversions are computed again: below, what they keep is little memory."""


class WholeLayout(Layout, Protocol):
    """The layout of a whole pass."""

    attention: ClassVar[str | None]
    """Name in transformers' registry of the attention that computes such passes; None for the model's own."""

    def __init__(self, trie: Trie, device: torch.device | str = "cpu") -> None: ...


Whole = type[WholeLayout]


class Pass(NamedTuple):
    """Flat tokens on their way through a policy, and those of them whose log-probabilities are asked for."""

    ids: Tensor
    """[T] tokens of all sequences, end to end."""
    layout: Layout
    rows: Tensor | slice
    """[N] the places in `ids` after which a target comes."""
    target: Tensor
    """[N] the tokens that come there."""


class Anchor(NamedTuple):
    """Another policy's next-token distributions at the same places."""

    hidden: Tensor
    """[N, size]."""
    projection: Projection


class Scored(NamedTuple):
    """What a policy says of the targets of a pass. Everything carries gradients."""

    logp: Tensor
    """[N] natural log-probability."""
    entropy: Tensor
    """[N] of the next-token distribution, in nats."""
    hidden: Tensor
    """[N, size] last hidden state before the target."""
    kl: Tensor | None
    """[N] KL(policy‖anchor) over the whole vocabulary, in nats; None without an anchor."""


class Policy(torch.nn.Module):
    """Weights and tokenizer of a hub-format folder, on one device and in one precision.

    Everything that carries gradients is computed inside `forward`, so that wrappers which act around a module's
    forward pass (sharding, activation checkpointing) can hold the whole policy.

    Args:
        model: any decoder of transformers whose attention goes through its registry. Its parameters are the first
            values of the masters.
        precision: the model's own dtype throughout unless given.
        folder: that it was read from.
        adapter: is trained in the place of the model's parameters, in at least float32.
        trains_vision: whether the vision tower is trained like the rest of the model, which else is frozen.
        whole: makes the layout of a whole pass: `Packed`, which every device computes, `Flex` on a CUDA device, or
            `Padded`, which every model computes by its own forward.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Tokenizer,
        precision: Precision | None = None,
        folder: Path | None = None,
        adapter: Adapter | None = None,
        whole: Whole = Packed,
        *,
        trains_vision: bool = False,
    ) -> None:
        super().__init__()
        self.model, self.tokenizer, self.folder, self.whole = model, tokenizer, folder, whole
        sees = folder is not None and image_token(folder) is not None
        self.vision = Vision(model, folder, trainable=trains_vision) if folder and sees else None
        """None for a policy that does not see."""
        if trains_vision:
            require_tower(self)
        output = model.get_output_embeddings()
        if not isinstance(getattr(output, "weight", None), Tensor):
            raise ModelError("E303", "the model has no vocabulary projection", where=type(model).__name__)
        self.precision = precision or Precision.only(output.weight.dtype)
        require_range(model.config.model_type, self.precision.compute)
        reads = model.config.get_text_config()
        self.cap = cap_of(reads)
        self.scale = scale_of(reads)
        self.most_scores = 0
        """Scores over the vocabulary held at once; 0: as many as suit the device."""
        self.has_delta_layers = whole.attention is not None and connect(model)
        if whole.attention is not None:
            settle_experts(model)
        # No sequence is padded, and looking for padding waits for the device.
        model.base_model.warn_if_padding_and_no_attention_mask = no_warning
        if composed(model):
            trie = Trie([torch.arange(MIN_ROWS, device="cpu")])
            with torch.enable_grad():
                text = whole(trie, output.weight.device).hidden(model, trie.ids.to(output.weight.device))
                freeze_unread(model, [text, *(self.vision.blank() if self.vision and trains_vision else ())])
        self.adapter = adapter.inject(model) if adapter else None
        if whole.attention is not None:
            settle_layers(model)  # Those of the adapter too.
        if torch.cuda.is_available():
            fuse(model, exact=whole is Packed)
        self._adapted = True
        self.sources: dict[str, str] = {}
        """Names in the folder of the parameters that have no values yet, by their own names."""
        own = self.state()
        # An adapter is its own master: it is kept in at least float32 beside weights of any precision.
        self.masters: Moved = Masters(
            own, Precision.only(next(iter(own.values())).dtype) if adapter else self.precision
        )

    @classmethod
    def load(
        cls,
        folder: Path | str,
        precision: Precision | None = None,
        device: torch.device | str = "cpu",
        adapter: Adapter | None = None,
        whole: Whole | None = None,
        *,
        trains_vision: bool = False,
    ) -> Policy:
        """Read a model folder, or `tiny`; nothing is ever fetched from a network.

        Nothing in the folder is run: no code of its own, no pickle, no kernel from a hub.

        Args: precision, float32 throughout unless given; adapter, which is trained in the place of what is read;
            whole, as in `Policy`, by default `Packed` for a family whose passes can be packed, else `Padded`;
            trains_vision, as in `Policy`.
        Raises: ModelError, as `model_folder`; E302 without a tokenizer, E303 for what cannot be read, E308 for a model
            whose passes are not those of transformers, E332 without a vision tower to train; those of `Adapter.inject`.
        """
        folder, precision = model_folder(folder), precision or Precision()
        whole = whole or usual_whole(folder)
        tokenizer = Tokenizer(folder)
        with readable(folder):
            config = configuration(folder)
            model, loaded = family_of(config).from_pretrained(
                folder,
                config=config,
                dtype=precision.compute if adapter else precision.master,
                attn_implementation=whole.attention,
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
                output_loading_info=True,
            )
            model = model.to(device).eval()
            policy = cls(model, tokenizer, precision, folder, adapter, whole, trains_vision=trains_vision)
        if missing := sorted(loaded["missing_keys"]):
            why = f"the weights {', '.join(missing[:3])} are missing; they would be random"
            raise ModelError("E303", "the model folder is incomplete", where=str(folder), why=why, fix=AGAIN)
        config_text = (folder / "config.json").read_text("utf-8")
        if (config_text, whole.attention) not in CONFORMING:
            require_conformance(model, policy._logp, whole.attention)
            CONFORMING.add((config_text, whole.attention))
        return policy

    @classmethod
    def outline(
        cls,
        folder: Path | str,
        precision: Precision,
        device: torch.device | str = "cpu",
        adapter: Adapter | None = None,
        whole: Whole | None = None,
    ) -> Policy | None:
        """What `load` returns, without the values of what is read: its parameters are on the meta device.

        Args: as in `load`. The adapter and what the model computes itself, such as rotary frequencies, have values.
        Returns: None for a model whose parameters are not the tensors of the folder, each under a name of its own, and
            for one that computes by its own forward.
        Raises: as `load`.
        """
        folder = model_folder(folder)
        whole = whole or usual_whole(folder)
        if whole.attention is None:
            return None
        tokenizer, dtype = Tokenizer(folder), precision.compute if adapter else precision.master
        with readable(folder), weights_of(folder) as stored:
            config = configuration(folder)
            with torch.device("meta"):
                kind = type(AutoModelForCausalLM.from_config(config, trust_remote_code=False))
            # Memory that nobody writes to is not taken. Each tensor shows which parameter it became.
            blank = {name: torch.empty(shape, dtype=dtype, device="cpu") for name, shape in stored.shapes().items()}
            names = {value.data_ptr(): name for name, value in blank.items()}
            model = kind.from_pretrained(
                None, config=config, dtype=dtype, attn_implementation=whole.attention, state_dict=blank
            )
            if composed(model):
                return None
            policy = cls(model.eval(), tokenizer, precision, folder, adapter, whole)
            adapter_ids = {id(value) for value in (policy.adapter.state().values() if policy.adapter else ())}
            for name, value in model.named_parameters():
                source = names.get(value.data_ptr(), "")
                if id(value) in adapter_ids:
                    continue
                if not source or value.shape != blank[source].shape or not value.is_contiguous():
                    return None
                policy.sources[name] = source
            place_parameters(model, lambda value: value if id(value) in adapter_ids else without_values(value))
            model._apply(lambda value: value if value.is_meta else value.to(device))
        return policy

    def checkpoint_activations(self) -> None:
        """In passes with gradients, keep what enters every layer and compute the rest again in the backward pass.

        The bits stay the same. The model stays in `eval()`, where transformers' own checkpointing does nothing.
        Raises: ModelError E325 where transformers names no layers of the model for it.
        """
        layers = [module for module in self.model.modules() if isinstance(module, GradientCheckpointingLayer)]
        if not layers:
            raise ModelError(
                "E325",
                "the model has no layers whose activations can be recomputed",
                where=type(self.model).__name__,
                why="transformers supports no activation checkpointing of this family",
                fix="policy.activation_checkpointing=false",
            )
        for layer in layers:
            layer.forward = partial(recompute, layer.forward)

    def recompute_conversions(self) -> None:
        """In passes with gradients of `LONG` tokens or more, keep what enters every RMS norm and every adapter, and
        compute again what they make of it.

        The bits stay the same. In bfloat16 both would keep their input in float32 too.
        """
        for module in self.model.modules():
            norm = type(module).__name__.endswith("RMSNorm") and not (self.device.type == "cuda" and is_fused(module))
            if norm or isinstance(module, Down):
                module.forward = partial(recomputed_if_long, module.forward)

    @property
    def device(self) -> torch.device:
        return self.projection.weight.device

    @property
    def projection(self) -> Projection:
        """From hidden states to scores over the vocabulary."""
        head = self.model.get_output_embeddings()
        weight, plain = head.weight, head.bias is None and self.scale == 1.0
        fused = weight.is_cuda and self.whole is not Packed and plain and compiles()
        return Projection(weight, self.cap, self.precision.logp, self.most_scores, fused, head.bias, self.scale)

    @property
    def vocabulary(self) -> int:
        return len(self.projection.weight)

    @property
    def width(self) -> int:
        """Length of a hidden state."""
        return int(self.projection.weight.shape[1])

    @cached_property
    def base(self) -> str:
        """Hash of the weights that the policy was read from; empty for one that was read from no folder."""
        return base_hash(self.folder) if self.folder else ""

    @property
    def packs(self) -> bool:
        """Whether its passes are flat tokens, whose attention a layout computes; else they are padded rows."""
        return self.whole.attention is not None

    @property
    def kind(self) -> Kind:
        """What of the policy is trained, and what a version of it consists of."""
        return Kind.ADAPTER if self.adapter else Kind.FULL

    @property
    def without_adapter(self) -> Policy:
        """The policy without what its adapter adds; it shares all weights."""
        policy: Policy = object.__new__(type(self))  # FSDP's classes cannot be copied.
        policy.__dict__.update(self.__dict__)
        policy._adapted = False
        return policy

    def merge(self) -> None:
        """Add the adapter to the weights, once; then the policy has none. Rounding moves its log-probabilities."""
        if self.adapter:
            self.adapter.merge(self.model)
            self.adapter = None
            self.masters = Masters(self.state(), self.precision)

    def twin(self, adapter: Adapter | None = None) -> Policy:
        """A policy that is not trained, with a copy of what is trained of this one. Frozen weights are not copied.

        Its whole passes are computed by `Packed`, as an engine's are.
        Args: adapter: to begin with, of the same rank and targets; by default as it is.
        """
        shared = [self.tokenizer, *(value for value in self.model.parameters() if not value.requires_grad)]
        policy = deepcopy(self, {id(value): value for value in shared})
        policy.precision = self.precision.alone
        policy.whole = Packed if self.packs else self.whole
        if adapter:
            assert policy.adapter is not None
            policy.adapter.adapter = adapter
            policy.adapter.begin()
        return policy

    @torch.no_grad()
    def share_base(self, other: Policy) -> None:
        """Hold the frozen weights of another policy in the place of own copies that are equal to them."""
        theirs = dict(other.model.named_parameters())
        for name, own in self.model.named_parameters():
            like = theirs.get(name)
            if like is None or like is own or own.requires_grad or like.requires_grad or own.dtype != like.dtype:
                continue
            if own.device == like.device and torch.equal(own, like):
                own.data = like.data

    def place(self, values: Sequence[int]) -> Tensor:
        """Token ids or places, on the policy's device."""
        return torch.tensor(values, dtype=torch.int64, device=self.device)

    def pack(self, trie: Trie) -> Layout:
        """The layout of a whole pass."""
        if self.vision is not None and not self.packs:
            return Padded(trie, self.device, self.vision)
        return self.whole(trie, self.device)

    def decode(self) -> Decode:
        """The layout of decoding, as `Decode`."""
        return DeltaDecode(self.device) if self.has_delta_layers else Decode(self.device)

    def forward(
        self,
        work: Pass,
        temperature: float = 1.0,
        anchor: Anchor | None = None,
        *,
        truncation: Truncation = WHOLE,
        scored: bool = True,
    ) -> Scored | Anchor:
        """Log-probabilities of the targets of a pass, under the tempered and truncated distribution.

        Args: scored: False returns what another policy's pass needs of this one.
        """
        hidden = self.states(work)
        if not scored:
            return Anchor(hidden, self.projection)
        logp, entropy = token_logp(hidden, self.projection, work.target, temperature, truncation)
        kl = full_kl(hidden, self.projection, *anchor, temperature) if anchor else None
        return Scored(logp, entropy, hidden, kl)

    @torch.no_grad()
    def collision(self, work: Pass, temperature: float = 1.0, truncation: Truncation = WHOLE) -> Tensor:
        """[N] Σ_v π(v)² before every target of a pass: the chance that two draws are the same token."""
        return token_collision(self.states(work), self.projection, temperature, truncation)

    def hidden(self, ids: Tensor, layout: Layout) -> Tensor:
        """Last hidden states [T, size] of flat tokens [T]."""
        with self.as_adapted():
            return layout.hidden(self.model, ids)

    @contextmanager
    def as_adapted(self) -> Iterator[None]:
        """The model computes with its adapter or, of `without_adapter`, without it."""
        with self.adapter.off() if self.adapter and not self._adapted else nullcontext():
            yield

    def _logp(self, texts: Sequence[Tensor]) -> Tensor:
        """[T] log-probabilities of every token of the texts but the first ones, in one pass."""
        trie = Trie([text[:-1] for text in texts], least=MIN_ROWS)
        index = torch.cat([torch.from_numpy(path) for path in trie.paths])
        ids, index, target = (x.to(self.device) for x in (trie.ids, index, torch.cat([text[1:] for text in texts])))
        layout = self.pack(trie) if not self.packs else Packed(trie, self.device)
        scores: Scored = self(Pass(ids, layout, index, target))
        return scores.logp

    def states(self, work: Pass) -> Tensor:
        """[N, size] last hidden state before every target of a pass."""
        return self.hidden(work.ids, work.layout)[work.rows]

    @torch.no_grad()
    def anchor(self, work: Pass) -> Anchor:
        """This policy as the reference of another one in a pass."""
        reference: Anchor = self(work, scored=False)
        return reference

    def logits(self, hidden: Tensor) -> Tensor:
        """Scores [T, vocabulary] over the next token."""
        return self.projection.scores(hidden)

    def state(self) -> dict[str, Tensor]:
        """What is trained, by name, not copied: every parameter that text passes through, or those of the adapter."""
        if self.adapter:
            return self.adapter.state()
        return {name: value for name, value in self.model.named_parameters() if value.requires_grad}

    @torch.no_grad()
    def update(self, state: Mapping[str, Tensor]) -> None:
        """Copy parameters in. Raises: ModelError E304 when names or shapes differ."""
        own = self.state()
        require_fitting(own, shapes_of(state))
        for name, parameter in own.items():
            parameter.copy_(state[name])

    @torch.no_grad()
    def round(self, dtype: torch.dtype) -> None:
        """Round every weight to what this dtype can hold. Their own dtype stays."""
        for value in self.model.parameters():
            value.copy_(value.to(dtype))

    def save(self, folder: Path) -> None:
        """Write what is trained, in master precision, and the tokenizer: a model folder, or PEFT's adapter folder."""
        folder.mkdir(parents=True, exist_ok=True)
        state = {**self.masters.parameters, **self.beside()}
        state = {name: value.detach().contiguous() for name, value in state.items()}
        save_file(state, folder / self.weights_file, metadata={"format": "pt"})
        self.describe(folder)

    def beside(self) -> dict[str, Tensor]:
        """What a model folder has beside trained weights, by name, not copied: frozen parameters and buffers."""
        if self.adapter:
            return {}
        tensors = {name: value for name, value in self.model.named_parameters() if not value.requires_grad}
        for prefix, module in self.model.named_modules():
            names = module._buffers.keys() - module._non_persistent_buffers_set
            tensors |= {f"{prefix}.{name}": value for name in names if (value := module._buffers[name]) is not None}
        return tensors

    def describe(self, folder: Path) -> None:
        """Write what a folder of the policy has beside the weights: configuration and tokenizer."""
        if self.adapter:
            self.adapter.write_config(folder, base=None)
        else:
            self.model.config.save_pretrained(folder)
        self.tokenizer.save(folder)

    def restore(self, folder: Path) -> None:
        """Take back what was saved. Raises: ModelError E304 for the weights of another model."""
        with Stored(folder / self.weights_file, device=str(self.device)) as state:
            state.leave_out(self.beside())
            self.masters.load(state)

    @property
    def weights_file(self) -> str:
        """Its name in the folder of the policy."""
        return ADAPTER_WEIGHTS if self.adapter else "model.safetensors"


def family_of(config: Any) -> Any:
    """The class of transformers that loads the model of a configuration, with the parts that see if it has no other."""
    sees, reads = (auto._model_mapping for auto in (AutoModelForImageTextToText, AutoModelForCausalLM))
    kind = type(config)
    # The text model of some families is saved with a configuration of its own, which no class reads again.
    alone = kind in reads and reads[kind].config_class in reads
    return AutoModelForImageTextToText if kind in sees and not alone else AutoModelForCausalLM


def require_tower(policy: Policy) -> None:
    """Raises: ModelError E332 for a policy that does not see, or whose passes are not the model's own."""
    where = str(policy.folder or type(policy.model).__name__)
    if policy.vision is None:
        why = "its folder has no image processor, or its model no token for images"
        raise ModelError("E332", "the policy has no vision tower to train", where=where, why=why, fix=FROZEN)
    if policy.packs:
        why = "images pass through the model's own forward, and packed passes have another attention"
        fix = f"policy.attention=transformers, or {FROZEN}"
        raise ModelError("E332", "packed passes do not train the vision tower", where=where, why=why, fix=fix)


def usual_whole(folder: Path) -> Whole:
    """The passes of a model that nobody chose others for."""
    return Packed if packs(folder) else Padded


def no_warning(*_: object) -> None:
    """In the place of transformers' warning of padding without a mask."""


def without_values(value: Tensor) -> Tensor:
    return torch.empty(value.shape, dtype=value.dtype, device="meta")


def place_parameters(module: torch.nn.Module, replacement: Callable[[Tensor], Tensor]) -> None:
    """Put other tensors in the place of parameters; parameters that are tied stay one. Args: replacement: a new
    tensor, or the same one."""
    placed: dict[int, tuple[Tensor, torch.nn.Parameter]] = {}
    for part in module.modules():
        for name, value in part._parameters.items():
            if value is not None and id(value) not in placed:
                tensor = replacement(value)
                new = value if tensor is value else torch.nn.Parameter(tensor, value.requires_grad)
                placed[id(value)] = value, new
            if value is not None:
                part._parameters[name] = placed[id(value)][1]


@contextmanager
def readable(folder: Path) -> Iterator[None]:
    """Raises: ModelError E303 for whatever reading a folder leads to, since a folder may hold anything, and E308 for a
    family without an attention of transformers' registry."""
    try:
        yield
    except GnomonError:
        raise
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        if isinstance(error, KeyError) and error.args == (NAME,):
            raise foreign(str(folder), "its attention is not in transformers' registry", NAME) from error
        if "trust_remote_code" in str(error):
            reason = "it needs code from its own folder (auto_map), and Gnomon never runs such code"
        raise ModelError("E303", "the model folder cannot be read", where=str(folder), why=reason, fix=AGAIN) from error


def recompute(forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What a layer computes. With gradients, what its backward pass needs is computed again there."""
    if not torch.is_grad_enabled():
        return forward(*args, **kwargs)
    return checkpoint(forward, *args, use_reentrant=False, preserve_rng_state=False, **kwargs)


def recomputed_if_long(forward: Callable[[Tensor], Tensor], hidden: Tensor) -> Tensor:
    """What a module computes. Args: hidden: [1, T, …] of T tokens."""
    return recompute(forward, hidden) if hidden.shape[1] >= LONG else forward(hidden)


def configuration(folder: Path) -> Any:
    """The configuration of a model folder, without the settings that name a kernel to load."""
    config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    return type(config).from_dict(without_kernels(json.loads((folder / "config.json").read_text("utf-8"))))


def without_kernels(values: dict[str, Any]) -> dict[str, Any]:
    """Settings, and those nested in them, without the ones that choose an implementation from a hub."""
    return {
        name: read_back(value)
        for name, value in values.items()
        if "_implementation" not in name and not name.startswith("use_kernel")
    }


def read_back(value: Any) -> Any:
    """A value of a configuration. Transformers writes a float that JSON does not have as an object."""
    if isinstance(value, list):
        return [read_back(each) for each in value]
    if isinstance(value, dict):
        return float(value["__float__"]) if value.keys() == {"__float__"} else without_kernels(value)
    return value
