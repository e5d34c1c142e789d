"""The page of a suite: what was not measured is a dash, what disagrees is named, and an interrupted run goes on."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from benchmarks.suite import SuiteRun, known_rows, tuned_row
from benchmarks.suite_page import suite_page, with_sweeps
from tests.support.tuned import result, search

FACTS = ("graphs", "breaks", "findings", "recompilations", "refusals", "errors")
HEAD = {"suite": "pytorch-163", "size": "tiny", "training": False, "note": ""}


def row(name: str, **entries: Any) -> dict[str, Any]:
    run = {
        "graphs": 2,
        "breaks": 1,
        "recompilations": 0,
        "operators": 1234,
        "facts": {fact: [2, 2] for fact in FACTS},
        "agrees": True,
        "differs": {},
        "failure": "",
    }
    return {"name": name, "group": "timm", **HEAD, "absent": "", **run, **entries}


def absent(name: str) -> dict[str, Any]:
    return {"name": name, "group": "torchbench", **HEAD, "absent": "no package ships it"}


def line(page: str, name: str) -> list[str]:
    (line,) = [line for line in page.splitlines() if line.startswith(f"| `{name}` |")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_rows_have_what_was_found_and_dashes_for_the_rest() -> None:
    page = suite_page([row("b"), row("A", kernels=17, device="h100-sxm"), absent("gone")], [], [])
    assert line(page, "b") == ["`b`", "2", "1", "0", "1,234", "–", "yes", ""]
    assert line(page, "A")[5] == "17"
    assert line(page, "gone") == ["`gone`", "–", "–", "–", "–", "–", "–", "no package ships it"]
    assert page.index("`A`") < page.index("`b`")
    words = " ".join(page.split())
    assert "**2 of 2 models that ran agree with torch's record.** 1 model without a file" in words
    assert "Kernels were generated for 1 model." in words
    complete = " ".join(suite_page([row("A", kernels=17)], [], []).split())
    assert "Kernels were generated for each model that ran." in complete
    assert "| graph breaks | 4 | 4 | 1.00 | 1.00 |" in page


def test_a_disagreement_is_counted_and_marked() -> None:
    differs = {"breaks": {"missing": [["a.py", 3, "GB0001"]], "surplus": []}}
    page = suite_page([row("a", agrees=False, differs=differs)], [], [])
    assert line(page, "a")[6] == "**no**"
    assert "**0 of 1 model that ran" in page
    assert "| graph breaks | 2 | 2 | 0.50 | 1.00 |" in page


def test_a_model_that_did_not_run_has_no_numbers_and_its_reason() -> None:
    page = suite_page([row("a", agrees=None, failure="no module `timm` | sorry")], [], [])
    line = next(line for line in page.splitlines() if line.startswith("| `a`"))
    assert line == "| `a` | – | – | – | – | – | – | no module `timm` \\| sorry |"
    assert "1 that did not run here" in " ".join(page.split())


def test_the_reason_why_kernels_are_missing_is_shown_until_there_are_some() -> None:
    reason = "no module `effdet`"
    assert line(suite_page([row("a", kernels_failure=reason)], [], []), "a")[-1] == reason
    assert line(suite_page([row("a", kernels_failure=reason, kernels=3)], [], []), "a")[-1] == ""
    partial = suite_page([row("a", kernels_failure=reason, kernels=3, graphs_without_kernels=1)], [], [])
    assert (line(partial, "a")[5], line(partial, "a")[-1]) == ("–", reason)
    assert "Kernels were generated for 0 models" in " ".join(partial.split())


def test_sweeps_add_kernels_and_times() -> None:
    configurations = [
        {"name": "eager", "us": 2000.0},
        {"name": "default", "us": 1000.0, "is_accurate": True},
        {"name": "max-autotune", "us": None, "is_accurate": None},
    ]
    bench = {"name": "a", "group": "timm", "status": "done", "configurations": configurations}
    tune = {
        "name": "a:model",
        "group": "timm",
        "status": "done",
        "kernels": 5,
        "configurations": configurations,
        "gain": 1.25,
    }
    lost = {"name": "a", "group": "timm", "status": "lost", "kernels": 99}
    other = {"name": "a", "group": "torchbench", "status": "done", "kernels": 98}
    (merged,) = with_sweeps([row("a")], [bench, tune, lost, other])
    assert merged["kernels"] == 5
    page = suite_page([row("a"), row("b")], [], [bench, tune, lost, other])
    assert line(page, "a")[7:11] == ["2.00 ms", "1.00 ms", "1.25× default", "right"]
    assert line(page, "b")[7:11] == ["–"] * 4
    (kept,) = with_sweeps([row("a", kernels=7)], [tune])
    assert kept["kernels"] == 7


def test_a_search_adds_times_of_the_real_size_beside_the_facts_of_the_tiny_one() -> None:
    timed = {
        "eager": "2.00 ms", "default": "1.00 ms", "tuned": "1.25× default", "accuracy": "passed against float64",
        "timed_on": "NVIDIA H100", "timed_size": "real",
    }  # fmt: skip
    page = suite_page([row("a", **timed), row("b")], [], [])
    assert line(page, "a")[7:11] == [timed[name] for name in ("eager", "default", "tuned", "accuracy")]
    assert line(page, "b")[7:11] == ["–"] * 4
    assert "| times of 1 model | NVIDIA H100, `real` sizes" in page
    assert "| rows | tiny, inference |" in page


def test_the_row_of_a_search_has_its_times_or_why_there_are_none() -> None:
    decided = result(eager_us=2000.0, default_us=1000.0, gain=1.25, device="GPU")
    row = tuned_row(search({"result": decided, "seconds": 39.96}))
    assert (row["eager"], row["default"], row["tuned"]) == ("2.00 ms", "1.00 ms", "1.25× default")
    assert (row["accuracy"], row["timed_on"], row["search_seconds"]) == (
        "passed against float64",
        "GPU",
        40.0,
    )
    assert tuned_row(search({"result": None})) == {"tune_failure": "the search came to no decision"}


def test_a_row_that_has_its_facts_has_no_times_yet(tmp_path: Path) -> None:
    path = tmp_path / "suite.jsonl"
    kept = {
        "name": "alexnet",
        "group": "torchbench",
        **HEAD,
        "absent": "",
        "capture_seconds": 1.0,
        "failure": "",
    }
    path.write_text(json.dumps(kept) + "\n", encoding="utf-8")
    options = argparse.Namespace(
        suite="pytorch-163", size="real", do="tune", train=False, part="1/1", models="alexnet"
    )
    run = SuiteRun(path, options)
    (missing,) = run.missing()
    run.keep(
        missing,
        {"default": "1.00 ms", "tuned": "1.00× default", "configuration": "default", "tune_seconds": 2},
    )
    assert SuiteRun(path, options).missing() == []
    (merged,) = known_rows(path).values()
    assert (merged["size"], merged["timed_size"], merged["default"]) == ("tiny", "real", "1.00 ms")


def test_machines_and_versions_are_named_once() -> None:
    about = {"machine": "2 cores", "versions": {"torch": "2.13.0", "timm": ""}}
    page = suite_page([row("a")], [{"about": about}, {"about": about}], [])
    assert page.count("| machine | 2 cores |") == 1
    assert "| versions | torch 2.13.0 |" in page
    other = {"machine": "2 cores", "versions": {"torch": "2.13.0+cpu", "timm": "1.0"}}
    page = suite_page([row("a")], [{"about": entry} for entry in (other, about, other)], [])
    assert "| versions | torch 2.13.0+cpu and 2.13.0, timm 1.0 |" in page


def missing(results: Path, do: str = "capture", part: str = "1/1") -> list[str]:
    options = argparse.Namespace(
        do=do, part=part, models="regnety,dlrm,t5small", suite="pytorch-163", size="tiny", train=False
    )
    return [suite_row.name for suite_row in SuiteRun(results, options).missing()]


def test_a_run_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    results = tmp_path / "suite.jsonl"
    assert missing(results) == ["T5Small", "regnety_002", "dlrm"]
    assert missing(results, part="2/2") == ["regnety_002"]
    captured = {**row("regnety_002"), "capture_seconds": 1.5}
    told = [{"about": {}}, captured, absent("dlrm")]
    results.write_text(
        "".join(f"{json.dumps(entry)}\n" for entry in told) + '{"name": "T5Sm', encoding="utf-8"
    )
    assert missing(results) == ["T5Small"]
    assert missing(results, do="kernels") == ["T5Small", "regnety_002"]
    failed = {**captured, "failure": "no module", "agrees": None}
    results.write_text(json.dumps(failed) + "\n", encoding="utf-8")
    assert missing(results, do="kernels") == ["T5Small", "dlrm"]
