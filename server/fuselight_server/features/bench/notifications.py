"""`fuselight/measuredChanged`, after which the client asks for the page again.

Invariant: it is sent once for each that began, moved on, ended, is of another text now or has its lines elsewhere, and
for nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuselight.report import Tier
from fuselight_server.features.protocol import MEASURED_CHANGED
from fuselight_server.features.status import describe

if TYPE_CHECKING:
    from fuselight_server.features.server import Server
    from fuselight_server.runs.keys import Key


class BenchNotifications:
    """Notifies the client of benchmarks that began, moved on, ended, or are of another text now: once each."""

    def __init__(self) -> None:
        """Start with nothing sent."""
        self._sent: dict[Key, tuple[object, ...]] = {}

    def update(self, server: Server) -> frozenset[str]:
        """Send what differs from what was sent last; return the files whose findings of benchmarks may differ, too."""
        runs = server.analysis.runs
        known = {
            key: (
                one.generation,
                one.unfinished,
                one.is_stored,
                one.shown.stale,
                one.shown.moves,
                one.seconds,
            )
            for key, one in server.state.measured.items()
        }
        now: dict[Key, tuple[object, ...]] = {}
        asked = server.analysis.consent.asked
        in_flight = [
            key for key in (*runs.in_flight, *runs.queue.waiting, *asked) if key.tier is Tier.MEASURED
        ]
        for key in (*known, *in_flight):
            running = runs.in_flight.get(key)
            now[key] = (
                *known.get(key, ()),
                key in in_flight,
                key in asked,
                describe(running) if running else "",
            )
        changed = [key for key in now.keys() | self._sent.keys() if now.get(key) != self._sent.get(key)]
        for key in changed:
            where = {"uri": server.uri_of(key.path), "target": key.name}
            server.protocol.notify(MEASURED_CHANGED, where)
        self._sent = now
        there = [server.state.measured[key] for key in changed if key in server.state.measured]
        return frozenset(path for one in there for path in one.paths())
