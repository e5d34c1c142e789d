"""Each tool over a worker that answers at once, or over recorded logs: data by its schema, text, refusals."""

from __future__ import annotations

import dataclasses
import difflib
import json
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fuselight.shared.protocol import GenerateRequest, MeasureRequest, TuneRequest, VerifyRequest
from fuselight.shared.report import (
    Aspect,
    Call,
    CallComparison,
    Culprit,
    Difference,
    Failure,
    Inputs,
    LinesRun,
    Report,
    Rung,
    TargetRef,
    Verification,
)
from fuselight_server.agents.catalog import TOOLS
from fuselight_server.agents.tools import patches, timed, traces
from fuselight_server.base.unified_diff import apply_diff
from fuselight_server.commands.fix import Attempt, FixOutcome, FixStatus
from fuselight_server.commands.outcome import CheckOutcome
from fuselight_server.commands.sources import read_text
from fuselight_server.commands.tune import TuningOutcome
from fuselight_server.commands.warm import WarmState
from fuselight_server.explain.benchmarks.planning import history_of
from fuselight_server.explain.findings import findings
from fuselight_server.fixes.rewrites.families import FixClass, Remedy
from tests.support.agents import MemoryClient, session_of, talk, toolbox_of
from tests.support.command import AnsweringWorker, run_cli
from tests.support.fix_world import patch_remedies
from tests.support.measured import benchmark, graph, kernel, row
from tests.support.reports import at, broken, report
from tests.support.trace_logs import RECORDINGS
from tests.support.tuned import search

TEXT = """\
import torch

# fuselight: scale(f32[4])
@torch.compile
def scale(x):
    print(x)
    return x * 2
"""
QUIET = TEXT.replace("    print(x)\n", "")
DIFF = "--- a/model.py\n+++ b/model.py\n@@\n def scale(x):\n-    print(x)\n     return x * 2\n"
CALLS = ("recorded inputs", "other values 1")
SCHEMAS = {tool.name: tool.description_data()["outputSchema"] for tool in TOOLS}
_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def check_schema(data: Any, schema: dict[str, Any], where: str = "answer") -> None:
    """A part of JSON Schema that is enough for the schemas of the tools."""
    kinds = schema["type"] if isinstance(schema.get("type"), list) else [schema.get("type", "object")]
    assert isinstance(data, tuple(kind for name in kinds for kind in _PYTHON_TYPES[name])), (
        where,
        data,
        kinds,
    )
    if "enum" in schema:
        assert data in schema["enum"], where
    if isinstance(data, list):
        for number, item in enumerate(data):
            check_schema(item, schema.get("items", {}), f"{where}[{number}]")
    if isinstance(data, dict):
        assert set(schema.get("required", ())) <= data.keys(), where
        for name, inner in schema.get("properties", {}).items():
            if name in data:
                check_schema(data[name], inner, f"{where}.{name}")


async def ask(client: MemoryClient, tool: str, **arguments: Any) -> tuple[dict[str, Any], str]:
    """The data and the text of an answer, which fits the tool's schema."""
    result = await client.call(tool, **arguments)
    assert not result["isError"], result
    data = result["structuredContent"]
    check_schema(data, SCHEMAS[tool])
    assert data["state"] == "done"
    return data, result["content"][0]["text"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "model.py").write_text(TEXT)
    return tmp_path


def scale(path: Path, text: str, **parts: Any) -> Report:
    """What a run of a text finds."""
    lines = text.split("\n")
    breaks = [number for number, line in enumerate(lines, 1) if "print" in line]
    return report(
        target=TargetRef(str(path), "scale", 5, "function"),
        inputs=Inputs(Rung.DIRECTIVE, str(path), 3),
        roots=(str(path.parent),),
        files={str(path): ""},
        breaks=tuple(broken(at(line, path=str(path), function="scale")) for line in breaks),
        **parts,
    )


def verifying(
    project: Path, *answers: Verification | Failure, old: Verification | None = None
) -> AnsweringWorker:
    """Answers verifications of new texts with each of `answers`, the last one again, and of the old one with `old`."""
    path, left = project / "model.py", list(answers)

    def answer(request: Any) -> Report:
        text = request.overlays.get(str(path), TEXT)
        if not isinstance(request, VerifyRequest):
            return scale(path, text)
        if request.records:
            return scale(path, text, verification=old or Verification())
        next_answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(next_answer, Failure):
            return scale(path, text, failures=(next_answer,))
        return scale(path, text, verification=next_answer)

    return AnsweringWorker(answer)


