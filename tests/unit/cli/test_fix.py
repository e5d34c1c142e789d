"""`fuselight fix` with a worker that answers from the text: what it offers, refuses, prints and writes."""

from __future__ import annotations

import asyncio
import dataclasses
import io
import json
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fuselight.shared.protocol import RunRequest, VerifyRequest
from fuselight.shared.report import (
    Aspect,
    CallComparison,
    CallCure,
    CaseFamily,
    Culprit,
    CureKind,
    Difference,
    Failure,
    Report,
    Tier,
    Verification,
)
from fuselight_server.base.finding import Finding, Severity, Span
from fuselight_server.base.remedies import FindingRemedy, RemedyState, advice
from fuselight_server.base.terminal import Terminal
from fuselight_server.cli.formats.fixes import print_fixes
from fuselight_server.commands.changed_texts import diff_texts
from fuselight_server.commands.fix import FixOutcome
from fuselight_server.commands.outcome import CheckOutcome
from fuselight_server.commands.sources import SourceFiles
from fuselight_server.fixes.rewrites.families import FixClass, RefusedRewrite, Remedy
from fuselight_server.fixes.verification.fixer import MAX_COMPILED
from tests.support.command import AnsweringWorker, Result, run_cli
from tests.support.fix_world import EXACT, differing, patch_remedies, replaced, report_of_text

MODEL = b"""\
# coding: latin-1\r
import torch\r
# fuselight: f(f32[4])\r
@torch.compile\r
def f(x):\r
    x = 'caf\xe9' and x\r
    branch(x)\r
    return branch(x)\r
"""


