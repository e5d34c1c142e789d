"""A workspace with a session and a worker that understands the programs of these tests: no torch, no processes.

A program has functions that call functions of the file or of sibling modules. Each `print` in a function that runs is
a graph break, each `len` fixes a size, and each function that runs is a frame.
"""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fuselight.shared.protocol import Answer, RunRequest
from fuselight.shared.report import (
    Break,
    Compile,
    Culprit,
    Failure,
    Frame,
    Inputs,
    Location,
    Report,
    Rung,
    TargetRef,
    Tier,
    data_key,
)
from fuselight_server.base.settings import Interpreter, Settings
from fuselight_server.editor.results.shown_findings import findings_of
from fuselight_server.editor.results.snapshot import Document
from fuselight_server.editor.session.analysis import Analysis
from fuselight_server.editor.session.state import Folder, State
from fuselight_server.editor.session.ui import Question
from fuselight_server.execution.runs.keys import Key
from fuselight_server.source.document import SourceDocument
from tests.support.recorded_ui import RecordedUi
from tests.support.reports import VERSIONS, broken, with_a_fixed_size

Seen = tuple[str, int, str, bool]
"""Code, line, title, and whether it is marked as stale."""


class ProgramError(Exception):
    """The program failed at a location."""

    def __init__(self, kind: str, message: str, place: Location) -> None:
        super().__init__(message)
        self.kind, self.place = kind, place


