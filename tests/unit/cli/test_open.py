"""`fuselight open`: formats, exit codes, and what is said where something cannot be opened."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from fuselight_server.explain.pages import document
from tests.support.built_pages import carried, use_built_pages
from tests.support.command import Result, run_cli
from tests.support.job_logs import SOURCE, log_of, project, written
from tests.support.trace_logs import artifact, compiled

SECRETS = {"AWS_SECRET_ACCESS_KEY": "hunter2", "HF_TOKEN": "hunter3", "TORCH_LOGS": "+dynamo"}


@pytest.fixture(autouse=True)
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The script of the page, which this ring does not build."""
    use_built_pages(monkeypatch, tmp_path / "extension")


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The logs of a job of two ranks in the folder `job`; the working folder has its source."""
    source = project(tmp_path / "source", {"net.py": SOURCE})
    monkeypatch.chdir(source)
    environment = artifact("fuselight_environment", json.dumps(SECRETS), at="", process=20, rank=0)
    logs = {"rank_0": environment + log_of("/job/net.py", process=20, rank=0)}
    logs["rank_1"] = log_of("/job/net.py", process=21, rank=1)
    return written(tmp_path / "today", logs)


def opened(job: Path, *more: str) -> Result:
    return run_cli("open", str(job), "--color", "never", *more)


def test_text_has_each_finding_once_with_its_source(job: Path) -> None:
    result = opened(job)
    assert result.exit_code == 1
    assert result.stdout.startswith("Job today, 2 processes\n")
    assert result.stdout.count("warning[GB0059]: graph break: `print` cannot be traced") == 1
    assert " --> net.py:7:9" in result.stdout
    assert "7 |         print(x)" in result.stdout
    assert "rank 1: __main__ (/job/train.py): " in result.stdout
    assert "note: Not in the logs: the values of arguments and attributes, " in result.stdout
    assert result.stdout.endswith("Found 2 findings: 2 warnings.\n")


def test_json_is_that_of_a_check_with_what_was_read(job: Path) -> None:
    result = opened(job, "--format", "json")
    data: dict[str, Any] = json.loads(result.stdout)
    assert result.exit_code == 1
    assert [(finding["line"], finding["code"]) for finding in data["findings"]] == [
        (6, "FL201"),
        (7, "GB0059"),
    ]
    assert [target["rung"] for target in data["targets"]] == ["trace", "trace"]
    (about,) = data["jobs"]
    assert (about["name"], [process["rank"] for process in about["processes"]]) == ("today", [0, 1])
    assert [(line["line"], line["source"]) for line in about["lines"]] == [(6, "unknown"), (7, "current")]
    assert about["files"] == [{"path": "/job/net.py", "local": str(Path("net.py").absolute())}]


def test_sarif_and_github_name_the_local_file(job: Path) -> None:
    sarif = json.loads(opened(job, "--format", "sarif").stdout)
    places = [result["locations"][0]["physicalLocation"] for result in sarif["runs"][0]["results"]]
    assert {place["artifactLocation"]["uri"] for place in places} == {"net.py"}
    github = opened(job, "--format", "github").stdout.splitlines()
    assert [line.partition(",title")[0] for line in github] == [
        "::warning file=net.py,line=6,endLine=6",
        "::warning file=net.py,line=7,endLine=7",
    ]


def test_the_page_needs_no_network_and_takes_no_text_for_markup(job: Path) -> None:
    name = "dedicated_log_torch_trace_rank_0.log"
    (job / name).write_bytes((job / name).read_bytes().replace(b"print(x)", b"<b>x</b>"))
    page = opened(job, "--format", "html").stdout
    assert page.startswith("<!DOCTYPE html>")
    assert "default-src 'none'" in page
    assert "<b>" not in page
    finding = next(row for row in carried(page)["findings"] if row["code"] == "GB0059")
    assert finding["title"] == "graph break: `print` cannot be traced"
    assert finding["at"]["shown"] == "net.py:7"
    assert "Cost: " in finding["details"]


def test_the_page_shows_what_changed_since_an_earlier_job(job: Path, tmp_path: Path) -> None:
    earlier = written(tmp_path / "earlier", {"a": compiled()})
    page = carried(opened(job, "--against", str(earlier), "--format", "html").stdout)
    assert page["comparison"]["name"] == "earlier"
    assert "new finding" in {row["kind"] for row in page["comparison"]["changes"] if row["is_regression"]}
    assert carried(opened(job, "--format", "html").stdout)["comparison"] is None


def test_the_page_is_refused_before_logs_are_read_if_its_script_is_not_built(
    job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document, "extension_folder", lambda: tmp_path / "absent")
    result = opened(job, "--format", "html")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "build it with `npm ci && npm run build`" in result.stderr


def test_the_page_lists_the_lookups_in_caches_with_their_causes(tmp_path: Path) -> None:
    recordings = Path(__file__).parents[2] / "recordings"
    (tmp_path / "logs").mkdir()
    for number, name in enumerate(("base", "pass_without_uuid")):
        log = tmp_path / "logs" / f"dedicated_log_torch_trace_{number}.log.gz"
        shutil.copy(recordings / "caches" / "torch-2.13" / f"{name}.log.gz", log)
    done = opened(tmp_path / "logs", "--format", "html")
    assert "HTML shows the first job only" in done.stderr, "two starts, one after the other"
    rows = carried(opened(log, "--format", "html").stdout)["caches"]["rows"]
    assert "the custom pass on the post grad graph has no `uuid()`" in rows[0]["causes"]


def test_files_that_are_not_here_keep_their_findings_in_every_format(
    job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project(tmp_path / "other", {}))
    text = opened(job)
    assert " --> /job/net.py:7" in text.stdout
    assert "7 | print(x)" in text.stdout
    assert "note: The source of 2 files of the job is not here: " in text.stdout
    for name in ("json", "sarif", "github", "html"):
        result = opened(job, "--format", name)
        assert result.exit_code == 1
        assert "/job/net.py" in result.stdout
    named = opened(job, "--source", str(tmp_path / "source"))
    assert "source/net.py:7:9" in named.stdout


def test_secrets_of_the_environment_are_in_no_format(job: Path) -> None:
    for name in ("text", "json", "sarif", "github", "html"):
        result = opened(job, "--format", name)
        assert "hunter" not in result.stdout + result.stderr, name
        assert "SECRET" not in result.stdout + result.stderr, name


def test_a_job_without_findings_is_clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project(tmp_path / "source", {}))
    result = opened(written(tmp_path / "job", {"a": compiled()}))
    assert result.exit_code == 0
    assert result.stdout.endswith("No findings.\n")
    assert json.loads(opened(tmp_path / "job", "--format", "json").stdout)["findings"] == []


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        (
            "",
            b"",
            "has no log of torch.compile. Run the job with `TORCH_TRACE=FOLDER`, then open that folder.",
        ),
        ("app.log", b"INFO started\n", "has no log of torch.compile. Run the job with `TORCH_TRACE=FOLDER`"),
        (
            "x.log",
            bytes(range(256)) * 64,
            "has no log of torch.compile. Run the job with `TORCH_TRACE=FOLDER`",
        ),
        (
            "dedicated_log_torch_trace_x.log",
            bytes(range(256)) * 64,
            "has no record of torch.compile. Open what a job wrote with `TORCH_TRACE=FOLDER`.",
        ),
    ],
    ids=["an empty folder", "the log of another program", "binary rubbish", "rubbish with the name of a log"],
)
def test_what_cannot_be_opened_is_refused_with_the_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, data: bytes, message: str
) -> None:
    monkeypatch.chdir(project(tmp_path / "source", {}))
    folder = tmp_path / "job"
    folder.mkdir()
    if name:
        (folder / name).write_bytes(data)
    result = opened(folder)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"`{folder}` {message}" in result.stderr


def test_other_inputs_that_cannot_be_opened(
    job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = opened(tmp_path / "absent")
    assert (
        absent.exit_code,
        "cannot be read: No such file or directory. Check the path." in absent.stderr,
    ) == (2, True)
    source = opened(job, "--source", str(tmp_path / "absent"))
    assert (source.exit_code, "is no folder. Name the folder of the job's source" in source.stderr) == (
        2,
        True,
    )
    monkeypatch.chdir(project(tmp_path / "twice", {"a/net.py": SOURCE, "b/net.py": SOURCE}))
    ambiguous = opened(job)
    assert ambiguous.exit_code == 2
    assert "`/job/net.py` of the job may be `a/net.py` and `b/net.py`." in ambiguous.stderr
    assert "`--source DIR`" in ambiguous.stderr
    assert opened(job, "--source", "a").exit_code == 1
