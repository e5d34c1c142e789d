"""`fuselight open A --against B`: exact text of recorded pairs, JSON, exit codes, refusals."""

from __future__ import annotations

import json
import runpy
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import Result, run_cli
from tests.support.job_logs import SOURCE, log_of, project, written
from tests.support.trace_logs import RECORDINGS, compiled, record

NOISE = "note: Compile times are of one run each: a difference below 10% or below 50 ms is noise.\n"
PLANTED = """\
Job after against before

Regressions

warning[GB0170]: graph break: a branch depends on the data of a tensor
  --> model.py:26:5
   |
25 | def loss(y):
26 |     if y.sum() > 0:
   |     ^^^^^^^^^^^^^^^
27 |         y = y * 2
   |
...
  compile time of loss (model.py:25): 531 ms -> 594 ms (+12%, one run each)
  compile time of unchanged (model.py:32): 356 ms -> 493 ms (+39%, one run each)

Improvements
  fixed: warning[FL201] model.py:21: recompiled: factor is no longer 1; the line was `return x * factor + 1`
  recompilations of scaled (model.py:20): 1 -> 0; no longer because: `factor == 1`
  compile time of scaled (model.py:20): 1.45 s -> 554 ms (-62%, one run each)
  compile time of the rest of Net.forward (model.py:15): 675 ms -> 241 ms (-64%, one run each)

Other differences
  FX graph cache of loss (model.py:25): missed in both jobs, lost ~266 ms: \
the graph differs in model.py:26: `return (y - 1).square().mean()` -> `if y.sum() > 0:`
  FX graph cache of scaled (model.py:20): missed in both jobs, lost ~232 ms: \
the graph differs in model.py:21: `l_x_ * 1` -> `l_x_ * l_factor_`; \
torch._inductor.config.trace.provenance_tracking_level: 0 -> absent; \
input 1 `factor`: absent -> int64 scalar on cpu
  AOTAutograd cache of scaled (model.py:20): missed in both jobs, lost ~121 ms: \
the graph differs in model.py:21: `l_x_ * 1` -> `l_x_ * l_factor_`; \
torch._inductor.config.trace.provenance_tracking_level: 0 -> absent; \
input 1 `factor`: absent -> int64 scalar on cpu
  AOTAutograd cache of loss (model.py:25): missed in both jobs, lost ~99.3 ms: \
the graph differs in model.py:26: `return (y - 1).square().mean()` -> `if y.sum() > 0:`
  kernels of scaled (model.py:20): 2 -> 1
  kernels of loss (model.py:25): 1 -> 1; now: `cpp_fused_gt_sum_0`; no longer: `cpp_fused_mean_pow_sub_0`
  graphs of scaled (model.py:20): 2 graphs of 2 and 2 operators -> 1 graph of 2 operators
  compiled only now: the rest of loss (model.py:26): 1 graph of 3 operators, compiled in 700 ms (one run)
  graphs of loss (model.py:25): 1 graph of 3 operators -> 1 graph of 2 operators

"""
PLANTED_SUMMARY = (
    "Findings: 1 new, 1 fixed, 0 moved, 1 same. "
    "Compile time: 12.5 s -> 11.8 s (-6.0%, one run each, within noise).\n"
)
RELEASES = f"""\
Job graph_break (2.13) against graph_break (2.11)
  torch: 2.11.0+cu130 -> 2.13.0+cpu

Regressions
  compile time of Talking.forward (jobs.py:24): 8.15 s -> 14.9 s (+83%, one run each)

Improvements
  compile time of the rest of Talking.forward (jobs.py:26): 26 s -> 19.6 s (-24%, one run each)

Other differences
  generated code of the rest of Talking.forward (jobs.py:26): changed, with as many operators in the graphs
  generated code of Talking.forward (jobs.py:24): changed, with as many operators in the graphs

note: The jobs ran with torch 2.11.0+cu130 and 2.13.0+cpu: graphs, generated code and cache keys can differ for \
that reason alone.
{NOISE}\
Findings: 0 new, 0 fixed, 0 moved, 1 same. Compile time: 34.2 s -> 34.5 s (+1.1%, one run each, within noise).
"""
OPTION = f"""\
Job inductor_option against same
  torch._inductor.config.max_fusion_size: 48 -> 24

Regressions
  AOTAutograd cache of forward (/job/train.py:48): hit -> miss, lost ~937 ms: \
torch._inductor.config.max_fusion_size: 48 -> 24
  FX graph cache of forward (/job/train.py:48): hit -> miss, lost ~637 ms: \
torch._inductor.config.max_fusion_size: 48 -> 24

Improvements
  compile time of forward (/job/train.py:48): 3.41 s -> 2.9 s (-15%, one run each)
  compile time of all functions: 3.41 s -> 2.9 s (-15%, one run each)

{NOISE}\
Findings: 0 new, 0 fixed, 0 moved, 0 same. Compile time: 3.41 s -> 2.9 s (-15%, one run each).
"""


