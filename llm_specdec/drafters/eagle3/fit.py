"""Whether an EAGLE-3 drafter suits a target: by what their files say, no weights."""

from llm_specdec.checkpoint import Anatomy
from llm_specdec.drafters.eagle3.config import Eagle3Config

_PADDING = 1024  # entries by which two paddings of one vocabulary stay apart


def mismatches(target: Anatomy, config: Eagle3Config) -> list[str]:
    """What keeps them from working together, with both figures; [] if nothing."""
    found = []
    width = config.fused // config.taps
    if width != target.hidden_size:
        found.append(f"hidden size: the drafter reads {width}, the target has {target.hidden_size}")
    elif needs_same_width(config) and config.hidden_size != target.hidden_size:
        found.append(
            f"hidden size: the drafter is {config.hidden_size} wide and brings no embedding or "
            f"output matrix of its own, the target has {target.hidden_size}"
        )
    if not config.readings(target.layers):
        highest = max(config.layer_ids("inputs", target.layers))
        found.append(
            f"layer ids: the drafter reads layer {highest}, the target's last is "
            f"{target.layers - 1}"
        )
    if abs(config.vocab_size - target.vocab_size) >= _PADDING:
        found.append(
            f"vocabulary: the drafter is made for {config.vocab_size:,} entries, the target has "
            f"{target.vocab_size:,}"
        )
    return found


def needs_same_width(config: Eagle3Config) -> bool:
    """Whether it borrows a matrix of the target, which must then be as wide as itself."""
    return not config.own_embedding or not (config.head_rows or config.tied)
