"""As on Windows: jobs opened in the terminal, by an agent and in an editor, without torch; what is said of a run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.server.conftest import settings
from tests.support.job_logs import SOURCE, log_of, project, written
from tests.support.lsp_client import Client
from tests.support.prepared import variables

AS_ON_WINDOWS = (
    sys.executable,
    "-X",
    "utf8",
    str(Path(__file__).parents[1] / "support" / "as_on_windows.py"),
)
TARGET = """\
import torch


# fuselight: f(f32[4])
@torch.compile
def f(x):
    return x * 2
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A project with the logs of a job of two ranks."""
    folder = project(tmp_path, {"net.py": SOURCE, "target.py": TARGET})
    written(
        folder / "logs",
        {f"rank_{rank}": log_of("/job/net.py", process=20 + rank, rank=rank) for rank in (0, 1)},
    )
    return folder


def fuselight(source: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in the project's folder."""
    command = [*AS_ON_WINDOWS, "fuselight_server", *arguments]
    return subprocess.run(
        command,
        cwd=source,
        stdin=subprocess.DEVNULL,
        env=variables(),
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )


def test_a_job_opens_in_each_format(source: Path) -> None:
    text = fuselight(source, "open", "logs", "--color", "never")
    assert (text.returncode, text.stderr) == (1, "")
    assert "warning[GB0059]: graph break: `print` cannot be traced" in text.stdout
    assert " --> net.py:7:9" in text.stdout
    data = json.loads(fuselight(source, "open", "logs", "--format", "json").stdout)
    assert [(finding["line"], finding["code"]) for finding in data["findings"]] == [
        (6, "FL201"),
        (7, "GB0059"),
    ]
    page = fuselight(source, "open", "logs", "--format", "html")
    if (Path(__file__).parents[2] / "extension" / "dist" / "job.js").is_file():
        assert page.stdout.startswith("<!DOCTYPE html>")
        assert "`print` cannot be traced" in page.stdout
    else:
        assert "not built" in page.stderr


def test_an_agent_reads_a_job(source: Path) -> None:
    client = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    arguments = {"traces": ["logs"]}
    messages = (
        {"id": 1, "method": "initialize", "params": client},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "open_trace", "arguments": arguments}},
    )
    command = [*AS_ON_WINDOWS, "fuselight_server", "mcp"]
    with subprocess.Popen(
        command, cwd=source, env=variables(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages))
        process.stdin.flush()
        answer = next(line for line in process.stdout if json.loads(line).get("id") == 2)
        process.stdin.close()
    assert "`print` cannot be traced" in answer
    assert process.returncode == 0


def test_an_editor_shows_a_job_and_says_what_a_run_needs(source: Path) -> None:
    client = Client(command=[*AS_ON_WINDOWS, "fuselight_server.editor.app"], settings=settings())
    client.start(source)
    opened = client.open(source / "net.py")
    logs = (source / "logs").as_uri()
    answer = client.request("fuselight/openJob", {"paths": [logs], "source": [source.as_uri()]})
    client.until(lambda: len(client.diagnostics(opened)) == 2, "the findings of the job")
    (job,) = answer["jobs"]
    assert client.request("fuselight/job", {"job": job["id"], "against": None})
    client.open(source / "target.py")
    words = (
        "Runs need Linux or macOS; on Windows, Fuselight reads source and opens the logs of jobs. Open the"
    )
    client.wait(
        lambda message: message.get("params", {}).get("message", "").startswith(words), "what a run needs"
    )
    client.wait(
        lambda message: (
            message.get("method") == "fuselight/status"
            and (message["params"]["state"], message["params"]["text"]) == ("idle", "no runs")
        ),
        "the status",
    )
    assert client.stop() == 0, client.transcript()


def test_a_run_says_that_it_needs_another_system(source: Path) -> None:
    result = fuselight(source, "check", "target.py", "--color", "never")
    assert result.returncode == 2
    assert "open the folder in wsl" in f"{result.stdout}{result.stderr}".lower()
