"""Where the greedy texts of two runs part, and whether that is anybody's fault."""

from collections.abc import Sequence

from llm_specdec.backends.local.running import sampling
from llm_specdec.backends.planning import Plan
from llm_specdec.engine.replay import Difference, Written, compare
from llm_specdec.engine.request import Round
from llm_specdec.engine.session import Session
from llm_specdec.receipts import Result


def difference(
    session: Session, plan: Plan, prompt: Sequence[int], one: Result, other: Result
) -> Difference | None:
    """None where both wrote the same. plan: of either, as far as a greedy text goes by it."""
    values = plan.settings
    return compare(
        session.target, prompt, _written(one), _written(other), sampling(values), values["kv_bits"]
    )


def _written(run: Result) -> Written:
    return Written(run.completion_ids, [Round(*passed) for passed in run.passes])
