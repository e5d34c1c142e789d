"""The hover of a target without inputs: short, each sentence once, and what the lens offers."""

from __future__ import annotations

import ast
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from fuselight.shared.report import Culprit, Failure, Location, TargetRef
from fuselight_server.editor.handlers.hover import with_fixes
from fuselight_server.editor.presenters import convert
from fuselight_server.editor.results.captures import capture_result_of
from fuselight_server.editor.results.finding_hover import explanations_of
from fuselight_server.editor.results.shown_findings import ShownFinding, findings_of
from fuselight_server.editor.results.snapshot import Document
from fuselight_server.editor.results.target_hover import targets
from fuselight_server.editor.session.state import State
from fuselight_server.execution.runs.keys import Key
from fuselight_server.explain.findings import findings
from fuselight_server.source.document import SourceDocument
from fuselight_server.source.input_programs import InputProgram
from tests.support.reports import FILE, report

if TYPE_CHECKING:
    from fuselight_server.editor.results.captures import CaptureResult

URI = f"file://{FILE}"
TEXT = """\
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, width, heads=2):
        super().__init__()
        self.embed = nn.Embedding(50, width)
        self.mix = nn.Linear(width, width)

    def forward(self, ids, mask=None):
        return self.mix(self.embed(ids))


@torch.compile
def scale(x, factor: float):
    return x * factor


@torch.compile
def pool(images, *, size: int):
    return nn.functional.avg_pool2d(images, size)
"""
LINES = {"Encoder": 5, "scale": 16, "pool": 21}


def without_inputs(name: str) -> CaptureResult:
    place = Location(FILE, LINES[name], function=name)
    failure = Failure(
        Culprit.USER, "inputs", f"no inputs are known for {name}", "write a directive", stack=(place,)
    )
    kind = "module" if name == "Encoder" else "function"
    target = TargetRef(path=FILE, name=name, line=LINES[name], kind=kind)
    ran = report(failures=(failure,), inputs=None, target=target)
    return capture_result_of(Key(FILE, name), 1, ran, findings(ran))


async def hovered(name: str, *results: CaptureResult) -> str:
    state = State()
    state.open(Document(URI, FILE, 1, SourceDocument(FILE, TEXT), runnable=True))
    state.client.actions = False
    for result in results:
        state.accept_result(result)
    view = convert.Client("utf-8", state.documents.read_line, convert.uri)
    server: Any = SimpleNamespace(state=state, view=view, uri_of=convert.uri)
    on_line = [item for item in findings_of(server.state.view(), FILE) if item[0].span.line == LINES[name]]
    snapshot = state.snapshot(URI, {})
    assert snapshot is not None
    shown = [await with_fixes(server, ShownFinding(finding, edited)) for finding, edited in on_line]
    return "\n".join([*explanations_of(snapshot, shown), *targets(snapshot, LINES[name])])


@pytest.mark.asyncio
@pytest.mark.parametrize("name", LINES)
async def test_the_hover_is_short_and_its_example_parses(name: str) -> None:
    text = await hovered(name, without_inputs(name))
    lines = [line for line in text.split("\n") if line]
    assert len(lines) == len(set(lines)) <= 8, text
    assert text.count("no inputs are known") == 0, "the finding above the hover says it"
    assert "dummy_inputs" not in text
    assert "fuselight run" not in text.partition("Choose in the lens above it:")[2].partition("\n\nOr run")[0]
    assert text.endswith(
        "Or run a program that calls it with `fuselight run` in a terminal, which records its inputs."
    )
    (example,) = [line.removeprefix("# fuselight: ") for line in lines if line.startswith("# fuselight: ")]
    ast.parse(example)


@pytest.mark.asyncio
async def test_the_example_fits_the_constructor_and_the_layers() -> None:
    text = await hovered("Encoder", without_inputs("Encoder"))
    assert "# fuselight: Encoder(8)(i64[2, 16] % 50)" in text


@pytest.mark.asyncio
async def test_programs_with_inputs_come_first() -> None:
    result = without_inputs("Encoder")
    result.input_programs = tuple(
        InputProgram(f"/p/{name}", 3, calls=True, kind="script") for name in ("train.py", "eval.py")
    )
    text = await hovered("Encoder", result)
    assert text.index("Use the inputs of train.py") < text.index("Use the inputs of eval.py")
    assert text.index("Use the inputs of eval.py") < text.index("fuselight run")


@pytest.mark.asyncio
async def test_before_a_run_the_first_way_is_to_run_it() -> None:
    text = await hovered("scale")
    assert "- **Run**: look for a program" in text
    assert "# fuselight: scale(f32[2, 8], " in text
