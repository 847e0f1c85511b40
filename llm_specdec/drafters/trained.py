"""What kinds share whose drafters were trained for one target, and lie in a folder of their own."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from llm_specdec.drafters.kind import Kind, tokenizer_mismatches
from llm_specdec.errors import CheckpointError

if TYPE_CHECKING:
    from llm_specdec.checkpoint import Anatomy, CheckpointFiles

Config = TypeVar("Config")  # what the files of such a drafter say; no tensors


@dataclass(frozen=True)
class Stored(Generic[Config]):
    """What the files say, or why they ask for what cannot be done here."""

    config: Config | None
    problem: str = ""


class Trained(Kind, Generic[Config]):
    takes_folder = True

    def read(self, contents: "CheckpointFiles") -> Config:
        """Raises CheckpointError."""
        raise NotImplementedError

    def differences(self, target: "Anatomy", config: Config) -> list[str]:
        """Where shapes keep it from drafting for this target, with both figures."""
        raise NotImplementedError

    def build(self, folder: Path, config: Config) -> None:
        """Give every tensor of the files its place, without reading it. Raises CheckpointError."""
        raise NotImplementedError

    def described(self, config: Config) -> dict[str, Any]:
        """What `inspect --json` has of it."""
        raise NotImplementedError

    def stored(self, found: "Anatomy") -> Stored[Config]:
        stored: Stored[Config] = found.parts[self.name]
        return stored

    def part(self, contents: "CheckpointFiles") -> Stored[Config]:
        try:
            return Stored(self.read(contents))
        except CheckpointError as error:
            return Stored(None, str(error))

    def check(self, folder: Path) -> None:
        from llm_specdec.checkpoint import contents_of

        self.build(folder, self.read(contents_of(folder)))

    def mismatches(self, target: "Anatomy", drafter: "Anatomy | None") -> list[str]:
        assert drafter is not None
        stored = self.stored(drafter)
        if stored.config is None:
            return [stored.problem]
        shapes = self.differences(target, stored.config)
        if drafter.tokenizer is None:
            return shapes  # it works on the target's token ids
        return [*shapes, *tokenizer_mismatches(target, drafter)]

    def inspected(self, found: "Anatomy") -> dict[str, Any]:
        if self.name not in found.parts:
            return {self.name: None}
        stored = self.stored(found)
        if stored.config is None:
            return {self.name: {"problem": stored.problem}}
        return {self.name: self.described(stored.config)}
