"""`fuselight upgrade` from its arguments to its exit code, with workers that answer from reports."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import shutil
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fuselight.shared.protocol import Answer
from fuselight.shared.report import Break, Culprit, Failure, Report, TargetRef
from fuselight_server.base.settings import Interpreter
from fuselight_server.commands import upgrade
from fuselight_server.execution import torch_releases
from fuselight_server.execution.torch_releases import find_side, interpreters_of
from fuselight_server.execution.worker_client.process import WorkerFailed
from tests.support.command import Result, run_cli
from tests.support.reports import VERSIONS, at, broken, report

MODEL = "import torch\n\n# fuselight: step(f32[4])\ndef step(x):\n    return x * x.sum().item()\n"
Serve = Callable[..., "list[Any]"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "model.py").write_text(MODEL)
    for name in ("old", "new"):
        python = tmp_path / name / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text("#!/bin/sh\n")
        python.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch, project: Path) -> Serve:
    """Answer with `old` and `new`; a failure in place of a report is that of the start."""
    requests: list[Any] = []

    def put_in_place(
        old: Report | Failure, new: Report | Failure, torch: tuple[str, str] = ("2.11.0", "2.14.1")
    ) -> list[Any]:
        class FakeWorker:
            def __init__(self, interpreter: Any, **_: Any) -> None:
                is_old = interpreter.executable == str(project / "old" / "bin" / "python")
                self.given, self.torch = (old, torch[0]) if is_old else (new, torch[1])
                self.hello: Any = None

            async def start(self) -> Any:
                if isinstance(self.given, Failure):
                    raise WorkerFailed(self.given)
                self.hello = SimpleNamespace(versions=replace(VERSIONS, torch=self.torch), packages=())
                return self.hello

            async def run(self, request: Any, _progress: Any, _partial: Any) -> Answer:
                assert isinstance(self.given, Report)
                requests.append((self.torch, type(request).__name__))
                target = request.target
                named = TargetRef(target.path, target.name, target.line, target.kind)
                versions = replace(VERSIONS, torch=self.torch)
                return Answer(
                    request.id, replace(self.given, target=named, roots=request.roots, versions=versions)
                )

            async def close(self) -> None:
                """No process to end."""

        monkeypatch.setattr(upgrade, "Worker", FakeWorker)
        return requests

    return put_in_place


def compare(*arguments: str) -> Result:
    return run_cli("upgrade", "model.py", "--from", "old", "--to", "new", "--do", "check", *arguments)


def a_break(project: Path) -> Break:
    return broken(at(5, path=str(project / "model.py"), function="step"))


def test_a_new_warning_is_a_regression_with_its_source(serve: Serve, project: Path) -> None:
    serve(report(), report(breaks=(a_break(project),)))
    done = compare()
    assert done.exit_code == 1
    assert done.stdout.startswith("torch 2.11.0 -> 2.14.1\n\nRegressions\n\nmodel.py: step\n")
    assert "5 |     return x * x.sum().item()" in done.stdout
    assert done.stdout.rstrip().endswith(
        "1 target: 1 compared. Findings: 1 new, 0 fixed, 0 moved, 0 same. 1 regression (1 of findings)."
    )
    assert compare("--fail-on", "failures,kernels").exit_code == 0
    assert compare("--fail-on", "none").exit_code == 0


def test_the_json_has_every_finding_with_its_state(serve: Serve, project: Path) -> None:
    serve(report(breaks=(a_break(project),)), report())
    done = compare("--format", "json")
    data = json.loads(done.stdout)
    assert done.exit_code == 0
    assert (data["before"]["torch"], data["after"]["torch"]) == ("2.11.0", "2.14.1")
    (target,) = data["targets"]
    assert target["state"] == "compared"
    assert [(item["state"], item["finding"]["code"]) for item in target["findings"]] == [("fixed", "GB0170")]
    assert data["regressions"] == {}


def test_annotations_have_the_new_findings_alone(serve: Serve, project: Path) -> None:
    same = broken(at(4, path=str(project / "model.py"), function="step"), gb="GB0059")
    serve(report(breaks=(same,)), report(breaks=(same, a_break(project))))
    (result,) = json.loads(compare("--format", "sarif").stdout)["runs"][0]["results"]
    assert (result["ruleId"], result["level"]) == ("GB0170", "warning")
    done = compare("--format", "github")
    assert done.exit_code == 1
    assert done.stdout.startswith("::warning file=model.py,line=5,")
    assert done.stdout.count("\n") == 1
    serve(report(), report())
    assert compare("--format", "github").stdout == ""


def test_the_page_has_each_difference_and_no_markup_of_the_program(serve: Serve, project: Path) -> None:
    (project / "model.py").write_text(MODEL.replace(".item()", ".item()  # <b>bold</b>"))
    serve(report(), report(breaks=(a_break(project),)))
    page = compare("--format", "html").stdout
    assert page.startswith(("<!doctype html>", "<!DOCTYPE html>"))
    assert "warning[GB0170] model.py:5: " in page
    assert "# &lt;b&gt;bold&lt;/b&gt;" in page
    assert "<b>" not in page
    assert "http:" not in page.replace("http://www.w3.org", "")


def test_a_resumed_comparison_runs_only_what_it_has_not(serve: Serve, project: Path) -> None:
    requests = serve(report(), report())
    assert compare("--out", "kept").exit_code == 0
    assert len(requests) == 2
    compare("--out", "kept", "--resume")
    assert len(requests) == 2
    compare("--out", "kept", "--resume", "--do", "kernels")
    assert len(requests) == 6
    (project / "model.py").write_text(MODEL.replace("sum", "mean"))
    compare("--out", "kept", "--resume")
    assert len(requests) == 8


def test_a_comparison_that_stops_in_its_first_side_has_not_begun_the_second(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    async def stop(_: object) -> Report:
        raise RuntimeError("stopped")

    serve(report(), report())
    monkeypatch.setattr("fuselight_server.commands.targets.TargetRun.run_report", stop)
    warnings.simplefilter("always")
    with pytest.raises(RuntimeError, match="stopped"):
        compare()
    gc.collect()
    assert not [str(item.message) for item in recwarn if "never awaited" in str(item.message)]


def test_targets_run_in_several_lanes_and_keep_their_order(serve: Serve, project: Path) -> None:
    for index in range(5):
        (project / f"part_{index}.py").write_text(MODEL)
    serve(report(), report())
    done = run_cli(
        *("upgrade", ".", "--from", "old", "--to", "new", "--do", "check", "--jobs", "6", "--format", "json")
    )
    names = [target["path"] for target in json.loads(done.stdout)["targets"]]
    assert names == ["model.py", *(f"part_{index}.py" for index in range(5))]


NO_TORCH = Failure(
    Culprit.ENVIRONMENT, "no_torch", "torch is not installed in /x/python", "Install torch there"
)
CANNOT_START = Failure(Culprit.ENVIRONMENT, "no_torch", "/x/python cannot be started: Permission denied")


@pytest.mark.parametrize("failure", [NO_TORCH, CANNOT_START], ids=["no torch", "no start"])
def test_a_side_that_cannot_run_is_an_error_of_its_option(serve: Serve, failure: Failure) -> None:
    serve(report(), failure)
    done = compare()
    assert (done.exit_code, done.stdout) == (2, "")
    assert "`--to " in done.stderr
    assert failure.message in done.stderr


def test_two_sides_with_one_version_are_an_error(serve: Serve) -> None:
    serve(report(), report(), ("2.13.0+cpu", "2.13.0+cpu"))
    done = compare()
    assert done.exit_code == 2
    assert "both sides have torch 2.13.0+cpu" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--from", "missing", "--to", "new"), "`--from missing`: there is no such program"),
        (("--from", "old", "--to", "."), "`--to .`: this folder has no Python"),
        (("--from", "old", "--to", "model.py"), "`--to model.py`: this file is not a program."),
        (
            ("--from", "old", "--to", "v2.14.1"),
            "Give the path of a Python with torch, or the version as `2.14.1`.",
        ),
        (("--from", "2.13.0+cpu", "--to", "new"), "or the version as `2.13.0`."),
        (("--from", "new", "--to", "./new"), "`--from new` and `--to ./new` are the same Python."),
        (("--from", "2.13", "--to", "2.13", "--install"), "`--to 2.13` are the same Python."),
        (("--from", "2.5", "--to", "new"), "`--from 2.5`: Fuselight needs torch 2.6 or newer"),
        (("--from", "2.11", "--to", "new"), "Add `--install`, which downloads up to 3 GB and runs `"),
        (("--from", "old", "--to", "new", "--resume"), "`--resume` needs `--out DIR`"),
        (("--from", "old", "--to", "new", "--measure", "--jobs", "2"), "Use `--jobs 1` with it"),
        (("--from", "old", "--to", "new", "--do", "chek"), "`chek` is none of check, kernels, numerics"),
        (("--from", "old", "--to", "new", "--fail-on", "all"), "`all` is none of failures"),
    ],
)
def test_bad_arguments_are_one_clear_error(
    serve: Serve, project: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(project / "cache"))
    serve(report(), report())
    done = run_cli("upgrade", "model.py", *arguments)
    assert done.exit_code == 2
    assert message in done.stderr
    assert not (project / "cache").exists()


def test_paths_without_a_target_are_an_error(serve: Serve, project: Path) -> None:
    (project / "model.py").write_text("x = 1\n")
    serve(report(), report())
    done = compare()
    assert done.exit_code == 2
    assert "no target" in done.stderr


@pytest.mark.parametrize(
    ("path", "reason"),
    [("gone.py", "cannot analyze gone.py: there is no such file."), ("empty.py", "no class or function has")],
)
def test_nothing_is_installed_without_a_target(
    project: Path, monkeypatch: pytest.MonkeyPatch, path: str, reason: str
) -> None:
    (project / "empty.py").write_text("x = 1\n")
    fake_uv(project, monkeypatch)
    done = run_cli("upgrade", path, "--from", "2.11", "--to", "old", "--install")
    assert done.exit_code == 2
    assert f"nothing was installed, because there is no target: {reason}" in done.stderr
    assert calls_of_uv(project) == []


def fake_uv(project: Path, monkeypatch: pytest.MonkeyPatch, pip: str = "") -> None:
    """A uv that notes its arguments, makes the environment, and does `pip` in place of an installation."""
    folder = project / "bin"
    folder.mkdir()
    uv = folder / "uv"
    uv.write_text(
        f"#!{sys.executable}\nimport os, pathlib, sys, time\n"
        f"os.chdir({str(project)!r})\n"
        "with open('calls.txt', 'a') as file: file.write(' '.join(sys.argv[1:]) + '\\n')\n"
        "with open('variables.txt', 'a') as file: file.write('\\n'.join(os.environ) + '\\n')\n"
        "if sys.argv[1] == 'venv':\n"
        "    python = pathlib.Path(sys.argv[-1], 'bin', 'python')\n"
        "    python.parent.mkdir(parents=True)\n"
        "    python.write_text('#!/bin/sh\\n'); python.chmod(0o755)\n"
        f"else:\n    {pip or 'pass'}\n"
    )
    uv.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(project / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(project / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(project / "configuration"))
    torch_releases._set_by_workspace.cache_clear()


def calls_of_uv(project: Path) -> list[str]:
    calls = project / "calls.txt"
    return calls.read_text().splitlines() if calls.exists() else []


def test_a_version_is_installed_once_and_only_if_asked(
    serve: Serve, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_uv(project, monkeypatch)
    serve(report(), report())
    arguments = ("upgrade", "model.py", "--from", "2.11", "--to", "old", "--do", "check")
    assert run_cli(*arguments, "--install").exit_code == 0
    calls = calls_of_uv(project)
    assert [call.split()[0] for call in calls] == ["venv", "pip"]
    assert calls[1].endswith("torch==2.11.* numpy")
    assert run_cli(*arguments).exit_code == 0
    assert calls_of_uv(project) == calls


NO_RELEASE = "print('Resolved in 1s\\nerror: no such release\\n  cause: only torch<=2.15'); sys.exit(1)"


def test_an_installation_that_fails_leaves_nothing_and_says_why(
    serve: Serve, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_uv(project, monkeypatch, NO_RELEASE)
    serve(report(), report())
    arguments = ("upgrade", "model.py", "--from", "2.11", "--to", "old", "--do", "check")
    done = run_cli(*arguments, "--install")
    assert done.exit_code == 2
    assert "failed: error: no such release\n  cause: only torch<=2.15\n" in done.stderr
    assert list((project / "cache" / "fuselight" / "torch").iterdir()) == []
    assert "Add `--install`" in run_cli(*arguments).stderr


def test_both_versions_are_looked_for_before_the_first_is_downloaded(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_uv(project, monkeypatch, f"if 'torch==99.1.*' in sys.argv: {NO_RELEASE}")
    done = run_cli("upgrade", "model.py", "--from", "2.11", "--to", "99.1", "--install")
    assert done.exit_code == 2
    assert "`--to 99.1`: " in done.stderr
    assert [call.split()[0] for call in calls_of_uv(project)] == ["venv", "venv", "pip"]
    assert calls_of_uv(project)[-1].endswith("--dry-run")


def test_a_cache_folder_that_cannot_be_written_is_named(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_uv(project, monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(project / "model.py"))
    done = run_cli("upgrade", "model.py", "--from", "2.11", "--to", "old", "--install")
    assert done.exit_code == 2
    folder = project / "model.py" / "fuselight" / "torch"
    assert (
        f"`{folder}` cannot be written: Not a directory. Name another cache folder in XDG_CACHE_HOME."
        in done.stderr
    )


def test_two_installations_at_once_run_one_after_the_other(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = "while not os.path.exists('go'): time.sleep(0.01)"
    fake_uv(project, monkeypatch, release)
    shown: list[str] = []

    def show(text: str) -> None:
        shown.append(text)
        if text.startswith("waiting"):
            (project / "go").touch()

    monkeypatch.setattr(torch_releases, "_WAIT_SECONDS", 0.01)
    side = find_side("2.11", "--from", os.environ)

    async def install_twice() -> list[list[Interpreter]]:
        return await asyncio.gather(*(interpreters_of([side], show) for _ in range(2)))

    results = asyncio.run(install_twice())
    assert results[0] == results[1]
    assert [call.split()[0] for call in calls_of_uv(project)] == ["venv", "pip"]
    assert any(text.startswith("waiting for another `--install`") for text in shown)


def test_an_installation_that_is_cancelled_leaves_nothing(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(project / "started")
    fake_uv(project, monkeypatch, "open('started', 'w').close(); time.sleep(600)")
    side = find_side("2.11", "--from", os.environ)

    async def install_and_cancel() -> None:
        work = asyncio.ensure_future(interpreters_of([side], lambda _: None))
        await asyncio.to_thread((project / "started").read_bytes)
        work.cancel()
        await work

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(install_and_cancel())
    assert list((project / "cache" / "fuselight" / "torch").iterdir()) == []


INSTALL = ("upgrade", "model.py", "--from", "2.11", "--to", "old", "--do", "check", "--install")


def test_uv_reads_no_configuration_of_the_workspace(
    serve: Serve, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_uv(project, monkeypatch)
    serve(report(), report())
    (project / ".env").write_text("export HTTPS_PROXY=http://there\nSSL_CERT_FILE = 'a.pem'\n")
    for name in ("HTTPS_PROXY", "SSL_CERT_FILE", "UV_INDEX_URL", "uv_find_links", "PIP_INDEX_URL", "OWN"):
        monkeypatch.setenv(name, "there")
    assert run_cli(*INSTALL).exit_code == 0
    assert all("--no-config" in call and "--config-file" not in call for call in calls_of_uv(project))
    variables = {name.upper() for name in (project / "variables.txt").read_text().split()}
    assert "OWN" in variables
    assert not [name for name in variables if name.startswith(("UV_", "PIP_", "HTTPS_", "SSL_CERT_FILE"))]


def test_the_users_own_configuration_of_uv_holds_and_has_its_own_environment(
    serve: Serve, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_uv(project, monkeypatch)
    serve(report(), report())
    plain = find_side("2.11", "--from", os.environ)
    own = project / "configuration" / "uv" / "uv.toml"
    own.parent.mkdir(parents=True)
    folders = {getattr(plain, "folder", None)}
    for index in ("https://a.example/simple", "https://b.example/simple"):
        own.write_text(f'index-url = "{index}"\n')
        assert run_cli(*INSTALL).exit_code == 0
        side = find_side("2.11", "--from", os.environ)
        folders.add(getattr(side, "folder", None))
    calls = calls_of_uv(project)
    assert len(calls) == 4
    assert all(f"--no-config --config-file {own}" in call for call in calls)
    assert len(folders) == 3


@pytest.mark.parametrize("change", ["unsigned", "copied", "exchanged", "other key", "open to all"])
def test_an_environment_that_fuselight_did_not_install_is_not_used(
    serve: Serve, project: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    record = "record.parent.mkdir(parents=True); record.write_text('torch/a.py,sha256=1,2')"
    place = "pathlib.Path(sys.argv[sys.argv.index('--python') + 1], 'lib/python3.11/site-packages')"
    fake_uv(project, monkeypatch, f"record = {place} / 'torch-2.11.0.dist-info/RECORD'; {record}")
    serve(report(), report())
    assert run_cli(*INSTALL).exit_code == 0
    assert run_cli(*INSTALL[:-1]).exit_code == 0
    installed = project / "cache" / "fuselight" / "torch" / "2.11"
    if change == "unsigned":
        (installed / "fuselight-complete").write_bytes(b"")
    elif change == "copied":
        monkeypatch.setenv("XDG_CACHE_HOME", str(project / "brought"))
        shutil.copytree(project / "cache", project / "brought")
    elif change == "exchanged":
        next(installed.rglob("RECORD")).write_text("torch/a.py,sha256=2,2")
    elif change == "other key":
        monkeypatch.setenv("XDG_STATE_HOME", str(project / "another"))
    else:
        installed.chmod(0o777)
    done = run_cli(*INSTALL[:-1])
    assert done.exit_code == 2
    assert "this version is not installed" in done.stderr


def test_a_folder_with_the_name_of_a_version_is_not_taken_for_it(project: Path) -> None:
    shutil.copytree(project / "old", project / "2.12")
    (project / "2.13").write_text("")
    for name in ("2.12", "2.13"):
        assert getattr(find_side(name, "--to", {}), "version", None) == name
    side = find_side("./2.12", "--to", {})
    assert getattr(side, "executable", None) == str(project / "2.12" / "bin" / "python")


@pytest.mark.parametrize("path", ["", ".", "bin", os.pathsep])
def test_a_uv_of_the_working_folder_does_not_run(
    project: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    fake_uv(project, monkeypatch)
    shutil.copy(project / "bin" / "uv", project / "uv")
    monkeypatch.setattr(sys, "executable", str(project / "none" / "python"))
    assert getattr(find_side("2.12", "--to", {"PATH": path}), "uv", "") is None


def test_an_environment_is_named_by_its_folder_and_keeps_its_own_path(project: Path) -> None:
    (project / "link").symlink_to(project / "old" / "bin" / "python")
    side = find_side(str(project / "link"), "--from", {})
    assert getattr(side, "executable", None) == str(project / "link")
    side = find_side("old", "--from", {})
    assert getattr(side, "executable", None) == str(project / "old" / "bin" / "python")
