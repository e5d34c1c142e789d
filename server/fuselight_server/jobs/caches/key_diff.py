"""The difference of two cache keys, from the components that a log lists.

Invariant: a component counts as changed only if its hash differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from fuselight.shared.foreign_data import parse_json
from fuselight_server.jobs.caches.key_components import (
    differences,
    input_signature,
    input_text,
    is_consequence,
    shortened,
)
from fuselight_server.jobs.caches.model import Factor, KeyChange
from fuselight_server.jobs.trace_log.model import CacheComponent

_INPUTS = "example_inputs["
_MAX_SETTINGS = 10


def key_changes(before: Sequence[CacheComponent], after: Sequence[CacheComponent]) -> tuple[KeyChange, ...]:
    """What differs between two keys; what only follows from another change is left out."""
    changes = [*_plain_changes(before, after), *_input_changes(_inputs(before), _inputs(after))]
    causes = [change for change in changes if not is_consequence(change)]
    return tuple(_without_repeats(causes or changes))


def _plain_changes(before: Sequence[CacheComponent], after: Sequence[CacheComponent]) -> Iterator[KeyChange]:
    old, new = _by_name(before), _by_name(after)
    for name in dict.fromkeys((*new, *old)):
        left, right = old.get(name), new.get(name)
        if (left and left.hash) != (right and right.hash):
            yield from differences(left, right)


def _by_name(components: Sequence[CacheComponent]) -> dict[str, CacheComponent]:
    return {item.name: item for item in components if item.name and not item.name.startswith(_INPUTS)}


def _inputs(components: Sequence[CacheComponent]) -> list[CacheComponent]:
    return [item for item in components if item.name.startswith(_INPUTS)]


def _input_changes(before: Sequence[CacheComponent], after: Sequence[CacheComponent]) -> Iterator[KeyChange]:
    """Changes of inputs; where their number differs, inputs are aligned by dtype and number of dimensions."""
    for old_start, old_end, new_start, new_end in _aligned(before, after):
        old, new = before[old_start:old_end], after[new_start:new_end]
        for index in range(max(len(old), len(new))):
            left = old[index] if index < len(old) else None
            right = new[index] if index < len(new) else None
            if left is not None and right is not None:
                if left.hash != right.hash:
                    yield from differences(left, right)
                continue
            known = right or left
            if known is not None:
                number = known.name.removeprefix(_INPUTS).rstrip("]")
                yield KeyChange(
                    Factor.INPUT,
                    known.name,
                    f"input {number}",
                    None if left is None else input_text(left.value),
                    None if right is None else input_text(right.value),
                )


def _aligned(
    before: Sequence[CacheComponent], after: Sequence[CacheComponent]
) -> list[tuple[int, int, int, int]]:
    """Parts of both lists of inputs that belong together: start and end in each."""
    if len(before) == len(after):
        return [(0, len(before), 0, len(after))]
    old_kinds = [input_signature(item.value) for item in before]
    new_kinds = [input_signature(item.value) for item in after]
    matcher = SequenceMatcher(None, old_kinds, new_kinds, autojunk=False)
    return [(start, end, new_start, new_end) for _, start, end, new_start, new_end in matcher.get_opcodes()]


def _without_repeats(changes: Sequence[KeyChange]) -> Iterator[KeyChange]:
    """Drop a change that another component reports in the same words."""
    known = set()
    for change in changes:
        words = (change.subject, change.before, change.after)
        if words not in known:
            known.add(words)
            yield change


def setting_changes(
    module: str, before: object, after: object, *, ignored: frozenset[str] = frozenset()
) -> tuple[KeyChange, ...]:
    """Settings that differ between two dumps of a config module of torch, as its metrics record them in JSON."""
    old, new = _settings(before), _settings(after)
    if not old or not new:
        return ()
    names = [name for name in new if name in old and old[name] != new[name] and name not in ignored]
    return tuple(
        KeyChange(
            Factor.SETTING,
            f"{module}[{name}]",
            f"{module}.{name}",
            shortened(_text(old[name])),
            shortened(_text(new[name])),
        )
        for name in names[:_MAX_SETTINGS]
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else str(value)


def _settings(dump: object) -> Mapping[str, Any]:
    if not isinstance(dump, str):
        return {}
    try:
        settings = parse_json(dump)
    except (ValueError, RecursionError):
        return {}
    return settings if isinstance(settings, dict) else {}
