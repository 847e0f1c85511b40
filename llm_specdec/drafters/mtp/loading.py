"""From a target's files to a loaded head: the tensors that mlx-lm drops."""

import re
from collections.abc import Callable
from pathlib import Path

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.nn.layers.quantized import quantize
from mlx.utils import tree_flatten

from llm_specdec.checkpoint import contents_of
from llm_specdec.drafters.kind import DRAFTER_GROUP_SIZE
from llm_specdec.drafters.mtp.drafter import MTPDrafter
from llm_specdec.drafters.mtp.head import PredictionHead, build, template_index
from llm_specdec.drafters.mtp.layouts import LAYOUTS, StoredHead, asked, find, promised, rename
from llm_specdec.engine.drafter import Tap
from llm_specdec.engine.hardware import skinny_matmul
from llm_specdec.engine.mlx_lm_parts import utils
from llm_specdec.engine.taps import decoder_layers, evaluate, final_norm
from llm_specdec.engine.target import Target
from llm_specdec.errors import CheckpointError, UnsupportedError

Weights = dict[str, mx.array]

_EXPERT = re.compile(r"(?P<mlp>.+)\.experts\.(?P<expert>\d+)\.(?P<rest>.+)$")
_FUSED = re.compile(r"(?P<mlp>.+)\.experts\.(?P<part>gate_up_proj|down_proj)(?:\.weight)?$")


def load_head(
    folder: Path,
    target: Target,
    reads: str = "",
    bits: int | None = None,
    group_size: int = DRAFTER_GROUP_SIZE,
) -> MTPDrafter:
    """The prediction head stored in `folder`: the target's own, another build's, or one alone.

    reads: the hidden states it takes, "final_norm" or "last_layer"; "" as its layout says.
    bits: its matrices are quantised so, in groups of `group_size`; None: they stay as stored.
    Raises CheckpointError when there is no whole head in the files, whatever the config
    says, and UnsupportedError when no head can be built from the target's layers.
    """
    found = _find(folder)
    model = target.model
    layout = LAYOUTS[found.layout]
    names = rename(layout, found.tensors)
    stored: Weights = {}
    for where in found.where:
        tensors = mx.load(str(folder / where))
        assert isinstance(tensors, dict)
        stored.update((names[name], tensors[name]) for name in names if name in tensors)
    weights = _as_the_target_wants(model, stored)
    head = build(model, layout.hidden_first, layout.normed, weights)
    if layout.may_store_gain_minus_one and _is_gain_minus_one(weights, model):
        weights = {
            name: value + 1.0 if _is_norm(name, value) else value for name, value in weights.items()
        }
    _fill(head, weights, model, folder)
    if bits:
        quantize(head, group_size, bits, class_predicate=_packs(group_size))
    skinny_matmul.rearrange(head)
    evaluate(head)
    return MTPDrafter(head, target, tap_of(reads or layout.reads, model))


def tap_of(reads: str, model: Module) -> Tap:
    """The tap behind the name by which a registry keeps it."""
    return len(decoder_layers(model)) - 1 if reads == "last_layer" else "final_norm"


def _find(folder: Path) -> StoredHead:
    contents = contents_of(folder)
    found = find(contents)
    if why := asked(contents.config, contents.text):
        raise UnsupportedError(
            f"{folder.name}: {why}, which no prediction head here has; use --drafter lookup"
        )
    if found is None:
        promise = "its config promises one, " if promised(contents.text) else ""
        why = f"{promise}its files hold none"
        raise CheckpointError(
            f"{folder.name}: no prediction head: {why}; "
            "use --drafter lookup, or a checkpoint converted with its head"
        )
    if found.not_run:
        raise UnsupportedError(
            f"{folder.name}: its prediction head is not run: {found.not_run}; use --drafter lookup"
        )
    if found.missing:
        raise CheckpointError(
            f"{folder.name}: the prediction head is not whole, {found.missing[0]} is missing; "
            "fetch the checkpoint again, or use --drafter lookup"
        )
    if found.layout not in LAYOUTS:
        raise CheckpointError(
            f"{folder.name}: a prediction head of unknown layout ({found.tensors[0]}, …); "
            "use --drafter lookup"
        )
    return found


def _as_the_target_wants(model: Module, stored: Weights) -> Weights:
    """Tensors in the form the target's layer class loads: its own `sanitize` unpacks what its
    family stores (float8 blocks, joined latent projections), lent one layer of the trunk.
    Norms stay out of it: whether they need a shift is decided for the head as a whole.
    """
    if any(name.startswith("layer.blocks.") for name in stored):
        return _nemotron_experts(stack_experts(stored))
    place = f"layers.{template_index(model)}."
    norms = {name: value for name, value in stored.items() if _is_norm(name, value)}
    lent = {f"model.{place}{name}": v for name, v in stored.items() if name not in norms}
    for name in list(lent):  # sanitize knows the layer's tensors by their place in the trunk
        lent[name.replace(f"{place}layer.", place)] = lent.pop(name)
    returned = model.sanitize(lent) if hasattr(model, "sanitize") else lent
    weights = {_back(name.split(place, 1)[1]): value for name, value in returned.items()}
    return stack_experts({**weights, **norms})