def compared(*differences: Difference, compiled: bool = False) -> Verification:
    comparisons = [CallComparison(0, CALLS[0], mode) for mode in (False, True)]
    return Verification((*comparisons, CallComparison(1, CALLS[1], compiled, differences)))


def differs(aspect: Aspect = Aspect.OUTPUT) -> Difference:
    return Difference(aspect, "it differs")


ROUNDS = Difference(Aspect.OUTPUT, "it rounds", rounding=True)


# verify_patch, and `fuselight verify`


@pytest.mark.parametrize(
    ("answers", "allow", "expected"),
    [
        ([compared()], [], ("same", "exact", "same results")),
        ([compared(ROUNDS)], [], ("same", "equal", "same results")),
        ([compared(differs())], [], ("differs", None, "it differs")),
        ([compared(), compared(differs(Aspect.STATE))], [], ("differs", None, "it differs")),
        ([compared(differs(Aspect.PRINTED))], [], ("differs", None, "it differs")),
        ([compared(differs(Aspect.PRINTED))], ["printed_text"], ("same", "changes", "changes behavior")),
        ([compared()], ["printed_text"], ("same", "exact", "same results")),
        ([compared(differs())], ["printed_text"], ("differs", None, "it differs")),
        ([Failure(Culprit.USER, "exception", "NameError: y")], [], ("fails", None, "fails: NameError: y")),
        ([Verification(refused="random results")], [], ("unverified", None, "random results")),
        ([Verification()], [], ("unverified", None, "no call was compared")),
    ],
)
def test_a_patch_has_a_verdict_with_its_reason(
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    answers: list[Any],
    allow: list[str],
    expected: tuple[str, str | None, str],
) -> None:
    verdict, of_class, why = expected
    verifying(project, *answers).put_in_place(monkeypatch)

    async def script(client: MemoryClient) -> None:
        data, text = await ask(client, "verify_patch", diff=DIFF, allow=allow)
        assert (data["verdict"], data["passed"]) == (verdict, verdict == "same")
        (target,) = data["targets"]
        assert target["class"] == of_class
        assert why in target["why"]
        assert why in text
        assert (target["before"]["breaks"], target["after"]["breaks"]) == (1, 0)
        assert [line.partition(": ")[0] for line in target["findings_fixed"]] == ["model.py:6"]
        assert target["findings_new"] == []

    talk(lambda: toolbox_of(project), script)
    assert (project / "model.py").read_text() == TEXT


