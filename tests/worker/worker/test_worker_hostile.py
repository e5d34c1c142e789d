"""Code that replaces Python's builtins is named as the culprit, once, and the next run works."""

# ruff: noqa: E501 - programs on one line

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from fuselight.shared import wire
from fuselight.shared.codec import encode
from fuselight.shared.report import Culprit, Failure
from fuselight_server.base.settings import Interpreter
from tests.support.live_worker import GOOD, LiveWorker, body, wait_gone
from tests.support.prepared import prepared_interpreter

hostile = pytest.mark.usefixtures("the_next_run_works")


REPLACED = "the code replaced {}, which torch.compile and Fuselight need: "
RESTORE = "restore what the code replaces before the compiled call, or do not replace it"
MINE = "ValueError: mine"


def the_users(failure: Failure) -> tuple[str, list[int]]:
    """Return the text of a failure that is the user's, and the lines of the user's file that it names."""
    assert (failure.culprit, failure.kind) == (Culprit.USER, "exception"), failure
    assert Path(failure.stack[-1].path).name == "model.py"
    return failure.message, [place.line for place in failure.stack if place.path.endswith("/model.py")]


@hostile
@pytest.mark.parametrize(
    ("patch", "names", "line"),
    [
        ("builtins.len = None", "`builtins.len`", 5),
        ("builtins.isinstance = None", "`builtins.isinstance`", 5),
        ("os.path.basename = os.path.join = None", "`posixpath.join`, `posixpath.basename`", 5),
        (
            "dataclasses.replace = dataclasses.fields = None",
            "`dataclasses.fields`, `dataclasses.replace`",
            6,
        ),
    ],
)
def test_replaced_functions_are_named_once_as_the_users(
    live: LiveWorker, patch: str, names: str, line: int
) -> None:
    failure = live.failure(f"import builtins, dataclasses, os, torch\n{patch}\n{GOOD}")
    message, lines = the_users(failure)
    error = "TypeError: 'NoneType' object is not callable"
    assert message in {REPLACED.format(names) + kind + error for kind in ("", "InternalTorchDynamoError: ")}
    assert (failure.next_step, lines) == (RESTORE, [line])


@hostile
@pytest.mark.parametrize(
    ("patch", "message", "lines"),
    [
        ("os.getpid = os._exit = lambda *_: 1", MINE, [6, 7]),
        (
            "time.perf_counter = time.monotonic = time.time = lambda: None",
            REPLACED.format("`time.time`, `time.monotonic`, `time.perf_counter`")
            + "TypeError: unsupported operand type(s) for -: 'NoneType' and 'NoneType'",
            [5],
        ),
        ("json.dumps = json.loads = json.load = None", MINE, [6, 7]),
        (
            "traceback.extract_tb = traceback.TracebackException = None",
            REPLACED.format("`traceback.extract_tb`, `traceback.TracebackException`")
            + "TypeError: 'NoneType' object is not callable",
            [6],
        ),
    ],
)
def test_answer_functions_are_bound_before_user_code(
    live: LiveWorker, patch: str, message: str, lines: list[int]
) -> None:
    """torch may need the replaced function; the answer does not."""
    failure = live.failure(f"import json, os, time, traceback\n{patch}\n" + body("raise ValueError('mine')"))
    assert the_users(failure) == (message, lines)
    assert (failure.next_step == RESTORE) is (message != MINE)


@hostile
@pytest.mark.parametrize(
    "patch",
    [
        "json.JSONEncoder.encode = json.JSONEncoder.iterencode = lambda *_: 1 / 0",
        "json.JSONEncoder.default = None",
        "os.path.realpath = {}.get",
        "for name in ('json', 'os', 'traceback', 'fuselight', 'fuselight.worker'): sys.modules[name] = None",
        "for name in [one for one in sys.modules if one.startswith('fuselight')]: del sys.modules[name]",
        "resource.setrlimit(resource.RLIMIT_NOFILE, (32, 4096))",
    ],
)
def test_what_user_code_replaces_does_not_change_the_answer(live: LiveWorker, patch: str) -> None:
    report = live.analyse(f"import json, os, resource, sys\n{patch}\n{GOOD}")
    assert report.failures == ()
    assert len(report.compiles) == 1


@hostile
@pytest.mark.parametrize("name", ["torch", "torch._dynamo", "sys"])
def test_a_removed_module_is_named(live: LiveWorker, name: str) -> None:
    act = "sys.modules.clear()" if name == "sys" else f"sys.modules[{name!r}] = None"
    failure = live.failure(f"import sys\n{act}\n{GOOD}")
    assert the_users(failure)[0].startswith(f'the code replaced `sys.modules["{name}"]`')


RECURSIONS = {
    "f": "def f(x):\n    return f(x)\n",
    "helper": "def helper(n):\n    return helper(n + 1)\ndef f(x):\n    helper(0)\n    return x\n",
    "odd": "def even(x):\n    return odd(x * 2)\ndef odd(x):\n    return even(x)\ndef f(x):\n    return even(x)\n",
    "after": (
        "def after(n):\n    return after(n + 1)\n"
        "def f(x):\n    torch._dynamo.graph_break()\n    after(0)\n    return x\n"
    ),
}


@hostile
@pytest.mark.parametrize("name", RECURSIONS)
def test_endless_recursion_is_the_users(live: LiveWorker, name: str) -> None:
    source = RECURSIONS[name].replace("def f(x)", "# fuselight: f(f32[4])\n@torch.compile\ndef f(x)")
    failure = live.failure(f"import torch\n{source}")
    assert "RecursionError" in the_users(failure)[0]
    assert "calls itself on line" in failure.next_step
    assert f"`{name}`" in failure.next_step or name == "odd"


