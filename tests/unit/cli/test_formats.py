"""What each format prints of one outcome."""

from __future__ import annotations

import dataclasses
import io
import json
import re
from pathlib import Path

import pytest

from fuselight.shared.report import (
    Break,
    Compile,
    Culprit,
    Failure,
    Frame,
    Graph,
    Inputs,
    Mismatch,
    Problem,
    Recompile,
    Report,
    ResultComparison,
    Rung,
    TargetRef,
)
from fuselight.shared.report import Outcome as CompileOutcome
from fuselight_server.base.finding import Severity, Span
from fuselight_server.base.terminal import Color, Terminal
from fuselight_server.cli.formats import annotations as service_formats
from fuselight_server.cli.formats.annotations import as_github, as_sarif
from fuselight_server.cli.formats.findings import print_findings
from fuselight_server.cli.formats.json import as_json
from fuselight_server.cli.problems import report_problems
from fuselight_server.commands.changed_lines import ChangedLines
from fuselight_server.commands.outcome import CheckOutcome
from fuselight_server.commands.sources import SourceFiles
from fuselight_server.explain.findings import findings, fold
from tests.support.golden import expect
from tests.support.reports import FILE, LIBRARY, at, broken, report

SOURCE = ["# fuselight: Net()(f32[4, 8])"] * 29 + ["\tif é.sum() > 0:", "\t\ty = 1", ""]


def outcome(**changes: object) -> CheckOutcome:
    inlined = broken(at(12, (4, 10), function="forward"), at(30, (4, 15), function="helper"))
    given = report(breaks=(inlined,))
    check_outcome = CheckOutcome(
        findings=list(findings(given)), reports=[given], sources=SourceFiles({FILE: list(SOURCE)})
    )
    return dataclasses.replace(check_outcome, **changes)  # type: ignore[arg-type] # a test's own keywords


def text_of(check_outcome: CheckOutcome, *, color: bool = False, width: int = 100) -> str:
    out = io.StringIO()
    print_findings(check_outcome, Terminal(out, color=Color.ALWAYS if color else Color.AUTO, width=width))
    return out.getvalue()


def test_text_shows_the_source_with_carets_under_the_span() -> None:
    expect(
        text_of(outcome()),
        """\
        warning[GB0170]: graph break: a branch depends on the data of a tensor
          --> /project/model.py:30:5
           |
        29 | # fuselight: Net()(f32[4, 8])
        30 |     if é.sum() > 0:
           |        ^^^^^^^^^^
        31 |         y = 1
           |
           Detected data-dependent branching (e.g. `if my_tensor.sum() > 0:`).
           Cost: this line runs in eager mode, and no kernel is fused across it.
           What to do: Compute both sides and select with torch.where, or decide outside the compiled code
           on a Python value that you pass in.
           = /project/model.py:12: called from `forward`
           = target Net, directive on line 9: Net()(f32[4, 8]), torch VERSION
           = help: https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0170.html

        Net (/project/model.py): 0 graphs, 1 break, 0 recompilations, 1 call
        Found 1 finding: 1 warning.
        """,
    )


def test_color_adds_no_words() -> None:
    colored = text_of(outcome(), color=True)
    assert "\x1b[" in colored
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == text_of(outcome())


def test_control_characters_of_a_source_do_not_reach_the_terminal() -> None:
    lines = list(SOURCE)
    lines[29] = "x = '\x1b[2J'"
    check_outcome = outcome(sources=SourceFiles({FILE: lines}))
    check_outcome.findings = [
        dataclasses.replace(
            check_outcome.findings[0], title="a\x1b[2J", message="b\x1b[2J", inputs="c\x1b[2J"
        )
    ]
    assert "\x1b" not in text_of(check_outcome)


@pytest.mark.parametrize(("counts", "target"), [((1, 2), "step in train"), ((2, 1), "Net")])
def test_the_first_line_names_the_target_of_its_counts_where_several_ran(
    counts: tuple[int, int], target: str
) -> None:
    """A helper of two targets breaks the graph of one of them more often."""

    def run(name: str, breaks: int) -> Report:
        functions = [f"{name}.{number}" for number in range(breaks)]
        stacks = [broken(at(30), frame_function=function) for function in functions]
        return report(breaks=(*stacks, broken(at(40))), target=TargetRef(FILE, name, 10, "module"))

    reports = [run("Net", counts[0]), run("train.<locals>.step", counts[1])]
    shown = fold([finding for given in reports for finding in findings(given)])
    both = outcome(reports=reports, findings=list(shown))
    first = text_of(both).partition("\n\n")[0].replace("\n", " ")
    assert first.startswith(f"Fix line 30 of {FILE} first: ")
    assert first.endswith(f"(counted in {target} of {FILE})")
    assert json.loads(as_json(both))["fix_first"]["target_path"] == FILE
    alone = text_of(outcome(reports=reports[:1], findings=list(findings(reports[0]))))
    assert "counted in" not in alone.partition("\n\n")[0]


