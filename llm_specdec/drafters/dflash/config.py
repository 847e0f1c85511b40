"""config.json of a DFlash checkpoint: what it asks of a target, and all of the computation.

Plain Python: no tensor library is imported here.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from llm_specdec.checkpoint import CheckpointFiles, weights
from llm_specdec.checkpoint.files import check_config
from llm_specdec.drafters.common.fields import Fields
from llm_specdec.errors import CheckpointError

C = TypeVar("C")

# Fields that say nothing about the computation, and others with the values that change nothing.
# Whatever else is set and not read below may change it, and is refused rather than ignored.
_HARMLESS = re.compile(
    r"_.*|architectures|model_type|auto_map|(torch_)?dtype|transformers_version|use_cache"
    r"|tie_(word_embeddings|weights)|(bos|eos|pad)_token_id|initializer_range|attention_dropout"
    r"|max_window_layers|use_sliding_window|num_target_layers|quantization_config"
    r"|speculators_(config|model_type|version)|draft_vocab_size|has_(lm_head|own_embed)"
)
_NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "hidden_act": ("silu",),
    "partial_rotary_factor": (1,),
    "projector_type": ("dflash",),
    "auf": (True,),  # training only, as what follows: it belongs to another projector, Domino
    "pure_draft_prefix_len": (1,),
    "emb_dim": (256,),
    "gru_hidden_dim": (1024,),
    "lambda_base_start": (1,),
    "lambda_base_decay_ratio": (1,),
}


@dataclass(frozen=True)
class TargetNeeds:
    """What a DFlash drafter asks of its target; `fused` is the width its `fc` takes."""

    version: int  # 1 or 2 (2 has a candidate selector)
    block_size: int
    longest: int  # draft tokens that a block gives
    target_layer_ids: tuple[int, ...]
    mask_token_id: int
    num_target_layers: int | None
    fused: int | None  # = target hidden size × number of target layer ids


def needs(contents: CheckpointFiles) -> TargetNeeds:
    """From the config and the names and shapes of the tensors; `read` is stricter.

    Raises CheckpointError where the config does not say which layers it reads.
    """
    path, config = contents.folder / "config.json", _flattened(contents.config)
    settings = config.get("dflash_config")
    if not settings:
        raise CheckpointError(f"{path}: dflash_config is missing, it names the target's layers")
    check_config(path, settings)
    ids, mask = settings.get("target_layer_ids"), settings.get("mask_token_id")
    if not isinstance(ids, list) or not all(isinstance(i, int) for i in ids) or mask is None:
        raise CheckpointError(f"{path}: dflash_config needs target_layer_ids and mask_token_id")
    block = settings.get("block_size") or config.get("block_size") or 16
    version = 2 if any(name.startswith("candidate_selector.") for name in contents.tensors) else 1
    targets = config.get("num_target_layers")
    longest = block - (not settings.get("sample_from_anchor", config.get("sample_from_anchor")))
    return TargetNeeds(version, block, longest, tuple(ids), mask, targets, _fused(contents))


def _fused(contents: CheckpointFiles) -> int | None:
    weight, scales = contents.tensors["fc.weight"], contents.tensors.get("fc.scales")
    if scales is None:
        return weight.columns or None
    fc = {"fc.weight": weight, "fc.scales": scales}
    found = weights.quantisation(contents.config, fc)
    return scales.columns * found.group_size if found else None


@dataclass(frozen=True)
class Rope:
    theta: float
    scaling: Mapping[str, Any] | None
    traditional: bool  # pairs of neighbours are turned, not the two halves
    dims: int | None = None  # elements of a head that are turned, None for all


@dataclass(frozen=True)
class DFlashConfig:
    """What a checkpoint's files say about the computation. Sizes in elements."""

    hidden_size: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int  # of the target it was trained for
    eps: float
    ropes: tuple[Rope, ...]  # by layer
    max_positions: int
    windows: tuple[int | None, ...]  # by layer: sliding window in tokens, None for full attention
    causal: tuple[bool, ...]  # by layer: whether the block's rows see later rows
    target_layer_ids: tuple[int, ...]  # -1: what goes into the first layer
    mask_token: int
    block_size: int
    from_anchor: bool = False  # whether the pending token's own row gives a draft token
    softcap: float | None = None
    embedding_scale: float = 1.0
    output_multiplier: float = 1.0
    conv_kernel: int = 0  # DFlash 2 only, as all below
    conv_group: int = 0
    selector_rank: int = 0
    selector_top_k: int = 0
    quantisation: tuple[int, int] | None = None  # (bits, group size) of the stored matrices

    @property
    def version(self) -> int:
        return 2 if self.conv_kernel else 1

    @property
    def longest(self) -> int:
        """Draft tokens that a block gives."""
        return self.block_size - (not self.from_anchor)

    @property
    def context_kept(self) -> int | None:
        """Committed positions the drafter can still see, None where a layer sees all."""
        if None in self.windows:
            return None
        return max(window for window in self.windows if window is not None) - 1


def read(folder: Path) -> DFlashConfig:
    """Raises: CheckpointError."""
    return reading(folder, lambda where, raw: ConfigReader(where, raw).config())


def reading(folder: Path, read_it: Callable[[str, dict[str, Any]], C]) -> C:
    """What `read_it` makes of config.json, flattened. Raises: CheckpointError."""
    path = folder / "config.json"
    try:
        raw = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error
    if not isinstance(raw, dict):
        raise CheckpointError(f"{path} holds no JSON object")
    try:
        return read_it(str(path), _flattened(raw))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: a field has the wrong type ({error})") from error


