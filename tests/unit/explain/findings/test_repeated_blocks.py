"""FL707: a repeated block that is compiled many times."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from fuselight.shared.report import (
    Compile,
    Frame,
    GeneratedGraph,
    Kernel,
    KernelKind,
    Outcome,
    Phase,
    Repeated,
    Report,
    Tier,
)
from fuselight_server.base.finding import Finding, Severity
from fuselight_server.explain.findings import Thresholds, findings_of_kernels
from tests.support.reports import LIBRARY, at, report

BLOCK = Repeated("Block", 12, operators=360, whole=400, location=at(30), call=(at(50, function="forward"),))


def generated(repeat: Repeated | None = BLOCK, graphs: int = 1, **changes: Any) -> Report:
    base = report(
        tier=Tier.KERNELS,
        frames=(Frame("Net.forward", at(20)),),
        compiles=tuple(Compile(f"0/{i}", 0, Outcome.COMPILED, seconds=8.0) for i in range(graphs)),
        generated=tuple(
            GeneratedGraph(
                f"0/{i}",
                Phase.FORWARD,
                graph=i,
                repeated=repeat,
                kernels=(Kernel("triton_0", KernelKind.TRITON, 0),),
                aten_key="same",
            )
            for i in range(graphs)
        ),
    )
    return dataclasses.replace(base, **changes)


def of(given: Report, **thresholds: Any) -> tuple[Finding, ...]:
    return findings_of_kernels(given, thresholds=Thresholds(**thresholds))


def test_a_repeated_block_is_information_on_its_call_with_its_share() -> None:
    (finding,) = of(generated())
    assert (finding.code, finding.severity, finding.span.line, finding.count) == (
        "FL707",
        Severity.INFORMATION,
        50,
        12,
    )
    assert finding.title.startswith("12 equal instances of `Block` are compiled one by one")
    assert finding.cost == (
        "360 of the graph's 400 captured operators are in the 12 instances",
        "82% of all operators are in the instances after the first",
        "this graph took 8.0 s to compile here, ~6.6 s of it for those instances",
    )
    assert "block.compile()" in finding.message


def test_without_a_measured_time_none_is_reported() -> None:
    given = generated()
    (record,) = given.compiles
    (finding,) = of(dataclasses.replace(given, compiles=(dataclasses.replace(record, seconds=None),)))
    assert len(finding.cost) == 2


def test_a_block_of_a_library_that_is_called_in_a_library_is_reported_on_the_users_line() -> None:
    call = (at(14, function="main"), at(700, path=LIBRARY))
    theirs = dataclasses.replace(BLOCK, location=at(300, path=LIBRARY), call=call)
    (finding,) = of(generated(theirs))
    assert (finding.span.line, [other.span.path for other in finding.related]) == (14, [LIBRARY])
    (finding,) = of(generated(dataclasses.replace(theirs, call=())))
    assert finding.span.line == 10  # the target


@pytest.mark.parametrize(
    "given",
    [
        None,
        dataclasses.replace(BLOCK, count=5, operators=360),
        dataclasses.replace(BLOCK, operators=96, whole=100),
        dataclasses.replace(BLOCK, operators=180),
    ],
    ids=["none", "few", "small", "a small part of the graph"],
)
def test_small_models_get_no_advice(given: Repeated | None) -> None:
    assert of(generated(given)) == ()


def test_the_number_is_a_threshold_and_zero_disables_it() -> None:
    assert of(generated(), repeats=13) == ()
    assert of(generated(), repeats=0) == ()


def test_a_block_in_many_graphs_is_reported_once() -> None:
    assert [finding.span.line for finding in of(generated(graphs=2))] == [50]


def test_one_function_compiled_to_the_same_graph_many_times_is_reported_on_it() -> None:
    (finding,) = of(generated(None, graphs=7))
    assert (finding.code, finding.span.line, finding.count) == ("FL707", 20, 7)
    assert finding.title == "the same graph of `Net.forward` is compiled 7 times: once is enough"
    assert finding.cost == (
        "7 of the target's 7 launches are in these graphs; the graphs after the first took 48.0 s to compile here",
    )
    assert of(generated(None, graphs=5)) == ()


def test_graphs_that_differ_are_not_the_same() -> None:
    given = generated(None, graphs=7)
    different = tuple(
        dataclasses.replace(graph, aten_key=str(number)) for number, graph in enumerate(given.generated)
    )
    assert of(dataclasses.replace(given, generated=different)) == ()