class Program:
    """One run of a program, interpreted from its text."""

    def __init__(self, request: RunRequest) -> None:
        self.request = request
        self.files: dict[str, str] = {}
        self.trees: dict[str, ast.Module] = {}
        self.frames: dict[tuple[str, str], Frame] = {}
        self.breaks: list[Break] = []
        self.compiles: list[Compile] = []

    def load(self, path: str, importer: Location) -> ast.Module:
        if path in self.trees:
            return self.trees[path]
        text = self.request.overlays.get(path)
        try:
            data = Path(path).read_bytes() if text is None else text.encode()
        except OSError:
            raise ProgramError(
                "ModuleNotFoundError", f"No module named {Path(path).stem}", importer
            ) from None
        self.files[path] = data_key(data)
        try:
            tree = self.trees[path] = ast.parse(data)
        except SyntaxError as error:
            raise ProgramError("SyntaxError", "invalid syntax", Location(path, error.lineno or 1)) from None
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and node.module:
                sibling = str(Path(path).with_name(f"{node.module}.py"))
                self.load(sibling, Location(path, node.lineno))
        return tree

    def call(self, path: str, name: str, caller: Location) -> None:
        tree = self.load(path, caller)
        functions = [
            statement
            for statement in tree.body
            if isinstance(statement, ast.FunctionDef) and statement.name == name
        ]
        if not functions:
            for node in tree.body:
                if isinstance(node, ast.ImportFrom) and any(alias.name == name for alias in node.names):
                    self.call(
                        str(Path(path).with_name(f"{node.module}.py")), name, Location(path, node.lineno)
                    )
                    return
            raise ProgramError("NameError", f"name '{name}' is not defined", caller)
        if (path, name) not in self.frames:
            self.frames[path, name] = Frame(name, Location(path, functions[-1].lineno, function=name))
            self.run(path, functions[-1].body)

    def run(self, path: str, body: list[ast.stmt]) -> None:
        for node in (node for statement in body for node in ast.walk(statement)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                place = Location(path, node.lineno, node.col_offset, node.lineno, node.end_col_offset)
                if node.func.id == "print":
                    self.breaks.append(broken(place))
                elif node.func.id == "len":
                    self.compiles.append(with_a_fixed_size(place))
                else:
                    self.call(path, node.func.id, place)

    def report(self) -> Report:
        target = self.request.target
        failures: tuple[Failure, ...] = ()
        start = Location(target.path, max(target.line, 1))
        try:
            tree = self.load(target.path, start)
            main = [statement for statement in tree.body if isinstance(statement, ast.If)]
            if target.name:
                self.call(target.path, target.name, start)
            elif main:
                self.run(target.path, main[0].body)
        except ProgramError as error:
            failures = (
                Failure(
                    Culprit.USER,
                    "exception",
                    str(error),
                    "Fix it.",
                    exception=error.kind,
                    stack=(error.place,),
                ),
            )
        return Report(
            versions=VERSIONS,
            target=TargetRef(target.path, target.name, target.line, target.kind),
            tier=Tier.CAPTURE,
            generation=self.request.generation,
            inputs=Inputs(rung=Rung.DIRECTIVE, path=target.path, line=None, calls=()),
            frames=() if failures else tuple(self.frames.values()),
            breaks=() if failures else tuple(self.breaks),
            compiles=() if failures else tuple(self.compiles),
            failures=failures,
            roots=self.request.roots,
            files=self.files,
        )


class SimulatedWorker:
    """Answers a request by interpreting the program."""

    hello: Any = None

    def __init__(self) -> None:
        self.ran: list[str] = []

    async def run(
        self, request: RunRequest, _progress: Callable[..., None], _partial: Callable[..., None]
    ) -> Answer:
        await asyncio.sleep(0)
        self.ran.append(f"{Path(request.target.path).name}:{request.target.name}")
        return Answer(request.id, Program(request).report())

    async def close(self) -> None: ...


class AgreeingUi(RecordedUi):
    """A user who agrees to every run."""

    def say(self, text: str, *, error: bool) -> None: ...

    async def confirm(self, _question: Question) -> str:
        return "run"


class Workspace:
    """A folder with its files, a session, and the operations of an editor."""

    def __init__(self, folder: Path, settings: Settings | None = None) -> None:
        self.folder = folder
        self.state, self.ui, self.worker = State(), AgreeingUi(), SimulatedWorker()
        self.state.folders[str(folder)] = Folder(
            str(folder), folder.as_uri(), settings or Settings(), consent="run"
        )
        self.analysis = Analysis(
            self.state,
            self.ui,
            make_worker=lambda _worker_key, _settings, _log: self.worker,
            # With arguments, its files say nothing about what it starts.
            find_interpreter=lambda _folder: Interpreter("/python", ("-X", "utf8")),
        )
        self.analysis.early.end()

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def text(self, name: str) -> str | None:
        """The text of a file in the editor, otherwise on disk."""
        document = self.state.documents.at(self.path(name))
        if document is not None:
            return document.source.text
        path = Path(self.path(name))
        return path.read_text() if path.exists() else None

    def write(self, name: str, text: str) -> None:
        """Write a file outside the editor. An open document keeps its text."""
        Path(self.path(name)).write_text(text)
        self.analysis.documents.changed_on_disk(self.path(name))

    def open(self, name: str) -> None:
        path = Path(self.path(name))
        source = SourceDocument(str(path), path.read_text())
        self.state.open(Document(path.as_uri(), str(path), 1, source, runnable=True))

    def close(self, name: str) -> None:
        """Close a file without a save: the text on disk applies again."""
        document = self.state.documents.at(self.path(name))
        assert document is not None
        self.analysis.documents.closed(document)

    def edit(self, name: str, text: str) -> None:
        """Change the text of an open file to `text`, in edits of the changed parts."""
        document = self.state.documents.at(self.path(name))
        assert document is not None
        for change in document.source.become(text):
            self.analysis.edits.edited(document.path, change)
        self.state.compare_with_text(document.path, document.source)

    def save(self, name: str, *, automatic: bool = False) -> None:
        document = self.state.documents.at(self.path(name))
        assert document is not None
        Path(document.path).write_text(document.source.text)
        self.analysis.saves.saved(document.path, automatic=automatic)

    def delete(self, name: str) -> None:
        document = self.state.documents.at(self.path(name))
        if document is not None:
            self.state.close(document.uri)
        Path(self.path(name)).unlink()
        self.analysis.documents.remove_path(self.path(name))

    def rename(self, name: str, to: str) -> None:
        """Rename a file as VS Code does: an open file is closed under its old name and opened under the new one."""
        old, new = Path(self.path(name)), Path(self.path(to))
        document = self.state.documents.at(str(old))
        text = None if document is None else document.source.text
        old.rename(new)
        if document is not None:
            self.state.close(document.uri)
            source = SourceDocument(str(new), text or "")
            self.state.open(Document(new.as_uri(), str(new), 1, source, runnable=True))
        self.analysis.documents.remove_path(str(old))
        if document is not None:
            self.analysis.saves.saved(str(new), automatic=True)
        else:
            self.analysis.documents.changed_on_disk(str(new))

    def run(self, name: str, target: str) -> None:
        self.analysis.requests.command(self.path(name), target)

    async def settle(self) -> None:
        while (  # noqa: ASYNC110 - what is waited for has no event of its own
            self.analysis.runs.settled < self.analysis.runs.generation
            or not self.analysis.tasks.is_idle
            or self.analysis.consent.asked
        ):
            await asyncio.sleep(0)

    def problems(self, name: str) -> list[Seen]:
        """The entries of a file in the Problems view."""
        return sorted(
            (finding.code, finding.span.line, finding.title, edited)
            for finding, edited in findings_of(self.state.view(), self.path(name))
        )

    def targets(self) -> list[Key]:
        """The targets with results."""
        return sorted(self.state.captures, key=lambda key: (key.path, key.name))
