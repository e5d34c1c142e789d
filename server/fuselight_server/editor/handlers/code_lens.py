"""Code lenses: on a target its actions and its results, on a line its part in kernels."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
from typing import TYPE_CHECKING

from fuselight_server.editor.handlers.protocol import Encoded
from fuselight_server.editor.presenters import convert
from fuselight_server.editor.presenters.client_commands import NO_ACTION, lenses_for
from fuselight_server.editor.presenters.lens import Lens, other_lenses, program_lenses, target_lenses
from fuselight_server.editor.results.target_lens import TargetLens, known_targets, lens_of, line_of_program

if TYPE_CHECKING:
    from collections.abc import Callable

    from lsprotocol import types

    from fuselight_server.editor.handlers.server import Server

SLICE = 200
"""Targets whose lenses are made before the event loop runs on: some 2 ms."""


async def code_lens(server: Server, params: types.CodeLensParams) -> Encoded | None:
    """Answer `textDocument/codeLens`."""
    uri = params.text_document.uri
    while True:
        answer = Encoded()
        state = await _add_lenses(server, uri, answer.extend)
        if state is not _Lenses.OUTDATED:
            return answer if state is _Lenses.COMPLETE else None


async def lenses_on(server: Server, uri: str, first: int, last: int) -> list[Lens]:
    """Return the lenses on some lines, 0-based, that run something: for clients without lenses."""
    lenses: list[Lens] = []
    while await _add_lenses(server, uri, lenses.extend) is _Lenses.OUTDATED:
        lenses.clear()
    return [
        shown
        for shown in lenses
        if first <= shown["range"]["start"]["line"] <= last
        and shown["command"]["command"] not in {"", NO_ACTION}
    ]


class _Lenses(enum.Enum):
    """How the making of lenses ended."""

    COMPLETE = "complete"
    OUTDATED = "outdated"
    """The text changed meanwhile."""
    NONE = "none"


async def _add_lenses(server: Server, uri: str, add: Callable[[list[Lens]], None]) -> _Lenses:
    """Make the lenses of a file, piece by piece."""
    document = server.state.documents.get(uri)
    if document is None:
        return _Lenses.NONE
    await document.source.read()
    snapshot = server.snapshot(uri)
    if snapshot is None or snapshot.settings.code_lens == "off":
        return _Lenses.NONE
    client, version = server.view, document.version
    view = dataclasses.replace(client, read_line=lambda _, line: document.line(line))
    known = known_targets(snapshot)
    lenses: list[Lens] = []
    for index, target in enumerate(snapshot.reading.targets, start=1):
        shown = lens_of(snapshot, target, known)
        if shown is not None:
            lenses += target_lenses(shown, convert.plain_range(target.name_span, view))
        if index % SLICE == 0:
            add(lenses_for(lenses, snapshot.client))
            lenses = []
            await asyncio.sleep(0)
            if document.version != version:
                return _Lenses.OUTDATED
    has_run = "" in known
    main = line_of_program(snapshot) if has_run else await server.analysis.saves.program_lines.of(document)
    if document.version != version:
        return _Lenses.OUTDATED
    if main is not None:
        lenses += program_lenses(TargetLens(snapshot, "", is_known=has_run), main)
    lenses += other_lenses(snapshot, view)
    add(lenses_for(lenses, snapshot.client))
    return _Lenses.COMPLETE