def _nemotron_experts(weights: Weights) -> Weights:
    """Experts without a gate go by other names in mlx-lm."""

    def named(name: str) -> str:
        for old, new in (("up_proj", "fc1"), ("down_proj", "fc2")):
            name = name.replace(f".mixer.switch_mlp.{old}.", f".mixer.switch_mlp.{new}.")
        return name

    return {named(name): value for name, value in weights.items()}


def _back(name: str) -> str:
    return name if name.startswith("projection.") else f"layer.{name}"


def stack_experts(weights: Weights) -> Weights:
    """Experts as mlx-lm's switch layers hold them, (experts, out, in) a matrix, from one
    tensor an expert (quantised or not) or from fused (experts, 2 × out, in) ones."""
    out: Weights = {}
    single: dict[str, dict[int, mx.array]] = {}
    for name, value in weights.items():
        if match := _EXPERT.match(name):
            stacked = f"{match['mlp']}.switch_mlp.{match['rest']}"
            single.setdefault(stacked, {})[int(match["expert"])] = value
        elif match := _FUSED.match(name):
            prefix = f"{match['mlp']}.switch_mlp"
            if match["part"] == "down_proj":
                out[f"{prefix}.down_proj.weight"] = value
            else:
                gate, up = mx.split(value, 2, axis=-2)
                out |= {f"{prefix}.gate_proj.weight": gate, f"{prefix}.up_proj.weight": up}
        else:
            out[name] = value
    for name, experts in single.items():
        out[name] = mx.stack([experts[index] for index in sorted(experts)])
    return out


def _is_norm(name: str, value: mx.array) -> bool:
    return value.ndim == 1 and name.endswith("norm.weight")


def _is_gain_minus_one(weights: Weights, model: Module) -> bool:
    """Whether the head's norms are stored as gain − 1, decided once, from its q and k norms.

    They are compared with the target's own in the same place, which the loaded model holds
    as gains. The norms before the projection settle well below 1, so a test of each tensor
    by its mean would shift some that need none. Without q and k norms gains are plain.
    """
    attention = model.layers[template_index(model)].self_attn
    plain = shifted = 0.0
    for name in ("q_norm", "k_norm"):
        stored = weights.get(f"layer.self_attn.{name}.weight")
        if stored is not None and name in attention:
            gain = attention[name].weight.astype(mx.float32).mean().item()
            mean = stored.astype(mx.float32).mean().item()
            plain += abs(mean - gain)
            shifted += abs(mean + 1.0 - gain)
    return shifted < plain


def _fill(head: PredictionHead, weights: Weights, model: Module, folder: Path) -> None:
    """Quantise the modules that come quantised, check every name and shape, load, evaluate."""

    def stored_form(path: str, module: Module) -> bool | dict[str, object]:
        if f"{path}.scales" not in weights or not hasattr(module, "to_quantized"):
            return False
        form: dict[str, object] = utils.infer_quant_config(path, module, weights)
        return form

    quantize(head, class_predicate=stored_form)
    wanted = dict(tree_flatten(head.parameters()))
    for name in sorted(wanted.keys() ^ weights.keys()):
        fault = "is missing" if name in wanted else "has no place in the target's layer"
        raise CheckpointError(
            f"{folder.name}: prediction head: {name} {fault}; use --drafter lookup"
        )
    for name, value in weights.items():
        if value.shape != wanted[name].shape:
            raise CheckpointError(
                f"{folder.name}: prediction head: {name} has shape {value.shape}, "
                f"{wanted[name].shape} is needed; use --drafter lookup"
            )
    head.load_weights([(name, _cast(name, value, model)) for name, value in weights.items()])
    head.eval()


def _packs(group_size: int) -> Callable[[str, Module], bool]:
    """Whether a matrix is worth quantising: the ones that choose experts stay exact."""

    def packs(path: str, module: Module) -> bool:
        chooses = path.endswith((".gate", "shared_expert_gate"))
        whole = hasattr(module, "to_quantized") and module["weight"].shape[-1] % group_size == 0
        return whole and not chooses

    return packs


def _cast(name: str, value: mx.array, model: Module) -> mx.array:
    """Floats in the precision the target computes in, where the target casts its own."""
    keeps = getattr(model, "cast_predicate", None)
    if not mx.issubdtype(value.dtype, mx.floating) or (keeps and not keeps(name)):
        return value
    return value.astype(final_norm(model).weight.dtype)
