"""The lookups of a job in caches, in the order of its processes, each with its compile and the key's components.

Invariant: components are read once for each key: ranks of a job share their keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from fuselight_server.jobs.trace_log.model import (
    CacheComponent,
    CacheEvent,
    CacheName,
    CacheState,
    GraphKind,
    LoggedCompile,
    Payload,
    ProcessLog,
)
from fuselight_server.jobs.trace_log.payloads import read_components, read_metrics, read_text

KEYED = frozenset((CacheName.FX_GRAPH, CacheName.AOTAUTOGRAD))
"""Caches whose records have components."""
_MAX_KEYS = 64
"""Keys and graphs that are remembered: a key has hundreds of components."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """A record of a cache, and where it belongs."""

    process: ProcessLog
    compile: LoggedCompile | None
    event: CacheEvent

    @property
    def names(self) -> tuple[str, str] | None:
        """File name and function that is compiled; None if the log does not say."""
        location = None if self.compile is None else self.compile.location
        if location is None:
            return None
        return PurePath(location.path.replace("\\", "/")).name, location.function or ""


def lookups_of(process: ProcessLog) -> Iterator[Lookup]:
    """The lookups of a process; what is only written to a cache is none."""
    compiles = {str(compiled.id): compiled for compiled in process.compiles}
    for event in process.cache_events:
        if event.state is not CacheState.SAVED:
            compile_id = None if event.compile_id is None else str(event.compile_id)
            yield Lookup(process, compiles.get(compile_id or ""), event)


@dataclass
class PayloadMemory:
    """What was last read of the payloads of logs."""

    _components: dict[tuple[CacheName, str | None, str], tuple[CacheComponent, ...] | None] = field(
        default_factory=dict
    )
    _graphs: dict[Payload, str] = field(default_factory=dict)

    def components(self, event: CacheEvent) -> tuple[CacheComponent, ...] | None:
        """The components of the key; None if the log does not have them, also where it has an empty list.

        Raises LogError.
        """
        if not event.components:
            return None
        where = (event.cache, event.key, "" if event.key else f"{event.payload}")
        if where not in self._components:
            if len(self._components) >= _MAX_KEYS:
                del self._components[next(iter(self._components))]
            self._components[where] = read_components(event)
        return self._components[where]

    def is_backward(self, event: CacheEvent) -> bool | None:
        """Whether the key is that of a backward; None if the log does not say."""
        for component in self.components(event) or ():
            if component.name == "fx_kwargs[is_backward]":
                return component.value == "True"
        return None

    def dynamo_graph(self, compiled: LoggedCompile | None) -> str | None:
        """The graph that Dynamo passed to the backend, as printed. Raises LogError."""
        graphs = (
            []
            if compiled is None
            else [graph for graph in compiled.last.graphs if graph.kind is GraphKind.DYNAMO]
        )
        if not graphs:
            return None
        payload = graphs[-1].payload
        if payload not in self._graphs:
            if len(self._graphs) >= _MAX_KEYS:
                del self._graphs[next(iter(self._graphs))]
            self._graphs[payload] = read_text(payload)
        return self._graphs[payload]

    def metrics(self, compiled: LoggedCompile | None) -> Mapping[str, Any]:
        """Every field of torch's metrics of the compile; empty if the log has none. Raises LogError."""
        metrics = None if compiled is None else compiled.metrics
        return {} if metrics is None else read_metrics(metrics)