def test_a_whole_new_text_is_verified_as_its_diff_is(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = verifying(project, compared())
    worker.put_in_place(monkeypatch)

    async def script(client: MemoryClient) -> None:
        whole, _ = await ask(client, "verify_patch", path="model.py", new_text=QUIET)
        assert whole == (await ask(client, "verify_patch", diff=DIFF))[0]
        new, _ = await ask(
            client, "verify_patch", path="model.py", new_text=TEXT + "\nprint(1)\n", case_seconds=0
        )
        assert [finding["line"] for finding in new["targets"][0]["findings_new"]] == [9]

    talk(lambda: toolbox_of(project), script)
    texts = {request.overlays.get(str(project / "model.py")) for request in worker.requests}
    assert texts >= {QUIET, TEXT}


def test_changed_lines_that_no_call_ran_are_named(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = QUIET.replace("x * 2", "x * 3")
    path = str(project / "model.py")
    ran = dataclasses.replace(compared(), lines_run=(LinesRun(path, (6,)),))
    unrun = dataclasses.replace(compared(), lines_run=(LinesRun(path, ()),))
    verifying(project, unrun).put_in_place(monkeypatch)

    async def script(client: MemoryClient) -> None:
        data, text = await ask(client, "verify_patch", path="model.py", new_text=changed)
        assert (data["verdict"], data["targets"][0]["lines_not_run"]) == ("same", ["model.py:6"])
        assert data["why"] == "same results, but no ordinary call ran line 6 of the new text"
        assert data["why"] in text
        verifying(project, unrun, ran).put_in_place(monkeypatch)
        data, _ = await ask(client, "verify_patch", path="model.py", new_text=changed)
        assert (data["why"], data["targets"][0]["lines_not_run"]) == ("same results", [])

    talk(lambda: toolbox_of(project), script)


def test_a_changed_line_that_another_target_ran_is_not_named(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(project / "model.py")
    more = "\n\n# fuselight: double(f32[2])\ndef double(x):\n    return x + x\n"
    (project / "model.py").write_text(TEXT + more)
    changed = (TEXT + more).replace("x * 2", "x * 2.0").replace("x + x", "2 * x")

    def answer(request: Any) -> Report:
        ran = (7,) if request.target.name == "scale" else ()
        parts = {"verification": dataclasses.replace(compared(), lines_run=(LinesRun(path, ran),))}
        name = TargetRef(path, request.target.name, 5, "function")
        part = scale(Path(path), TEXT, **(parts if isinstance(request, VerifyRequest) else {}))
        return dataclasses.replace(part, target=name)

    AnsweringWorker(answer).put_in_place(monkeypatch)

    async def script(client: MemoryClient) -> None:
        data, _ = await ask(client, "verify_patch", path="model.py", new_text=changed, case_seconds=0)
        last = len(changed.splitlines())
        assert [(target["target"], target["lines_not_run"]) for target in data["targets"]] == [
            ("scale", [f"model.py:{last}"]),
            ("double", [f"model.py:{last}"]),
        ]

    talk(lambda: toolbox_of(project), script)


def test_a_patch_without_torch_says_that_nothing_ran(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failure = Failure(Culprit.ENVIRONMENT, "no_torch", "/x/python has no torch")
    failed = dataclasses.replace(scale(project / "model.py", "", failures=(failure,)), inputs=None)
    worker = AnsweringWorker(lambda _request: failed)
    worker.put_in_place(monkeypatch)

    async def script(client: MemoryClient) -> None:
        data, _ = await ask(client, "verify_patch", path="model.py", new_text="x = 1\n")
        assert data["why"] == (
            "it cannot be verified: the code before the change did not run: /x/python has no torch"
        )
        (target,) = data["targets"]
        assert (target["findings_fixed"], target["findings_new"]) == ([], [])
        assert len(target["findings_kept"]) == 1

    talk(lambda: toolbox_of(project), script)
    assert len(worker.requests) == 1


def test_a_patch_that_drops_a_call_is_not_proven(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = project / "model.py"

    def answer(request: Any) -> Report:
        text = request.overlays.get(str(path), TEXT)
        calls = tuple(Call(0, f"scale(f32[{size}])") for size in ((4, 8) if text == TEXT else (4,)))
        inputs = Inputs(Rung.DIRECTIVE, str(path), 3, calls)
        is_new = isinstance(request, VerifyRequest) and not request.records
        verification = compared() if is_new else Verification()
        return dataclasses.replace(scale(path, text, verification=verification), inputs=inputs)

    AnsweringWorker(answer).put_in_place(monkeypatch)

    async def script(client: MemoryClient) -> None:
        data, text = await ask(client, "verify_patch", diff=DIFF)
        assert (data["verdict"], data["passed"]) == ("unverified", False)
        assert "changes which calls are made" in text

    talk(lambda: toolbox_of(project), script)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "either a `diff`, or a `path`"),
        ({"diff": DIFF, "path": "model.py", "new_text": ""}, "either a `diff`"),
        ({"path": "model.py"}, "either a `diff`"),
        (
            {"diff": DIFF.replace("print(x)", "show(x)")},
            "but line 6 is `    print(x)`. Nothing was verified.",
        ),
        (
            {"diff": DIFF.replace("a/model.py", "/x.py").replace("b/model.py", "/x.py")},
            "outside of the folders",
        ),
        ({"path": "model.py", "new_text": TEXT}, "the new text is the text on disk"),
        ({"path": "model.py", "new_text": TEXT + "#" * 500_000}, "up to 500,000 are verified"),
        ({"diff": DIFF, "allow": ["everything"]}, "which is none of `random_numbers`"),
        ({"diff": DIFF, "run_paths": ["absent.py"]}, "no file or folder `absent.py`"),
    ],
)
def test_a_patch_that_cannot_be_applied_is_refused(
    project: Path, monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any], message: str
) -> None:
    verifying(project, compared()).put_in_place(monkeypatch)

    async def script(client: MemoryClient) -> None:
        assert message in await client.refusal("verify_patch", **arguments)

    talk(lambda: toolbox_of(project), script)


def test_a_patch_that_no_target_runs_is_not_proven(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "other.py").write_text("x = 1\n")
    verifying(project, compared()).put_in_place(monkeypatch)

    async def script(client: MemoryClient) -> None:
        change = {"path": "other.py", "new_text": "x = 2\n"}
        data, text = await ask(client, "verify_patch", **change, run_paths=["model.py"])
        assert (data["verdict"], data["passed"]) == ("unverified", False)
        assert "no target runs what the change touches" in text
        assert data["targets"][0]["verdict"] == "unconcerned"
        data, _ = await ask(client, "verify_patch", **change)
        assert data["why"] == "nothing ran: name a target with inputs, or a file that runs the changed text"

    talk(lambda: toolbox_of(project), script)


def test_the_terminal_verifies_a_file_and_a_diff(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verifying(project, compared()).put_in_place(monkeypatch)
    (project / "new.txt").write_text(QUIET)
    (project / "change.diff").write_text(DIFF)
    done = run_cli("verify", "model.py", "--new", "new.txt")
    assert (done.exit_code, done.stderr.count("error")) == (0, 0)
    assert done.stdout.startswith("scale (model.py): The results are the same (exact): same results.\n")
    assert "graphs" in done.stdout
    data = json.loads(run_cli("verify", "model.py", "--diff", "change.diff", "--format", "json").stdout)
    assert (data["schema"], data["passed"], data["targets"][0]["compared"]) == (1, True, list(CALLS))
    verifying(project, compared(differs())).put_in_place(monkeypatch)
    done = run_cli("verify", "model.py", "--new", "new.txt", "--allow", "printed_text")
    assert done.exit_code == 1
    assert "Refused: the results differ: it differs" in done.stdout
    assert run_cli("verify", "model.py", "--new", "absent.txt").exit_code == 2
    assert run_cli("verify", "model.py").exit_code == 2
    (project / "change.diff").write_text("nothing")
    done = run_cli("verify", "model.py", "--diff", "change.diff")
    assert "has no hunk" in done.stderr


# explain


def test_a_finding_is_explained_with_the_code_around_it(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    AnsweringWorker(lambda _request: scale(project / "model.py", TEXT)).put_in_place(monkeypatch)

    async def script(client: MemoryClient) -> None:
        data, text = await ask(client, "explain", path="model.py", line=6)
        (finding,) = data["findings"]
        assert (finding["code"], finding["line"]) == ("GB0170", 6)
        assert ">    6     print(x)" in finding["source"]
        assert "     5 def scale(x):" in finding["source"]
        assert finding["message"] in text
        assert finding["link"] in text
        message = await client.refusal("explain", path="model.py", line=7)
        assert message == "there is no such finding. `model.py` has findings on line 6."
        assert "no such finding" in await client.refusal("explain", path="model.py", line=6, code="FL201")
        assert "name a `path`" in await client.refusal("explain")

    talk(lambda: toolbox_of(project), script)


def written_notebook(project: Path) -> tuple[Path, str]:
    """A notebook of two cells, the imports and the rest of the program, and its text as Python."""
    path = project / "n.ipynb"
    sources = ["import torch\n", TEXT.partition("import torch\n")[2].strip()]
    cells = [{"cell_type": "code", "source": source} for source in sources]
    path.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4}))
    text = read_text(path)
    assert isinstance(text, str)
    return path, text


