"""config.json of a Gemma 4 assistant, beside the names and shapes of its tensors. Plain Python.

What the layers are is told by the tensors: publishers write the width of a head in two ways.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from llm_specdec.checkpoint import CheckpointFiles, weights
from llm_specdec.drafters.common.fields import Fields

FULL, SLIDING = "full_attention", "sliding_attention"

MARKS = frozenset({"pre_projection.weight", "post_projection.weight"})
_EMBEDDING = "model.embed_tokens.weight"
_OWN = re.compile(r"model\.layers\.\d+\.self_attn\.[kv]_proj\.weight")
_ROPES = ("default", "proportional")

_HARMLESS = re.compile(
    r"_.*|architectures|model_type|text_config|(torch_)?dtype|transformers_version|use_cache"
    r"|(pad|bos|eos|boi|eoi|boa|eoa|image|audio|video)_token_(id|index)|initializer_range"
    r"|attention_dropout|chunk_size_feed_forward|id2label|label2id|is_encoder_decoder"
    r"|output_\w+|problem_type|return_dict|quantization(_config)?|block_size"
    r"|(global_)?head_dim|per_layer_config|num_(global_)?key_value_heads|attention_k_eq_v"
    r"|sliding_window_pattern|global_partial_rotary_factor|max_position_embeddings"
)
_NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "hidden_activation": ("gelu_pytorch_tanh",),
    "use_bidirectional_attention": ("vision",),
    "partial_rotary_factor": (1,),
}


@dataclass(frozen=True)
class AssistantConfig:
    """What the files say about the computation. Sizes in elements.

    layers: the type of each, "full_attention" or "sliding_attention". head_dims, ropes: by type.
    window: rows that a sliding layer sees. clusters: of the vocabulary, of which `read` are
    drafted from; 0: all of it is.
    """

    target_width: int
    hidden_size: int
    intermediate_size: int
    layers: tuple[str, ...]
    heads: int
    head_dims: Mapping[str, int]
    ropes: Mapping[str, Mapping[str, Any]]
    window: int
    vocab_size: int
    eps: float
    tied: bool
    clusters: int
    read: int

    @property
    def drafted_from(self) -> int:
        """Tokens that a draft token is chosen from."""
        return self.read * (self.vocab_size // self.clusters) if self.clusters else self.vocab_size


def is_assistant(contents: CheckpointFiles) -> bool:
    return contents.tensors.keys() >= MARKS and _EMBEDDING in contents.tensors


def read(contents: CheckpointFiles) -> AssistantConfig:
    """Raises CheckpointError, naming the file and the field."""
    return _Reader(contents).config()


class _Reader(Fields):
    harmless, neutral = _HARMLESS, _NEUTRAL

    def __init__(self, contents: CheckpointFiles) -> None:
        super().__init__(str(contents.folder / "config.json"), contents.text)
        self._tensors, self._raw = contents.tensors, contents.config

    def config(self) -> AssistantConfig:
        layers = self._layers()
        ordered = bool(self.get("use_ordered_embeddings"))
        clusters, few = (
            self.whole("num_centroids", 2048),
            self.whole("centroid_intermediate_top_k", 32),
        )
        said = self.get("tie_word_embeddings")
        found = AssistantConfig(
            target_width=self.whole("backbone_hidden_size"),
            hidden_size=self.whole("hidden_size"),
            intermediate_size=self.whole("intermediate_size"),
            layers=layers,
            heads=self.whole("num_attention_heads"),
            head_dims=self._head_dims(layers),
            ropes=self._ropes(layers),
            window=self.whole("sliding_window", 512, minimum=2),
            vocab_size=self.whole("vocab_size"),
            eps=self.number("rms_norm_eps", 1e-6),
            tied=said is None or bool(said),
            clusters=clusters if ordered else 0,
            read=few if ordered else 0,
        )
        self._check(found)
        self.refuse_unread()
        return found

    def _layers(self) -> tuple[str, ...]:
        count, types = self.layers(), self.get("layer_types")
        shared = self.get("num_kv_shared_layers") or count
        own = next(filter(_OWN.fullmatch, self._tensors), None)
        if shared != count or own:
            self.fail(
                f"num_kv_shared_layers is {shared} of {count} layers"
                + (f", and the files hold {own}" if own else "")
                + ": layers with keys of their own are not run"
            )
        if not isinstance(types, list) or len(types) != count:
            self.fail(f"layer_types must name the kind of each of {count} layers")
        unknown = sorted({*map(str, types)} - {FULL, SLIDING})
        if unknown:
            self.fail(f"layer_types has {unknown[0]!r}, which nothing here can run")
        return tuple(types)

    def _head_dims(self, layers: tuple[str, ...]) -> dict[str, int]:
        found: dict[str, int] = {}
        for i, kind in enumerate(layers):
            norm = self._tensors.get(f"model.layers.{i}.self_attn.q_norm.weight")
            if norm is None or len(norm.shape) != 1:
                self.fail(f"num_hidden_layers is {len(layers)}, and layer {i} has no q_norm")
            if found.setdefault(kind, norm.rows) != norm.rows:
                self.fail(f"layer_types: heads of {kind} layers differ, which nothing here can run")
        return found

    def _ropes(self, layers: tuple[str, ...]) -> dict[str, Mapping[str, Any]]:
        given = self.get("rope_parameters")
        found: dict[str, Mapping[str, Any]] = {}
        for kind in dict.fromkeys(layers):
            rope = given.get(kind) if isinstance(given, dict) else None
            if not isinstance(rope, dict) or not isinstance(rope.get("rope_theta"), int | float):
                self.fail(f"rope_parameters does not say how {kind} layers rotate")
            if rope.get("rope_type", "default") not in _ROPES:
                self.fail(f"rope_parameters: rope type {rope['rope_type']!r} is unknown")
            found[kind] = rope
        return found

    def _check(self, found: AssistantConfig) -> None:
        """Shapes that the config and the tensors must agree on."""
        columns = weights.columns("pre_projection.weight", self._tensors, self._raw)
        if columns != 2 * found.target_width:
            self.fail(
                f"backbone_hidden_size is {found.target_width}, and pre_projection reads {columns}"
            )
        rows = self._tensors[_EMBEDDING].rows
        if rows != found.vocab_size:
            self.fail(f"vocab_size is {found.vocab_size:,}, and the embedding has {rows:,} rows")
        if not found.tied and "lm_head.weight" not in self._tensors:
            self.fail("tie_word_embeddings is false, and the files hold no lm_head")
        clustered = "masked_embedding.token_ordering" in self._tensors
        if clustered != bool(found.clusters):
            held = "them" if clustered else "none"
            self.fail(
                f"use_ordered_embeddings is {bool(found.clusters)}, and the files hold {held}"
            )
        if found.clusters and (found.vocab_size % found.clusters or found.read > found.clusters):
            self.fail(
                f"num_centroids is {found.clusters:,}, of which {found.read:,} are read: "
                f"they cannot divide {found.vocab_size:,} tokens"
            )
