"""The GitHub action and the pre-commit hook on a pull request: their own files, run as their runners do."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped] # its stubs are another package

from tests.support.lsp_client import ROOT
from tests.support.prepared import prepared_interpreter

pytestmark = pytest.mark.torch

BIN = Path(sys.executable).parent
FUNCTION = """\

# fuselight: {name}(f32[4])
@torch.compile
def {name}(x):
    return x * x.sum().item()
"""
BASE = f"import torch\n{FUNCTION.format(name='old')}"


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(("git", *identity, *arguments), cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkout of a pull request that adds the second of two functions with a break."""
    origin = tmp_path_factory.mktemp("origin")
    git(origin, "init", "-q", "-b", "main")
    (origin / "model.py").write_text(BASE)
    git(origin, "add", "-A")
    git(origin, "commit", "-q", "-m", "base")
    checkout = tmp_path_factory.mktemp("work") / "checkout"
    git(origin, "clone", "-q", str(origin), str(checkout))
    git(checkout, "checkout", "-q", "-b", "topic")
    (checkout / "model.py").write_text(BASE + FUNCTION.format(name="new"))
    git(checkout, "commit", "-q", "-a", "-m", "change")
    return checkout


def run_action(clone: Path, base: str = "main", **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run the step `Check` of action.yml with its defaults and these inputs."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    values = {name: str(entry["default"]) for name, entry in action["inputs"].items()}
    values |= {name.replace("_", "-"): value for name, value in inputs.items()}
    step = next(step for step in action["runs"]["steps"] if step["name"] == "Check")
    variables = {
        name: values[text.removeprefix("${{ inputs.").removesuffix(" }}")]
        for name, text in step["env"].items()
    }
    temporary = clone.parent / "runner"
    if not temporary.exists():
        (temporary / "fuselight").mkdir(parents=True)
        (temporary / "fuselight" / "bin").symlink_to(BIN)
    runner = {"RUNNER_TEMP": str(temporary), "GITHUB_BASE_REF": base, "GITHUB_ACTION_PATH": str(ROOT)}
    return subprocess.run(
        ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]),  # as the runner does
        cwd=clone,
        env={**os.environ, **variables, **runner},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def places(result: subprocess.CompletedProcess[str]) -> list[str]:
    return [line.split(" ", 1)[1].split(",col")[0] for line in result.stdout.splitlines()]


def test_the_action_reports_the_lines_of_a_pull_request(clone: Path) -> None:
    options = {"args": f"--python {prepared_interpreter()} --time-limit 200 --tries 0"}
    result = run_action(clone, only_changed_lines="true", sarif="out.sarif", **options)
    (annotation,) = places(result)
    assert annotation.startswith("file=model.py,line=11,endLine=11,title=GB0124 graph break"), result.stderr
    assert result.returncode == 1
    (sarif,) = json.loads((clone / "out.sarif").read_text())["runs"]
    (reported,) = sarif["results"]
    assert reported["locations"][0]["physicalLocation"]["artifactLocation"] == {"uri": "model.py"}
    assert reported["locations"][0]["physicalLocation"]["region"]["startLine"] == 11

    pushed = run_action(clone, base="", only_changed_lines="true", fail_on_findings="false", **options)
    assert [text.split(",")[1] for text in places(pushed)] == ["line=6", "line=11"]
    assert pushed.returncode == 0


def test_the_action_fails_where_it_cannot_know_the_lines(clone: Path) -> None:
    result = run_action(clone, base="unfetched", only_changed_lines="true", fail_on_findings="false")
    assert result.returncode == 2
    assert "fetch-depth: 0" in result.stderr


def test_the_action_compares_results_if_asked(tmp_path: Path) -> None:
    clone, tool = tmp_path / "clone", tmp_path / "runner" / "fuselight" / "bin" / "fuselight"
    clone.mkdir()
    tool.parent.mkdir(parents=True)
    tool.write_text('#!/bin/sh\necho "$@"\n')
    tool.chmod(0o755)
    assert run_action(clone, accuracy="true").stdout == "check --format github --accuracy -- .\n"
    further = run_action(clone, accuracy="true", accuracy_against="default", accuracy_kernels="true").stdout
    assert further == "check --format github --accuracy --accuracy-against=default --accuracy-kernels -- .\n"
    assert run_action(clone).stdout == "check --format github -- .\n"


def test_the_action_estimates_memory_if_asked_and_fails_with_it(tmp_path: Path) -> None:
    clone, tool = tmp_path / "clone", tmp_path / "runner" / "fuselight" / "bin" / "fuselight"
    clone.mkdir()
    tool.parent.mkdir(parents=True)
    tool.write_text('#!/bin/sh\necho "$@"\n[ "$1" != memory ] || exit 1\n')
    tool.chmod(0o755)
    asked = run_action(clone, memory="t4")
    assert asked.stdout == "check --format github -- .\nmemory --device t4 -- .\n"
    assert asked.returncode == 1
    assert run_action(clone).returncode == 0


def test_the_action_takes_paths_with_spaces_one_a_line(clone: Path) -> None:
    result = run_action(clone, src="\nno such.py\n\nneither.py\n")
    assert [line for line in result.stdout.splitlines() if "no such file" in line] == [
        "::error title=Fuselight::no such.py: there is no such file",
        "::error title=Fuselight::neither.py: there is no such file",
    ]
    assert result.returncode == 2


def test_the_hook_checks_what_a_push_changes(clone: Path, tmp_path: Path) -> None:
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    shutil.copy(ROOT / ".pre-commit-hooks.yaml", hooks)
    git(hooks, "init", "-q", "-b", "main")
    git(hooks, "add", "-A")
    git(hooks, "commit", "-q", "-m", "hooks")
    arguments = ["--python", prepared_interpreter(), "--tries", "0"]
    entry = {"repo": str(hooks), "rev": "main", "hooks": [{"id": "fuselight-check", "args": arguments}]}
    (clone / ".pre-commit-config.yaml").write_text(json.dumps({"repos": [entry]}))
    git(clone, "add", ".pre-commit-config.yaml")
    result = subprocess.run(
        (
            sys.executable,
            "-m",
            "pre_commit",
            "run",
            "--hook-stage",
            "pre-push",
            "--all-files",
            "--color=never",
        ),
        cwd=clone,
        env={
            **os.environ,
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "PRE_COMMIT_HOME": str(tmp_path / "cache"),
        },
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert "fuselight check" in result.stdout
    assert "Failed" in result.stdout, result.stdout + result.stderr
    assert "--> model.py:6:" in result.stdout
    assert "--> model.py:11:" in result.stdout
    assert result.returncode == 1
