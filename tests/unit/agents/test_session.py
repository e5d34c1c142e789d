"""What the tools share: arguments, paths, consent, long work; and `check` with a worker that answers at once."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fuselight.shared.report import Inputs, Rung, TargetRef
from fuselight_server.agents import stdio
from fuselight_server.agents.answers import ToolAnswer
from fuselight_server.agents.arguments import Argument, ArgumentError, read_arguments
from fuselight_server.agents.bounds import bounded_text, part_of
from fuselight_server.agents.catalog import TOOLS
from fuselight_server.agents.host import AgentHost
from fuselight_server.agents.instructions import INSTRUCTIONS
from fuselight_server.agents.permissions import FlagPermission
from fuselight_server.agents.session import AgentSession
from fuselight_server.agents.toolbox import AgentToolbox
from fuselight_server.agents.work_queue import WorkQueue
from fuselight_server.base.cancellation import CancelToken
from fuselight_server.base.command_error import CommandError
from fuselight_server.commands.verify import VerdictKind
from tests.support.agents import SCHEMAS, MemoryClient, stateless_meta, talk, toolbox_of
from tests.support.command import AnsweringWorker, run_cli
from tests.support.reports import at, broken, report

TEXT = """\
import torch

# fuselight: scale(f32[4])
@torch.compile
def scale(x):
    print(x)
    return x * 2


def helper(x):
    return torch.relu(x)
