"""A growing report is written as it is now, whatever was written before."""

from __future__ import annotations

import json
from dataclasses import replace

from fuselight.shared.codec import decode, encode
from fuselight.shared.incremental_json import GrowingJson
from fuselight.shared.report import (
    Call,
    Frame,
    Inputs,
    Location,
    Note,
    Report,
    Rung,
    TargetRef,
    Tier,
    Versions,
)

EMPTY = Report(
    versions=Versions(
        python="3.11.7", torch="2.13.0", triton=None, fuselight="1", platform="p", executable="e"
    ),
    target=TargetRef("/m.py", "", 1, "main"),
    tier=Tier.CAPTURE,
    generation=0,
)


def test_the_output_equals_encode_at_each_size() -> None:
    growing = GrowingJson()
    frames: list[Frame] = []
    calls: list[Call] = []
    texts: dict[str, str] = {}
    for number in range(5):
        frames.append(Frame(f"f{number}", Location("/m.py", number + 1), None))
        calls.append(Call(number, f"f(f32[{number}]) \ud800", Location("/m.py", 9)))
        texts[f"hash{number}"] = f"graph {number} \u00e9"
        report = replace(
            EMPTY,
            frames=tuple(frames),
            inputs=Inputs(Rung.PROGRAM, "/m.py", None, tuple(calls)),
            texts=dict(texts),
            phases={"main": 0.5},
            notes=(Note("rung", "same"), Note("rung", "same")),
        )
        data = json.loads(growing.dump(report))
        assert data == encode(report)
        assert decode(Report, data) == report


def test_an_entry_that_was_replaced_is_written_again() -> None:
    growing = GrowingJson()
    for note in (Note("rung", "before"), Note("rung", "after")):
        report = replace(EMPTY, notes=(note,))
        assert json.loads(growing.dump(report)) == encode(report)
