"""What warm starts saved, worked out from the receipts in llm's log."""

from dataclasses import dataclass
from pathlib import Path

from llm_specdec.receipts.payload import SERVED
from llm_specdec.receipts.store import HAS_RECEIPT, reading

TOTALS = f"""with runs as (
  select
    json_extract(response_json, '$.specdec.pairing') as pairing,
    json_extract(response_json, '$.specdec.tokens.prompt') as prompt,
    json_extract(response_json, '$.specdec.tokens.cached') as cached,
    json_extract(response_json, '$.specdec.phases_ms.restore') as restore,
    json_extract(response_json, '$.specdec.phases_ms.prefill') as prefill
  from turns where {HAS_RECEIPT}
    and json_extract(response_json, '$.specdec.lane.kind') <> '{SERVED}'
)
select pairing, count(*), sum(cached > 0), sum(cached),
  sum(iif(cached > 0, restore, 0)), sum(iif(cached > 0, 0, prefill)),
  sum(iif(cached > 0, 0, prompt))
from runs group by pairing"""


@dataclass(frozen=True)
class Warm:
    """A pairing's runs: how many, how many of them warm, the tokens these found in the cache,
    and the time to first token that this saved (None without a cold run to judge by)."""

    runs: int
    warm: int
    cached_tokens: int
    saved_ms: float | None


def warm_starts(path: Path | str) -> dict[str, Warm]:
    """By pairing. Saved: the cached tokens at the rate at which the pairing's cold runs read
    their prompts, less the time to restore. Raises LogError for a file that is no database."""
    with reading(path) as db:
        rows = [] if db is None else db.execute(TOTALS).fetchall()
    return {
        pairing: Warm(
            runs,
            warm,
            cached,
            cached * cold_ms / cold_tokens - restore_ms if cold_tokens else None,
        )
        for pairing, runs, warm, cached, restore_ms, cold_ms, cold_tokens in rows
    }
