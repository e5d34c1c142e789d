"""Files that change outside the editor's buffers: renamed, deleted, and the results of `fuselight run`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from markdown_it import MarkdownIt

from fuselight.shared.report import Tier
from fuselight_server.base.finding import Finding, Severity, Span
from fuselight_server.base.store import Store
from fuselight_server.commands.compile_tests import failed_test, keep_failed
from fuselight_server.editor.results.lens_facts import shorten
from tests.server.programs import SOURCE, breaks, codes, write
from tests.support.lsp_client import DEADLINE, ROOT
from tests.support.prepared import program_interpreter
from tests.support.reports import at, broken, report

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.server.conftest import Start
    from tests.support.lsp_client import Client

pytestmark = pytest.mark.torch

PROGRAM = """\
import torch


@torch.compile
def f(x):
    print(x.sum())
    return x * 2


if __name__ == "__main__":
    f(torch.ones(4, 8))
"""
PRINT = 5

IMPORTED = """\
import torch
from part import double


# fuselight: f(f32[4, 8])
@torch.compile
def f(x):
    return double(x)
"""
PART = """\
def double(x):
    print(x)
    return x * 2
"""


def run_program(script: Path) -> None:
    """`fuselight run SCRIPT`, as a user in a terminal."""
    environment = {
        **os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "compiler"), str(ROOT / "server"))),
    }  # fmt: skip
    command = [
        sys.executable,
        "-m",
        "fuselight_server",
        "run",
        "--python",
        program_interpreter(),
        str(script),
    ]
    done = subprocess.run(
        command, cwd=script.parent, env=environment, capture_output=True, timeout=2 * DEADLINE, check=False
    )
    assert done.returncode == 0, done.stderr.decode()


@dataclass(frozen=True)
class TerminalRun:
    """A project whose program a user ran in a terminal, and what that left."""

    project: Path
    path: Path
    store: Path
    kept: bytes
    mode: int

    def bring(self, client: Client | None = None) -> None:
        """Write what the run left, as it did, and report that to a client."""
        self.store.parent.mkdir(exist_ok=True)
        self.store.write_bytes(self.kept)
        if client is not None:
            tell(client, self.store, 1)


@pytest.fixture(scope="module")
def ended_run(tmp_path_factory: pytest.TempPathFactory) -> TerminalRun:
    """Of `PROGRAM`: it takes seconds of a processor, and what it leaves is the same each time."""
    project = tmp_path_factory.mktemp("ended") / "project"
    project.mkdir()
    (project / "pyproject.toml").touch()
    path = write(project, PROGRAM)
    run_program(path)
    store = project / ".fuselight" / "last-run.json"
    return TerminalRun(project, path, store, store.read_bytes(), store.stat().st_mode & 0o777)


@pytest.fixture
def terminal_run(ended_run: TerminalRun) -> TerminalRun:
    """The project as it was before the run: `bring` makes it that after the run."""
    ended_run.path.write_text(PROGRAM, encoding="utf-8")
    shutil.rmtree(ended_run.store.parent, ignore_errors=True)
    return ended_run


def tell(client: Client, path: Path, kind: int) -> None:
    client.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": path.as_uri(), "type": kind}]})
    client.request("fuselight/reportTree", {"uri": None})


def wait_for(client: Client, uri: str, code: str, since: int) -> None:
    client.notified(
        "textDocument/publishDiagnostics",
        lambda params: (
            params["uri"] == uri and code in [diagnostic["code"] for diagnostic in params["diagnostics"]]
        ),
        since=since,
    )


def test_findings_of_a_terminal_run_appear_in_the_editor(connect: Start, terminal_run: TerminalRun) -> None:
    assert terminal_run.mode == 0o600
    store = terminal_run.store
    client = connect()
    client.start(terminal_run.project.parent)
    uri = client.open(terminal_run.path)
    client.idle(0)
    mark = client.mark()
    terminal_run.bring(client)
    client.notified("fuselight/reportChanged", since=mark)
    client.until(lambda: breaks(client, uri) != [], "the findings of the run")
    (graph_break,) = breaks(client, uri)
    assert graph_break["range"]["start"]["line"] == PRINT
    (node,) = client.request("fuselight/reportTree", {"uri": uri})["nodes"]
    assert node["label"] == "fuselight run"
    # Without the block that made its inputs, the target still has those that were recorded.
    client.edit(uri, (8, 0), (11, 0), "")
    client.save(uri)
    client.idle(1)
    assert client.lenses(uri)[1] == "recompiles if the batch changes"
    nodes = client.request("fuselight/reportTree", {"uri": uri})["nodes"]
    assert "inputs recorded by fuselight run" in str(nodes), nodes

    client.command("fuselight.server.clearCaches")
    assert not store.exists()
    assert codes(client, uri) == ["FL502"]
    assert client.request("fuselight/reportTree", {"uri": None})["nodes"] == []


def test_the_last_run_is_loaded_at_the_start_unless_damaged(
    connect: Start, terminal_run: TerminalRun
) -> None:
    terminal_run.bring()
    path, store = terminal_run.path, terminal_run.store
    client = connect()
    client.start(terminal_run.project)
    client.notified("fuselight/reportChanged")
    assert len(breaks(client, path.as_uri())) == 1, "the file need not be open"
    store.write_bytes(store.read_bytes()[:1000])
    mark = client.mark()
    tell(client, store, 2)
    client.notified(
        "textDocument/publishDiagnostics",
        lambda params: params["uri"] == path.as_uri() and params["diagnostics"] == [],
        since=mark,
    )


def test_a_renamed_file_keeps_its_findings(client: Client, folder: Path) -> None:
    old = write(folder)
    uri = client.open(old)
    client.save(uri)
    client.idle(1)
    assert breaks(client, uri)
    new = folder / "renamed.py"
    old.rename(new)
    client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
    new_uri = client.open(new)
    client.notify("workspace/didRenameFiles", {"files": [{"oldUri": uri, "newUri": new_uri}]})
    client.idle(2)
    assert codes(client, uri) == []
    assert len(breaks(client, new_uri)) == 1


def test_a_renamed_folder_keeps_the_findings_of_its_files(client: Client, folder: Path) -> None:
    filters = client.capabilities["workspace"]["fileOperations"]["didRename"]["filters"]
    assert {value["pattern"]["matches"] for value in filters} == {"file", "folder"}
    old, new = folder / "old", folder / "new"
    old.mkdir()
    uri = client.open(write(old))
    client.save(uri)
    client.idle(1)
    assert breaks(client, uri)
    old.rename(new)
    client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
    new_uri = client.open(new / "model.py")
    files = [{"oldUri": old.as_uri(), "newUri": new.as_uri()}]
    client.notify("workspace/didRenameFiles", {"files": files})
    client.idle(2)
    assert codes(client, uri) == []
    assert len(breaks(client, new_uri)) == 1


WITHOUT_PRINT = PART.replace("    print(x)\n", "")
CHECKED_OUT = "edit: not predicted, part.py has changed on disk since the last run"


def test_a_checkout_of_an_imported_file_marks_its_results_says_why_and_runs_them(
    client: Client, folder: Path, configure: Callable[..., None]
) -> None:
    part = write(folder, PART, "part.py")
    uri = client.open(write(folder, IMPORTED))
    client.save(uri)
    client.idle(1)
    assert len(breaks(client, part.as_uri())) == 1
    configure(run="manual")
    for kind in (2, 3):  # some editors report a file that was replaced as deleted
        part.write_text(WITHOUT_PRINT)
        tell(client, part, kind)
        lenses = client.lenses(uri)
        assert any(lens.endswith("(before your edit)") for lens in lenses), lenses
        assert shorten(CHECKED_OUT) in lenses
        part.write_text(PART)
        tell(client, part, 2)
        lenses = client.lenses(uri)
        assert not any("edit" in lens for lens in lenses), "the text that ran is back"
        assert len(breaks(client, part.as_uri())) == 1
    configure(run="save")
    part.write_text(WITHOUT_PRINT)
    tell(client, part, 2)
    client.idle(2)
    assert breaks(client, part.as_uri()) == []
    assert "1 graph, no breaks" in client.lenses(uri)


@pytest.mark.parametrize("is_reported_first", [True, False])
def test_a_checkout_of_an_open_file_counts_as_a_save_once_the_buffer_follows(
    client: Client, folder: Path, configure: Callable[..., None], *, is_reported_first: bool
) -> None:
    part = write(folder, PART, "part.py")
    uri = client.open(write(folder, IMPORTED))
    opened = client.open(part)
    client.save(uri)
    client.idle(1)
    client.save(opened)  # as it is: the target runs again
    client.idle(2)
    tell(client, part, 2)  # the editor's own save
    part.write_text(WITHOUT_PRINT)

    if is_reported_first:
        tell(client, part, 2)
    client.edit(opened, (1, 0), (2, 0), "")
    if not is_reported_first:
        tell(client, part, 2)
    client.idle(3)
    assert breaks(client, opened) == []
    assert "1 graph, no breaks" in client.lenses(uri)

    configure(run="manual")
    part.write_text(PART)
    client.edit(opened, (1, 0), (1, 0), "    print(x)\n", version=3)
    tell(client, part, 2)
    client.until(
        lambda: len(breaks(client, opened)) == 1, "the break that rules predict from the text that ran"
    )


def test_deleting_a_module_removes_its_findings(client: Client, folder: Path) -> None:
    part = write(folder, PART, "part.py")
    uri = client.open(write(folder, IMPORTED))
    client.save(uri)
    client.idle(1)
    assert len(breaks(client, part.as_uri())) == 1, "a break shows in the module where it is"
    part.unlink()
    client.notify("workspace/didDeleteFiles", {"files": [{"uri": part.as_uri()}]})
    client.request("fuselight/reportTree", {"uri": None})
    assert codes(client, part.as_uri()) == []
    assert any(text.endswith("(before your edit)") for text in client.lenses(uri))


def test_two_windows_on_one_folder(connect: Start, tmp_path: Path) -> None:
    path = write(tmp_path)
    clients = [connect(), connect()]
    for client in clients:
        client.start(tmp_path)
        client.save(client.open(path))
    for client in clients:
        client.idle(1)
        assert len(breaks(client, path.as_uri())) == 1
    clients[0].command("fuselight.server.clearCaches")
    assert codes(clients[0], path.as_uri()) == []
    assert len(breaks(clients[1], path.as_uri())) == 1
    clients[1].save(path.as_uri())
    clients[1].idle(2)
    assert len(breaks(clients[1], path.as_uri())) == 1
    assert path.read_text(encoding="utf-8") == SOURCE


LURE = "[press here](command:workbench.action.terminal.new) ![](https://example.org/x.png) <b>x</b> `` ` [y](command:z)"


def test_a_report_that_came_with_a_folder_waits_for_trust_and_is_shown_as_text(
    connect: Start, tmp_path: Path
) -> None:
    path = write(tmp_path, PROGRAM)
    place = at(PRINT + 1, (4, 18), path=str(path))
    Store.at(tmp_path).write_report(
        report(breaks=(broken(place, reason=LURE, explanation=LURE),), roots=(str(tmp_path),))
    )
    client = connect()
    client.start(tmp_path, options={"trusted": False})
    uri = client.open(path)
    claim = Finding("FL101", Severity.WARNING, LURE, LURE, Span(str(path), 1), Tier.CAPTURE, "f", "", "")
    keep_failed(Store.at(tmp_path), set(), [failed_test("test_it", [claim])])
    tell(client, tmp_path / ".fuselight" / "last-run.json", 2)
    tell(client, tmp_path / ".fuselight" / "tests.json", 2)
    assert client.request("fuselight/reportTree", {"uri": None})["nodes"] == []
    assert codes(client, uri) in ([], ["FL502"])

    mark = client.mark()
    client.notify("fuselight/trust", {"trusted": True})
    client.notified("fuselight/reportChanged", since=mark)

    def has_failed_test() -> bool:
        client.request("fuselight/reportTree", {"uri": None})  # a round trip
        return "FL101" in codes(client, uri)

    client.until(has_failed_test, "the failed test")
    assert len(breaks(client, uri)) == 1
    where = {"textDocument": {"uri": uri}, "position": {"line": PRINT, "character": 6}}
    shown = client.request("textDocument/hover", where)["contents"]["value"]
    assert "press here" in shown
    page = MarkdownIt().render(shown)  # what a client shows
    for active in ("<a", "<img", "<b>"):
        assert active not in page, page


def test_findings_of_a_discarded_buffer_return_to_the_lines_of_the_file(client: Client, folder: Path) -> None:
    uri = client.open(write(folder))
    client.save(uri)
    client.idle(1)
    (before,) = breaks(client, uri)
    client.edit(uri, (0, 0), (0, 0), "# one\n# two\n", version=2)
    client.lenses(uri)
    assert breaks(client, uri)[0]["range"]["start"]["line"] == before["range"]["start"]["line"] + 2
    client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
    client.request("fuselight/reportTree", {"uri": None})
    assert [graph_break["range"] for graph_break in breaks(client, uri)] == [before["range"]]


def test_a_problem_report_omits_the_programs_output(client: Client, folder: Path) -> None:
    uri = client.open(write(folder, "import os\nos.write(2, b'password 1234\\n')\n" + SOURCE))
    client.save(uri)
    client.idle(1)
    report = client.command("fuselight.server.problemReport")
    assert "## Log" in report
    assert "password" not in report
