"""`verify_patch`, `fuselight verify` and `fix_candidates` over a worker that answers at once."""

from __future__ import annotations

import dataclasses
import difflib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fuselight.shared.protocol import VerifyRequest
from fuselight.shared.report import (
    Aspect,
    Call,
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
from fuselight_server.agents.tools import patches
from fuselight_server.base.unified_diff import apply_diff
from fuselight_server.commands.fix import Attempt, FixOutcome, FixStatus
from fuselight_server.commands.outcome import CheckOutcome
from fuselight_server.commands.sources import read_text
from fuselight_server.explain.findings import findings
from fuselight_server.fixes.rewrites.families import FixClass, Remedy
from tests.support.agent_project import CALLS, QUIET, TEXT, compared, scale, verifying
from tests.support.agents import MemoryClient, ask, session_of, talk, toolbox_of
from tests.support.command import AnsweringWorker, run_cli
from tests.support.fix_world import patch_remedies
from tests.support.reports import at, report

DIFF = "--- a/model.py\n+++ b/model.py\n@@\n def scale(x):\n-    print(x)\n     return x * 2\n"


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
