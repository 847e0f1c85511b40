"""Whether a JSON schema has a finite answer at all.

A part of a schema has one when what it holds in any case has one: a least fixpoint. Keywords
that are not read here demand nothing, so no schema is refused for them.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

Place = tuple[str, ...]  # of a part: the keys that lead to it from the root
TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")


class Need(NamedTuple):
    """One of the parts at `places` must have a finite instance.

    kind: the type of value that has none without it; "": whatever the type. remedy: what to
    change so that the need is gone.
    """

    places: tuple[Place, ...]
    kind: str = ""
    remedy: str = "add an alternative that does not"


def circle(schema: Any) -> str | None:
    """Why no answer to the schema can end, and what to change; None where one can.

    The schema is one that llguidance can compile: what else is wrong with it was said before.
    """
    needs = _reached(schema)
    ended = _ended(schema, needs)
    if () in ended:
        return None
    place: Place = ()
    steps: dict[Place, Need] = {}  # from each part to one that it lacks
    while place not in steps:
        steps[place] = next(need for need in needs[place] if not ended.intersection(need.places))
        place = steps[place].places[0]
    around = list(steps)[list(steps).index(place) :]
    start = next((part for part in around if steps[part].kind), place)
    need = steps[start]
    return f"{_pointer(need.places[0])} leads back to {_pointer(start)}: {need.remedy}"


def _reached(schema: Any) -> dict[Place, list[Need]]:
    """The parts that an answer may have to hold, and what they need."""
    needs: dict[Place, list[Need]] = {}
    ahead: list[Place] = [()]
    while ahead:
        place = ahead.pop()
        if place not in needs:
            needs[place] = list(_needs(schema, place))
            ahead += [part for need in needs[place] for part in need.places]
    return needs


def _ended(schema: Any, needs: Mapping[Place, list[Need]]) -> set[Place]:
    """The parts that have a finite instance: each that has one may end those that wait for it."""
    ended: set[Place] = set()
    unmet = {place: Counter(need.kind for need in wanted) for place, wanted in needs.items()}
    met: set[tuple[Place, int]] = set()
    waiting: dict[Place, list[tuple[Place, int]]] = {}
    for place, wanted in needs.items():
        for number, need in enumerate(wanted):
            for part in need.places:
                waiting.setdefault(part, []).append((place, number))

    def ends(place: Place) -> bool:
        lacking = {kind for kind, count in unmet[place].items() if count}
        return not lacking or ("" not in lacking and lacking < _types(_at(schema, place)))

    ahead = [place for place in needs if ends(place)]
    while ahead:
        part = ahead.pop()
        if part in ended:
            continue
        ended.add(part)
        for place, number in waiting.get(part, ()):
            if (place, number) not in met:
                met.add((place, number))
                unmet[place][needs[place][number].kind] -= 1
            if ends(place):
                ahead.append(place)
    return ended


def _needs(schema: Any, place: Place) -> Iterator[Need]:
    part = _at(schema, place)
    if not isinstance(part, Mapping) or "enum" in part or "const" in part:
        return
    if (target := _target(schema, part.get("$ref"))) is not None:
        yield Need((target,))
    for at in range(len(_list(part, "allOf"))):
        yield Need(((*place, "allOf", str(at)),))
    for either in ("anyOf", "oneOf"):
        if branches := _list(part, either):
            yield Need(tuple((*place, either, str(at)) for at in range(len(branches))))
    types = _types(part)
    if "object" in types:
        yield from _members(part, place)
    if "array" in types:
        yield from _elements(part, place)


def _members(part: Mapping[str, Any], place: Place) -> Iterator[Need]:
    """The properties that an object has in any case."""
    named = part.get("properties", {})
    others = "additionalProperties" in part and "patternProperties" not in part
    for name in _list(part, "required"):
        remedy = f'take "{name}" out of "required", or let it be null'
        if name in named:
            yield Need(((*place, "properties", name),), "object", remedy)
        elif others:
            yield Need(((*place, "additionalProperties"),), "object", remedy)
    if others and not named and part.get("minProperties"):
        yield Need(((*place, "additionalProperties"),), "object", 'set "minProperties" to 0')


def _elements(part: Mapping[str, Any], place: Place) -> Iterator[Need]:
    """The elements that an array has in any case. Older drafts keep the first ones in `items`."""
    old = isinstance(part.get("items"), list)
    first, rest = ("items", "additionalItems") if old else ("prefixItems", "items")
    least, count = part.get("minItems", 0), len(_list(part, first))
    for at in range(min(least, count)):
        yield Need(((*place, first, str(at)),), "array", f'set "minItems" to {at}')
    if least > count and rest in part:
        yield Need(((*place, rest),), "array", f'set "minItems" to {count}')


def _types(part: Any) -> set[str]:
    types = part.get("type", TYPES) if isinstance(part, Mapping) else TYPES
    return {types} if isinstance(types, str) else set(types)


def _list(part: Mapping[str, Any], key: str) -> list[Any]:
    value = part.get(key)
    return value if isinstance(value, list) else []


def _target(schema: Any, reference: object) -> Place | None:
    """The part that a reference by its place names; None for any other reference."""
    if not isinstance(reference, str):
        return None
    root, *keys = unquote(reference).split("/")
    place = tuple(key.replace("~1", "/").replace("~0", "~") for key in keys)
    try:
        _at(schema, place)
    except (LookupError, ValueError, TypeError):
        return None
    return place if root == "#" else None


def _at(schema: Any, place: Place) -> Any:
    for key in place:
        schema = schema[int(key)] if isinstance(schema, list) else schema[key]
    return schema


def _pointer(place: Place) -> str:
    return "/".join(["#", *(key.replace("~", "~0").replace("/", "~1") for key in place)])
