"""The check of the environment over the protocol: a page, a refusal, a cancel."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import psutil
from markdown_it import MarkdownIt

from tests.server.conftest import interpreter, settings
from tests.server.programs import write

if TYPE_CHECKING:
    from pathlib import Path

    from tests.server.conftest import Start
    from tests.support.lsp_client import Client

CHECKS = (
    {
        "key": "torch",
        "title": "torch",
        "status": "ok",
        "found": "2.13.0 <b>",
        "meaning": "it is what compiles",
    },
    {
        "key": "cache",
        "title": "Cache",
        "status": "failed",
        "found": "full",
        "meaning": "kept",
        "fix": "make room",
    },
)


def chosen(client: Client, python: str) -> None:
    """Wait until the server has heard of the interpreter."""
    client.notified("fuselight/status", lambda status: status["interpreter"] == python)


def fake_python(folder: Path, program: str) -> str:
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{program}\n")
    path.chmod(0o755)
    return str(path)


def test_failures_come_first(connect: Start, tmp_path: Path) -> None:
    lines = "\n".join(json.dumps(check) for check in CHECKS)
    python = fake_python(tmp_path, f"cat <<'END'\n{lines}\nEND")
    client = connect(settings=settings(resolvedInterpreter=interpreter(executable=python)))
    client.start(tmp_path)
    chosen(client, python)
    page = client.request("fuselight/doctor", {"folder": tmp_path.as_uri()})
    assert "1 of 2 checks failed" in page
    assert page.index("Cache") < page.index("13.0")
    assert "what to do: make room" in page
    assert "<b>" not in MarkdownIt().render(page)


def test_an_untrusted_workspace_starts_no_interpreter(connect: Start, tmp_path: Path) -> None:
    python = fake_python(tmp_path, f"touch {tmp_path}/started")
    client = connect(settings=settings(resolvedInterpreter=interpreter(executable=python)))
    client.start(tmp_path, options={"trusted": False})
    answer = client.ask("fuselight/doctor", {"folder": tmp_path.as_uri()})
    assert "trust the workspace first" in client.answer(answer)["error"]["message"]
    assert not (tmp_path / "started").exists()


def test_nothing_starts_after_a_refusal(connect: Start, tmp_path: Path) -> None:
    python = fake_python(tmp_path, f"touch {tmp_path}/started")
    client = connect(settings=settings(resolvedInterpreter=interpreter(executable=python)), confirm="never")
    client.start(tmp_path)
    chosen(client, python)
    asked = client.answer(client.ask("fuselight/doctor", {"folder": tmp_path.as_uri()}))
    assert "need your agreement" in asked["error"]["message"]
    question = client.notified("fuselight/confirmRun")
    assert question["explicit"] is True
    assert python in question["detail"]
    uri = client.open(write(tmp_path))
    client.command("fuselight.server.run", {"uri": uri, "target": "f"})
    client.notified("fuselight/status", lambda status: status["text"] == "runs off")
    refused = client.answer(client.ask("fuselight/doctor", {"folder": tmp_path.as_uri()}))
    assert "Ask Again Before Running" in refused["error"]["message"]
    assert not (tmp_path / "started").exists()


def test_a_cancel_ends_the_started_processes(connect: Start, tmp_path: Path) -> None:
    python = fake_python(
        tmp_path, f"echo $$ > {tmp_path}/new && mv {tmp_path}/new {tmp_path}/pid\nexec sleep 600"
    )
    client = connect(settings=settings(resolvedInterpreter=interpreter(executable=python)))
    client.start(tmp_path)
    chosen(client, python)
    asked = client.ask("fuselight/doctor", {"folder": tmp_path.as_uri()})
    client.until((tmp_path / "pid").exists, "the start of the checks")
    process = psutil.Process(int((tmp_path / "pid").read_text()))
    client.notify("$/cancelRequest", {"id": asked})
    client.until(lambda: has_ended(process), "its end")


def has_ended(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:  # between the two questions
        return True