def test_the_end_says_what_it_means_that_there_are_no_findings() -> None:
    def end(given: Report) -> list[str]:
        return text_of(CheckOutcome(reports=[given])).splitlines()[1:]

    compiled = report(
        frames=(Frame("f", at(10)),), compiles=(Compile("0/0", 0, CompileOutcome.COMPILED, graph=Graph(3)),)
    )
    compared = "Results were not compared with eager mode: `fuselight accuracy` compares them."
    assert end(compiled) == ["No findings: no graph break, and nothing was compiled twice.", compared]
    ignored = dataclasses.replace(compiled, breaks=(broken(at(30)),))
    assert end(ignored) == ["No findings.", compared], "a comment silences the break"
    right = dataclasses.replace(compiled, results=ResultComparison())
    assert end(right) == ["No findings: no graph break, and nothing was compiled twice."]
    assert end(report())[0] == "No findings, as nothing was compiled."


def test_targets_of_one_run_of_a_file_have_one_line() -> None:
    def run(name: str, *breaks: Break) -> Report:
        return report(
            breaks=breaks, target=TargetRef(FILE, name, 10, "function"), inputs=Inputs(Rung.SCRIPT, FILE)
        )

    once = broken(at(30))
    shown = text_of(outcome(reports=[run("f", once), run("g", once)]))
    assert f"f and g together ({FILE}): 0 graphs, 1 break, 0 recompilations\n" in shown
    assert "counted in" not in shown
    apart = text_of(outcome(reports=[run("f", once), run("g")]))
    assert f"\nf ({FILE}): 0 graphs, 1 break" in apart
    assert "together" not in apart


def test_json_has_the_keys_that_are_promised() -> None:
    data = json.loads(as_json(outcome(problems=[Problem("source", "x.py", "gone")])))
    assert set(data) == {"schema", "change", "fix_first", "findings", "targets", "problems"}
    assert data["schema"] == 1
    (finding,) = data["findings"]
    promised = (
        "path line column end_line end_column code severity title message target tier inputs count related"
    )
    assert set(promised.split()) <= set(finding)
    # One tab and two bytes of é in front: columns are characters, from 1.
    assert (finding["line"], finding["column"], finding["end_line"], finding["end_column"]) == (30, 5, 30, 15)
    assert (finding["code"], finding["severity"], finding["tier"]) == ("GB0170", "warning", "capture")
    assert finding["related"][0]["line"] == 12
    assert data["targets"][0]["name"] == "Net"
    assert data["problems"] == [{"stage": "source", "what": "x.py", "why": "gone", "target": None}]


def test_a_cause_with_several_places_is_one_entry_of_every_format() -> None:
    inside = at(400, path=LIBRARY, function="attend")
    given = report(breaks=tuple(broken(at(line, (4, 15)), inside) for line in (12, 14, 30)))
    check_outcome = outcome(findings=fold(findings(given)), reports=[given])
    text = text_of(check_outcome)
    assert text.count("2 more places have the same cause: lines 14, 30.") == 1
    assert "1 break" in text
    assert text.endswith("Found 1 finding: 1 warning.\n")
    (finding,) = json.loads(as_json(check_outcome))["findings"]
    assert [(place["line"], place["path"]) for place in finding["also_at"]] == [(14, FILE), (30, FILE)]
    assert finding["also_at"][0]["cost"] == finding["cost"]
    (result,) = json.loads(as_sarif(check_outcome))["runs"][0]["results"]
    same = [place for place in result["relatedLocations"] if place["message"]["text"] == "same cause"]
    assert [place["physicalLocation"]["region"]["startLine"] for place in same] == [14, 30]
    (command,) = as_github(check_outcome).splitlines()
    assert "lines 14, 30" in command.replace("%2C", ",")
    assert check_outcome.exit_code == 1


def test_sarif_results_name_rules_of_the_run_and_carry_fingerprints() -> None:
    data = json.loads(as_sarif(outcome()))
    (run,) = data["runs"]
    (result,) = run["results"]
    assert data["version"] == "2.1.0"
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "GB0170"
    assert result["level"] == "warning"
    assert result["locations"][0]["physicalLocation"]["region"]["startColumn"] == 5
    assert len(result["partialFingerprints"]["fuselight/v2"]) == 32


