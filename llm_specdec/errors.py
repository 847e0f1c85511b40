"""Everything this plugin raises on purpose.

SpecdecError                 exit 1
├── UsageError               exit 2: a wrong argument, name or value
├── RegistryError            specdec.toml cannot be used
├── CheckpointError          a folder or repository is not the model it should be
├── PairingError             target and drafter do not fit each other
├── UnsupportedError         a real model, but nothing here can run it
├── ContextError             the prompt does not fit the context
├── ResourceError            memory, disk or a missing backend
│   └── DoesNotFit           memory is short, by a known size
├── HubError                 the model hub did not give what was asked for
├── LogError                 llm's log, or the bench's, cannot be read or lacks a run
├── CheckFailed              a gate, parity or doctor check came out negative
└── Undecided                exit 3: a bench whose figures carry no verdict

A message is one line: what is wrong, then what to do. It is translated to click in
`cli/__init__.py` and to llm in `adapter/models.py`, nowhere else.
"""

from llm_specdec.console.text import clean

LONGEST = 1000  # characters; what is quoted may be longer


class SpecdecError(Exception):
    """Base of all errors that a user may see; `str()` is the line shown. What other libraries
    say in several lines and is quoted in it becomes one; the middle of a long one is left out."""

    exit_code = 1

    def __str__(self) -> str:
        lines = (line.strip() for line in super().__str__().splitlines())
        text = clean(" ".join(line for line in lines if line))
        return text if len(text) <= LONGEST else f"{text[:700]} … {text[-297:]}"


class UsageError(SpecdecError):
    exit_code = 2


class RegistryError(SpecdecError):
    pass


class CheckpointError(SpecdecError):
    pass


class PairingError(SpecdecError):
    pass


class UnsupportedError(SpecdecError):
    pass


class ContextError(SpecdecError):
    pass


class ResourceError(SpecdecError):
    pass


class DoesNotFit(ResourceError):
    """missing: bytes that there would have to be beside those that are free."""

    def __init__(self, text: str, missing: int = 0) -> None:
        super().__init__(text)
        self.missing = missing


class HubError(SpecdecError):
    pass


class LogError(SpecdecError):
    pass


class CheckFailed(SpecdecError):
    pass


class Undecided(SpecdecError):
    exit_code = 3
