"""Finding markers in text that arrives in parts."""

from collections.abc import Iterable, Mapping, Sequence


class MarkerScanner:
    """Splits text into sections at their markers. section: the one under way."""

    def __init__(self, edges: Mapping[str, Sequence[tuple[str, str]]], section: str) -> None:
        """edges: section → (marker, the section it opens)."""
        self._edges = {
            name: {marker: opens for marker, opens in pairs if marker}
            for name, pairs in edges.items()
        }
        self._held = ""  # it may be the beginning of a marker
        self.section = section

    def feed(self, text: str) -> list[tuple[str, str]]:
        """(section, text) for the section under way and each that a marker opens, the markers
        left out; of the last one, the text that cannot become a marker any more."""
        text, parts = self._held + text, []
        while marker := _first(self._edges.get(self.section, {}), text):
            before, _, text = text.partition(marker)
            parts.append((self.section, before))
            self.section = self._edges[self.section][marker]
        end = len(text) - begun(self._edges.get(self.section, {}), text)
        self._held = text[end:]
        return [*parts, (self.section, text[:end])]

    def flush(self) -> str:
        """What was held back: no more text comes."""
        held, self._held = self._held, ""
        return held


def _first(markers: Iterable[str], text: str) -> str | None:
    """The marker that is complete first; of those that end together, the longest."""
    places = [
        (at + len(marker), at, marker) for marker in markers if (at := text.find(marker)) >= 0
    ]
    return min(places)[2] if places else None


def begun(markers: Iterable[str], text: str) -> int:
    """Length of the longest end of `text` that begins a marker."""
    sizes = (
        size
        for marker in markers
        for size in range(min(len(marker) - 1, len(text)), 0, -1)
        if text.endswith(marker[:size])
    )
    return max(sizes, default=0)