@pytest.mark.parametrize(
    ("name", "uri"),
    [
        ("a b.py", "a%20b.py"),
        ("100%#é.py", "100%25%23%C3%A9.py"),
        ("c:x.py", "./c:x.py"),
        ("in/d.py", "in/d.py"),
    ],
)
def test_sarif_paths_are_encoded(
    name: str, uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    check_outcome = outcome()
    check_outcome.findings = [
        dataclasses.replace(check_outcome.findings[0], span=Span(str(tmp_path / name), 1), related=())
    ]
    (run,) = json.loads(as_sarif(check_outcome))["runs"]
    (result,) = run["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"] == {"uri": uri}


def test_github_commands_are_one_line_each_with_marks_escaped() -> None:
    check_outcome = outcome()
    check_outcome.findings = [
        dataclasses.replace(check_outcome.findings[0], title="a: b, c", message="50%\nmore")
    ]
    (line,) = as_github(check_outcome).split("\n")
    assert line.startswith("::warning file=")
    assert "title=GB0170 a%3A b%2C c" in line
    assert line.endswith("::50%25%0Amore")


@pytest.mark.parametrize(
    ("code", "severity", "exit_code"),
    [
        ("FL502", Severity.HINT, 0),
        ("FL601", Severity.INFORMATION, 0),
        ("FL201", Severity.WARNING, 1),
        ("FL401", Severity.ERROR, 1),
        ("FL403", Severity.ERROR, 2),
        ("FL504", Severity.ERROR, 2),
    ],
)
def test_the_exit_code_distinguishes_findings_from_failed_analysis(
    code: str, severity: Severity, exit_code: int
) -> None:
    check_outcome = outcome()
    check_outcome.findings = [
        dataclasses.replace(check_outcome.findings[0], code=code, severity=severity, span=Span(FILE, 1))
    ]
    assert check_outcome.exit_code == exit_code


def test_a_problem_of_the_command_is_exit_code_2() -> None:
    assert outcome(problems=[Problem("source", "x.py", "gone")]).exit_code == 2
    assert outcome(findings=[]).exit_code == 0


def test_running_text_fits_the_terminal_and_links_stay_whole() -> None:
    check_outcome = outcome()
    check_outcome.findings = [dataclasses.replace(check_outcome.findings[0], message="- " + "word " * 40)]
    lines = text_of(check_outcome, color=True, width=60).splitlines()
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines]
    assert max(len(line) for line in plain if "word" in line) <= 60
    assert any(line.endswith("/gb0170.html") and "help: https" in line for line in plain)


def test_the_calls_that_a_program_makes_itself_are_not_reported_as_none() -> None:
    main = Inputs(rung=Rung.MAIN, path=FILE, line=40)
    (report,) = outcome().reports
    shown = text_of(outcome(reports=[dataclasses.replace(report, inputs=main, phases={"call": 0.01})]))
    assert "Net (/project/model.py): 0 graphs, 1 break, 0 recompilations\n" in shown


def test_a_failed_run_has_no_summary_of_zeros() -> None:
    failed = report(failures=(Failure(Culprit.USER, "exception", "no"),))
    assert "Net (/project/model.py): failed\n" in text_of(outcome(reports=[failed]))


def test_an_unreadable_file_is_an_error_and_not_an_empty_result(capsys: pytest.CaptureFixture[str]) -> None:
    nothing = outcome(findings=[], reports=[], problems=[Problem("source", "x.py", "it is gone")])
    assert text_of(nothing) == ""
    report_problems(nothing, "analyze")
    assert capsys.readouterr() == ("", "fuselight: cannot analyze x.py: it is gone\n")


def test_json_counts_as_the_terminal_does() -> None:
    compiled = tuple(
        Compile(f"0/{i}", 0, CompileOutcome.COMPILED, graph=Graph(operators=3, text_key="")) for i in range(2)
    )
    again = Recompile("f", at(3), entries=(Mismatch("0/0", ()),), compile_id="0/1", call=1)
    given = report(frames=(Frame("f", at(3)),), compiles=compiled, recompiles=(again,))
    check_outcome = CheckOutcome(reports=[given])
    (target,) = json.loads(as_json(check_outcome))["targets"]
    assert {key: target[key] for key in ("graphs", "breaks", "operators", "recompilations")} == {
        "graphs": 1,
        "breaks": 0,
        "operators": 3,
        "recompilations": 1,
    }
    assert "1 graph, 0 breaks, 1 recompilation" in text_of(check_outcome)


def test_a_target_without_inputs_did_not_fail() -> None:
    for kind, message in (("inputs", "not run: no example inputs"), ("exception", "failed")):
        given = report(failures=(Failure(Culprit.USER, kind, "words"),))
        assert f"Net (/project/model.py): {message}\n" in text_of(CheckOutcome(reports=[given]))


def test_sarif_has_at_most_what_services_take_the_worst_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_formats, "MAX_RESULTS", 2)
    check_outcome = outcome()
    (example,) = check_outcome.findings
    check_outcome.findings = [
        dataclasses.replace(example, severity=severity)
        for severity in (Severity.HINT, Severity.ERROR, Severity.WARNING)
    ]
    (run,) = json.loads(as_sarif(check_outcome))["runs"]
    assert [result["level"] for result in run["results"]] == ["error", "warning"]
    (note,) = run["invocations"][0]["toolExecutionNotifications"]
    assert note["message"]["text"].startswith("1 finding left out")


def test_a_change_hides_other_findings_and_counts_them() -> None:
    check_outcome = outcome()
    check_outcome.show_only(ChangedLines("main", {}))
    assert "1 finding on lines unchanged since main not shown." in text_of(check_outcome)
    assert json.loads(as_json(check_outcome))["change"] == {"since": "main", "findings_elsewhere": 1}
    assert json.loads(as_json(outcome()))["change"] is None
