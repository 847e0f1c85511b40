"""A drafter kind of one folder: it repeats the last token. `register` is all that it takes.

Its one tensor is there to be recognised by, and says how many tokens a draft has at most.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from llm_specdec.drafters.kind import DraftSource, Kind
from llm_specdec.drafters.table import KINDS
from tests.support.checkpoints import write_json, write_safetensors

if TYPE_CHECKING:
    from llm_specdec.checkpoint import Anatomy, CheckpointFiles
    from llm_specdec.engine.drafter import Drafter
    from llm_specdec.engine.session import Weights
    from llm_specdec.engine.target import Target

LENGTH = "echo.length"


class Echo(Kind):
    name = "echo"
    files = "echo-files"
    files_words = "an echo"
    takes_folder = True
    sources = (DraftSource("echo", 4),)

    def tensors(self, contents: "CheckpointFiles") -> frozenset[str]:
        return frozenset(name for name in contents.tensors if name == LENGTH)

    def part(self, contents: "CheckpointFiles") -> int:
        return contents.tensors[LENGTH].elements

    def mismatches(self, target: "Anatomy", drafter: "Anatomy | None") -> list[str]:
        assert drafter is not None
        longest = drafter.parts[self.name]
        return [] if longest < 9 else [f"length: the drafter has {longest}, the target hears 8"]

    def inspected(self, found: "Anatomy") -> dict[str, int | None]:
        return {"echo": found.parts.get(self.name)}

    def load(self, weights: "Weights", target: "Target") -> "Drafter":
        from tests.support.echo_kind.drafter import EchoDrafter

        return EchoDrafter()


KIND = Echo()


def register(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, KIND.name, KIND)


def write(folder: Path, longest: int = 4) -> Path:
    write_safetensors(folder / "model.safetensors", {LENGTH: ("F32", (longest,))})
    write_json(folder / "config.json", {"model_type": "echo"})
    return folder
