"""What tests of the adapter share."""

import pytest

from tests.support.command_line import write_registry


@pytest.fixture
def pairings(smollm2):
    """Pairings plain, look and small (profiles hot and mute) of the demo target."""
    target = smollm2 / "smollm2"
    write_registry(f"""
        [pairings.plain]
        target = "{target}"
        [pairings.look]
        target = "{target}"
        drafter = "lookup"
        aliases = ["l"]
        [pairings.small]
        target = "{target}"
        drafter = "{smollm2 / "drafters" / "model"}"
        kind = "model"
        [pairings.small.profiles.hot]
        temperature = 0.8
        [pairings.small.profiles.mute]
        system = "forbid"
        """)
