"""The engine in this process. Importing this imports mlx, so it is imported inside functions.

running     a request's way through the engine: `execute`, and `decode` for runs that take turns
prompts     messages to token ids, and all that is refused before loading
loading     memory, weights, costs, prefix cache
answers     token ids to events: thinking, answer, tool calls
outcome     a run that ended, in plain numbers
sessions    target and drafter in memory
parity      where two greedy texts part, and why
tokenizers  as they were loaded once, kept between runs
costs       measured costs of rounds, kept between runs
"""

from llm_specdec.backends.local.loading import Loaded, admit, load, round_costs
from llm_specdec.backends.local.parity import difference
from llm_specdec.backends.local.running import decode, execute, sampling

__all__ = ["Loaded", "admit", "decode", "difference", "execute", "load", "round_costs", "sampling"]
