"""A project of one program for the tools of agents, and workers that answer for it at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fuselight.shared.protocol import VerifyRequest
from fuselight.shared.report import (
    CallComparison,
    Difference,
    Failure,
    Inputs,
    Report,
    Rung,
    TargetRef,
    Verification,
)
from fuselight_server.commands.sources import read_text
from tests.support.command import AnsweringWorker
from tests.support.reports import at, broken, report

TEXT = """\
import torch

# fuselight: scale(f32[4])
@torch.compile
def scale(x):
    print(x)
    return x * 2
"""
QUIET = TEXT.replace("    print(x)\n", "")
CALLS = ("recorded inputs", "other values 1")


def scale(path: Path, text: str, **parts: Any) -> Report:
    """What a run of a text finds."""
    lines = text.split("\n")
    breaks = [number for number, line in enumerate(lines, 1) if "print" in line]
    return report(
        target=TargetRef(str(path), "scale", 5, "function"),
        inputs=Inputs(Rung.DIRECTIVE, str(path), 3),
        roots=(str(path.parent),),
        files={str(path): ""},
        breaks=tuple(broken(at(line, path=str(path), function="scale")) for line in breaks),
        **parts,
    )


def verifying(
    project: Path, *answers: Verification | Failure, old: Verification | None = None
) -> AnsweringWorker:
    """Answers verifications of new texts with each of `answers`, the last one again, and of the old one with `old`."""
    path, left = project / "model.py", list(answers)

    def answer(request: Any) -> Report:
        text = request.overlays.get(str(path), TEXT)
        if not isinstance(request, VerifyRequest):
            return scale(path, text)
        if request.records:
            return scale(path, text, verification=old or Verification())
        next_answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(next_answer, Failure):
            return scale(path, text, failures=(next_answer,))
        return scale(path, text, verification=next_answer)

    return AnsweringWorker(answer)


def compared(*differences: Difference, compiled: bool = False) -> Verification:
    """A verification of two calls, with these differences in the second one."""
    comparisons = [CallComparison(0, CALLS[0], mode) for mode in (False, True)]
    return Verification((*comparisons, CallComparison(1, CALLS[1], compiled, differences)))


def written_notebook(project: Path) -> tuple[Path, str]:
    """A notebook of two cells, the imports and the rest of the program, and its text as Python."""
    path = project / "n.ipynb"
    sources = ["import torch\n", TEXT.partition("import torch\n")[2].strip()]
    cells = [{"cell_type": "code", "source": source} for source in sources]
    path.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4}))
    text = read_text(path)
    assert isinstance(text, str)
    return path, text