def _flattened(raw: dict[str, Any]) -> dict[str, Any]:
    """`speculators` nests the layer's fields and has defaults of its own. It counts layer ids
    from the embedding's output, so its id i is the output of layer i - 1."""
    ids = raw.get("aux_hidden_state_layer_ids")
    if "transformer_layer_config" not in raw and ids is None:
        return _nested(raw)
    flat = {"block_size": 8, **(raw.get("transformer_layer_config") or {}), **raw}
    for nested in ("transformer_layer_config", "aux_hidden_state_layer_ids"):
        flat.pop(nested, None)
    moved = {"mask_token_id": flat.pop("mask_token_id", None)}
    if isinstance(ids, list) and all(isinstance(i, int) for i in ids):
        moved["target_layer_ids"] = [i - 1 for i in ids]
    second = raw.get("speculators_model_type") == "dflash2"
    if flat.pop("sliding_window_non_causal", second):
        flat["is_causal"] = False
    return {**flat, "dflash_config": {**moved, **(flat.get("dflash_config") or {})}}


def _nested(raw: dict[str, Any]) -> dict[str, Any]:
    """DeepSpec says at the top what z-lab says in `dflash_config`."""
    inner = {key: raw[key] for key in ("target_layer_ids", "mask_token_id") if key in raw}
    if not inner:
        return raw
    return {**raw, "dflash_config": {**inner, **(raw.get("dflash_config") or {})}}


class ConfigReader(Fields):
    harmless, neutral = _HARMLESS, _NEUTRAL

    def __init__(self, where: str, raw: dict[str, Any]) -> None:
        dflash = raw.get("dflash_config")
        rest = {key: value for key, value in raw.items() if key != "dflash_config"}
        inner = dflash if isinstance(dflash, dict) else {}
        super().__init__(where, {**rest, **{k: v for k, v in inner.items() if v is not None}})
        if not isinstance(dflash, dict):
            self.fail("dflash_config is missing: this is no DFlash drafter")

    def config(self) -> DFlashConfig:
        layers = self.layers()
        hidden = self.whole("hidden_size")
        heads, kv_heads, head_dim = self.heads(hidden)
        windows = self.windows(layers)
        is_causal = self.get("is_causal")
        found = DFlashConfig(
            hidden_size=hidden,
            layers=layers,
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            intermediate_size=self.whole("intermediate_size"),
            vocab_size=self.whole("vocab_size"),
            eps=self.number("rms_norm_eps", 1e-6),
            ropes=self._ropes(windows),
            max_positions=self.whole("max_position_embeddings"),
            windows=windows,
            causal=tuple(
                window is not None if is_causal is None else bool(is_causal) for window in windows
            ),
            target_layer_ids=self._layer_ids(),
            mask_token=self.whole("mask_token_id", minimum=0),
            block_size=self.whole("block_size", 16, minimum=2),
            from_anchor=bool(self.get("sample_from_anchor")),
            softcap=self.number("final_logit_softcapping", 0.0) or None,
            embedding_scale=self.number("input_embedding_scale", 1.0),
            output_multiplier=self.number("output_multiplier", 1.0),
            quantisation=self.quantisation(),
            **self._second_version(),
        )
        target_hidden = self.get("target_hidden_size")
        if target_hidden not in (None, found.hidden_size):
            self.fail(
                f"target_hidden_size {target_hidden} differs from hidden_size {found.hidden_size}, "
                "which nothing here can run"
            )
        self.refuse_unread()
        return found

    def _ropes(self, windows: tuple[int | None, ...]) -> tuple[Rope, ...]:
        """One for all layers, or one for each type of layer."""
        theta = self.get("rope_theta")
        traditional = self.get("rope_is_neox_style") is False
        stored = self.get("rope_parameters")
        types = ["full_attention" if window is None else "sliding_attention" for window in windows]
        if not isinstance(stored, dict) or not any(isinstance(x, dict) for x in stored.values()):
            one = self._rope(self.rope(), theta, traditional)
            return (one,) * len(windows)
        for kind in types:
            if not isinstance(stored.get(kind), dict):
                self.fail(f"rope_parameters has nothing for {kind}")
        return tuple(
            self._rope(
                Fields(self.where, {"rope_parameters": stored[kind]}).rope(), theta, traditional
            )
            for kind in types
        )

    def _rope(self, scaling: dict[str, Any] | None, theta: Any, traditional: bool) -> Rope:
        own = (scaling or {}).get("rope_theta")
        found = theta if own is None else own
        if found is None:
            found = 10000.0
        if not isinstance(found, int | float) or isinstance(found, bool):
            self.fail(f"rope_theta is {found!r}, a number is needed")
        return Rope(float(found), scaling, traditional)

    def _second_version(self) -> dict[str, int]:
        named = "DFlash2DraftModel" in (self.get("architectures") or [])
        if not named and self.get("speculators_model_type") != "dflash2":
            return {}
        found = {
            "conv_kernel": self.whole("conv_kernel_size"),
            "conv_group": self.whole("conv_group_size"),
            "selector_rank": self.whole("selector_rank"),
            "selector_top_k": self.whole("selector_top_k"),
        }
        if self.whole("hidden_size") % found["conv_group"]:
            self.fail(f"conv_group_size {found['conv_group']} does not divide hidden_size")
        return found

    def _layer_ids(self) -> tuple[int, ...]:
        ids = self.get("target_layer_ids")
        if not isinstance(ids, list) or not ids or not all(isinstance(i, int) for i in ids):
            self.fail("target_layer_ids must list the target's layers")
        if min(ids) < -1:
            self.fail(f"target_layer_ids has {min(ids)}: the target has no such layer")
        return tuple(ids)
