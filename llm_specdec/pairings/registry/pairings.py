"""What the registry file describes: pairings, their profiles, and the model ids they make."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from llm_specdec.drafters.table import NONE
from llm_specdec.errors import RegistryError, UsageError
from llm_specdec.pairings.registry.lines import line_of

DEFAULT_PROFILE = "default"  # a profile of this name is what the bare NAME uses
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
NAMES_ARE = "letters, digits, '.', '_' and '-', a letter or digit first, at most 64"
VETOED, BROKEN = "vetoed by bench", "broken by bench"  # how a gate's disabled_reason begins
GATE_FIRST = "a drafter beside the target's own head must pass its gate first"


# Of a server. No user, query or fragment: a key must not stand in an address.
ADDRESS = r"https?://[^\s/?#@]+(/[^\s?#@]*)?"
ENGINES = ("vllm", "sglang", "llama-server", "mlx-lm", "mlx-vlm", "lmstudio", "openai")


@dataclass(frozen=True)
class Profile:
    """A sampling recipe; `deviations` are reasons, by setting, to go against the card."""

    settings: dict[str, Any]
    deviations: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Served:
    """A server that runs the target: its address, engine and version as they were when it was
    added. key: the name of a key of `llm keys`; insecure: which may go there in plain http.
    tokenizer: folder or repository of the model's tokenizer."""

    url: str
    engine: str
    version: str | None = None
    key: str | None = None
    insecure: bool = False
    tokenizer: str | None = None

    @property
    def root(self) -> str:
        """The address of what is no part of OpenAI's API."""
        return self.url.removesuffix("/v1")


@dataclass(frozen=True)
class Pairing:
    """A target and its drafter, and what is set for them. Of one that is served, `target` is
    the model's name on the server, and the drafter is the server's own affair."""

    name: str
    target: str
    drafter: str = NONE.name
    kind: str = NONE.name
    drafter_bits: int | None = None
    drafter_group_size: int | None = None
    aliases: list[str] = field(default_factory=list)
    enabled: bool = True
    disabled_reason: str = ""
    added: str = ""
    fingerprints: dict[str, str] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    deviations: dict[str, str] = field(default_factory=dict)
    profiles: dict[str, Profile] = field(default_factory=dict)
    card: dict[str, Any] = field(default_factory=dict)
    served: Served | None = None
    head: dict[str, Any] = field(default_factory=dict)  # what calibration found: reads, acceptance
    text: str = field(default="", repr=False, compare=False)

    @property
    def draft_tokens(self) -> int | str:
        tokens: int | str = self.settings.get("draft_tokens", "auto")
        return tokens

    def check_local(self, what: str) -> None:
        """Raises UsageError for a served pairing, of which nothing is here to `what`."""
        if self.served:
            raise UsageError(f"{self.name} is served by {self.served.url}: it cannot {what}")

    def where(self, *key: str) -> str:
        """The place in the registry file of a key of this pairing, such as settings, top_p."""
        line = line_of(self.text, ("pairings", self.name, *key))
        return f"specdec.toml:{line}" if line else "specdec.toml"

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready, with the effective draft_tokens beside the drafter."""
        data = asdict(self)
        del data["text"]
        if self.served is None:
            del data["served"]
        names = list(data)
        after = names.index("kind") + 1
        data["draft_tokens"] = self.draft_tokens
        return {name: data[name] for name in [*names[:after], "draft_tokens", *names[after:]]}


@dataclass(frozen=True)
class Registry:
    """What the file says; `problems` holds one line for each pairing that cannot be used.
    cache: the limits in bytes that [cache] sets, of `limit` (disk) and `hot` (memory).
    keep_alive: how long a resident worker keeps a model that sets nothing of its own."""

    path: Path
    pairings: dict[str, Pairing] = field(default_factory=dict)
    hide_helpers: bool = True
    problems: dict[str, str] = field(default_factory=dict)
    cache: dict[str, int] = field(default_factory=dict)
    keep_alive: str = "0"

    def ids(self) -> dict[str, tuple[Pairing, str | None]]:
        """Every llm model id → its pairing and profile (None: no profile)."""
        found: dict[str, tuple[Pairing, str | None]] = {}
        for pairing in self.pairings.values():
            default = DEFAULT_PROFILE if DEFAULT_PROFILE in pairing.profiles else None
            found[pairing.name] = (pairing, default)
            for profile in pairing.profiles:
                found[f"{pairing.name}/{profile}"] = (pairing, profile)
        return found

    def pairing(self, name: str) -> Pairing:
        """Raises UsageError for an unknown name, RegistryError for one that is broken."""
        return self.find(name, profiles=False)[0]

    def find(self, model_id: str, *, profiles: bool = True) -> tuple[Pairing, str | None]:
        """The pairing and profile behind a model id or alias. Raises as `pairing` does."""
        ids = self.ids()
        if model_id in ids and (profiles or "/" not in model_id):
            return ids[model_id]
        for pairing in self.pairings.values():
            if model_id in pairing.aliases:
                return ids[pairing.name]
        name = model_id.partition("/")[0]
        if name in self.problems:
            raise RegistryError(self.problems[name])
        if name in self.pairings and profiles:
            raise UsageError(
                f"pairing {name} has no profile {model_id.partition('/')[2]!r}: "
                f"it has {', '.join(self.pairings[name].profiles) or 'none'}"
            )
        raise unknown_pairing(model_id, self.pairings)


def is_name(text: str) -> bool:
    """Whether a pairing, profile or alias may be called so: see NAMES_ARE."""
    return re.fullmatch(_NAME, text) is not None


def unknown_pairing(name: str, known: Iterable[str]) -> UsageError:
    names = ", ".join(known) or "none yet; llm specdec add makes one"
    return UsageError(f"no pairing {name!r}: there are {names}")


def names_in_use(pairings: Mapping[str, Pairing]) -> dict[str, str]:
    """Every name and alias in use → the pairing it stands for."""
    return {name: p.name for p in pairings.values() for name in (p.name, *p.aliases)}
