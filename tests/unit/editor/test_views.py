"""Pages and texts for clients without windows of ours: what is written, how it is shown, and what is said instead."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import pytest
from lsprotocol import types

from fuselight.shared.report import FusedOperator, GeneratedGraph, Kernel, KernelKind, Phase, Report, Tier
from fuselight_server.editor.handlers import views
from fuselight_server.editor.messages.answers import ReportNode
from fuselight_server.editor.messages.client_features import ClientFeatures
from fuselight_server.editor.presenters import convert
from fuselight_server.editor.presenters.report_nodes import target_node
from fuselight_server.editor.presenters.report_page import report_page
from fuselight_server.editor.results.captures import capture_result_of
from fuselight_server.editor.results.kernels import kernel_result_of
from fuselight_server.execution.runs.keys import Key
from fuselight_server.explain.findings import findings
from fuselight_server.explain.pages import document
from tests.support.benchmark_session import LINE, BenchmarkSession, benchmark_report, measured
from tests.support.built_pages import carried, use_built_pages
from tests.support.reports import FILE, at, broken, report


class Editor(BenchmarkSession):
    """A client that shows documents, and the parts of a server that the commands read."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.messages: list[str] = []
        self.asked: list[tuple[str, ...]] = []
        self.shown: list[types.ShowDocumentParams] = []
        self.succeeds: bool | Exception = True
        self.shown_texts: dict[str, None] = {}
        self.view = convert.Client("utf-8", self.state.documents.read_line, convert.uri)
        self.state.client = ClientFeatures(show_document=True)
        self.ui: Any = SimpleNamespace(**{name: getattr(self.ui, name) for name in ("moved", "runs_changed")})
        self.ui.say = lambda text, **_kind: self.messages.append(text)
        self.ui.offer = self._offer
        self.fixes = SimpleNamespace()

    async def _offer(self, _text: str, titles: tuple[str, ...]) -> str | None:
        self.asked.append(titles)
        return titles[-1]

    async def window_show_document_async(self, params: types.ShowDocumentParams) -> types.ShowDocumentResult:
        self.shown.append(params)
        if isinstance(self.succeeds, Exception):
            raise self.succeeds
        return types.ShowDocumentResult(success=self.succeeds)

    async def command(self, name: str, **options: Any) -> Any:  # type: ignore[override]  # another command than the base's
        server: Any = self  # the parts of a server that a command reads
        return await views.COMMANDS[name](server, {"uri": self.uri, **options})

    def page(self) -> str:  # type: ignore[override]  # what was shown, not what is answered
        """The text of the page that was shown last."""
        path = convert.path(self.shown[-1].uri)
        assert path is not None
        return Path(path).read_text(encoding="utf-8")


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Editor:
    """A client, and parts of pages as a build makes them."""
    use_built_pages(monkeypatch, tmp_path / "extension")
    project = tmp_path / "project"
    project.mkdir()
    return Editor(project)


def is_closed(page: str) -> bool:
    """Whether a page may load nothing, and runs its own script alone."""
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    return (
        policy is not None
        and re.fullmatch(
            r"default-src 'none'; script-src 'sha256-[^']+'; style-src 'sha256-[^']+'(; img-src data:)?",
            html.unescape(policy[1]),
        )
        is not None
    )


BENCHMARK, DETAILS = "fuselight.server.showBenchmark", "fuselight.server.showDetails"
GRAPHS, KERNEL = "fuselight.server.showGraphs", "fuselight.server.showKernel"


