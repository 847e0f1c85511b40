"""config.json of an EAGLE-3 drafter, beside the names and shapes of its tensors.

Three dialects say the same in different places: SafeAILab's (AngelSlim's too), `speculators`
(the layer's fields nested), and SpecForge's (SGLang, NVIDIA: an `eagle_config`). They are told
apart by their config; what a drafter has is told by its tensors. Plain Python.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from llm_specdec.checkpoint import CheckpointFiles, weights
from llm_specdec.drafters.common.fields import Fields

# Whether the layers it names are read after they ran or before, or the final states instead.
Reading = Literal["outputs", "inputs", "final_norm"]
Norms = Literal["none", "whole", "each"]  # before the projection: over all states, or one a state

_HARMLESS = re.compile(
    r"_.*|architectures|model_type|auto_map|(torch_)?dtype|transformers_version|use_cache"
    r"|(bos|eos|pad)_token_id|initializer_range|attention_dropout|max_window_layers"
    r"|use_sliding_window|quantization_config|speculators_(config|model_type|version)"
    r"|embed_requires_grad|target_model_(type|name_or_path)|num_target_layers|modal_type"
    r"|attention_bias|mlp_bias|bias|use_aux_norm|eagle_config|transformer_layer_config"
)
_NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "hidden_act": ("silu",),
    "partial_rotary_factor": (1,),
    "pretraining_tp": (1,),
}
_FIRST = re.compile(r"(?:model\.)?(?:midlayer|layers\.0)\.hidden_norm\.weight")
_IDS = (
    "eagle_aux_hidden_state_layer_ids",
    "aux_hidden_states_layer_ids",  # AngelSlim
    "target_layer_ids",  # DeepSpec
)


@dataclass(frozen=True)
class Eagle3Config:
    """What the files say about the computation. Sizes in elements.

    ids: the target's layers that are read, None where the dialect's default is meant.
    """

    dialect: str
    ids: tuple[int, ...] | None
    usual: Reading
    taps: int  # hidden states that are read of a position
    fused: int  # their width in all
    hidden_size: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int  # of the target it was made for
    eps: float
    rope_theta: float
    rope: Mapping[str, Any] | None
    max_positions: int
    windows: tuple[int | None, ...]
    norms: Norms
    norm_before_residual: bool
    norm_output: bool
    tied: bool
    own_embedding: bool
    head_rows: int  # of its own output matrix; 0: it takes the target's
    quantisation: tuple[int, int] | None = None  # (bits, group size) of the stored matrices

    def layer_ids(self, reading: str, target_layers: int) -> tuple[int, ...]:
        """Layers whose outputs are read; -1 is what goes into the first."""
        ids = self.ids or (2, target_layers // 2, target_layers - 3)
        return ids if reading == "outputs" else tuple(i - 1 for i in ids)

    def readings(self, target_layers: int) -> tuple[str, ...]:
        """What its ids may mean with such a target, the likely one first."""
        if self.usual == "final_norm":
            return ("final_norm",)
        both = (self.usual, "inputs" if self.usual == "outputs" else "outputs")
        fits = [r for r in both if self._within(self.layer_ids(r, target_layers), target_layers)]
        # An id that is the number of layers can only mean the states before that one.
        return ("inputs",) if self.ids and max(self.ids) == target_layers else tuple(fits)

    def _within(self, ids: tuple[int, ...], target_layers: int) -> bool:
        return min(ids) >= -1 and max(ids) < target_layers


def is_eagle3(contents: CheckpointFiles) -> bool:
    """A layer that norms the states of another model, and nothing that guesses in parallel."""
    return "mask_hidden" not in contents.tensors and any(map(_FIRST.fullmatch, contents.tensors))


def read(contents: CheckpointFiles) -> Eagle3Config:
    """Raises CheckpointError, naming the file and the field."""
    where = str(contents.folder / "config.json")
    return _Reader(where, _flattened(contents.config), contents).config()


def _flattened(raw: Mapping[str, Any]) -> dict[str, Any]:
    nested = [raw.get("transformer_layer_config"), raw, raw.get("eagle_config")]
    return {
        key: value
        for part in nested
        if isinstance(part, dict)
        for key, value in part.items()
        if value is not None
    }


def stored_name(name: str) -> str:
    """A tensor's name in the files → its name in the dialect of `speculators`."""
    name = name.removeprefix("model.").replace("midlayer.", "layers.0.", 1)
    return re.sub(
        r"^additional_layers\.(\d+)\.", lambda found: f"layers.{int(found[1]) + 1}.", name
    )


