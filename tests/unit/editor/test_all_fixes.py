"""`source.fixAll`: every exact fix of a file as one edit."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from fuselight.shared.protocol import VerifyRequest
from fuselight.shared.report import Aspect, Report, data_key
from fuselight_server.base.finding import Finding
from fuselight_server.editor.handlers import fix_commands
from fuselight_server.editor.results.snapshot import Document
from fuselight_server.fixes.rewrites.families import FixClass, Remedy
from fuselight_server.source.document import SourceDocument
from tests.support.fix_world import TEXT, VERIFIED, FixWorld, differing, replaced


@pytest.mark.asyncio
async def test_all_exact_fixes_are_one_edit_each_verified_on_top_of_the_others(world: FixWorld) -> None:
    (action,) = await world.actions(only=["source.fixAll"])
    assert (action.kind, action.edit) == ("source.fixAll.fuselight", None)
    resolved = await world.resolve(action)
    assert world.text_after(resolved.edit) == TEXT.replace("branch", "where")
    new = [
        request for request in world.requests if isinstance(request, VerifyRequest) and not request.records
    ]
    assert [(request.overlays[world.path].count("where"), request.cases) for request in new] == [
        *((1, False), (1, True)),
        *((2, False), (2, True)),
    ]
    world.edit(TEXT.replace("branch", "where"))
    assert world.lens() == ("0 findings", True)


@pytest.mark.asyncio
async def test_all_exact_fixes_are_verified_for_the_later_targets_of_the_file(world: FixWorld) -> None:
    text = f"{TEXT}\n\n# fuselight: g(f32[4])\ndef g(x):\n    return f(x)\n"
    world.edit(text)
    for name in ("f", "g"):
        world.ran(text, name)
    world.others["g"] = differing(Aspect.OUTPUT)
    (action,) = await world.actions(only=["source.fixAll"])
    assert (await world.resolve(action)).edit is None
    new = [
        request.target.name
        for request in world.requests
        if isinstance(request, VerifyRequest) and not request.records
    ]
    assert new[:2] == ["f", "g"]


@pytest.mark.asyncio
async def test_a_fix_of_another_class_is_not_among_all_fixes(world: FixWorld) -> None:
    world.offers(replaced("where", "Use where", FixClass.EQUAL))
    assert await world.actions(only=["source.fixAll.fuselight"]) == []
    assert world.requests == []
    assert await world.verified() == [VERIFIED]


@pytest.mark.asyncio
async def test_a_save_gets_no_command_that_would_change_the_file_after_it(
    world: FixWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fix_commands, "_RESOLVE_SECONDS", 0.01)
    world.gate.clear()
    (action,) = await world.actions(automatic=True, only=["source.fixAll"])
    resolved = await world.resolve(action)
    assert (resolved.edit, resolved.command) == (None, None)
    (asked,) = await world.actions(only=["source.fixAll"])
    assert (await world.resolve(asked)).command is not None
    world.gate.set()


@pytest.mark.asyncio
async def test_all_fixes_begin_with_the_unsaved_texts_and_do_not_undo_later_edits(world: FixWorld) -> None:
    other = str(Path(world.path).with_name("other.py"))
    await asyncio.to_thread(Path(other).write_text, "saved\n")
    document = Document(Path(other).as_uri(), other, 1, SourceDocument(other, "typed\n"), runnable=True)
    world.state.open(document)
    text = f"{TEXT}\n\n# fuselight: g(f32[4])\ndef g(x):\n    return f(x)\n"
    world.edit(text)
    world.ran(text)
    world.ran(text, "g", files={other: data_key(b"typed\n")})

    def both(finding: Finding, report: Report, read: Callable[[str], str]) -> tuple[Remedy, ...]:
        (here,) = replaced("where", "Use where", FixClass.EXACT)(finding, report, read)
        return (dataclasses.replace(here, texts={**here.texts, other: f"{read(other)}set_up()\n"}),)

    world.offers(both)
    world.gate.clear()
    verifying = asyncio.create_task(world.session.verify_all(world.path))
    await asyncio.wait_for(world.asked_to_run.wait(), 10)
    document.source.become("typed later\n")
    world.gate.set()
    fixes = await verifying
    assert fixes is not None
    assert fixes.attempts
    assert (fixes.before[other], fixes.after[other]) == ("typed\n", "typed\nset_up()\nset_up()\n")
    assert not world.session.is_current(fixes.before)