@pytest.mark.asyncio
async def test_the_page_of_a_benchmark_is_a_file_that_is_shown_in_a_browser(editor: Editor) -> None:
    session = BenchmarkSession(Path(editor.path).parent)
    await measured(session, benchmark_report(session))
    for result in session.state.results.values():
        editor.state.accept_result(result)
    await editor.command(BENCHMARK, target="f")
    (shown,) = editor.shown
    assert shown.external is True
    assert "/.fuselight/views/benchmark-m.py-f-" in shown.uri
    page = editor.page()
    assert is_closed(page)
    assert "/* bench.js */" in page
    assert [row["name"] for row in carried(page)["configurations"]] == ["eager", "default"]
    await editor.command(BENCHMARK, line=LINE - 1)
    assert editor.shown[1].uri == shown.uri, "the target that holds the line; its page is replaced"
    assert editor.messages == []


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("command", "options", "words"),
    [
        (BENCHMARK, {"target": "f"}, "Press Benchmark above f to measure it."),
        (
            BENCHMARK,
            {"target": "g"},
            "There is no `g` in this file: point at a class or function, or press Benchmark",
        ),
        (BENCHMARK, {"uri": "untitled:1"}, "Fuselight runs files only: save this to a file first."),
        (
            "fuselight.server.showTuning",
            {"target": "f"},
            "Press Tune above f to find its fastest configuration.",
        ),
        (GRAPHS, {"target": "f"}, "No graphs of f in m.py are available"),
        (DETAILS, {"target": "f"}, "No report of f is available: run it first."),
        (KERNEL, {"line": 5}, "No kernels of these lines are available: press Kernels above the target."),
        ("fuselight.server.showJob", {}, "No job is open: open its logs with `fuselight.server.openJob`."),
        ("fuselight.server.showJob", {"job": "x#1"}, "This job is closed."),
    ],
)
async def test_what_is_not_there_is_answered_with_what_to_do(
    editor: Editor, command: str, options: dict[str, Any], words: str
) -> None:
    editor.analysis.fixes = editor.fixes  # type: ignore[assignment]  # no report, so that none is asked
    await editor.command(command, **options)
    (message,) = editor.messages
    assert message.startswith(words)
    assert editor.shown == []


def kernels(path: str, *names: str) -> Report:
    operator = FusedOperator("aten.add.Tensor", stack=(at(LINE, path=path),))
    launches = tuple(
        Kernel(name, KernelKind.TRITON, number, operators=(operator,), estimate_us=10.0, text_key=name)
        for number, name in enumerate(names)
    )
    graphs = (GeneratedGraph("0/0", Phase.FORWARD, kernels=launches),)
    texts = {name: f"def {name}():\n    pass\n" for name in names}
    return report(roots=(str(Path(path).parent),), tier=Tier.KERNELS, generated=graphs, texts=texts)


def with_kernels(editor: Editor, *names: str) -> None:
    key = Key(editor.path, "f", Tier.KERNELS)
    editor.state.accept_result(kernel_result_of(key, 1, kernels(editor.path, *names)))


@pytest.mark.asyncio
async def test_a_kernel_is_a_file_in_the_editor(editor: Editor) -> None:
    with_kernels(editor, "triton_add")
    await editor.command(KERNEL, target="f", line=LINE - 1, last=LINE - 1)
    (shown,) = editor.shown
    assert shown.external is None
    assert shown.uri.endswith(".py")
    assert "def triton_add():" in editor.page()
    assert editor.asked == []


@pytest.mark.asyncio
async def test_of_several_kernels_the_user_chooses(editor: Editor) -> None:
    with_kernels(editor, *(f"triton_{number}" for number in range(12)))
    await editor.command(KERNEL, target="f")
    (titles,) = editor.asked
    assert len(titles) == 8
    assert titles[0] == "triton_0 (forward 0/0, triton, ~10 µs)"
    assert "def triton_7():" in editor.page()


@pytest.mark.asyncio
async def test_a_client_that_asks_for_texts_gets_an_address_and_no_file(editor: Editor) -> None:
    with_kernels(editor, "triton_add")
    editor.state.client = ClientFeatures(show_document=True, text_content=True)
    await editor.command(KERNEL, target="f")
    (shown,) = editor.shown
    assert unquote(shown.uri).startswith("fuselight-kernel:/f/triton_add")
    server: Any = editor
    assert "def triton_add():" in views.text_content(server, types.TextDocumentContentParams(shown.uri)).text
    assert not (Path(editor.path).parent / ".fuselight" / "views").exists()
    assert list(server.shown_texts) == [shown.uri]
    other = views.text_content(server, types.TextDocumentContentParams("fuselight-kernel:/x?uri=&form="))
    assert other.text == "# This address does not name a kernel.\n"


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("can_show", "succeeds"), [(False, True), (True, False), (True, RuntimeError("unknown method"))]
)
async def test_where_nothing_is_shown_the_user_reads_where_it_is(
    editor: Editor,
    can_show: bool,  # noqa: FBT001 - a row of the table
    succeeds: bool | Exception,  # noqa: FBT001 - the same
) -> None:
    with_kernels(editor, "triton_add")
    editor.state.client = ClientFeatures(show_document=can_show)
    editor.succeeds = succeeds
    await editor.command(KERNEL, target="f")
    (message,) = editor.messages
    path = re.search(r"open `([^`]+)` in the editor", message)
    assert path is not None, message
    assert path[1].startswith(str(Path(editor.path).parent))