class FixCommand:
    """A file, the remedies of its findings, and how their verification ends."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (folder / "pyproject.toml").touch()
        self.path = folder / "model.py"
        self.path.write_bytes(MODEL)
        self.verification = EXACT
        self.failures: tuple[Failure, ...] = ()
        self.needed = ""
        """A text without it differs from the old one."""
        self.others: dict[str, Verification] = {}
        """What the verification for a target finds instead."""
        self.further: dict[str, Verification] = {}
        """What the further calls of a target show instead."""
        self.later: set[str] = set()
        """Targets that break at as many other places instead."""
        self.worker = AnsweringWorker(self.answer)
        self.worker.put_in_place(monkeypatch)
        monkeypatch.chdir(folder)
        self._patch = monkeypatch
        self.offers(replaced("where", "Use where", FixClass.EXACT))

    def offers(self, remedies: Callable[..., tuple[Remedy, ...]], *refused: RefusedRewrite) -> None:
        patch_remedies(self._patch, remedies, refused)

    def answer(self, request: RunRequest) -> Report:
        path = str(self.path)
        text = request.overlays.get(path) or self.path.read_bytes().decode("latin-1")
        name = request.target.name
        is_new = isinstance(request, VerifyRequest) and not request.records
        usual = self.verification if self.needed in text else differing(Aspect.OUTPUT)
        others = self.others
        if isinstance(request, VerifyRequest) and request.cases:
            others = {**others, **self.further}
        verification = others.get(name, usual) if is_new else Verification()
        failures = self.failures if is_new else ()
        answer = report_of_text(path, text, name=name, verification=verification, failures=failures)
        if name not in self.later or not is_new:
            return answer
        breaks = report_of_text(path, self.path.read_bytes().decode("latin-1")).breaks
        return replace(answer, breaks=tuple(replace(each, ids=("GB0059",)) for each in breaks))

    def run(self, *options: str) -> Result:
        return run_cli("fix", "model.py", *options)

    def statuses(self, *options: str) -> list[tuple[str, str]]:
        result = self.run("--format", "json", *options)
        assert result.stdout, result.stderr
        data = json.loads(result.stdout)
        return [(fix["status"], fix["why"]) for fix in data["fixes"]]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FixCommand:
    return FixCommand(tmp_path, monkeypatch)


def test_without_an_option_no_file_changes_and_the_findings_are_still_there(world: FixCommand) -> None:
    result = world.run()
    assert result.exit_code == 1
    assert "2 fixes: 2 passed." in result.stdout
    assert "2 -> 1 breaks, same results" in result.stdout, "the number of graphs is the same"
    assert world.path.read_bytes() == MODEL


def test_each_result_is_a_line_before_all_are_known_and_only_what_is_written_compiles_all_calls(
    world: FixCommand,
) -> None:
    lines = [line for line in world.run().stderr.splitlines() if "Use where" in line]
    passes = "Use where: passes the known calls, comparing other inputs: 2 -> 1 breaks, same results"
    assert len(lines) == 4, "two of each fix"
    assert lines[0].endswith(passes)
    assert lines[1].endswith("Use where: passed: 2 -> 1 breaks, same results")
    assert "Use where" not in world.run("--format", "json").stderr
    bounds = {request.most_compiled for request in cases_of(world)}
    assert bounds == {MAX_COMPILED}
    world.worker.requests.clear()
    world.run("--write")
    assert {request.most_compiled for request in cases_of(world)} == {None}


def test_a_stop_prints_the_fixes_so_far(world: FixCommand) -> None:
    answer, lines = world.worker.answer, 0

    def interrupted(request: RunRequest) -> Report:
        nonlocal lines
        is_fixed = "where" in request.overlays.get(str(world.path), "")
        lines += is_fixed and isinstance(request, VerifyRequest) and not request.cases
        if lines == 2:
            signal.raise_signal(signal.SIGINT)
            raise asyncio.CancelledError  # as a run that waits for its worker
        return answer(request)

    world.worker.answer = interrupted
    result = world.run()
    assert result.exit_code == 130
    assert "1 fix: 1 passed." in result.stdout
    assert "stopped: these are the fixes so far; further ones were not tried" in result.stderr
    assert world.path.read_bytes() == MODEL


def cases_of(world: FixCommand) -> list[VerifyRequest]:
    return [
        request for request in world.worker.requests if isinstance(request, VerifyRequest) and request.cases
    ]


def test_the_diff_has_the_lines_that_change(world: FixCommand) -> None:
    result = world.run("--diff")
    assert "2 fixes: 2 passed." in result.stderr
    assert "No file has changed: --write makes the changes." in result.stderr
    assert result.stdout.startswith("--- a/model.py\n"), "the diff alone"
    diff = result.stdout.encode("utf-8", "surrogateescape")
    new = MODEL.replace(b"branch", b"where").decode("latin-1")
    assert diff_texts(diff, world.path.parent, SourceFiles()) == {str(world.path): new}
    changed = [line for line in result.stdout.splitlines() if line[:1] in {"+", "-"}]
    assert changed == [
        "--- a/model.py",
        "+++ b/model.py",
        *("-    branch(x)", "-    return branch(x)", "+    where(x)", "+    return where(x)"),
    ]


def test_a_code_that_no_finding_has_is_named(world: FixCommand) -> None:
    result = world.run("--select", "GB9999")
    assert "No fix." in result.stdout
    (code,) = {finding["code"] for finding in json.loads(world.run("--format", "json").stdout)["fixes"]}
    assert f"no finding has a code that starts with `GB9999`: the codes are `{code}`" in result.stderr
    assert "no finding has" not in world.run("--select", code).stderr


def test_the_diff_of_a_file_elsewhere_says_where_it_applies(
    world: FixCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = world.path.parent
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    result = run_cli("fix", "../model.py", "--diff")
    assert result.stdout.startswith("--- a/model.py\n")
    assert f"the paths of the diff are relative to {folder}, since" in result.stderr
    data = json.loads(run_cli("fix", "../model.py", "--format", "json").stdout)
    diff = data["diff"].encode("latin-1").decode("utf-8", "surrogateescape")
    assert (diff, data["diff_folder"]) == (result.stdout, str(folder)), "in the encoding of the file"


def test_fixes_are_written_one_on_top_of_the_other_in_the_encoding_and_with_the_line_ends(
    world: FixCommand,
) -> None:
    world.path.chmod(0o640)
    result = world.run("--write")
    assert result.exit_code == 0
    assert "2 fixes: 2 written." in result.stdout
    assert world.path.read_bytes() == MODEL.replace(b"branch", b"where")
    assert world.path.stat().st_mode & 0o777 == 0o640
    new = [
        request
        for request in world.worker.requests
        if isinstance(request, VerifyRequest) and not request.records and not request.cases
    ]
    counts = [next(iter(request.overlays.values())).count("where") for request in new]
    assert counts == [1, 2]
    assert list(world.path.parent.glob(".*.new")) == []


@pytest.mark.parametrize(
    ("verification", "why"),
    [
        (differing(Aspect.OUTPUT), "it differs (eager, recorded inputs)"),
        (differing(Aspect.OUTPUT, rounding=True), "it differs (eager, recorded inputs)"),
        (differing(Aspect.PRINTED, compiled=True), "it differs (compiled, recorded inputs)"),
        (Verification(refused="the results are random"), "it cannot be verified: the results are random"),
        (Verification(), "it cannot be verified: no call was compared"),
    ],
)
def test_an_exact_fix_with_any_difference_is_refused(
    world: FixCommand, verification: Verification, why: str
) -> None:
    world.verification = verification
    assert world.statuses("--write") == [("refused", why)] * 2
    assert world.path.read_bytes() == MODEL


def test_rounding_is_allowed_in_an_equal_fix_which_is_tried_with_nan(world: FixCommand) -> None:
    world.offers(replaced("where", "Use where", FixClass.EQUAL))
    world.verification = differing(Aspect.OUTPUT, rounding=True)
    assert world.statuses() == [("passed", "same results")] * 2
    asked = [
        request
        for request in world.worker.requests
        if isinstance(request, VerifyRequest) and not request.cases
    ]
    assert all(request.non_finite for request in asked)


@pytest.mark.parametrize("is_setting", [False, True])
def test_the_further_calls_of_a_setting_are_recorded_and_compared_as_such(
    world: FixCommand,
    is_setting: bool,  # noqa: FBT001 - a row
) -> None:
    world.offers(replaced("where", "Use where", FixClass.EXACT, is_setting=is_setting))
    assert [status for status, _ in world.statuses()] == ["passed", "passed"]
    asked = [request for request in world.worker.requests if isinstance(request, VerifyRequest)]
    assert {request.settings for request in asked if request.cases} == {is_setting}
    assert {request.records for request in asked if request.cases} == {False, True}


def test_a_refused_fix_is_tried_again_on_top_of_those_that_passed_after_it(world: FixCommand) -> None:
    world.needed = "return where"
    assert [status for status, _ in world.statuses()] == ["passed", "passed"]
    world.needed = "returns where"
    assert [status for status, _ in world.statuses()] == ["refused", "refused"]


def test_a_change_of_behavior_is_tried_only_if_it_is_allowed(world: FixCommand) -> None:
    world.offers(replaced("where", "Use where", FixClass.CHANGES, "random numbers"))
    world.verification = differing(Aspect.OUTPUT)
    assert {status for status, _ in world.statuses()} == {"skipped"}
    assert world.statuses("--allow-behaviour-changes") == [("passed", "changes behavior: random numbers")] * 2
    world.verification = differing(Aspect.PRINTED)
    assert {status for status, _ in world.statuses("--allow-behavior-changes")} == {"refused"}


def test_a_fix_that_fails_leaves_the_finding_or_brings_another_is_refused(world: FixCommand) -> None:
    world.failures = (Failure(Culprit.USER, "timeout", "killed after 3 s", "use smaller inputs"),)
    assert world.statuses()[0] == ("refused", "the changed text fails: killed after 3 s")
    world.failures = ()
    world.offers(replaced("branching", "Rename", FixClass.EXACT))
    assert world.statuses()[0] == ("refused", "the finding is still there")


def test_a_fix_that_causes_another_finding_is_refused(world: FixCommand) -> None:
    def moved_down(finding: Finding, _report: Report, read: Callable[[str], str]) -> tuple[Remedy, ...]:
        path = finding.span.path
        text = read(path).replace("branch(x)", "where(x)", 1) + "\r\n# branch"
        return (Remedy("move", "Move", FixClass.EXACT, {path: text}),)

    world.offers(moved_down)
    why = "it causes another finding: GB0170 on model.py:10: "
    assert [words.startswith(why) for _, words in world.statuses()] == [True, False]


def test_the_first_line_names_the_fix_that_passed_until_it_is_written(world: FixCommand) -> None:
    first = "Fix line 7 of model.py first: the graph of Net.forward ends here"
    assert world.run().stdout.startswith(f"{first} (Use where: verified)\n")
    named = json.loads(world.run("--format", "json").stdout)["fix_first"]
    assert (named["title"], named["verified"]) == (f"{first} (Use where: verified)", "Use where: verified")
    world.verification = differing(Aspect.OUTPUT)
    assert world.run().stdout.startswith(f"{first}\n"), "a fix that was refused is no advice"
    assert json.loads(world.run("--format", "json").stdout)["fix_first"]["verified"] is None
    world.verification = EXACT
    assert json.loads(world.run("--write", "--format", "json").stdout)["fix_first"] is None


def test_a_rewrite_that_is_not_offered_is_listed_with_its_reason(world: FixCommand) -> None:
    world.offers(lambda *_: (), RefusedRewrite("where", "Use torch.where", "`lr` is a number"))
    assert "not offered: model.py:7: Use torch.where: `lr` is a number\n" in world.run().stdout
    data = json.loads(world.run("--format", "json").stdout)
    first = data["refusals"][0]
    assert (first["line"], first["kind"], first["reason"]) == (7, "where", "`lr` is a number")


@pytest.mark.parametrize("options", [(), ("--diff",), ("--write",)])
def test_a_rewrite_that_is_not_offered_has_its_line_as_read_where_a_fix_adds_lines(
    world: FixCommand, options: tuple[str, ...]
) -> None:
    def doubled(finding: Finding, _report: Report, read: Callable[[str], str]) -> tuple[Remedy, ...]:
        path = finding.span.path
        text = read(path).replace("    branch(x)", "    where(x)\r\n    where(x)", 1)
        return (Remedy("double", "Double", FixClass.EXACT, {path: text}),) if text != read(path) else ()

    world.offers(doubled, RefusedRewrite("where", "Use torch.where", "`lr` is a number on line 9"))
    result = world.run(*options)
    shown = "not offered: model.py:8: Use torch.where: `lr` is a number on line 8\n"
    assert shown in result.stdout + result.stderr


def test_a_file_that_changes_meanwhile_is_left_alone(world: FixCommand) -> None:
    def answer(request: RunRequest) -> Report:
        if len(world.worker.requests) == 5:  # the last verification
            world.path.write_bytes(b"# edited\r\n" + MODEL)
        return world.answer(request)

    world.worker.answer = answer
    result = world.run("--write")
    assert result.exit_code == 2
    assert "cannot fix model.py: the file has changed since it was read, so nothing was written" in (
        result.stderr
    )
    assert "not written" in result.stdout
    assert world.path.read_bytes() == b"# edited\r\n" + MODEL


def test_a_file_that_is_read_only_or_lacks_the_characters_is_refused_before_a_run(world: FixCommand) -> None:
    world.path.chmod(0o444)
    assert world.statuses("--write")[0] == ("refused", "model.py: the file is read-only")
    world.path.chmod(0o644)
    world.offers(replaced("\u2192", "Use where", FixClass.EXACT))
    assert "characters that the file's encoding" in world.statuses("--write")[0][1]
    assert not [request for request in world.worker.requests if isinstance(request, VerifyRequest)]


def test_select_takes_codes_and_their_beginnings(world: FixCommand) -> None:
    assert world.statuses("--select", "FL2") == []
    assert len(world.statuses("--select", "FL2", "--select", "GB01")) == 2


TWO_TARGETS = b"""\
import torch
# fuselight: f(f32[4])
@torch.compile
def f(x):
    return helper(x)


