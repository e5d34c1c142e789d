"""What a graph break costs: the graphs of its function, and what runs in eager mode."""

from __future__ import annotations

import dataclasses

import pytest

from fuselight.shared.report import (
    Environment,
    Frame,
    Location,
)
from fuselight_server.explain.findings import findings
from tests.support.breaks import FORWARD, FRAMES, HELPER, compiled
from tests.support.reports import LIBRARY, at, broken, report


def test_its_cost_is_counted_in_graphs_of_the_function() -> None:
    compiles = (compiled("0/0", 0, 5), compiled("2/0", 2, 9), compiled("1/0", 1, 3))
    (finding,) = findings(report(frames=FRAMES, compiles=compiles, breaks=(broken(FORWARD),)))
    assert finding.cost[0] == (
        "`Net.forward` is split into 2 graphs: 5 operators right before this line, 3 operators right after it"
    )


def test_recompilations_make_no_further_graphs() -> None:
    # As in a program of several calls: the first part and the second one are compiled twice each.
    compiles = (compiled("0/0", 0, 5), compiled("0/1", 0, 6), compiled("1/0", 1, 3), compiled("1/1", 1, 3))
    (finding,) = findings(report(frames=FRAMES, compiles=compiles, breaks=(broken(FORWARD),)))
    assert finding.cost[0] == (
        "`Net.forward` is split into 2 graphs: 5 operators right before this line, 3 operators right after it"
    )


def test_a_break_that_no_graph_touches_has_no_number_of_graphs() -> None:
    # As the logging call of one call, where another call has the whole function in one graph.
    compiles = (compiled("0/0", 0, None), compiled("1/0", 1, 3), compiled("0/1", 0, 5))
    (finding,) = findings(report(frames=FRAMES, compiles=compiles, breaks=(broken(FORWARD),)))
    assert finding.cost[0] == "a graph of `Net.forward` starts after this line, with 3 operators"


def test_each_of_two_breaks_on_a_line_has_the_graph_that_it_touches() -> None:
    first, second = at(30, (8, 14)), at(30, (8, 20))
    compiles = (compiled("0/0", 0, 5), compiled("1/0", 1, None), compiled("2/0", 1, 7))
    breaks = (broken(first, compile_id="0/0"), broken(second, gb="GB0033", compile_id="1/0"))
    costs = [finding.cost[0] for finding in findings(report(frames=FRAMES, compiles=compiles, breaks=breaks))]
    assert sorted(costs) == [
        "a graph of `Net.forward` ends here, after 5 operators",
        "a graph of `Net.forward` starts after this line, with 7 operators",
    ]


def test_a_break_in_a_function_that_was_inlined_is_beside_the_graphs_of_that_function() -> None:
    outer, inner = at(40, function="forward"), at(30, function="project")
    frames = (
        Frame("Sequential", at(9, path=LIBRARY)),
        Frame("Net.project", at(20)),
        Frame("Net.project", at(20), resumes_at=30),
    )
    breaks = (
        broken(at(12, path=LIBRARY), outer, inner, frame_function="Sequential"),
        broken(inner, compile_id="1/0", frame_function="Net.project"),
    )
    compiles = (compiled("0/0", 0, None), compiled("1/0", 1, 2), compiled("2/0", 2, 4))
    (finding,) = findings(report(frames=frames, compiles=compiles, breaks=breaks))
    assert finding.cost[0] == (
        "`Net.project` is split into 2 graphs: 2 operators right before this line, 4 operators right after it"
    )
    again = (compiled("0/0", 0, None), compiled("1/0", 1, None), compiled("1/1", 1, 4))
    (finding,) = findings(report(frames=frames, compiles=again, breaks=breaks))
    assert finding.cost[0] == (
        "`Net.project` has other graphs, and none of its operators run right before or after this line"
    )


def test_the_functions_that_lead_to_the_break_of_a_helper_are_said_to_lose_their_graph() -> None:
    inner = at(30, function="show")
    places = {"show": 20, "ends": 40, "both": 60}
    frames = (
        Frame("show", at(20)),
        Frame("show", at(20), resumes_at=30),
        Frame("ends", at(40)),
        Frame("both", at(60)),
        Frame("both", at(60), resumes_at=61),
    )
    breaks = (
        broken(inner, frame_function="show"),
        *(
            broken(at(line + 1, function=name), inner, compile_id=f"{number}/0", frame_function=name)
            for name, line, number in (("ends", places["ends"], 2), ("both", places["both"], 3))
        ),
    )
    graphs = (("0/0", 0, 1), ("1/0", 1, 1), ("2/0", 2, 4), ("3/0", 3, 2), ("4/0", 4, 5))
    compiles = tuple(compiled(*graph) for graph in graphs)
    (finding,) = findings(report(frames=frames, compiles=compiles, breaks=breaks))
    assert finding.cost[:3] == (
        "`show` is split into 2 graphs: 1 operator right before this line, 1 operator right after it",
        "`both`, which leads here, is split too",
        "`ends`, which leads here, has no graph that continues across the call",
    )


