"""*Write a repro* in the editor: what runs, what is opened, what is said instead, and how a search ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lsprotocol import types

from fuselight_server.base.cancellation import CancelToken
from fuselight_server.base.settings import Settings
from fuselight_server.commands.options import CommandOptions
from fuselight_server.editor.handlers import repro as handler
from fuselight_server.editor.presenters import convert
from fuselight_server.editor.session import repros
from fuselight_server.editor.session.repros import ReproResult, ReproSession, SmallProgramText
from fuselight_server.execution.interpreters import NoInterpreterError
from fuselight_server.execution.runs.keys import Key
from tests.unit.editor.test_views import Editor

NET, OTHER = Key("/w/m.py", "Net"), Key("/w/m.py", "Other")
Reproduce = Callable[..., Any]
SETTINGS = Settings()


def outcome(*faults: Any, problems: tuple[Any, ...] = (), failures: tuple[Any, ...] = ()) -> Any:
    reports = [SimpleNamespace(failures=failures)]
    return SimpleNamespace(
        faults=list(faults), check=SimpleNamespace(reports=reports, problems=list(problems))
    )


def fault(script: str = "", why_not: str = "") -> Any:
    confirmed = SimpleNamespace(script=script) if script else None
    return SimpleNamespace(name="Net", confirmed=confirmed, why_not=why_not, issue="# issue")


@pytest.fixture
def session() -> ReproSession:
    return ReproSession(lambda: {"/w/m.py": "unsaved"}, lambda _line: None)


def use(monkeypatch: pytest.MonkeyPatch, reproduce: Reproduce) -> None:
    monkeypatch.setattr(repros, "reproduce", reproduce)


@pytest.mark.asyncio
async def test_a_search_uses_unsaved_texts_and_says_what_it_does(
    session: ReproSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[CommandOptions] = []
    words: list[list[str]] = []
    session.on_change = lambda: words.append([search.words for search in session.active.values()])

    async def reproduce(options: CommandOptions, show: Any, _token: CancelToken, **_plan: Any) -> Any:
        asked.append(options)
        show("1/1 /w/m.py: Net: program 1")
        show("reducing Net")
        return outcome(fault("import torch"), fault(why_not="the fault is in tracing"))

    use(monkeypatch, reproduce)
    result = await session.search(NET, "Net", "/venv/python", SETTINGS)
    assert result.programs == (SmallProgramText("Net", "import torch", "# issue"),)
    assert result.messages == ("No repro of Net: the fault is in tracing.",)
    (options,) = asked
    assert (options.paths, options.targets, options.python) == ((Path("/w/m.py"),), ("Net",), "/venv/python")
    assert options.texts == {"/w/m.py": "unsaved"}
    assert words == [["starting"], ["Net: program 1"], ["reducing Net"], []]


@pytest.mark.asyncio
async def test_two_targets_are_searched_and_one_target_once(
    session: ReproSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_end = asyncio.Event()

    async def reproduce(*_given: Any, **_plan: Any) -> Any:
        await may_end.wait()
        return outcome()

    use(monkeypatch, reproduce)
    first, other = (
        asyncio.create_task(session.search(key, key.name, "python", SETTINGS)) for key in (NET, OTHER)
    )
    await asyncio.sleep(0)
    again = await session.search(NET, "Net", "python", SETTINGS)
    assert again.messages == ("A repro of Net is being written already.",)
    assert set(session.active) == {NET, OTHER}
    may_end.set()
    assert (await first).messages == ("No fault of the compiler was seen in Net.",)
    assert (await other).messages == ("No fault of the compiler was seen in Other.",)


@pytest.mark.asyncio
@pytest.mark.parametrize("end", ["cancel", "end"])
async def test_a_cancel_ends_a_search(
    session: ReproSession, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    async def reproduce(_options: Any, _show: Any, token: CancelToken, **_plan: Any) -> Any:
        return await token.run(asyncio.sleep(60))

    use(monkeypatch, reproduce)
    search = asyncio.create_task(session.search(NET, "Net", "python", SETTINGS))
    await asyncio.sleep(0)
    session.cancel(OTHER)
    session.end() if end == "end" else session.cancel(NET)
    assert await search == ReproResult()
    assert not session.active


@pytest.mark.asyncio
async def test_what_keeps_a_search_from_an_answer_is_said(
    session: ReproSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_python(*_given: Any, **_plan: Any) -> Any:
        raise NoInterpreterError("python has no torch")

    use(monkeypatch, no_python)
    assert (await session.search(NET, "Net", "python", SETTINGS)).messages == ("python has no torch",)

    async def failed(*_given: Any, **_plan: Any) -> Any:
        return outcome(failures=(SimpleNamespace(message="NameError: x"),))

    use(monkeypatch, failed)
    assert (await session.search(NET, "Net", "python", SETTINGS)).messages == (
        "No repro of Net: NameError: x",
    )
    assert not session.active


@pytest.fixture
def editor(tmp_path: Path) -> Any:
    """A client whose user has agreed to runs."""
    client: Any = Editor(tmp_path)
    client.searched = []
    client.analysis = SimpleNamespace(
        workers=SimpleNamespace(interpreter=lambda _folder: SimpleNamespace(executable="/venv/python")),
        verification_runs=SimpleNamespace(agrees=lambda _key, _go_on: True),
    )

    async def search(key: Key, target: str | None, python: str, settings: Settings) -> ReproResult:
        client.searched.append((key.name, target, python))
        client.run_settings = settings
        return ReproResult((SmallProgramText("Net", "import torch", "# issue"),), ("and a message",))

    client.repros = SimpleNamespace(search=search)
    return client


@pytest.mark.asyncio
async def test_the_program_is_opened_in_front_of_its_issue(editor: Any) -> None:
    folder = editor.state.folder_of(str(editor.path))
    folder.settings = Settings(environment={"A": "1"})
    await handler.write_repro(editor, {"uri": editor.uri, "target": "Net"})
    assert editor.run_settings is folder.settings
    paths = [Path(convert.path(params.uri) or "") for params in editor.shown]
    assert [path.suffix for path in paths] == [".md", ".py"]
    assert [path.read_text() for path in paths] == ["# issue", "import torch"]
    assert not any(params.external for params in editor.shown)
    assert editor.messages == ["and a message"]
    await handler.write_repro(editor, {"uri": editor.uri, "target": "__main__"})
    await handler.write_repro(editor, {"uri": editor.uri})
    python = "/venv/python"
    assert editor.searched == [("Net", "Net", python), ("", "__main__", python), ("", None, python)]


@pytest.mark.asyncio
async def test_nothing_runs_without_a_file_an_interpreter_or_an_answer(editor: Any) -> None:
    await handler.write_repro(editor, {"target": 3})
    editor.analysis.verification_runs.agrees = lambda _key, _go_on: False
    await handler.write_repro(editor, {"uri": editor.uri, "target": "Net"})
    editor.analysis.workers.interpreter = lambda _folder: None
    await handler.write_repro(editor, {"uri": editor.uri, "target": "Net"})
    assert not editor.searched
    assert [text.partition(":")[0] for text in editor.messages] == [
        "Fuselight runs files only",
        "No Python interpreter was found",
    ]


@pytest.mark.parametrize(
    ("code", "count"), [("FL801", 1), ("FL402", 1), ("FL405", 1), ("FL401", 0), ("FL803", 0)]
)
def test_the_quick_fix_is_of_faults_that_may_be_the_compilers(code: str, count: int) -> None:
    server: Any = SimpleNamespace(uri_of=convert.uri)
    finding: Any = SimpleNamespace(code=code, target_path="/w/m.py", span=None, target="")
    shown = types.Diagnostic(types.Range(types.Position(0, 0), types.Position(0, 1)), "wrong")
    actions = list(handler.repro_actions(server, finding, shown))
    assert [action.command.arguments for action in actions if action.command] == [
        [{"uri": "file:///w/m.py", "target": "__main__"}]
    ] * count
