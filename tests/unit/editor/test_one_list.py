"""What to do about a finding is one list: check, its JSON, agents, fix, hover and menu agree on each entry."""

from __future__ import annotations

import dataclasses
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from fuselight.shared.protocol import RunRequest, VerifyRequest
from fuselight.shared.report import Aspect, CureTrial, Report, Verification
from fuselight_server.base.cancellation import CancelToken
from fuselight_server.base.finding import Finding
from fuselight_server.base.remedies import RemedyState, refusals
from fuselight_server.base.terminal import Color, Terminal
from fuselight_server.cli.formats.findings import print_findings
from fuselight_server.cli.formats.fixes import fixes_as_json
from fuselight_server.cli.formats.json import as_data
from fuselight_server.commands.finding_rows import finding_data, finding_lines
from fuselight_server.commands.fix import fix
from fuselight_server.commands.known_fixes import list_fixes
from fuselight_server.commands.options import CommandOptions
from fuselight_server.commands.outcome import CheckOutcome
from fuselight_server.editor.handlers.hover import with_fixes
from fuselight_server.editor.handlers.report_tree import report_tree
from fuselight_server.editor.messages.params import ReportTreeParams
from fuselight_server.editor.results.finding_hover import explanations_of
from fuselight_server.editor.results.shown_findings import ShownFinding
from fuselight_server.execution.runs.keys import Key
from fuselight_server.explain.findings import findings
from fuselight_server.fixes.rewrites import families
from fuselight_server.fixes.rewrites.families import FixClass, RefusedRewrite, Remedy, Rewrites
from fuselight_server.fixes.verification import fixer
from tests.support.command import AnsweringWorker
from tests.support.fix_world import EXACT, FIRST, FixWorld, differing

SETTING = "capture_scalar_outputs"
LOSSY = RefusedRewrite(SETTING, "Set capture_scalar_outputs", "`max(x, y)` chooses by order")
OTHER = RefusedRewrite("where", "Use torch.where", "`lr` is a Python number")


def setting(finding: Finding, _report: Report, read: Any) -> Remedy:
    """The setting, written above all lines; the breaks are gone with it."""
    text = read(finding.span.path).replace("branch", "capture")
    return Remedy(SETTING, "Set capture_scalar_outputs", FixClass.EXACT, {finding.span.path: text})


def where(finding: Finding, _report: Report, read: Any) -> Remedy:
    text = read(finding.span.path).replace("branch", "where")
    return Remedy("where", "Use torch.where", FixClass.EXACT, {finding.span.path: text})


TRIALS = {
    "not tried": None,
    "cures": "",
    "does not cure": "the line breaks the graph all the same",
    "moves the break": "it breaks the graph on line 9",
}
PROGRAMS: dict[str, tuple[str, tuple[Any, ...], tuple[RefusedRewrite, ...]]] = {
    "a setting": ("GB0124", (setting,), ()),
    "a setting that changes values": ("GB0124", (), (LOSSY,)),
    "a setting and a rewrite": ("GB0124", (where, setting), ()),
    "a rewrite": ("GB0170", (where,), ()),
    "a rewrite that is not right for every call": ("GB0170", (), (OTHER,)),
    "a setting that no fix writes": ("GB0036", (), ()),
}


class Program:
    """A file whose findings every face shows."""

    def __init__(self, world: FixWorld, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world, self._patch = world, monkeypatch

    def make(self, name: str, trial: str, verification: Verification) -> None:
        gb, remedies, refused = PROGRAMS[name]

        def rewrites(*given: Any) -> Rewrites:
            return Rewrites(tuple(remedy(*given[:3]) for remedy in remedies), refused)

        for module in (fixer, families):
            self._patch.setattr(module, "rewrites", rewrites)
        usual = self.world.report_of

        def report_of(*given: Any, **named: Any) -> Report:
            report = usual(*given, **named)
            breaks = tuple(dataclasses.replace(item, ids=(gb,)) for item in report.breaks)
            report = dataclasses.replace(report, breaks=breaks)
            why = TRIALS[trial]
            cures = [cure for finding in findings(report) for cure in finding.cures]
            trials = [CureTrial(cure, 2, 2 if why else 0, why) for cure in cures if why is not None]
            return dataclasses.replace(report, trials=tuple(trials))

        self._patch.setattr(self.world, "report_of", report_of)
        self.world.verification = verification
        self.world.ran(Path(self.world.path).read_text())

    def checked(self) -> CheckOutcome:
        report = self.world.report_of(Path(self.world.path).read_text())
        outcome = CheckOutcome(findings=list(findings(report)), reports=[report])
        list_fixes(outcome)
        return outcome

    async def hovered(self) -> tuple[Finding, str]:
        shown_here = [item.now() for item in self.world.state.captures[Key(self.world.path, "f")].findings]
        first = [ShownFinding(finding) for finding in shown_here if finding.span.line == FIRST + 1]
        shown = [await with_fixes(self.world.server, item) for item in first]
        snapshot = self.world.state.snapshot(self.world.uri, {})
        assert snapshot is not None
        return shown[0].finding, "\n".join(explanations_of(snapshot, shown))

    async def in_report(self) -> list[str]:
        """What the report says of the refused fixes of the first line."""
        (target,) = (await report_tree(self.world.server, ReportTreeParams(self.world.uri)))["nodes"]
        groups = [node["children"] for node in target["children"] if node["contextValue"] == "refusals"]
        where = f"line {FIRST + 1}: "
        return [
            f"{node['label']}: {node['description'].removeprefix(where)}"
            for children in groups
            for node in children
            if node["description"].startswith(where)
        ]

    async def fixed(self) -> list[dict[str, Any]]:
        def answer(request: RunRequest) -> Report:
            text = request.overlays.get(self.world.path) or Path(self.world.path).read_text()
            is_new = isinstance(request, VerifyRequest) and not request.records
            return self.world.report_of(text, self.world.verification if is_new else Verification())

        AnsweringWorker(answer).put_in_place(self._patch)
        outcome = await fix(
            CommandOptions((Path(self.world.path),), python="python"), lambda _text: None, CancelToken()
        )
        first, *_ = json.loads(fixes_as_json(outcome))["findings"]
        remedies: list[dict[str, Any]] = first["remedies"]
        return remedies


@pytest_asyncio.fixture
async def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "pyproject.toml").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    world = FixWorld(tmp_path, monkeypatch)
    world.state.client = dataclasses.replace(world.state.client, disabled_actions=True)
    yield Program(world, monkeypatch)
    await world.session.close()