@pytest.mark.parametrize(
    ("caller", "cost"),
    [
        ((FORWARD,), "no kernel is fused across the call"),
        # Called from another line, or by the function that another line calls: this line runs in eager mode.
        ((at(31, function="forward"),), "this line runs in eager mode, and no kernel is fused across it"),
        (
            (FORWARD, at(70, function="helper")),
            "this line runs in eager mode, and no kernel is fused across it",
        ),
    ],
)
def test_what_the_line_calls_is_not_said_to_run_in_eager_mode(
    caller: tuple[Location, ...], cost: str
) -> None:
    called = dataclasses.replace(compiled("2/0", 2, 9), caller=caller)
    compiles = (
        compiled("0/0", 0, None),
        called,
        dataclasses.replace(compiled("1/0", 1, 3), caller=(FORWARD,)),
    )
    (finding,) = findings(report(frames=FRAMES, compiles=compiles, breaks=(broken(FORWARD),)))
    assert finding.cost[-1] == cost
    is_called = caller == (FORWARD,)
    assert ("`other`, which this line calls, is compiled separately" in finding.cost) == is_called


@pytest.mark.parametrize(
    ("path", "config", "called"),
    [
        ("<eval_with_key>.11", {"compiled_autograd": "True"}, "the backward pass, which this line calls"),
        ("<eval_with_key>.11", {}, ""),
        (LIBRARY, {"compiled_autograd": "True"}, "`forward`, which this line calls"),
    ],
)
def test_a_graph_that_torch_wrote_has_no_name_of_a_function(
    path: str, config: dict[str, str], called: str
) -> None:
    """The graph of a backward pass is called `forward`."""
    frames = (*FRAMES[:2], Frame("forward", Location(path, 4)))
    compiles = (compiled("0/0", 0, 3), dataclasses.replace(compiled("2/0", 2, 9), caller=(FORWARD,)))
    environment = Environment(config=config)
    (finding,) = findings(
        report(frames=frames, compiles=compiles, breaks=(broken(FORWARD),), environment=environment)
    )
    calls = [part for part in finding.cost if "which this line calls" in part]
    assert calls == [f"{called}, is compiled separately"] * bool(called)


EAGER = "in eager mode, and no kernel is fused across it"


@pytest.mark.parametrize(
    ("stack", "own", "cost"),
    [
        # As `checkpoint`, which torch calls in eager mode with all that it calls.
        ((HELPER,), (), f"all of `helper` runs {EAGER}"),
        ((at(50, function="block"), HELPER), (), f"all of `block` runs {EAGER}"),
        # As `torch.vmap`, whose own functions torch tries to compile under the name of the user's.
        (
            (at(9, path=LIBRARY, function="wrapped"), HELPER),
            (at(9, path=LIBRARY, function="wrapped"),),
            f"all of `helper` runs {EAGER}",
        ),
        ((at(50, function="<lambda>"),), (), f"all of `<lambda>` runs {EAGER}"),
        # A function that torch compiles by itself after the break, as `forward` of an `autograd.Function`.
        ((HELPER,), (HELPER,), f"this line runs {EAGER}"),
        (
            (at(50, function="block"), HELPER),
            (at(50, function="block"), HELPER),
            f"all of `helper` runs {EAGER}",
        ),
        ((at(31, function="<listcomp>"),), (), f"this line runs {EAGER}"),
        ((at(9, path=LIBRARY, function="wrapped"),), (), f"this line runs {EAGER}"),
    ],
)
def test_a_function_that_torch_never_compiles_runs_in_eager_mode_as_a_whole(
    stack: tuple[Location, ...], own: tuple[Location, ...], cost: str
) -> None:
    breaks = [broken(FORWARD, *stack)]
    if own:
        name = (own[0] if own[0].function != "wrapped" else HELPER).function
        breaks.append(broken(*own, *stack[len(own) :], compile_id="2/0", frame_function=name))
    compiles = (compiled("0/0", 0, 5), compiled("2/0", 2, None), compiled("1/0", 1, 3))
    (finding,) = findings(report(frames=FRAMES, compiles=compiles, breaks=tuple(breaks)))
    assert finding.cost[-1] == cost


def test_without_compiles_no_cost_in_graphs_is_claimed() -> None:
    (finding,) = findings(report(breaks=(broken(FORWARD),)))
    assert finding.cost == ("this line runs in eager mode, and no kernel is fused across it",)


def test_a_skipped_frame_costs_all_of_the_function() -> None:
    (finding,) = findings(report(breaks=(broken(FORWARD, frame_skipped=True, operators=4),)))
    assert finding.cost == (
        "all of `Net.forward` runs in eager mode, not only this line",
        "torch traces nothing of it after this line: further lines may break the graph",
        "the 4 operators traced before this line run in eager too",
    )