@pytest.mark.asyncio
async def test_pages_that_were_not_built_are_named(
    editor: Editor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(document, "extension_folder", lambda: tmp_path / "nowhere")
    editor.state.accept_result(capture_result_of(Key(editor.path, "f"), 1, report(), ()))
    await editor.command(GRAPHS, target="f")
    (message,) = editor.messages
    assert message.startswith("No page: the page's script is not built")
    assert message.endswith(".")


@pytest.mark.asyncio
@pytest.mark.parametrize("line", [0, 9], ids=["a line of no target", "a line of a target that has not run"])
async def test_a_line_shows_the_graphs_of_the_file(editor: Editor, line: int) -> None:
    editor.state.accept_result(capture_result_of(Key(editor.path, "f"), 1, report(), ()))
    await editor.command(GRAPHS, line=line)
    assert carried(editor.page())["title"] == "f"
    assert (editor.messages, editor.asked) == ([], [])
    editor.state.accept_result(capture_result_of(Key(editor.path, "Net"), 1, report(), ()))
    await editor.command(GRAPHS, line=0)
    assert editor.asked == [("f", "Net")]
    assert carried(editor.page())["title"] == "Net", "the chosen one"


@pytest.mark.asyncio
async def test_graphs_have_their_own_style(editor: Editor) -> None:
    editor.state.accept_result(capture_result_of(Key(editor.path, "f"), 1, report(), ()))
    await editor.command(GRAPHS, target="f")
    page = editor.page()
    assert is_closed(page)
    assert carried(page)["title"] == "f"
    assert "<style>/* graphs.css */</style>" in page


@pytest.mark.asyncio
async def test_nothing_is_written_into_a_workspace_that_is_not_trusted(editor: Editor) -> None:
    with_kernels(editor, "triton_add")
    editor.state.trusted = False
    await editor.command(KERNEL, target="f")
    assert editor.messages == ["Fuselight writes no files into a workspace that is not trusted."]
    assert not (Path(editor.path).parent / ".fuselight").exists()


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("address", "external"), [("https://example.org/gb", True), ("file:///docs/FL101.md", None)]
)
async def test_a_page_of_the_documentation_opens_where_it_is_read(
    editor: Editor,
    address: str,
    external: bool | None,  # noqa: FBT001 - a row of the table
) -> None:
    await editor.command("fuselight.server.openPage", address=address)
    assert [(shown.uri, shown.external) for shown in editor.shown] == [(address, external)]


@pytest.mark.asyncio
@pytest.mark.parametrize("address", ["command:workbench.action.quit", "javascript:1", "", None, 7])
async def test_nothing_that_an_editor_would_run_is_opened(editor: Editor, address: object) -> None:
    await editor.command("fuselight.server.openPage", address=address)
    assert (editor.shown, editor.messages) == ([], [])


def test_a_report_as_a_page_has_each_node_and_no_markup_of_its_own() -> None:
    text = '<img src=x onerror="1">'
    shown = replace(report(), breaks=(broken(at(12), reason=text),))
    view = convert.Client("utf-8", lambda _path, _line: text, convert.uri)
    node = target_node(capture_result_of(Key(FILE, "Net"), 1, shown, findings(shown)), view)
    page = report_page("Net", [node])

    def labels(of: ReportNode) -> list[str]:
        return [of["label"], *(label for child in of["children"] for label in labels(child))]

    for label in labels(node):
        assert html.escape(label) in page
    assert text not in page
    assert is_closed(page)
    assert "model.py:12" in page