class _Reader(Fields):
    harmless, neutral = _HARMLESS, _NEUTRAL

    def __init__(self, where: str, fields: dict[str, Any], contents: CheckpointFiles) -> None:
        super().__init__(where, fields)
        self.raw = contents.config
        self._contents = contents
        self._stored = {stored_name(name): name for name in contents.tensors}

    def config(self) -> Eagle3Config:
        hidden, layers = self.whole("hidden_size"), self.layers()
        heads, kv_heads, head_dim = self.heads(hidden)
        rope = self.rope()
        width = self.whole("target_hidden_size", hidden)
        fused = self._columns("fc.weight") or width
        taps = self._taps(fused)
        ids, usual = self._ids(taps)
        found = Eagle3Config(
            dialect=self._dialect(),
            ids=ids,
            usual=usual,
            taps=taps,
            fused=fused,
            hidden_size=hidden,
            layers=layers,
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            intermediate_size=self.whole("intermediate_size"),
            vocab_size=self.whole("vocab_size"),
            eps=self.number("rms_norm_eps", 1e-6),
            rope_theta=self.number("rope_theta", (rope or {}).get("rope_theta", 10000.0)),
            rope=rope,
            max_positions=self.whole("max_position_embeddings", 4096),
            windows=self.windows(layers),
            norms=self._norms(taps),
            norm_before_residual=bool(self.get("norm_before_residual")),
            norm_output=bool(self.get("norm_output")),
            tied=bool(self.get("tie_word_embeddings")),
            own_embedding="embed_tokens.weight" in self._stored,
            head_rows=self._head_rows(),
            quantisation=self.quantisation(),
        )
        self.refuse_unread()
        return found

    def _dialect(self) -> str:
        if self.raw.get("speculators_model_type"):
            return "speculators"
        name = str((self.raw.get("architectures") or [""])[0])
        if name.endswith("Eagle3Model"):
            return "DeepSpec"
        return "SpecForge" if name == "LlamaForCausalLMEagle3" else "SafeAILab"

    def _taps(self, fused: int) -> int:
        if self.get("use_aux_hidden_state") is False:
            return 1
        listed = next((ids for key in _IDS if (ids := self.get(key))), None)
        said = self.get("num_aux_hidden_states")
        taps = len(listed) if isinstance(listed, list) else said or 3
        if said not in (None, taps) or fused % taps:
            self.fail(f"{taps} hidden states of a width of {fused} in all: they do not agree")
        return int(taps)

    def _ids(self, taps: int) -> tuple[tuple[int, ...] | None, Reading]:
        """What is listed, and how it is probably meant: publishers count from the first layer's
        output, or from what goes into it."""
        if self.get("use_aux_hidden_state") is False:
            return None, "final_norm"
        for key in _IDS:
            ids = self.get(key)
            if not ids:
                continue
            if not isinstance(ids, list) or not all(type(i) is int and i >= 0 for i in ids):
                self.fail(f"{key} must list the target's layers")
            nested = key in (self.raw.get("eagle_config") or {})
            outputs = key != _IDS[0] or (nested and ids[0] != 2)
            return tuple(ids), "outputs" if outputs else "inputs"
        if taps != 3:
            self.fail(f"{_IDS[0]} is missing, and the files ask for {taps} hidden states")
        return None, "inputs"

    def _norms(self, taps: int) -> Norms:
        whole = {"input_norm.weight", "fc_norm.weight"} & self._stored.keys()
        each = [name for name in self._stored if name.startswith(("fc_norm.", "aux_norm_"))]
        found: Norms = "whole" if whole else "each" if len(each) == taps else "none"
        kinds = {"norm_before_fc": "whole", "fc_norm": "whole" if whole else "each"}
        for key, kind in kinds.items():
            said = self.get(key)
            if said is not None and bool(said) != (found == kind):
                self.fail(f"{key} is {said!r}, and the files hold {found} of these norms")
        return found

    def _head_rows(self) -> int:
        name = self._stored.get("lm_head.weight")
        said = self.get("draft_vocab_size")
        rows = self._contents.tensors[name].rows if name else 0
        if rows and said not in (None, rows):
            self.fail(f"draft_vocab_size is {said}, and the output matrix has {rows} rows")
        if not rows and said not in (None, self.whole("vocab_size")):
            self.fail(f"draft_vocab_size is {said}, and the files hold no output matrix")
        return int(rows)

    def _columns(self, name: str) -> int:
        stored = self._stored.get(name)
        if stored is None:
            return 0
        return weights.columns(stored, self._contents.tensors, self._contents.config)
