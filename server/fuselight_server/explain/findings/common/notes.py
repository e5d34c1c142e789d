"""FL601 to FL606: what the run did differently from the program as written, so that nobody is misled.

And FL101 of a `compile()` that has no effect.

Invariant: only notes that change how results are to be read are findings; the rest stay in the report.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fuselight.shared.codec import read_table
from fuselight_server.base.finding import Finding
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.text import plain, sentence


@dataclass(frozen=True)
class _NoteKind:
    code: str
    meaning: str
    hints: tuple[str, ...] = ()


_KINDS = read_table(dict[str, _NoteKind], __file__)


def note_findings(context: Context) -> Iterator[Finding]:
    """The findings of the report's notes."""
    seen = set()
    for note in context.report.notes:
        kind = _KINDS.get(note.kind)
        home = context.innermost_user_frame((note.location,)) if note.location else None
        key = (note.kind, note.text, home)
        if kind is None or key in seen:
            continue
        seen.add(key)
        yield context.finding(
            kind.code,
            plain(note.text).rstrip("."),
            sentence(plain(note.text)),
            kind.meaning,
            at=home,
            cost=("its own operators run in eager mode",) if kind.code == "FL101" else (),
            hints=kind.hints,
        )