def compare(job: Path | str, base: Path | str, *more: str) -> Result:
    return run_cli("open", str(job), "--against", str(base), "--color", "never", *more)


def planted(folder: Path) -> tuple[Path, Path]:
    """Both logs of the recorded pair; the working folder has the later source."""
    recorded = RECORDINGS / "comparisons" / "torch-2.13"
    programs = runpy.run_path(str(RECORDINGS / "compared_programs.py"))["programs"]()
    project(folder, {"model.py": programs["after"]})
    return recorded / "after.log.gz", recorded / "before.log.gz"


def test_planted_changes_of_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = compare(*planted(tmp_path))
    assert result.exit_code == 1, "a break is new"
    expected_start, expected_end = PLANTED.split("...\n")
    assert result.stdout.startswith(expected_start)
    _, _, after_block = result.stdout.partition("gb0170.html\n\n")
    assert after_block == f"{expected_end}{NOISE}{PLANTED_SUMMARY}"


def test_the_other_way_round_what_was_new_is_fixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    after, before = planted(tmp_path)
    data: dict[str, Any] = json.loads(compare(before, after, "--format", "json").stdout)
    assert [
        (item["state"], item["code"], item["line"], item["line_before"], item["function"], item["text"])
        for item in data["findings"]
    ] == [
        ("new", "FL201", 21, None, "scaled", "return x * factor + 1"),
        ("fixed", "GB0170", 26, 26, "loss", "if y.sum() > 0:"),
        ("same", "GB0059", 15, 15, "forward", 'print("hidden", tuple(h.shape))'),
    ]
    (scaled,) = (item for item in data["functions"] if item["function"] == "scaled")
    assert (scaled["recompilations"], scaled["new_reasons"]) == ("regression", ["factor == 1"])
    assert scaled["after"]["operators"] == [2, 2]
    assert scaled["before"]["kernels"] == ["cpp_fused_add_mul_0"]
    (unchanged,) = (item for item in data["functions"] if item["function"] == "unchanged")
    assert (unchanged["is_code_same"], unchanged["graphs"], unchanged["kernels"]) == (True, "same", "same")
    assert data["compile_time"]["is_noise"] is True
    assert data["regressions"] == 4


def test_two_releases_of_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    project(tmp_path, {"jobs.py": (RECORDINGS / "jobs.py").read_text(encoding="utf-8")})
    logs = {}
    for release in ("2.11", "2.13"):
        logs[release] = tmp_path / release / "graph_break.log.gz"
        logs[release].parent.mkdir()
        (recorded,) = (RECORDINGS / "jobs" / f"torch-{release}" / "graph_break").glob("*.gz")
        shutil.copy(recorded, logs[release])
    result = compare(logs["2.13"], logs["2.11"])
    assert (result.exit_code, result.stdout) == (0, RELEASES)