# fuselight: %s(f32[4])
@torch.compile
def %s(x):
    return 'x' if %s(x) else x


def helper(x):
    branch(x)
    return x
"""


@pytest.mark.parametrize(
    ("other", "calls", "refused"),
    [
        ("g", "helper", "for the target g: it differs (eager, recorded inputs)"),
        ("a", "helper", "for the target a: it differs (eager, recorded inputs)"),
        ("g", "len", ""),
    ],
)
def test_a_fix_is_verified_for_each_target_that_may_reach_it(
    world: FixCommand, other: str, calls: str, refused: str
) -> None:
    world.path.write_bytes(TWO_TARGETS % (other.encode(), other.encode(), calls.encode()))
    world.others[other] = differing(Aspect.OUTPUT)
    before = world.path.read_bytes()
    (first, *_) = world.statuses("--write")
    assert first == (("refused", refused) if refused else ("written", "same results"))
    assert (world.path.read_bytes() == before) is bool(refused)


@pytest.mark.parametrize(
    ("is_setting", "is_later", "words"),
    [
        (True, False, "same results, except for bool inputs"),
        (True, True, "same results, except for bool inputs"),
        (False, False, "same results"),
    ],
)
def test_the_further_calls_of_each_target_that_a_setting_changes_limit_it(
    world: FixCommand,
    is_setting: bool,  # noqa: FBT001 - a row
    is_later: bool,  # noqa: FBT001 - a row
    words: str,
) -> None:
    world.later = {"g"} if is_later else set()
    world.path.write_bytes(TWO_TARGETS % (b"g", b"g", b"helper"))
    difference = Difference(Aspect.EXCEPTION, "raises TorchRuntimeError: it fails")
    case = CallComparison(0, "bool inputs", compiled=True, differences=(difference,), family=CaseFamily.DTYPE)
    world.further["g"] = Verification((*EXACT.comparisons, case))
    world.offers(replaced("where", "Use where", FixClass.EXACT, is_setting=is_setting))
    assert world.statuses()[0] == ("passed", words)


def test_what_no_call_shows_of_a_fix_is_in_its_title(world: FixCommand) -> None:
    usual = replaced("where", "Use where", FixClass.EXACT)
    world.offers(
        lambda *given: tuple(dataclasses.replace(remedy, caveat="it differs") for remedy in usual(*given))
    )
    assert world.statuses()[0] == ("passed", "same results, but it differs")


def test_what_the_fixes_removed_is_not_to_be_done() -> None:
    stays, goes = (
        Finding(
            *(
                "FL201",
                Severity.WARNING,
                "recompiled",
                "",
                Span(str(Path.cwd() / "m.py"), line),
                Tier.CAPTURE,
            ),
            *("f", "", ""),
            remedies=advice((f"Remove the graph break on line {line} first",)),
        )
        for line in (3, 5)
    )
    left = frozenset({(stays.code, stays.span.path, stays.span.line)})
    out = io.StringIO()
    print_fixes(
        FixOutcome(CheckOutcome(), findings=(stays, goes), left=left), Terminal(out), diff_shown=False
    )
    shown = [line for line in out.getvalue().splitlines() if line.startswith("to do: ")]
    assert shown == ["to do: m.py:3: FL201: Remove the graph break on line 3 first"]


def test_a_change_that_a_check_has_tried_is_to_be_done_also_where_its_fix_was_skipped() -> None:
    def remedy(text: str, state: RemedyState, *, is_fix: bool = False) -> FindingRemedy:
        return FindingRemedy(text, state, "ignore", counts="2 → 1 graph breaks", is_fix=is_fix)

    tried = remedy("Add logging.Logger.info to the setting", RemedyState.TRIED, is_fix=True)
    other = remedy("Set the other", RemedyState.TRIED)
    others = (remedy("Skip it", RemedyState.NOT_TRIED, is_fix=True), *advice(("Log outside",)))
    span = Span(str(Path.cwd() / "m.py"), 3)
    finding = Finding("GB0291", Severity.WARNING, "logs", "", span, Tier.CAPTURE, "f", "", "")
    again = (replace(finding, remedies=(tried, other, *others), target=name) for name in ("f", "g"))
    out = io.StringIO()
    outcome = FixOutcome(CheckOutcome(), findings=tuple(again), left=frozenset({("GB0291", span.path, 3)}))
    print_fixes(outcome, Terminal(out), diff_shown=False)
    shown = [line for line in out.getvalue().splitlines() if line.startswith("to do: ")]
    first, second = (
        f"{text} (tried: 2 → 1 graph breaks)"
        for text in ("Add logging.Logger.info to the setting", "Or set the other")
    )
    assert shown == [f"to do: m.py:3: GB0291: {first}. {second}"]


def test_what_is_to_be_expected_waits_for_the_changes_that_were_not_tried() -> None:
    cure = CallCure(CureKind.TENSOR, "/w/m.py", 3, ("rate",))
    pending = FindingRemedy("Pass `rate` as a tensor", RemedyState.NOT_TRIED, "tensor", cure=cure)
    expected = advice(("Expect one extra compile: torch keeps `rate` dynamic",))
    span = Span(str(Path.cwd() / "m.py"), 3)
    finding = Finding("FL201", Severity.WARNING, "again", "", span, Tier.CAPTURE, "f", "", "")
    shown = []
    for remedies in ((*expected, pending), expected):
        out = io.StringIO()
        outcome = FixOutcome(
            CheckOutcome(),
            findings=(replace(finding, remedies=remedies),),
            left=frozenset({("FL201", span.path, 3)}),
        )
        print_fixes(outcome, Terminal(out), diff_shown=False)
        shown += [line for line in out.getvalue().splitlines() if line.startswith("to do: ")]
    assert shown == [
        "to do: m.py:3: FL201: 1 possible change is not tried yet: see `fuselight check --tries all`",
        "to do: m.py:3: FL201: Expect one extra compile: torch keeps `rate` dynamic",
    ]
