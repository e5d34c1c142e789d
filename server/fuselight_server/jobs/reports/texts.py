"""The graphs and the generated code of a job, read from its logs as far as a budget allows.

Invariant: what was read is kept, so that a job that grows is not read again, and one bound holds for all of its
processes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from fuselight.shared.report import text_key
from fuselight_server.jobs.trace_log.files import LogError
from fuselight_server.jobs.trace_log.graphs import GraphLine, lines_of
from fuselight_server.jobs.trace_log.model import GraphKind, LoggedCompile, Payload, ProcessLog
from fuselight_server.jobs.trace_log.payloads import read_texts

MAX_BYTES = 64 << 20
"""Of graphs and generated code that are read. A training step of a 12-layer GPT-2 has 2 MB."""
_SHOWN = frozenset(GraphKind) - {GraphKind.COMPILED_AUTOGRAD}


@dataclass
class LogTexts:
    """Texts by their place in the logs."""

    most_bytes: int = MAX_BYTES
    texts: dict[str, str] = field(default_factory=dict)
    """By their key in `Report.texts`: the ranks of a job mostly have the same."""
    unread: dict[str, int] = field(default_factory=dict)
    """File → number of texts for which the budget was spent."""
    _keys: dict[Payload, str] = field(default_factory=dict)
    _lines: dict[str, tuple[GraphLine, ...]] = field(default_factory=dict)
    _skipped: set[Payload] = field(default_factory=set)
    _read_bytes: int = 0

    def read(self, process: ProcessLog) -> None:
        """Read the texts of a process that were not read before."""
        wanted = []
        for payload in payloads_of(process):
            if payload in self._keys or payload in self._skipped:
                continue
            if self._read_bytes + payload.length > self.most_bytes:
                self._skipped.add(payload)
                self.unread[process.file] = self.unread.get(process.file, 0) + 1
                continue
            self._read_bytes += payload.length
            wanted.append(payload)
        try:
            for payload, text in read_texts(wanted):
                key = text_key(text)
                self.texts.setdefault(key, text)
                self._keys[payload] = key
        except LogError:  # the file is gone, or was replaced while it was read
            missing = [payload for payload in wanted if payload not in self._keys]
            self._skipped.update(missing)
            self.unread[process.file] = self.unread.get(process.file, 0) + len(missing)

    def key(self, payload: Payload) -> str | None:
        """The key of a text; None if it was not read."""
        return self._keys.get(payload)

    def lines(self, payload: Payload) -> tuple[GraphLine, ...]:
        """The nodes of a graph; empty if it was not read."""
        key = self._keys.get(payload)
        if key is None:
            return ()
        if key not in self._lines:
            self._lines[key] = tuple(lines_of(self.texts[key]))
        return self._lines[key]


def payloads_of(process: ProcessLog) -> Iterator[Payload]:
    """The texts of a process that its Report has."""
    for compiled in process.compiles:
        yield from _of_compile(compiled)


def _of_compile(compiled: LoggedCompile) -> Iterator[Payload]:
    for attempt in compiled.attempts:
        for graph in attempt.graphs:
            if graph.kind in _SHOWN:
                yield graph.payload
        for code in attempt.output_codes:
            yield code.payload