def test_findings_of_a_notebook_are_in_its_cells(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, text = written_notebook(project)
    AnsweringWorker(lambda _request: scale(path, text)).put_in_place(monkeypatch)

    async def script(client: MemoryClient) -> None:
        data, _ = await ask(client, "check", paths=["n.ipynb"])
        assert [(finding["path"], finding["line"]) for finding in data["findings"]] == [("n.ipynb:cell 2", 4)]
        for place in ({"path": "n.ipynb:cell 2", "line": 4}, {"path": "n.ipynb"}):
            _, explained = await ask(client, "explain", **place)
            assert ">    4     print(x)" in explained
        assert "no such finding" in await client.refusal("explain", path="n.ipynb:cell 2", line=1)
        assert "has no findings" in await client.refusal("explain", path="n.ipynb:cell 1")

    talk(lambda: toolbox_of(project), script)


def test_a_change_of_a_notebook_is_one_of_its_cells(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = project / "n.ipynb"
    function = TEXT.partition("import torch\n")[2].strip()
    old, cells = (
        "import torch\n%cd .",
        [{"cell_type": "code", "source": ""}, {"cell_type": "code", "source": function}],
    )
    cells[0]["source"] = old
    path.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4}))
    text = read_text(path)
    assert isinstance(text, str)
    changed = function.replace("return x * 2", "y = x * 2\n    print(y)\n    return y")
    unrun = dataclasses.replace(compared(), lines_run=(LinesRun(str(path), ()),))

    def answer(request: Any) -> Report:
        parts = {"verification": unrun} if isinstance(request, VerifyRequest) else {}
        return scale(path, request.overlays.get(str(path), text), **parts)

    worker = AnsweringWorker(answer)
    worker.put_in_place(monkeypatch)
    whole = [cells[0], {"cell_type": "code", "source": changed}]
    diff = "--- a/n.ipynb:cell 2\n+++ b/n.ipynb:cell 2\n@@\n     print(x)\n-    return x * 2\n"
    diff += "+    y = x * 2\n+    print(y)\n+    return y\n"
    changes: list[dict[str, str]] = [
        {"path": "n.ipynb", "new_text": json.dumps({"cells": whole, "metadata": {}, "nbformat": 4})},
        {"path": "n.ipynb:cell 2", "new_text": changed},
        {"diff": diff},
    ]

    async def script(client: MemoryClient) -> None:
        for change in changes:
            data, _ = await ask(client, "verify_patch", **change, case_seconds=0)
            (target,) = data["targets"]
            assert [(new["path"], new["line"]) for new in target["findings_new"]] == [("n.ipynb:cell 2", 6)]
            assert target["findings_kept"][0].startswith("n.ipynb:cell 2:4: ")
            assert data["why"] == (
                "same results, but not compared: other inputs, and no ordinary call ran cell 2, "
                "lines 5-7 of the new text or cell 2, line 5 of the old text"
            )
        assert "has no cell 3" in await client.refusal("verify_patch", path="n.ipynb:cell 3", new_text="")
        assert "is damaged" in await client.refusal("verify_patch", path="n.ipynb", new_text="{")

    talk(lambda: toolbox_of(project), script)
    verified = {
        request.overlays[str(path)] for request in worker.requests if isinstance(request, VerifyRequest)
    }
    assert verified == {text, text.replace(function, changed)}


