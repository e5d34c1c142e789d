"""The user's own Triton kernels in the editor: the lens, the texts that it opens, and further runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fuselight.shared.protocol import Answer, CaptureRequest, Progress, Refused, RunRequest
from fuselight.shared.report import Assembled, Listing, Location, OwnKernel, Report, Tier, TunedSizes
from fuselight_server.base.settings import Interpreter, parse_settings
from fuselight_server.editor.handlers.kernel_documents import kernel_document, kernels_at
from fuselight_server.editor.messages.params import KernelDocumentParams, KernelsAtParams
from fuselight_server.editor.presenters import convert
from fuselight_server.editor.presenters.lens import own_kernel_lenses
from fuselight_server.editor.results.captures import CaptureResult, capture_result_of
from fuselight_server.editor.results.own_kernels import merged
from fuselight_server.editor.results.quick_edits import fastest_configurations
from fuselight_server.editor.results.snapshot import Document, Snapshot
from fuselight_server.editor.session.analysis import Analysis
from fuselight_server.editor.session.state import Folder, State
from fuselight_server.execution.runs.keys import Key
from fuselight_server.explain.kernels.own_kernels import key_of
from fuselight_server.source.document import SourceDocument
from tests.support.own_kernels import KERNELS_FILE, own_kernel, own_report, tuned_kernel
from tests.support.recorded_ui import RecordedUi
from tests.support.reports import LIBRARY

KEY = Key(KERNELS_FILE, "launch")
AT = Location(KERNELS_FILE, 11)
URI = f"file://{KERNELS_FILE}"
TEXT = """\
import triton

@triton.jit
def add(x, n, BLOCK):
    a = 1
    b = 2
    c = 3

# fuselight: launch(f32[1000])
def launch(x):
    add[(1,)](x, 1000, 128)
