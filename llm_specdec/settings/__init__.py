"""Settings: which exist, what they may be, and which layer gave the one in effect.

forms         what a value may be
known         the table of settings, `check` and `parse`
layers        values as layers, one above the other
card_layers   a stored card as layers, and what it holds against a value
resolution    `resolve`: the value in effect, and all that it shadows
"""

from llm_specdec.settings.forms import DURATION, FLAG, SIZE, TEXT, Form, choice, seconds
from llm_specdec.settings.known import SETTINGS, check, parse
from llm_specdec.settings.layers import LAYERS, Against, Layer, Resolved, Value
from llm_specdec.settings.resolution import Resolution, against_system, resolve

__all__ = [
    "DURATION",
    "FLAG",
    "LAYERS",
    "SETTINGS",
    "SIZE",
    "TEXT",
    "Against",
    "Form",
    "Layer",
    "Resolution",
    "Resolved",
    "Value",
    "against_system",
    "check",
    "choice",
    "parse",
    "resolve",
    "seconds",
]