@pytest.mark.parametrize("name", ["compiled_autograd", "ranks_branch", "recompile", "training"])
def test_one_program_has_the_same_findings_and_functions_with_two_releases(name: str) -> None:
    after, before = (RECORDINGS / "jobs" / f"torch-{release}" / name for release in ("2.13", "2.11"))
    result = compare(after, before, "--format", "json", "--source", str(RECORDINGS))
    data: dict[str, Any] = json.loads(result.stdout)
    assert {item["state"] for item in data["findings"]} <= {"same"}
    assert [item["function"] for item in data["functions"] if not (item["before"] and item["after"])] == []
    assert [item["graphs"] for item in data["functions"]] == ["same"] * len(data["functions"])
    assert [item["name"] for item in data["conditions"]] == ["torch"]
    assert result.exit_code == 0


def test_a_changed_option_explains_why_a_cache_misses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    project(tmp_path, {})
    recorded = RECORDINGS / "caches" / "torch-2.13"
    result = compare(recorded / "inductor_option.log.gz", recorded / "same.log.gz")
    assert (result.exit_code, result.stdout) == (0, OPTION)


def test_ranks_are_compared_by_the_lowest_and_findings_are_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project(tmp_path / "source", {"net.py": SOURCE}))
    before = {"rank_1": log_of("/job/net.py", process=21, rank=1)}
    after = {
        f"rank_{rank}": log_of(
            "/job/net.py", process=20 + rank, rank=rank, scale="2.0" if rank == 0 else "1.0"
        )
        for rank in range(3)
    }
    result = compare(written(tmp_path / "today", after), written(tmp_path / "yesterday", before))
    assert result.exit_code == 1
    assert result.stdout.startswith("Job today against yesterday\n  ranks: 1 -> 3\n")
    assert result.stdout.count("warning[") == 1
    assert "warning[FL201]: recompiled: self.scale is no longer 2.0" in result.stdout
    assert "In rank 0 of 3 processes." in result.stdout
    assert "note: Compiles are those of rank 1; findings are those of all ranks.\n" in result.stdout
    assert "Findings: 1 new, 0 fixed, 0 moved, 2 same." in result.stdout


def test_equal_jobs_have_no_differences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project(tmp_path / "source", {"net.py": SOURCE}))
    today, yesterday = (
        written(tmp_path / name, {"a": log_of("/job/net.py")}) for name in ("today", "yesterday")
    )
    result = compare(today, yesterday)
    assert (result.exit_code, result.stdout) == (
        0,
        f"Job today against yesterday\n\n{NOISE}No differences.\nFindings: 0 new, 0 fixed, 0 moved, 2 same.\n",
    )


def test_files_that_are_not_here_are_the_same_by_their_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project(tmp_path / "source", {}))
    result = compare(
        written(tmp_path / "today", {"a": log_of("/mnt/run2/app/net.py")}),
        written(tmp_path / "yesterday", {"a": log_of("/mnt/run1/app/net.py")}),
    )
    assert "Findings: 0 new, 0 fixed, 0 moved, 2 same." in result.stdout


@pytest.mark.parametrize(
    ("base", "more", "message"),
    [
        ("today", (), "is also the job to compare. Name the logs of another job after `--against`."),
        (
            "today/dedicated_log_torch_trace_a.log",
            (),
            "is in both jobs. Name the logs of another job after `--against`.",
        ),
        ("empty", (), "the logs of empty have no compile, so there is nothing to compare."),
        ("two", (), "has the logs of 2 jobs: "),
        ("nowhere", (), "nowhere"),
        ("yesterday", ("--format", "sarif"), "a comparison has no format `sarif`."),
        ("yesterday", ("--follow",), "a job that is followed cannot be compared."),
    ],
    ids=["the same folder", "a log of it", "no compile", "several jobs", "absent", "a format", "followed"],
)
def test_what_cannot_be_compared(
    base: str, more: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project(tmp_path / "source", {"net.py": SOURCE}))
    for name in ("today", "yesterday"):
        written(tmp_path / name, {"a": log_of("/job/net.py")})
    written(tmp_path / "empty", {"a": record("torch_version", "2.13.0", at="")})
    two = tmp_path / "two"
    two.mkdir()
    for number in (1, 2):
        written(two / f"job{number}", {"a": compiled(process=number, start=9_000.0 * number)})
    result = compare(tmp_path / "today", tmp_path / base, *more)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in " ".join(result.stderr.split())
