"""`open_trace`, `compare` and `explain_cache_miss`: recorded logs, files and benchmarks."""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path
from typing import Any

import pytest

from fuselight_server.agents.tools import traces
from fuselight_server.commands.warm import WarmState
from fuselight_server.explain.benchmarks.planning import history_of
from tests.support.agent_project import QUIET, compared, verifying
from tests.support.agents import MemoryClient, ask, talk, toolbox_of
from tests.support.trace_logs import RECORDINGS


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with the logs of two jobs of its program."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").touch()
    programs = runpy.run_path(str(RECORDINGS / "compared_programs.py"))["programs"]()
    (tmp_path / "model.py").write_text(programs["after"])
    for name in ("before", "after"):
        shutil.copy(RECORDINGS / "comparisons" / "torch-2.13" / f"{name}.log.gz", tmp_path)
    for name in ("cache_miss", "cache_hit"):
        shutil.copytree(RECORDINGS / "jobs" / "torch-2.13" / name, tmp_path / name)
    return tmp_path


def test_logs_are_read_without_running_anything(jobs: Path) -> None:
    async def script(client: MemoryClient) -> None:
        data, text = await ask(client, "open_trace", traces=["after.log.gz"])
        (job,) = data["jobs"]
        assert {"GB0170", "GB0059"} <= {finding["code"] for finding in job["findings"]}
        assert all(finding["path"] == "model.py" for finding in job["findings"])
        assert "model.py:26:" in text
        cut, _ = await ask(client, "open_trace", traces=["after.log.gz"], limit=1)
        assert len(cut["jobs"][0]["findings"]) == 1
        assert cut["jobs"][0]["rest"].endswith("`offset` 1.")
        assert "outside of the folders" in await client.refusal("open_trace", traces=["/"])

    talk(lambda: toolbox_of(jobs, allowed=False), script)


def test_two_jobs_are_compared_without_running_anything(jobs: Path) -> None:
    async def script(client: MemoryClient) -> None:
        data, text = await ask(client, "compare", before="before.log.gz", after="after.log.gz")
        assert data["kind"] == "jobs"
        assert [(finding["code"], finding["line"]) for finding in data["new_findings"]] == [("GB0170", 26)]
        assert data["improvements"]
        assert data["summary"] in text
        assert "is also the job to compare" in await client.refusal(
            "compare", before="after.log.gz", after="after.log.gz"
        )

    talk(lambda: toolbox_of(jobs, allowed=False), script)


def test_cache_misses_of_logs_are_explained_without_running_anything(jobs: Path) -> None:
    async def script(client: MemoryClient) -> None:
        data, text = await ask(client, "explain_cache_miss", paths=["cache_miss"])
        (start,) = data["starts"]
        assert start["missed"]
        assert start["missed"][0]["causes"][0] in text
        hits, _ = await ask(client, "explain_cache_miss", paths=["cache_hit"])
        assert hits["starts"][0]["missed"] == []
        assert "`fuselight mcp --allow-run`" in await client.refusal("explain_cache_miss", paths=["model.py"])

    talk(lambda: toolbox_of(jobs, allowed=False), script)


def test_two_files_are_compared_as_a_patch(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "quiet.py").write_text(QUIET)
    verifying(project, compared()).put_in_place(monkeypatch)

    async def script(client: MemoryClient) -> None:
        data, _ = await ask(client, "compare", before="model.py", after="quiet.py")
        assert (data["kind"], data["verdict"]) == ("files", "same")

    talk(lambda: toolbox_of(project), script)


def test_benchmarks_are_of_the_only_target_that_has_some(project: Path) -> None:
    path = str(project / "model.py")

    async def script(client: MemoryClient) -> None:
        names = {"before": "a", "after": "b", "path": "model.py"}
        history_of(path, "scale").claim()
        assert "`scale` has no run `a`" in await client.refusal("compare", **names)
        history_of(path, "").claim()
        assert "benchmarks of `__main__` and `scale`: name one" in await client.refusal("compare", **names)
        assert "`__main__` has no run `a`" in await client.refusal("compare", **names, targets=["__main__"])

    talk(lambda: toolbox_of(project), script)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"before": "model.py", "after": "."}, "of two kinds"),
        (
            {"before": "last", "after": "last", "path": "model.py"},
            "model.py has no benchmarks. Make one with",
        ),
        ({"before": "/x/y.py", "after": "last", "path": "model.py"}, "outside of the folders"),
        ({"before": "a", "after": "b", "path": "model.py", "targets": ["f", "g"]}, "single target"),
        ({"before": "a", "after": "b", "path": "model.py", "targets": ["f"]}, "`f` has no run `a`"),
    ],
)
def test_what_cannot_be_compared_is_refused(project: Path, arguments: dict[str, Any], message: str) -> None:
    async def script(client: MemoryClient) -> None:
        assert message in await client.refusal("compare", **arguments)

    talk(lambda: toolbox_of(project), script)


def test_each_state_of_a_second_start_has_its_words() -> None:
    assert {state.value for state in WarmState} | {""} == traces.STATES.keys()