def printed(outcome: CheckOutcome) -> str:
    out = io.StringIO()
    print_findings(outcome, Terminal(out, color=Color.AUTO, width=120))
    return " ".join(out.getvalue().split())


@pytest.mark.asyncio
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("trial", TRIALS)
async def test_every_face_shows_the_same_list_before_a_verification(
    program: Program, name: str, trial: str
) -> None:
    program.make(name, trial, EXACT)
    program.world.gate.clear()
    outcome = program.checked()
    first = outcome.findings[0]
    data = [remedy.as_data() for remedy in first.remedies]
    assert data, "there is something to do"
    assert as_data(outcome)["findings"][0]["remedies"] == data
    row = finding_data(first, outcome.sources)
    assert row["remedies"] == data
    shown, hover = await program.hovered()
    assert [remedy.as_data() for remedy in shown.remedies] == data
    assert await program.in_report() == list(refusals(first.remedies))
    texts = (printed(outcome), "\n".join(finding_lines(row)), hover.replace("\\", ""))
    menu = {action.title: action.disabled for action in await program.world.actions()}
    for remedy in first.remedies:
        if remedy.state is RemedyState.REFUSED:
            advised = re.compile(rf"{re.escape(remedy.text)}(?!: no fix is offered|: tried and refused)")
            assert not any(advised.search(text) for text in texts)
            assert all(remedy.text not in title or disabled for title, disabled in menu.items())
        elif remedy.is_fix:
            assert any(title.startswith("Verify") and not disabled for title, disabled in menu.items())
    refused = {remedy.text for remedy in first.remedies if remedy.state is RemedyState.REFUSED}
    assert {title for title, disabled in menu.items() if disabled} <= refused


@pytest.mark.asyncio
@pytest.mark.parametrize("passes", [True, False])
@pytest.mark.parametrize("name", [name for name, (_, remedies, _) in PROGRAMS.items() if remedies])
@pytest.mark.parametrize("trial", TRIALS)
async def test_a_verification_outranks_a_trial_unless_that_refuses_the_change(
    program: Program, name: str, trial: str, *, passes: bool
) -> None:
    program.make(name, trial, EXACT if passes else differing(Aspect.OUTPUT))
    await program.world.verified()
    shown, hover = await program.hovered()
    assert await program.in_report() == list(refusals(shown.remedies))
    states = {remedy.kind: remedy.state for remedy in shown.remedies if remedy.is_fix}
    is_refused = trial == "does not cure"
    assert (RemedyState.VERIFIED in states.values()) is (passes and not (is_refused and name == "a setting"))
    assert not is_refused or states.get(SETTING) in {None, RemedyState.REFUSED}
    for remedy in shown.remedies:
        if remedy.state is RemedyState.REFUSED and remedy.is_fix:
            assert f"{remedy.text}: tried and refused" in hover or passes
    checked = [remedy.as_data() for remedy in program.checked().findings[0].remedies]
    fixed = await program.fixed()
    assert {entry["kind"] for entry in fixed} >= {entry["kind"] for entry in checked if entry["kind"]}
    judged = {entry["kind"]: entry["state"] for entry in fixed if entry["state"] in {"verified", "refused"}}
    if TRIALS[trial] is not None:  # else fix tries it, and says what came of that
        left = [entry for entry in checked if entry["kind"] and entry["kind"] not in judged]
        assert [entry for entry in left if entry not in fixed] == [], "the same words as in a check"
    assert judged, "fix tries at least the first"
    assert judged == {kind: states[kind].value for kind in judged}
    if SETTING in states and is_refused:
        assert [entry for entry in fixed if entry["kind"] == SETTING] == [
            entry for entry in checked if entry["kind"] == SETTING
        ], "with the reason of the trial"
