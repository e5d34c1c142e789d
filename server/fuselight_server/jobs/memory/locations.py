"""The lines of a job's memory: all of them, and the same on local files."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

from fuselight.shared.report import Location
from fuselight_server.jobs.memory.model import JobMemory


def locations_of(memory: JobMemory) -> Iterator[Location]:
    """Every line, once."""
    known: dict[Location, Location] = {}
    _mapped(memory, lambda place: known.setdefault(place, place))
    yield from known


def located(memory: JobMemory, locate: Callable[[Location], Location]) -> JobMemory:
    """The same with local lines; `locate` gets each line of the job once."""
    mapped: JobMemory = _mapped(memory, functools.cache(locate))
    return mapped


def _mapped(value: Any, locate: Callable[[Location], Location]) -> Any:
    if isinstance(value, Location):
        return locate(value)
    if isinstance(value, tuple):
        return tuple(_mapped(item, locate) for item in value) if value and not _is_plain(value[0]) else value
    if is_dataclass(value) and not isinstance(value, type):
        changes = {
            field.name: _mapped(item, locate)
            for field in fields(value)
            if not _is_plain(item := getattr(value, field.name))
        }
        return replace(value, **changes) if changes else value
    return value


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, int | float | str)