"""


class SilentCaller:
    """A caller that wants no progress and cannot be asked."""

    def show(self, text: str) -> None:
        """Want none."""

    async def ask(self, _question: str) -> bool | None:
        return None


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one target, whose `print` breaks the graph."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "model.py"
    path.write_text(TEXT)
    stack = (at(6, path=str(path), function="scale"),)
    AnsweringWorker(
        lambda request: report(
            target=TargetRef(request.target.path, request.target.name, 5, "function"),
            inputs=Inputs(Rung.DIRECTIVE, str(path), 3),
            breaks=(broken(*stack),),
        )
    ).put_in_place(monkeypatch)
    return tmp_path


# The list of tools


def test_each_tool_is_described_by_itself_and_in_the_instructions() -> None:
    for tool in TOOLS:
        data = tool.description_data()
        assert json.loads(json.dumps(data)) == data
        assert len(data["description"]) < 600
        assert set(data["inputSchema"]["required"]) <= set(data["inputSchema"]["properties"])
        assert f"`{tool.name}`" in INSTRUCTIONS or tool.name == "cancel"
        is_read_only = not (tool.declaration.runs_code or tool.declaration.writes)
        assert data["annotations"]["readOnlyHint"] is is_read_only


def test_a_default_is_one_that_a_client_may_send() -> None:
    for tool in TOOLS:
        for argument in tool.arguments:
            assert argument.default is None or argument.read(argument.default) == argument.default


def test_the_schemas_of_a_verdict_name_each_kind() -> None:
    answer = SCHEMAS["verify_patch"]["properties"]
    kinds = [kind.value for kind in VerdictKind]
    assert answer["targets"]["items"]["properties"]["verdict"]["enum"] == kinds
    assert answer["verdict"]["enum"] == [kind for kind in kinds if kind != VerdictKind.UNCONCERNED.value]


def test_the_skill_names_each_tool_and_no_other() -> None:
    text = (Path(__file__).parents[3] / "skills" / "fuselight" / "SKILL.md").read_text(encoding="utf-8")
    page = (Path(__file__).parents[3] / "docs" / "agents.md").read_text(encoding="utf-8")
    names = {tool.name for tool in TOOLS}
    assert names <= set(re.findall(r"`(\w+)`", text))
    assert set(re.findall(r"\| `(\w+)` \|$", text, re.MULTILINE)) == names - {"result", "cancel"}
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == names


def test_the_command_prints_the_text_for_the_model() -> None:
    result = run_cli("mcp", "--instructions")
    assert (result.exit_code, result.stdout, result.stderr) == (0, INSTRUCTIONS, "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--root", "absent"), "`absent` is no folder"),
        (("--allow-run", "absent.py"), "`absent.py` does not exist"),
    ],
)
@pytest.mark.usefixtures("project")
def test_the_command_refuses_paths_that_do_not_exist(arguments: tuple[str, ...], message: str) -> None:
    result = run_cli("mcp", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.parametrize("is_terminal", [True, False])
@pytest.mark.usefixtures("project")
def test_a_terminal_gets_a_line_that_says_what_the_command_waits_for(
    monkeypatch: pytest.MonkeyPatch,
    is_terminal: bool,  # noqa: FBT001 - a parameter
) -> None:
    monkeypatch.setattr(stdio, "serve", lambda _make_toolbox: 0)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: is_terminal))
    result = run_cli("mcp")
    assert (result.exit_code, result.stdout) == (0, "")
    assert ("waiting for an agent's client" in result.stderr) is is_terminal


# Arguments and bounds

ARGUMENTS = (
    Argument("paths", "strings", "Files", is_required=True),
    Argument("count", "integer", "Number", default=3, least=1, most=5),
    Argument("mode", "string", "Mode", choices=("fast", "exact")),
    Argument("all", "boolean", "All"),
)


def test_arguments_get_their_defaults() -> None:
    read = read_arguments(ARGUMENTS, {"paths": ["a.py"], "mode": "fast", "all": None})
    assert read == {"paths": ("a.py",), "count": 3, "mode": "fast", "all": None}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "`paths` is missing"),
        ({"paths": []}, "`paths` is an empty list"),
        ({"paths": "a.py"}, "`paths` is not a list of strings"),
        ({"paths": [1]}, "`paths` is not a list of strings"),
        ({"paths": ["a"] * 300}, "more than 256"),
        ({"paths": [], "count": 9}, "`count` is 9: it has to be at least 1 and at most 5"),
        ({"paths": [], "count": True}, "`count` is not a whole number"),
        ({"paths": [], "count": 1.5}, "`count` is not a whole number"),
        ({"paths": [], "mode": "slow"}, "none of `fast`, `exact`"),
        ({"paths": [], "al": True}, "no argument `al`; did you mean all? The arguments are"),
        ({"paths": [], "all": "yes"}, "`all` is not true or false"),
    ],
)
def test_arguments_that_do_not_fit_are_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError) as raised:
        read_arguments(ARGUMENTS, given)
    assert message in str(raised.value)


def test_a_lone_surrogate_is_refused_in_each_text() -> None:
    checked = 0
    for tool in TOOLS:
        for argument in tool.arguments:
            if argument.kind in {"string", "strings"}:
                checked += 1
                for text in ("\ud800", "a\udfffb"):
                    with pytest.raises(ArgumentError, match=f"`{argument.name}` has a lone surrogate"):
                        argument.read([text] if argument.kind == "strings" else text)
    assert checked > 20
    assert Argument("text", "string", "A text").read("\U0001f600") == "\U0001f600"


def test_a_list_that_is_cut_says_how_to_get_the_rest() -> None:
    assert part_of("abc", 0, 3).rest == ""
    assert part_of("abc", 0, 2).rest == "Items shown: 1 to 2 of 3. For more, call again with `offset` 2."
    assert part_of("abc", 2, 2).rest == "Items shown: 3 to 3 of 3."
    assert part_of("abc", 7, 2).rest == "Items shown: none of 3."
    assert bounded_text("ab\ncd\n", 5) == ("ab\n", "The first 3 of 6 characters are shown.")
    assert bounded_text("abcdef", 5)[0] == "abcde"
    assert bounded_text("abc", 5) == ("abc", "")


# Paths and consent


def test_paths_outside_of_the_folders_are_refused(
    project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret.py").write_text("x = 1\n")
    (project / "link.py").symlink_to(outside / "secret.py")
    (project / "inner.py").symlink_to(project / "model.py")

    async def script(client: MemoryClient) -> None:
        for path in (
            str(outside / "secret.py"),
            "../x.py",
            "link.py",
            f"{project}/../x.py",
            "/",
            f"{project}x",
        ):
            assert "is outside of the folders" in await client.refusal("targets", paths=[path])
        assert "no file or folder `absent.py`" in await client.refusal("targets", paths=["absent.py"])
        assert "is no path" in await client.refusal("targets", paths=["a\0b"])
        for path in ("model.py", str(project / "model.py"), "inner.py", ".", "sub/../model.py"):
            assert (await client.data("targets", paths=[path]))["targets"]

    talk(lambda: toolbox_of(project), script)


def test_code_runs_only_with_the_flag(project: Path) -> None:
    async def script(client: MemoryClient) -> None:
        text = await client.refusal("check", paths=["model.py"])
        assert "`fuselight mcp --allow-run`" in text
        listed = await client.data("targets", paths=["model.py"])
        assert [(target["name"], target["is_run"]) for target in listed["targets"]] == [
            ("scale", True),
            ("helper", False),
        ]

    talk(lambda: toolbox_of(project, allowed=False), script)


def test_code_outside_of_the_allowed_paths_does_not_run(project: Path) -> None:
    (project / "part").mkdir()
    (project / "part" / "own.py").write_text(TEXT)
    permission = FlagPermission([project / "part"], [project])

    async def script(client: MemoryClient) -> None:
        text = await client.refusal("check", paths=["part/own.py", "model.py"])
        assert "was started with `--allow-run` for" in text
        assert "part" in text
        await client.data("check", paths=["part"])

    talk(lambda: AgentToolbox(AgentSession(AgentHost(lambda: [project], permission))), script)


@pytest.mark.parametrize("allow", [True, False])
def test_a_client_with_forms_asks_the_user_once(project: Path, allow: bool) -> None:  # noqa: FBT001 - a parameter
    async def script(client: MemoryClient) -> None:
        call = {
            "name": "check",
            "arguments": {"paths": ["model.py"]},
            "_meta": stateless_meta(elicitation={"form": {}}),
        }
        asked = await client.request("tools/call", call)
        ((key, question),) = asked["inputRequests"].items()
        assert str(project) in question["params"]["message"]
        response = {"action": "accept", "content": {"allow": allow}}
        again = {**call, "requestState": asked["requestState"], "inputResponses": {key: response}}
        result = await client.request("tools/call", again)
        assert result["isError"] is not allow
        if allow:
            assert "structuredContent" in await client.request("tools/call", call), "it is not asked again"

    talk(lambda: toolbox_of(project, allowed=False), script)


# check


def test_check_lists_findings_with_what_they_rest_on(project: Path) -> None:
    async def script(client: MemoryClient) -> None:
        result = await client.call("check", paths=["model.py"], uses_earlier_checks=False)
        data = result["structuredContent"]
        (finding,) = data["findings"]
        assert (finding["path"], finding["line"], finding["code"]) == ("model.py", 6, "GB0170")
        assert (data["total"], data["warnings"], data["rest"], data["problems"]) == (1, 1, "", [])
        (target,) = data["targets"]
        assert target["name"] == "scale"
        text = result["content"][0]["text"]
        assert "model.py:6:5: warning GB0170" in text
        assert "Nothing was timed" in text

    talk(lambda: toolbox_of(project), script)


def test_a_check_of_nothing_says_so(project: Path) -> None:
    (project / "plain.py").write_text("x = 1\n")
    (project / "broken.py").write_text("def f(:\n")

    async def script(client: MemoryClient) -> None:
        (problem,) = (await client.data("check", paths=["plain.py"]))["problems"]
        assert "Nothing ran" in problem
        result = await client.call("check", paths=["plain.py"])
        assert result["content"][0]["text"].startswith("No findings in the source, and nothing ran.\n")
        (problem,) = (await client.data("check", paths=["broken.py"]))["problems"]
        assert "broken.py:1: syntax error" in problem
        assert (
            "No call was made, so nothing was compiled"
            in (await client.data("check", paths=["broken.py"]))["evidence"]
        )

    talk(lambda: toolbox_of(project), script)


def test_unsaved_texts_stand_for_files(project: Path) -> None:
    path = project / "model.py"
    texts = {str(path): TEXT.replace("scale", "grow"), str(project / "new.py"): TEXT}

    async def script(client: MemoryClient) -> None:
        listed = await client.data("targets", paths=["model.py", "new.py"])
        assert [target["name"] for target in listed["targets"] if target["is_run"]] == ["grow", "scale"]
        data = await client.data("check", paths=["model.py"])
        assert [target["name"] for target in data["targets"]] == ["grow"]

    talk(lambda: toolbox_of(project, texts=lambda: texts), script)


def test_a_missing_interpreter_is_an_answer(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.chdir(project)

    async def script(client: MemoryClient) -> None:
        assert "there is no such program" in await client.refusal("check", paths=["model.py"])

    talk(lambda: toolbox_of(project, python=lambda _path: "/no/such/python"), script)


# Long work


def in_queue(script: Callable[[WorkQueue], Any]) -> None:
    async def run() -> None:
        own = WorkQueue()
        try:
            await script(own)
        finally:
            await own.close()

    asyncio.run(run())


def test_long_work_is_polled_by_its_handle(monkeypatch: pytest.MonkeyPatch) -> None:
    gate, last_gate = asyncio.Event(), asyncio.Event()
    clock, ahead = time.monotonic, [0.0]
    monkeypatch.setattr("time.monotonic", lambda: clock() + ahead[0])

    async def last(_show: Callable[[str], None], _token: CancelToken) -> ToolAnswer:
        await last_gate.wait()
        return ToolAnswer("last")

    async def slow(show: Callable[[str], None], _token: CancelToken) -> ToolAnswer:
        show("compiling")
        await gate.wait()
        return ToolAnswer("the end", {"total": 3})

    async def fast(_show: Callable[[str], None], _token: CancelToken) -> ToolAnswer:
        return ToolAnswer("at once")

    async def script(own: WorkQueue) -> None:
        caller = SilentCaller()
        first = (await own.do("check", slow, 0.01, caller)).data
        assert (first["state"], first["handle"], first["progress"]) == ("running", "check-1", "compiling")
        second = (await own.do("tune", fast, 0.01, caller)).data
        assert (second["state"], second["progress"]) == (
            "queued",
            "waits for `check-1`: one call runs at a time",
        )
        await own.do("check", last, 0.01, caller)
        ahead[0] = 6000.0
        third = await own.result("check-3", 0.01, caller)
        assert third.data["seconds"] >= 6000.0
        assert f"has been queued for {third.data['seconds']:g} s" in third.text
        assert (await own.result("check-1", 0.01, caller)).data["state"] == "running"
        gate.set()
        answer = await own.result("check-1", 30.0, caller)
        assert (answer.text, answer.data) == ("the end", {"state": "done", "total": 3})
        assert (await own.result("tune-2", 30.0, caller)).text == "at once"
        running = (await own.result("check-3", 0.01, caller)).data
        assert running["state"] == "running"
        assert running["seconds"] < 6000.0, "the time in the queue does not count"
        last_gate.set()
        with pytest.raises(ArgumentError, match="no work `check-9`"):
            await own.result("check-9", 0.0, caller)

    in_queue(script)


def test_work_that_fails_gives_its_error_each_time() -> None:
    async def fail(_show: Callable[[str], None], _token: CancelToken) -> ToolAnswer:
        await asyncio.sleep(0)
        raise CommandError("no torch")

    async def script(own: WorkQueue) -> None:
        for _ in range(2):
            with pytest.raises(CommandError, match="no torch"):
                await own.do("check", fail, 10.0, SilentCaller())

    in_queue(script)


def test_canceled_work_ends_and_the_next_runs() -> None:
    ended: list[str] = []

    async def endless(_show: Callable[[str], None], token: CancelToken) -> ToolAnswer:
        try:
            await token.run(asyncio.Event().wait())
        finally:
            ended.append("ended")
        return ToolAnswer("never")

    async def search(_show: Callable[[str], None], token: CancelToken) -> ToolAnswer:
        try:
            await token.run(asyncio.Event().wait())
        except asyncio.CancelledError:
            return ToolAnswer("the best so far")
        return ToolAnswer("never")

    async def script(own: WorkQueue) -> None:
        caller = SilentCaller()
        for work in (endless, search, endless):
            await own.do("tune", work, 0.01, caller)
        own.cancel("tune-3")
        assert (await own.result("tune-3", 10.0, caller)).data["state"] == "canceled"
        own.cancel("tune-1")
        assert (await own.result("tune-1", 10.0, caller)).data["state"] == "canceled"
        assert (await own.result("tune-2", 0.01, caller)).data["state"] == "running"
        own.cancel("tune-2")
        assert (await own.result("tune-2", 10.0, caller)).text == "the best so far"
        assert ended == ["ended"], "what was queued has not run"

    in_queue(script)


def test_a_call_that_is_canceled_cancels_its_work_but_a_poll_does_not() -> None:
    tokens: list[CancelToken] = []
    started = asyncio.Event()

    async def endless(_show: Callable[[str], None], token: CancelToken) -> ToolAnswer:
        tokens.append(token)
        started.set()
        await token.run(asyncio.Event().wait())
        return ToolAnswer("never")

    async def script(own: WorkQueue) -> None:
        caller = SilentCaller()
        await own.do("check", endless, 0.01, caller)
        poll = asyncio.ensure_future(own.result("check-1", 60.0, caller))
        await asyncio.sleep(0)
        poll.cancel()
        await asyncio.gather(poll, return_exceptions=True)
        assert not tokens[0].is_canceled
        own.cancel("check-1")
        started.clear()
        call = asyncio.ensure_future(own.do("check", endless, 60.0, caller))
        await started.wait()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        assert tokens[1].is_canceled

    in_queue(script)


def test_works_are_bounded() -> None:
    async def endless(_show: Callable[[str], None], token: CancelToken) -> ToolAnswer:
        await token.run(asyncio.Event().wait())
        return ToolAnswer("never")

    async def fast(_show: Callable[[str], None], _token: CancelToken) -> ToolAnswer:
        return ToolAnswer("at once")

    async def script(own: WorkQueue) -> None:
        caller = SilentCaller()
        for _ in range(40):
            await own.do("check", fast, 10.0, caller)
        with pytest.raises(ArgumentError):
            await own.result("check-1", 0.0, caller)
        await own.result("check-40", 0.0, caller)
        for _ in range(9):
            await own.do("tune", endless, 0.0, caller)
        with pytest.raises(ArgumentError, match="queued already"):
            await own.do("tune", endless, 0.0, caller)

    in_queue(script)


@pytest.mark.slow
def test_the_server_starts_without_what_only_fixes_need() -> None:
    """A client waits for the start of the server each time that it opens a project."""
    modules = (
        "import sys, fuselight_server.agents.toolbox; print('libcst' in sys.modules, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", modules], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"