def test_long_lines_around_a_finding_are_cut(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = TEXT.replace("    return", f"    text = '{'x' * 100_000}'\n    return")
    (project / "model.py").write_text(text)
    AnsweringWorker(lambda _request: scale(project / "model.py", text)).put_in_place(monkeypatch)

    async def script(client: MemoryClient) -> None:
        _, explained = await ask(client, "explain", path="model.py", line=6)
        assert "xxx... (100,013 characters)" in explained
        assert len(explained) < 5_000

    talk(lambda: toolbox_of(project), script)


def test_a_code_is_explained_without_a_run(project: Path) -> None:
    async def script(client: MemoryClient) -> None:
        data, _ = await ask(client, "explain", code="fl201")
        assert (data["code"], data["title"]) == ("FL201", "recompiled")
        assert data["page"].startswith("# FL201")
        for code in ("FL999", "x"):
            assert f"no code `{code}`" in await client.refusal("explain", code=code)

    talk(lambda: toolbox_of(project, allowed=False), script)


def _installed_torch(project: Path, registry: object) -> None:
    """An environment of the project whose torch has this registry."""
    binaries, package = project / ".venv/bin", project / ".venv/lib/python3.11/site-packages/torch/_dynamo"
    for folder in (binaries, package):
        folder.mkdir(parents=True)
    (binaries / "python").write_text("#!/bin/sh\n")
    (binaries / "python").chmod(0o700)
    text = registry if isinstance(registry, str) else json.dumps(registry)
    (package / "graph_break_registry.json").write_text(text)


REGISTERED = {
    "Gb_type": "Cannot fold a `Moebius` strip",
    "Explanation": "Dynamo cannot fold {name}.",
    "Hints": ["Cut the strip first.", "Please report an issue to PyTorch. "],
}


def test_each_code_of_the_installed_torch_has_a_title_a_cause_and_a_step(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    silent = {"Gb_type": "Silent", "Explanation": "", "Hints": ["Please report an issue to PyTorch."]}
    damaged = {"GB0777": [], "GB0776": "x", "GB0775": [{"Gb_type": 3}], "GB0774": [{"Hints": "x"}]}
    known = {
        "GB9998": [REGISTERED, {"Gb_type": "old"}],
        "GB9997": [silent],
        "GB0170": [REGISTERED],
        **damaged,
    }
    _installed_torch(project, known)

    async def script(client: MemoryClient) -> None:
        data, text = await ask(client, "explain", code="gb9998")
        assert data["title"] == "Cannot fold a `Moebius` strip"
        assert "Dynamo cannot fold {name}" in text
        assert "What to do: Cut the strip first" in text
        assert "report an issue" not in text
        assert data["link"].endswith("gb9998.html")
        data, text = await ask(client, "explain", code="GB9997")
        assert data["title"] == "Silent"
        assert "What to do: Move the line before or after the compiled code" in text
        data, text = await ask(client, "explain", code="GB0170")
        assert data["title"] != REGISTERED["Gb_type"], "our own words come first"
        assert "torch.where" in text
        for code in (*damaged, "GB0001"):
            assert "has no graph break" in await client.refusal("explain", code=code)
        data, text = await ask(client, "explain", code="GB0059")
        assert data["title"], "ours, without the registry"
        assert "What to do: " in text

    talk(lambda: toolbox_of(project, allowed=False), script)


@pytest.mark.parametrize("registry", ["{", "[1]", "[" * 100_000, "\x00"])
def test_a_damaged_registry_is_as_none(project: Path, monkeypatch: pytest.MonkeyPatch, registry: str) -> None:
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    _installed_torch(project, registry)

    async def script(client: MemoryClient) -> None:
        assert "has no graph break" in await client.refusal("explain", code="GB9998")
        assert (await ask(client, "explain", code="GB0059"))[0]["title"]

    talk(lambda: toolbox_of(project, allowed=False), script)


@pytest.mark.parametrize("ran_inputs", [None, Inputs(Rung.DIRECTIVE, "model.py", 3)])
def test_a_text_that_does_not_run_fixes_no_finding(
    project: Path, monkeypatch: pytest.MonkeyPatch, ran_inputs: Inputs | None
) -> None:
    path = project / "model.py"
    broken_text = TEXT.replace("    print(x)\n", "    return (\n")

    def answer(request: Any) -> Report:
        if request.overlays.get(str(path), TEXT) == TEXT:
            return scale(path, TEXT, verification=Verification())
        failure = Failure(Culprit.USER, "import", "SyntaxError: '(' was never closed", stack=(at(6),))
        return dataclasses.replace(scale(path, "", failures=(failure,)), inputs=ran_inputs)

    AnsweringWorker(answer).put_in_place(monkeypatch)

    async def script(client: MemoryClient) -> None:
        data, text = await ask(client, "verify_patch", path="model.py", new_text=broken_text)
        (target,) = data["targets"]
        assert (data["verdict"], target["findings_fixed"], target["after"]) == ("fails", [], None)
        assert "never closed" in text
        assert "breaks 1, recompilations 0; the new text did not run" in text
        assert "->" not in text

    talk(lambda: toolbox_of(project), script)


def test_a_file_of_a_package_is_verified_by_the_file_that_an_earlier_check_ran(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = project / "layers"
    package.mkdir()
    (package / "block.py").write_text("def block(x):\n    return x\n")
    ran = scale(project / "model.py", TEXT)
    ran = dataclasses.replace(ran, files={**ran.files, str(package / "block.py"): ""})
    AnsweringWorker(lambda _request: ran).put_in_place(monkeypatch)

    async def script(client: MemoryClient) -> None:
        change = {"path": "layers/block.py", "new_text": "def block(x):\n    return x + 0\n"}
        data, _ = await ask(client, "verify_patch", **change)
        assert "run_paths" not in data["why"]
        await ask(client, "check", paths=["model.py"])
        data, text = await ask(client, "verify_patch", **change)
        assert data["why"].endswith("An earlier check of `model.py` ran it: name that in `run_paths`")
        assert data["why"] in text

    talk(lambda: toolbox_of(project), script)


# Kernels, benchmarks, searches


def test_a_target_that_did_not_run_says_where_and_why(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = at(4, path=str(project / "model.py"))
    failure = Failure(Culprit.USER, "inputs", "invalid syntax", stack=(place,))
    failed = dataclasses.replace(scale(project / "model.py", "", failures=(failure,)), inputs=None)
    AnsweringWorker(lambda _request: failed).put_in_place(monkeypatch)

    async def script(client: MemoryClient) -> None:
        data, text = await ask(client, "kernels", paths=["model.py"])
        assert data["targets"][0]["failures"] == ["model.py:4: invalid syntax"]
        data, text = await ask(client, "forecast", paths=["model.py"])
        assert text.splitlines()[0] == "scale (model.py:5): nothing was compiled"
        assert text.splitlines()[1] == "  no forecast: not run: model.py:4: invalid syntax"

    talk(lambda: toolbox_of(project), script)


def test_the_kernels_of_a_line(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = project / "model.py"
    kernels = (kernel(6, name="first"), kernel(7, launch=1, name="second"))
    generated = (graph(*(_moved(each, str(path)) for each in kernels)),)

    def answer(request: Any) -> Report:
        assert isinstance(request, GenerateRequest)
        return dataclasses.replace(scale(path, TEXT), generated=generated)

    AnsweringWorker(answer).put_in_place(monkeypatch)

    async def script(client: MemoryClient) -> None:
        data, text = await ask(client, "kernels", paths=["model.py"])
        assert [item["name"] for item in data["targets"][0]["kernels"]] == ["first", "second"]
        assert "Nothing was launched" in text
        data, _ = await ask(client, "kernels", paths=["model.py"], line=7, and_line=6, source=True)
        (target,) = data["targets"]
        assert [item["name"] for item in target["kernels"]] == ["second"]
        assert [line["line"] for line in target["lines"]] == ["model.py:7"]
        assert target["fusion"]
        data, text = await ask(client, "kernels", paths=["model.py"], line=1)
        assert "Line 1 has a part in no kernel" in text
        assert "no-such-gpu" in await client.refusal("kernels", paths=["model.py"], device="no-such-gpu")
        refused = await client.refusal("kernels", paths=["model.py"], device="x" * 60_000)
        assert "(56," in refused
        assert len(refused) < 4_100

    talk(lambda: toolbox_of(project), script)


def test_the_kernels_of_a_line_in_a_cell(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, text = written_notebook(project)
    rows = [number for number, line in enumerate(text.split("\n"), 1) if "print" in line or "return" in line]
    generated = (graph(*(_moved(kernel(row, launch=row, name=f"k{row}"), str(path)) for row in rows)),)
    ran = dataclasses.replace(scale(path, text), generated=generated)
    AnsweringWorker(lambda _request: ran).put_in_place(monkeypatch)

    async def script(client: MemoryClient) -> None:
        for cell in ({}, {"cell": 2, "and_cell": 2}):
            data, _ = await ask(client, "kernels", paths=["n.ipynb"], line=5, and_line=4, **cell)
            (target,) = data["targets"]
            assert [(line["line"], line["source"]) for line in target["lines"]] == [
                ("n.ipynb:cell 2:5", "return x * 2")
            ]
            assert target["fusion"].startswith("Cell 2, line 5 and cell 2, line 4 are not fused")
        data, _ = await ask(client, "kernels", paths=["n.ipynb"], line=1, cell=1)
        assert data["targets"][0]["rest"] == "Cell 1, line 1 has a part in no kernel of these calls."
        assert "`cell` needs `line`" in await client.refusal("kernels", paths=["n.ipynb"], cell=1)
        assert "is none" in await client.refusal("kernels", paths=["model.py"], line=1, cell=1)

    talk(lambda: toolbox_of(project), script)


def _moved(each: Any, path: str) -> Any:
    operators = tuple(
        dataclasses.replace(
            operator, stack=tuple(dataclasses.replace(frame, path=path) for frame in operator.stack)
        )
        for operator in each.operators
    )
    return dataclasses.replace(each, operators=operators)


def test_a_benchmark_says_what_was_measured(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = project / "model.py"

    def answer(request: Any) -> Report:
        assert isinstance(request, MeasureRequest)
        measured = benchmark(row("eager", 200.0), row("default", 100.0))
        return dataclasses.replace(measured, target=TargetRef(str(path), "scale", 5, "function"))

    AnsweringWorker(answer).put_in_place(monkeypatch)

    async def script(client: MemoryClient) -> None:
        data, text = await ask(client, "benchmark", paths=["model.py"], configurations=["eager", "default"])
        (target,) = data["targets"]
        assert [item["name"] for item in target["configurations"]] == ["eager", "default"]
        assert target["configurations"][1]["speedup"] == 2.0
        assert "measured on this machine" in text
        assert "±" in target["configurations"][0]["time"]
        again, _ = await ask(client, "benchmark", paths=["model.py"], against="last")
        assert again["targets"][0]["comparison"]["changes"] == ["nothing changed by more than the spread"]
        runs = {"before": target["run"], "after": again["targets"][0]["run"]}
        both, _ = await ask(client, "compare", path="model.py", targets=["scale"], **runs)
        assert (both["kind"], both["changes"]) == ("benchmarks", ["nothing changed by more than the spread"])
        assert "no run `gone`" in await client.refusal(
            "compare", path="model.py", targets=["scale"], before="gone", after="last"
        )
        assert "`h100`" in await client.refusal("benchmark", paths=["model.py"], device="h100")
        assert "fastest" in await client.refusal("benchmark", paths=["model.py"], configurations=["fastest"])

    talk(lambda: toolbox_of(project), script)


def test_a_search_says_what_it_decided_and_where_it_is_written(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = project / "model.py"

    def answer(request: Any) -> Report:
        answered = search() if isinstance(request, TuneRequest) else scale(path, QUIET)
        return dataclasses.replace(answered, target=TargetRef(str(path), "scale", 5, "function"))

    AnsweringWorker(answer).put_in_place(monkeypatch)

    async def script(client: MemoryClient) -> None:
        data, text = await ask(client, "tune", paths=["model.py"], budget_seconds=60)
        (target,) = data["targets"]
        assert target["file"] == "fuselight-tuned.json"
        assert (project / "fuselight-tuned.json").exists()
        assert target["configuration"] in text
        assert target["replay"] in text
        assert target["gain_over_default"] > 1

    talk(lambda: toolbox_of(project), script)


def test_a_search_that_was_canceled_early_has_nothing() -> None:
    text = timed._tuned(TuningOutcome(is_stopped=True), []).text
    assert text == "The search was canceled: it had measured nothing."


def test_a_forecast_lists_what_compiles_again(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    AnsweringWorker(lambda _request: scale(project / "model.py", TEXT)).put_in_place(monkeypatch)

    async def script(client: MemoryClient) -> None:
        data, text = await ask(client, "forecast", paths=["model.py"])
        assert data["targets"][0]["has_forecast"] is False
        assert "no forecast" in text

    talk(lambda: toolbox_of(project), script)


# Logs of jobs: recorded ones


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


# fix_candidates


def test_candidates_come_as_a_diff_that_applies(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def quiet(finding: Any, _report: Report, _read: Callable[[str], str]) -> tuple[Remedy, ...]:
        return (Remedy("quiet", "Drop the print", FixClass.EXACT, {finding.span.path: QUIET}),)

    patch_remedies(monkeypatch, quiet)
    verifying(project, compared()).put_in_place(monkeypatch)

    async def script(client: MemoryClient) -> None:
        data, text = await ask(client, "fix_candidates", paths=["model.py"])
        assert (data["verified"], data["fixes"][0]["status"]) == (1, "verified")
        expected = difflib.unified_diff(
            TEXT.splitlines(keepends=True), QUIET.splitlines(keepends=True), "a/model.py", "b/model.py"
        )
        assert data["diff"] == "".join(expected)
        assert data["diff"] in text
        _, text = await ask(client, "fix_candidates", paths=["model.py"], codes=["FL2"])
        assert "no finding has a code that starts with `FL2`: the codes are `GB0170`" in text
        verdict, _ = await ask(client, "verify_patch", diff=data["diff"])
        assert verdict["passed"]

    talk(lambda: toolbox_of(project), script)
    assert (project / "model.py").read_text() == TEXT


def test_each_of_several_candidates_has_its_own_diff(project: Path) -> None:
    path = str(project / "model.py")
    loud = TEXT.replace("    return", "    a = 1\n    b = 2\n    c = 3\n    print(a)\n    return")
    texts = [
        loud,
        loud.replace("    print(x)\n", ""),
        loud.replace("    print(x)\n", "").replace("    print(a)\n", ""),
    ]
    (known,) = findings(scale(project / "model.py", TEXT))
    attempts = [
        Attempt(
            known,
            number,
            Remedy("quiet", "Drop the print", FixClass.EXACT, {path: text}),
            FixStatus.PASSED,
            "same results",
            report=report(),
        )
        for number, text in enumerate(texts[1:], 1)
    ]
    outcome = FixOutcome(CheckOutcome(findings=[known]), attempts, before={path: loud})
    answer = patches._candidates(session_of(project), outcome, [])
    assert [(fix["number"], fix["needs"]) for fix in answer.data["fixes"]] == [(1, []), (2, [])]
    for fix, printed in zip(answer.data["fixes"], ("print(x)", "print(a)"), strict=True):
        assert fix["diff"].startswith("--- a/model.py\n"), "relative to the folder of the session"
        (changed,) = apply_diff(fix["diff"], {"model.py": loud}.get).values()
        assert changed == loud.replace(f"    {printed}\n", "")
        assert f"[{fix['number']}] applies alone:\n{fix['diff']}" in answer.text


def test_code_without_findings_needs_no_fix(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "model.py").write_text(QUIET)
    AnsweringWorker(lambda _request: scale(project / "model.py", QUIET)).put_in_place(monkeypatch)

    async def script(client: MemoryClient) -> None:
        data, text = await ask(client, "fix_candidates", paths=["model.py"])
        assert (data["findings"], data["diff"]) == (0, "")
        assert text == "The targets have no findings: there is nothing to fix."

    talk(lambda: toolbox_of(project), script)


def test_each_state_of_a_second_start_has_its_words() -> None:
    assert {state.value for state in WarmState} | {""} == traces.STATES.keys()


def test_the_server_starts_without_what_only_fixes_need() -> None:
    """A client waits for the start of the server each time that it opens a project."""
    modules = (
        "import sys, fuselight_server.agents.toolbox; print('libcst' in sys.modules, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", modules], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"
