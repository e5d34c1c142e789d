"""The report's tree: the counts of the lens, labels for a screen reader, and bounded texts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from fuselight.shared.report import (
    ChangeKind,
    Culprit,
    Failure,
    Forecast,
    Frame,
    FrameForecast,
    FusedOperator,
    GeneratedGraph,
    Kernel,
    KernelKind,
    Phase,
    Recompile,
    Report,
    Tier,
)
from fuselight_server.editor.messages.answers import ReportNode
from fuselight_server.editor.presenters import convert
from fuselight_server.editor.presenters.report_nodes import target_node
from fuselight_server.editor.results.captures import capture_result_of, read_capture
from fuselight_server.editor.results.kernels import kernel_result_of
from fuselight_server.execution.runs.keys import Key
from fuselight_server.explain.findings import Thresholds, findings
from fuselight_server.explain.findings.common.counts import counts
from fuselight_server.source.document import SourceDocument
from tests.support.recompilations import again, failed
from tests.support.reports import FILE, LIBRARY, at, broken, report

VIEW = convert.Client("utf-8", lambda _path, _line: "    return x", convert.uri)


def tree(of: Report) -> ReportNode:
    return target_node(capture_result_of(Key(FILE, "Net"), 1, of, findings(of)), VIEW)


def labels(of: Report) -> list[str]:
    return [child["label"] for child in tree(of)["children"]]


def first_line(node: ReportNode) -> int:
    assert node["range"] is not None
    return node["range"]["start"]["line"]


def every(node: ReportNode) -> Iterator[ReportNode]:
    yield node
    for child in node["children"]:
        yield from every(child)


def test_after_an_edit_the_report_names_what_a_break_carries_over_as_it_was_when_it_ran() -> None:
    carried = Forecast(
        ChangeKind.NUMBER, ("___stack1",), "1.5", "2.5", recompiles=True, source="___stack1",
        guard="___stack1 == 1.5",
    )  # fmt: skip
    part = FrameForecast("Net.forward", at(20), 1, 8, (carried,), resumes_at=21)
    new_report = report(
        forecasts=(part,),
        breaks=(broken(at(21, (15, 23))),),
        frames=(Frame("Net.forward", at(20), resumes_at=21, carried=2),),
    )
    result = read_capture(
        Key(FILE, "Net"), 1, new_report, Thresholds(), lambda *_: "    return x * x.item() + 1"
    )
    document = SourceDocument(FILE, "\n" * 40)
    result.apply_edit(FILE, document.edit((2, 0), (2, 0), "# new\n# new\n"))
    result.stale = True
    nodes = every(target_node(result, convert.Client("utf-8", lambda *_: "edited", convert.uri)))
    assert any(node["label"].startswith("the value of `x.item()` on line 23 changes") for node in nodes)


def test_a_recompilation_names_lines_where_they_are_after_an_edit() -> None:
    recompiled = again(failed("the value of `line 21` on line 21 was 1, now 2"))
    new_report = report(recompiles=(recompiled,), breaks=(broken(at(21)),))
    result = capture_result_of(Key(FILE, "Net"), 1, new_report, ())
    result.apply_edit(FILE, SourceDocument(FILE, "\n" * 40).edit((2, 0), (2, 0), "# new\n"))
    (node,) = [
        entry for entry in every(target_node(result, VIEW)) if entry["contextValue"] == "recompilation"
    ]
    assert node["label"] == "Net.forward: the value of `line 21` on line 22 was 1, now 2"
    assert node["children"][0]["description"] == "the value of `line 21` on line 22 was 1, now 2"


def test_the_tree_counts_what_the_lens_counts() -> None:
    recompiled = Recompile("Net.forward", at(20), (), compile_id="0/1", reasons=("x",))
    stopped = Recompile("Net.forward", at(20), (), compile_id=None, reasons=("limit",))
    nowhere = broken()
    new_report = report(recompiles=(recompiled, stopped), breaks=(broken(at(21)), broken(at(21)), nowhere))
    actual_counts = counts(new_report)
    assert (actual_counts.breaks, actual_counts.recompilations) == (2, 1)
    shown = labels(new_report)
    assert f"Graph breaks ({actual_counts.breaks})" in shown
    assert f"Recompilations ({actual_counts.recompilations})" in shown
    assert "Stopped by the recompile limit (1)" in shown


def test_a_break_in_a_library_is_one_node_over_the_lines_that_lead_there() -> None:
    inside = at(400, path=LIBRARY, function="attend")
    entries = tree(report(breaks=tuple(broken(at(line), inside) for line in (23, 21, 22, 21))))
    (node,) = [node for node in every(entries) if node["contextValue"] == "break"]
    assert node["description"] == "line 21, 2 more places, 4 times"
    assert [(child["label"], first_line(child)) for child in node["children"]] == [
        ("line 21", 20),
        ("line 22", 21),
        ("line 23", 22),
    ]


def test_each_node_has_a_label_for_a_screen_reader() -> None:
    nodes = list(every(tree(report(breaks=(broken(at(21)),)))))
    for node in nodes:
        assert node["accessibilityLabel"].startswith(node["label"])
        assert node["description"] in node["accessibilityLabel"]
    (entry,) = [node for node in nodes if node["contextValue"] == "break"]
    assert entry["accessibilityLabel"].endswith(", line 21")


@pytest.mark.slow
def test_a_message_of_many_megabytes_makes_a_small_tree() -> None:
    failure = Failure(Culprit.USER, "ValueError", "x \n" * 1_000_000, "fix it", stack=(at(21),))
    entries = tree(report(failures=(failure,)))
    assert len(json.dumps(entries)) < 50_000
    (node,) = [node for node in every(entries) if node["contextValue"] == "failure"]
    assert "\n" not in node["label"]
    assert node["label"].endswith("\N{HORIZONTAL ELLIPSIS}")


def test_findings_with_a_known_cost_are_listed_the_costliest_first() -> None:
    def copy(line: int, us: float) -> Kernel:
        operators = (FusedOperator("aten.clone.default", stack=(at(line),)),)
        return Kernel(
            f"k{line}",
            KernelKind.TRITON,
            line,
            operators=operators,
            copies=True,
            bound="memory",
            estimate_us=us,
        )

    graph = GeneratedGraph("0/0", Phase.FORWARD, kernels=(copy(12, 20.0), copy(14, 90.0)))
    kernels = kernel_result_of(
        Key(FILE, "Net", Tier.KERNELS), 1, report(tier=Tier.KERNELS, generated=(graph,))
    )
    result = capture_result_of(Key(FILE, "Net"), 1, report(), ())
    node = target_node(result, VIEW, kernels)
    (group,) = (child for child in node["children"] if child["label"].startswith("Findings"))
    assert [child["description"] for child in group["children"]] == [
        "~90 µs, model.py:14",
        "~20 µs, model.py:12",
    ]


def test_a_forecast_lists_what_recompiles_with_its_line_and_then_what_does_not() -> None:
    batch = Forecast(
        ChangeKind.SIZE, ("x.size(0)",), "6", "5", recompiles=True, source="x", born=(at(21),),
        guard="tensor 'L['x']' size mismatch at index 0. expected 6, actual 5",
    )  # fmt: skip
    width = replace(batch, subject=("x.size(1)",), recompiles=False, born=())
    new_report = report(forecasts=(FrameForecast("Net.forward", at(20), 1, 8, (batch, width)),))
    (group,) = [child for child in tree(new_report)["children"] if child["label"] == "Recompiles if (1)"]
    change, others = group["children"]
    assert change["label"] == "the batch changes (x.size(0): 6 → 5)"
    assert change["description"] == "one more compile, line 21"
    assert first_line(change) == 20
    assert "The compiled code holds while x.size(0) == 6." in change["tooltip"]
    assert "Advice: Before the first call: torch._dynamo.mark_dynamic(x, 0)" in change["tooltip"]
    assert (others["label"], others["children"][0]["range"]) == ("Needs no compile (1)", None)
    alone = report(forecasts=(FrameForecast("Net.forward", at(20), 1, 8, (width,)),))
    assert "Needs no compile (1)" in labels(alone)
