"""Native multi-token prediction, from the tensors beside the target's own.

layouts.py: names and wiring by publisher · loading.py: files → head · head.py: the forward
pass · drafter.py: the drafter · calibration.py: which hidden states suit a head.
"""

from llm_specdec.drafters.mtp import calibration
from llm_specdec.drafters.mtp.drafter import MTPDrafter
from llm_specdec.drafters.mtp.loading import load_head

__all__ = ["MTPDrafter", "calibration", "load_head"]