"""
LENS = "h100-sxm: 64 registers, no spills, 48 KB shared, occupancy 50%, ~12.2 µs"
PTX = Assembled(registers=64, spills=0, listings={"ptx": Listing("one\ntwo\nthree", (5, 0, 6))})


def opened(*results: CaptureResult) -> State:
    state = State()
    state.open(Document(URI, KERNELS_FILE, 1, SourceDocument(KERNELS_FILE, TEXT), runnable=True))
    for result in results:
        state.accept_result(result)
    return state


def captured(*kernels: OwnKernel, key: Key = KEY, generation: int = 1) -> CaptureResult:
    return capture_result_of(key, generation, own_report(*kernels), ())


def snapshot(state: State, **settings: Any) -> Snapshot:
    shown = state.snapshot(URI, {})
    assert shown is not None
    return replace(shown, settings=parse_settings(settings)[0])


def titles(state: State, **settings: Any) -> dict[int, str]:
    return {
        lens["range"]["start"]["line"]: lens["command"]["title"]
        for lens in own_kernel_lenses(snapshot(state, **settings))
    }


def test_the_lens_stands_above_the_def_and_moves_with_edits() -> None:
    state = opened(captured(own_kernel()))
    assert titles(state) == {3: LENS}
    document = state.documents.at(KERNELS_FILE)
    assert document is not None
    state.edit(KERNELS_FILE, document.source.edit((0, 0), (0, 0), "import os\n"))
    assert titles(state) == {4: f"{LENS} (before your edit)"}
    assert titles(state, kernels={"lens": "off"}) == {}


def test_a_kernel_of_several_targets_has_one_lens_of_the_newest_run() -> None:
    newer = replace(own_kernel(), estimate_us=20.0)
    other = Key("/project/model.py", "Net")
    state = opened(captured(own_kernel()), captured(newer, key=other, generation=2))
    assert titles(state) == {3: LENS.replace("12.2", "20")}
    (lens,) = own_kernel_lenses(snapshot(state))
    assert lens["command"]["command"] == "fuselight.showKernel"
    assert lens["command"]["arguments"] == [{"uri": URI, "target": "Net", "line": 3, "last": 6}]


def of_library(*names: str, assembled: Assembled | None = None) -> list[OwnKernel]:
    """Kernels of the package `liger`, which the line 11 of `KERNELS_FILE` launches."""
    place = Location(LIBRARY, 4)
    return [
        replace(
            own_kernel(name), location=place, library="liger", assembled=assembled, launched_at=(AT, place)
        )
        for name in names
    ]


def test_kernels_of_a_library_have_a_lens_at_the_call_and_in_their_own_file() -> None:
    state = opened(captured(*of_library("rms", assembled=own_kernel().assembled)))
    facts = LENS.partition(": ")[2]
    assert titles(state) == {10: f"Triton kernel rms of liger: {facts}"}
    uri = f"file://{LIBRARY}"
    state.open(Document(uri, LIBRARY, 1, SourceDocument(LIBRARY, TEXT), runnable=True))
    shown = state.snapshot(uri, {})
    assert shown is not None
    (lens,) = own_kernel_lenses(shown)
    assert (lens["range"]["start"]["line"], lens["command"]["title"]) == (3, LENS)
    assert titles(opened(captured(*of_library("rms")))) == {10: "Triton kernel rms of liger"}
    assert titles(opened(captured(*of_library("a", "b", "a")))) == {10: "2 Triton kernels of liger: a, b"}


def test_a_click_at_the_call_offers_the_kernels_of_the_library() -> None:
    server = server_of(opened(captured(*of_library("rms", "swiglu"))))
    offered = kernels_at(server, KernelsAtParams(URI, line=10, last=10, target="launch"))["kernels"]
    assert [entry["label"] for entry in offered] == ["rms", "swiglu"]


def server_of(state: State, analysis: Any = None) -> Any:
    class Server:
        def uri_of(self, path: str) -> str:
            return convert.uri(path)

    server: Any = Server()
    server.state, server.analysis = state, analysis
    return server


def test_a_click_offers_the_assembly_and_the_configurations() -> None:
    kernel = replace(tuned_kernel(1.0, 2.0), assembled=PTX)
    server = server_of(opened(captured(kernel)))
    offered = kernels_at(server, KernelsAtParams(URI, line=3, last=6, target="launch"))["kernels"]
    assert [(entry["form"], entry["name"]) for entry in offered] == [
        ("ptx", "add.ptx"),
        ("configurations", "add_configurations.txt"),
    ]
    assert offered[0]["description"] == "BLOCK=128, 4 warps, *fp32, i32, 1 launch, grid (8, 1, 1)"
    assert kernels_at(server, KernelsAtParams(URI, line=9, last=9, target="launch"))["kernels"] == []


def text_of(server: Any, kernel: OwnKernel, form: str) -> Any:
    return kernel_document(server, KernelDocumentParams(URI, "launch", key_of(kernel), form))


def test_lines_of_a_form_are_linked_to_lines_of_the_file_as_they_are_now() -> None:
    kernel = own_kernel(assembled=PTX)
    state = opened(captured(kernel))
    document = state.documents.at(KERNELS_FILE)
    assert document is not None
    state.edit(KERNELS_FILE, document.source.edit((0, 0), (0, 0), "import os\n"))
    answer = text_of(server_of(state), kernel, "ptx")
    lines = answer["text"].split("\n")
    linked = {lines[link["first"]]: link["lines"] for link in answer["links"]}
    assert linked == {"one": [5], "three": [6]}
    assert answer["stale"]
    assert answer["forms"][0] == {"form": "source", "name": "add.py"}


def test_a_kernel_that_is_gone_says_what_to_do() -> None:
    answer = text_of(server_of(opened()), own_kernel(), "ptx")
    assert not answer["found"]
    assert answer["text"].startswith("// add is not available.")


def test_a_further_run_adds_forms_and_takes_none_away() -> None:
    with_sass = replace(PTX, disassembled=True, listings={**PTX.listings, "sass": Listing("sass")})
    compiled = replace(tuned_kernel(1.0, 2.0), assembled=PTX)
    configurations = tuple(
        replace(configuration, registers=10, is_compiled=True) for configuration in compiled.configurations
    )
    report = own_report(compiled)
    with_forms = merged(report, own_report(replace(compiled, assembled=with_sass)))
    whole = merged(with_forms, own_report(replace(compiled, configurations=configurations)))
    (kernel,) = whole.own_kernels
    assert kernel.assembled == with_sass
    assert kernel.configurations == configurations
    assert merged(whole, own_report()).own_kernels == (kernel,), "a run without it"


def test_the_fastest_configurations_are_offered_while_the_file_is_the_one_that_ran() -> None:
    text = TEXT.replace("@triton.jit", '@triton.autotune([c(1), c(2)], key=["n"])\n@triton.jit')
    kernel = tuned_kernel(None, None)
    kernel = replace(
        kernel,
        location=replace(kernel.location, line=5),
        decorator=replace(kernel.location, line=3),
        tuned=(TunedSizes(("1000",), (14.0, 10.0)),),
    )
    state = State()
    state.open(Document(URI, KERNELS_FILE, 1, SourceDocument(KERNELS_FILE, text), runnable=True))
    state.accept_result(captured(kernel))
    document = state.documents.at(KERNELS_FILE)
    assert document is not None

    def offered(line: int) -> list[tuple[str, str]]:
        edits = fastest_configurations(state.view(), document, line, line)
        return [(edit.title, edit.edits[0].new_text) for edit in edits]

    title = "Keep the fastest of 2 configurations: BLOCK=256, 4 warps, 3 stages, 10 µs for n=1000"
    assert offered(3) == offered(5) == [(title, "[c(2)]")]
    assert offered(1) == []
    state.edit(KERNELS_FILE, document.source.edit((0, 0), (0, 0), "import os\n"))
    assert offered(4) == []


class Worker:
    """Compiles what a request asks for."""

    hello: Any = None

    def __init__(self) -> None:
        self.asked: list[RunRequest] = []

    async def run(
        self,
        request: RunRequest,
        on_progress: Callable[[Progress], None],
        on_partial: Callable[[Report], None],
    ) -> Answer | Refused:
        del on_progress, on_partial
        self.asked.append(request)
        plan = request.own_kernels
        assert plan is not None
        stages = ["ptx", *(["sass"] if plan.disassemble else [])]
        assembled = Assembled(
            registers=64,
            listings={stage: Listing(stage, (5,)) for stage in stages},
            disassembled=plan.disassemble,
        )
        return Answer(request.id, own_report(own_kernel(assembled=assembled)))

    async def close(self) -> None: ...


class Ui(RecordedUi):
    """The user interface, with the analysis that a question calls."""

    analysis: Analysis


@pytest.mark.asyncio
async def test_sass_is_made_by_a_run_of_its_own_when_it_is_opened() -> None:
    state, ui, worker = State(), Ui(), Worker()
    settings, _ = parse_settings({"device": "mi300x"})
    state.folders["/project"] = Folder("/project", "file:///project", consent="run", settings=settings)
    state.open(Document(URI, KERNELS_FILE, 1, SourceDocument(KERNELS_FILE, TEXT), runnable=True))
    analysis = ui.analysis = Analysis(
        state, ui, make_worker=lambda *_: worker, find_interpreter=lambda _folder: Interpreter("/python")
    )
    analysis.early.end()

    async def settle() -> None:
        while analysis.runs.settled < analysis.runs.generation:
            ui.moved.clear()
            await asyncio.wait_for(ui.moved.wait(), 10)

    analysis.requests.command(KERNELS_FILE, "launch", Tier.CAPTURE)
    await settle()
    server = server_of(state, analysis)
    assert "It is being compiled" in text_of(server, own_kernel(), "sass")["text"]
    await settle()
    assert text_of(server, own_kernel(), "sass")["text"].endswith("\nsass\n")
    first, second = worker.asked
    assert isinstance(second, CaptureRequest)
    assert first.own_kernels is not None
    assert first.own_kernels.device is not None
    assert first.own_kernels.device.key == "mi300x"
    assert second.own_kernels == replace(first.own_kernels, disassemble=True)
    assert list(state.captures) == [KEY], "it replaces no result"