@hostile
@pytest.mark.parametrize(
    ("act", "message"),
    [
        ("resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))", "limits the size of files to 0 (RLIMIT_FSIZE)"),
        ("resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))", "Too many open files"),
        ("kept = []\nwhile True: kept.append(open(os.devnull))", "Too many open files"),
        (
            "kept = []\ntry:\n    while True: kept.append(os.dup(1))\nexcept OSError: pass",
            "Too many open files",
        ),
        ("resource.setrlimit(resource.RLIMIT_AS, (1 << 20, 1 << 20))", "MemoryError"),
    ],
)
def test_a_limit_of_the_system_is_named(live: LiveWorker, act: str, message: str) -> None:
    failure = live.failure(f"import os, resource\n{act}\n{GOOD}")
    assert failure.culprit is Culprit.USER
    assert message in failure.message


@hostile
def test_a_module_with_our_name_is_named(live: LiveWorker) -> None:
    (live.folder / "fuselight.py").write_text("SCALE = 2\n")
    try:
        failure = live.failure(f"import fuselight\nfuselight.SCALE\n{GOOD}")
        assert (failure.culprit, failure.kind) == (Culprit.USER, "import")
        assert failure.message.startswith("the code imports its own `fuselight.py`")
        assert "rename `fuselight.py`" in failure.next_step
        other = live.failure(f"import math\nmath.nothing\n{GOOD}")
        assert "fuselight" not in other.message
    finally:
        (live.folder / "fuselight.py").unlink()


BROKEN = "class Broken(Exception):\n    def __str__(self): {}\n"


@hostile
@pytest.mark.parametrize(
    ("text", "raised"),
    [("raise KeyError('str')", "KeyError"), ("return 5", "TypeError"), ("return None", "TypeError")],
)
@pytest.mark.parametrize(
    ("where", "line"),
    [
        ("raise Broken", 3),
        ("# fuselight: f(f32[4])\ndef f(x):\n    raise Broken", 5),
        ("def example_inputs():\n    raise Broken\ndef f(x):\n    return x", 4),
        ("def f(x):\n    return x\nif __name__ == '__main__':\n    raise Broken", 6),
    ],
    ids=["import", "call", "provider", "main"],
)
def test_an_exception_without_a_text_is_the_users(
    live: LiveWorker, text: str, raised: str, where: str, line: int
) -> None:
    provider: dict[str, Any] = (
        {"provider": "example_inputs", "provider_line": 4} if "example_inputs" in where else {}
    )
    failure = live.failure(BROKEN.format(text) + where + "\n", **provider)
    assert failure.exception == "Broken"
    assert the_users(failure) == (f"Broken: <Broken.__str__ raised {raised}>", [line])


@hostile
def test_an_exit_with_an_object_is_the_users(live: LiveWorker) -> None:
    failure = live.failure(BROKEN.format("raise KeyError('str')") + "raise SystemExit(Broken())\n")
    assert (failure.culprit, failure.kind, failure.stack[-1].line) == (Culprit.USER, "exit", 3)
    shown = "<Broken.__str__ raised KeyError>"
    assert failure.message == (
        f"the code ended the process with exit status {shown} while the file was imported"
    )


@hostile
def test_a_huge_text_is_bounded_at_its_source(live: LiveWorker) -> None:
    live.analyse(GOOD)
    report = live.analyse("raise ValueError('a line of text\\n' * 8_000_000)\n")
    (failure,) = report.failures
    assert the_users(failure) == ("ValueError: a line of text", [1])
    assert len(wire.dump(encode(report))) < 200_000


@hostile
def test_the_hosts_folder_is_made_again(live: LiveWorker) -> None:
    hunt = "import glob, shutil, tempfile\nfor one in glob.glob(tempfile.gettempdir() + f'/fuselight-worker-*-{os.getppid()}-*'):\n    shutil.rmtree(one)"
    failure = live.failure(body(hunt))
    assert (failure.culprit, failure.kind) == (Culprit.FUSELIGHT, "damaged_answer")
    assert failure.message == "the run's answer is lost: the folder where it was put is gone, or is full"
    assert "leave alone what it did not make in the folder for temporary files" in failure.next_step


@hostile
@pytest.mark.parametrize(
    "text",
    [
        "if os.fork() == 0: return None",
        "if os.fork() == 0: raise ValueError('of the fork')",
        "if os.fork() == 0: sys.exit()",
        "import builtins\nif os.fork() == 0:\n    builtins.isinstance = builtins.len = os.getpid = sys._getframe = None\n    os._exit(0)",
    ],
)
def test_a_fork_in_user_code_never_reaches_the_host(live: LiveWorker, text: str) -> None:
    report = live.analyse(body(text))
    assert report.failures == ()
    first, *others = ((graph_break.reason, graph_break.stack[-1].line) for graph_break in report.breaks)
    assert first == ("Call to `torch._dynamo.graph_break()`", 4)
    assert {line for _, line in others} <= set(range(5, 8))


def test_processes_in_sessions_of_their_own_end_with_the_host(folder: Path) -> None:
    live = LiveWorker(folder, Interpreter(prepared_interpreter()))
    note = folder / "pid"
    os.mkfifo(note)
    code = f"import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        open({str(note)!r}, 'w').write(str(os.getpid()))\n    while True: time.sleep(1)\n"
    request = live.request(code + "while True: time.sleep(1)\n")

    async def begun() -> int:
        task = asyncio.create_task(live.worker.run(request, lambda _: None))
        pid = int(await asyncio.to_thread(note.read_text))
        await live.worker.close()
        await task
        return pid

    wait_gone(live.do(begun()), seconds=20)
    live.close()
