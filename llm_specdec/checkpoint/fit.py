"""Does this drafter suit this target, will it pay, and which lane is the best one."""

from dataclasses import dataclass

from llm_specdec.checkpoint.anatomy import Anatomy
from llm_specdec.checkpoint.kinds import KIND_WORDS
from llm_specdec.checkpoint.tokenizer import compare_tokenizers

_PADDING = 1024  # entries by which two paddings of one vocabulary stay apart
_DEAR = 0.5  # a draft pass that reads more than this share of a target pass rarely pays


@dataclass(frozen=True)
class Lane:
    kind: str  # mtp | dflash | model | lookup
    reason: str


@dataclass(frozen=True)
class DraftCost:
    """What one draft pass reads, and how many draft tokens it gives.

    share: its bytes ÷ those of one target pass.
    """

    bytes_per_pass: int
    tokens_per_pass: int
    share: float


def target_problems(target: Anatomy) -> list[str]:
    """Why this cannot run as a target; [] when it can."""
    if target.kind != "target":
        return [f"{target.folder.name} is {KIND_WORDS[target.kind]}: a helper, never a target"]
    if target.own_code:
        return [
            f"{target.folder.name} needs its own Python code ({target.own_code}), which is never "
            "run here: use a build whose model type mlx-lm has"
        ]
    if not target.runnable:
        return [f"mlx-lm has no model type {target.model_type!r}: update mlx-lm or use another"]
    return []


def mismatches(target: Anatomy, drafter: Anatomy) -> list[str]:
    """What keeps the drafter from working with the target, with both figures; [] if nothing.

    Raises CheckpointError when a tokenizer cannot be read.
    """
    if drafter.kind == "foreign-drafter":
        return [f"{drafter.folder.name} is {KIND_WORDS[drafter.kind]}"]
    if drafter.kind == "mtp-sidecar":
        return _head_mismatches(target, drafter)
    if drafter.kind == "dflash":
        return [*_dflash_mismatches(target, drafter), *_tokenizers(target, drafter)]
    return [*target_problems(drafter), *_tokenizers(target, drafter, needed=True)]


def _head_mismatches(target: Anatomy, drafter: Anatomy) -> list[str]:
    head = drafter.head
    if head is None or not head.usable:
        return [f"{drafter.folder.name} holds a prediction head that lacks {_lacks(drafter)}"]
    if head.hidden_size not in (None, target.hidden_size):
        return [
            f"hidden size: the head is made for {head.hidden_size}, "
            f"the target has {target.hidden_size}"
        ]
    return []


def _lacks(drafter: Anatomy) -> str:
    return ", ".join(drafter.head.missing) if drafter.head and drafter.head.missing else "a layout"


def _dflash_mismatches(target: Anatomy, drafter: Anatomy) -> list[str]:
    dflash = drafter.dflash
    if dflash is None:
        return []
    found = []
    ids = dflash.target_layer_ids
    wanted = dflash.fused // len(ids) if dflash.fused and ids else drafter.hidden_size
    if wanted != target.hidden_size:
        found.append(
            f"hidden size: the drafter reads {wanted}, the target has {target.hidden_size}"
        )
    if dflash.num_target_layers not in (None, target.layers):
        found.append(
            f"layers: the drafter is made for {dflash.num_target_layers}, "
            f"the target has {target.layers}"
        )
    if ids and max(ids) >= target.layers:
        found.append(
            f"layer ids: the drafter reads layer {max(ids)}, "
            f"the target's last is {target.layers - 1}"
        )
    tokens = target.tokenizer.highest_id + 1 if target.tokenizer else 0
    sizes = (drafter.vocab_size, target.vocab_size)
    if abs(sizes[0] - sizes[1]) >= _PADDING or min(sizes) < tokens:
        found.append(
            f"vocabulary: the drafter has {sizes[0]:,} entries, the target {sizes[1]:,}"
            + (f" for {tokens:,} tokens" if tokens else "")
        )
    elif dflash.mask_token_id >= target.vocab_size:
        found.append(
            f"mask token: the drafter's is {dflash.mask_token_id}, "
            f"the target's last is {target.vocab_size - 1}"
        )
    return found


def _tokenizers(target: Anatomy, drafter: Anatomy, needed: bool = False) -> list[str]:
    if not needed and drafter.tokenizer is None:
        return []  # it works on the target's token ids
    differences = compare_tokenizers(target.folder, drafter.folder)
    return [f"tokenizer: {line}" for line in differences]


def draft_cost(target: Anatomy, drafter: Anatomy | None = None) -> DraftCost | None:
    """The cost of one draft pass; without a drafter, of the target's own head (or None).

    Heads and block drafters use the target's output head, which is read for each pass.
    """
    head = drafter.head if drafter else target.head
    if drafter is None or drafter.kind == "mtp-sidecar":
        if head is None:
            return None
        read, tokens = head.nbytes + target.output_bytes, 1
    elif drafter.dflash:
        read, tokens = drafter.pass_bytes + target.output_bytes, drafter.dflash.block_size - 1
    else:
        read, tokens = drafter.pass_bytes, 1
    return DraftCost(read, tokens, read / max(target.pass_bytes, 1))


def head_objection(target: Anatomy) -> str | None:
    """Why an external drafter should not be bolted onto this target, if it has a head."""
    if target.head is None or not target.head.usable:
        return None
    return (
        f"{target.folder.name} ships its own prediction head ({target.head.layout} layout): "
        "a drafter beside it ran exactly and gained next to nothing where it was measured "
        "(+1.5 % at 4K); leave the drafter out"
    )


def warnings(target: Anatomy, drafter: Anatomy | None) -> list[str]:
    """What is allowed but will probably not pay."""
    found = []
    if drafter is not None and (objection := head_objection(target)):
        found.append(objection)
    cost = draft_cost(target, drafter)
    if cost and cost.share / cost.tokens_per_pass > _DEAR:
        found.append(
            f"a draft pass reads {cost.share:.0%} of what a target pass reads: "
            "drafting can hardly pay; take a smaller or quantised drafter"
        )
    return found


def recommend(target: Anatomy, drafter: Anatomy | None = None) -> Lane:
    """The lane to run: head, else a drafter that fits, else lookup."""
    if target.head and target.head.usable:
        head = target.head
        return Lane("mtp", f"the checkpoint ships a {head.layout} prediction head")
    why = "no prediction head in the files" + (
        ", though the config promises one" if target.head_promised and not target.head else ""
    )
    if target.head:
        why = f"the head in the files cannot be used (lacks {_lacks(target)})"
    if drafter is None:
        return Lane("lookup", f"{why}, no drafter given")
    if mismatches(target, drafter):
        return Lane("lookup", f"{why}, and the drafter does not fit")
    return Lane(lane_of(drafter.kind), f"{why}, and the drafter fits")


def lane_of(kind: str) -> str:
    """The registry's drafter kind for a drafter folder of that `Anatomy.kind`."""
    return {"dflash": "dflash", "mtp-sidecar": "mtp"}.get(kind, "model")


def placement(target: Anatomy, drafter: Anatomy) -> str | None:
    """Where a head that came in a folder of its own has to be put, None for other drafters."""
    if drafter.kind != "mtp-sidecar" or drafter.head is None:
        return None
    return (
        f"a head runs from inside its target's folder: copy {drafter.head.where[0]} of "
        f"{drafter.folder.name} to mtp.safetensors in {target.folder.name}, and use --drafter mtp"
    )
