"""The picture of a target's graphs: arrows, the texts of boxes, and the folding of large pictures."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest

from fuselight.shared.report import (
    Compile,
    Frame,
    GeneratedGraph,
    Graph,
    GuardFailure,
    Kernel,
    KernelKind,
    Mismatch,
    NotCompiled,
    NotCompiledKind,
    Outcome,
    Phase,
    Recompile,
)
from fuselight_server.base.finding import Span
from fuselight_server.explain.graphs import MAX, ArrowKind, BoxKind, Picture, fold, picture
from tests.support.own_kernels import own_kernel
from tests.support.reports import FILE, at, broken, report

if TYPE_CHECKING:
    from fuselight.shared.report import Location, Report

NET = at(20, function="forward")


def frame(function: str = "Net.forward", line: int = 20, resumes_at: int | None = None) -> Frame:
    return Frame(function, at(line), resumes_at)


def compiled(identity: str, frame: int, operators: int | None = 2, **changes: Any) -> Compile:
    graph = None if operators is None else Graph(operators, targets=("torch.sin",) * operators)
    outcome = Outcome.EMPTY if operators is None else Outcome.COMPILED
    return Compile(**{"id": identity, "frame": frame, "outcome": outcome, "graph": graph, **changes})


def again(identity: str | None, before: str, function: str = "Net.forward", line: int = 20) -> Recompile:
    failure = GuardFailure("TENSOR_MATCH", "x.size(0)", "", "x.size(0) was 4, now 7")
    return Recompile(function, at(line), (Mismatch(before, (failure,)),), identity)


def arrows(picture: Picture) -> list[tuple[str, str, str]]:
    names = {box.id: f"{box.name} {box.title}".strip() for box in picture.boxes}
    return [(names[arrow.start], arrow.kind.value, names[arrow.end]) for arrow in picture.arrows]


BRANCH = "GB0170 a branch depends on the data of a tensor"
SPLIT = report(
    frames=(frame(), frame(resumes_at=24)),
    compiles=(compiled("0/0", 0), compiled("1/0", 1, operators=5)),
    breaks=(broken(at(24), compile_id="0/0"),),
)


def test_a_break_is_between_two_graphs() -> None:
    new_picture = picture(SPLIT)
    assert arrows(new_picture) == [
        ("Net", "calls", "0/0 Net.forward"),
        ("0/0 Net.forward", "breaks", BRANCH),
        (BRANCH, "goes on", "1/0 Net.forward"),
    ]
    assert [(box.kind, box.at.line) for box in new_picture.boxes if box.at] == [
        (BoxKind.TARGET, 10),
        (BoxKind.GRAPH, 20),
        (BoxKind.BREAK, 24),
        (BoxKind.GRAPH, 24),
    ]
    assert new_picture.boxes[0].facts == ("Net()(f32[4, 8])",)
    assert new_picture.boxes[3].facts == ("from line 24 on", "5 operators: sin x 5")
    assert new_picture.boxes[1].frame != new_picture.boxes[3].frame


def test_links_use_current_lines_and_removed_lines_have_none() -> None:
    def two_further(there: Location) -> Span | None:
        return Span(there.path, there.line + 2) if there.line != NET.line else None

    new_picture = picture(SPLIT, now=two_further)
    assert [box.at.line if box.at else None for box in new_picture.boxes] == [12, None, 26, 26]
    assert new_picture.boxes[3].facts[0] == "from line 26 on"


def test_a_call_on_the_broken_line_and_later_graphs_follow_the_break() -> None:
    there = at(24, function="forward")
    inner = at(5, function="helper")
    new_picture = picture(
        report(
            frames=(frame(), frame("helper", 4), frame("helper", 4, 5), frame(resumes_at=24)),
            compiles=(
                compiled("0/0", 0, operators=None),
                compiled("1/0", 1, caller=(there,)),
                compiled("2/0", 2),
                compiled("3/0", 3),
            ),
            breaks=(
                broken(there, inner, compile_id="0/0", gb="GB0025"),
                broken(inner, compile_id="1/0", gb="GB0025"),
            ),
        )
    )
    asked = "GB0025 requested by torch._dynamo.graph_break()"
    assert arrows(new_picture) == [
        ("Net", "calls", "0/0 Net.forward"),
        ("0/0 Net.forward", "breaks", asked),
        (asked, "calls", "1/0 helper"),
        ("1/0 helper", "breaks", asked),
        (asked, "goes on", "2/0 helper"),
        (asked, "goes on", "3/0 Net.forward"),
    ]
    first, second = (box for box in new_picture.boxes if box.kind is BoxKind.BREAK)
    assert (first.facts, second.facts) == (("reached from line 24",), ())
    goes_on = {arrow.end: arrow.start for arrow in new_picture.arrows if arrow.kind is ArrowKind.GOES_ON}
    assert goes_on == {"compile/2/0": second.id, "compile/3/0": first.id}
    assert [box.kind for box in new_picture.boxes if box.name == "0/0"] == [BoxKind.EMPTY]


def test_a_recompilation_is_a_box_of_the_same_frame_with_what_differed() -> None:
    new_picture = picture(
        dataclasses.replace(
            SPLIT,
            compiles=(*SPLIT.compiles, compiled("0/1", 0), compiled("0/2", 0)),
            breaks=(*SPLIT.breaks, broken(at(24), compile_id="0/1")),
            recompiles=(again("0/1", "0/0"), again("0/2", "0/0")),
        )
    )
    boxes = {box.name: box for box in new_picture.boxes}
    assert boxes["0/1"].again
    assert boxes["0/1"].frame == boxes["0/0"].frame
    assert boxes["0/1"].facts[0] == "since x.size(0) was 4, now 7"
    assert arrows(new_picture)[3:] == [
        ("0/0 Net.forward", "compiled again", "0/1 Net.forward"),
        ("0/1 Net.forward", "breaks", BRANCH),
        ("0/0 Net.forward", "compiled again", "0/2 Net.forward"),
    ]
    assert [box.kind for box in new_picture.boxes].count(BoxKind.BREAK) == 1, "the same break is one box"


def test_a_skipped_frame_runs_in_eager_because_of_a_break_and_calls_others() -> None:
    inside, layer = at(25, function="forward"), at(34, function="forward")
    new_picture = picture(
        report(
            frames=(frame(), frame("Layer.forward", 30)),
            compiles=(
                compiled("0/0", 0, operators=None, outcome=Outcome.SKIPPED, call=0),
                compiled("1/0", 1, caller=(inside,)),
            ),
            breaks=(broken(inside, layer, compile_id="0/0", frame_skipped=True),),
            not_compiled=(
                NotCompiled(NotCompiledKind.SKIPPED, "Net.forward", at(20), "a loop is in it", call=0),
                NotCompiled(NotCompiledKind.GENERATOR, "gen", at(60), "", caller=(inside,)),
            ),
        )
    )
    assert arrows(new_picture) == [
        ("Net", "calls", "0/0 Net.forward"),
        ("0/0 Net.forward", "because of", BRANCH),
        ("0/0 Net.forward", "calls", "1/0 Layer.forward"),
        ("0/0 Net.forward", "calls", "gen"),
    ]
    eager = [box for box in new_picture.boxes if box.kind is BoxKind.EAGER]
    assert [box.facts for box in eager] == [("skipped: a loop is in it",), ("generator",)]


def test_a_call_stopped_by_the_limit_follows_the_nearest_entry() -> None:
    new_picture = picture(
        report(
            frames=(frame(),),
            compiles=(compiled("0/0", 0), compiled("0/1", 0)),
            recompiles=(again("0/1", "0/0"), again(None, "0/1")),
            not_compiled=(
                NotCompiled(
                    NotCompiledKind.RECOMPILE_LIMIT, "Net.forward", at(20), "the limit (2) is reached"
                ),
            ),
        )
    )
    assert arrows(new_picture)[-1] == ("0/1 Net.forward", "runs in eager", "Net.forward")
    assert new_picture.boxes[-1].frame == new_picture.boxes[1].frame
    assert new_picture.boxes[-1].facts == ("recompile limit: the limit (2) is reached",)


def test_inconsistent_parts_of_a_report_are_not_lost() -> None:
    new_picture = picture(
        report(
            frames=(frame(), frame(resumes_at=99)),
            compiles=(compiled("1/0", 1), compiled("7/0", 7)),
            breaks=(broken(at(24), compile_id="9/9"), broken(compile_id="9/8", gb="GB0033")),
            recompiles=(again("1/0", "5/5"),),
            not_compiled=(NotCompiled(NotCompiledKind.DISABLED, "off", at(3), "it says so"),),
        )
    )
    assert [box.name or box.title for box in new_picture.boxes] == ["Net", "1/0", "GB0170", "GB0033", "off"]
    assert {arrow.start for arrow in new_picture.arrows} == {"target"}
    assert {arrow.end for arrow in new_picture.arrows} == {box.id for box in new_picture.boxes[1:]}


def test_kernels_are_shown_in_their_graph_for_both_phases() -> None:
    launches = tuple(Kernel(f"k{index}", KernelKind.TRITON, index, estimate_us=1.5) for index in range(3))
    kernels = dataclasses.replace(
        SPLIT,
        generated=(
            GeneratedGraph("0/0", Phase.FORWARD, kernels=launches),
            GeneratedGraph("0/0", Phase.BACKWARD, failure="no lowering"),
            GeneratedGraph("1/0", Phase.INFERENCE, kernels=launches[:1]),
        ),
    )
    facts = [box.facts for box in picture(SPLIT, kernels=kernels).boxes]
    assert facts[1][1:] == ("forward: 3 kernels, ~4.5 µs", "backward: no kernels: no lowering")
    assert facts[3][2:] == ("inference: 1 kernel, ~1.5 µs",)
    other = dataclasses.replace(kernels, compiles=(compiled("0/0", 0, operators=9), *SPLIT.compiles[1:]))
    new_picture = picture(SPLIT, kernels=other, suffix=" (before your edit)")
    assert new_picture.boxes[1].facts == ("2 operators: sin x 2",), "another graph has that id there"
    assert new_picture.boxes[3].facts[-1] == "inference: 1 kernel, ~1.5 µs (before your edit)"


# ---- large pictures


def test_the_users_own_kernels_are_named_in_the_graphs_that_launch_them() -> None:
    launch = "torch.ops.higher_order.triton_kernel_wrapper_mutation"
    graph = Graph(2, targets=(launch, "torch.sin"), lines=((at(22),), (at(23),)))
    kernels = (
        own_kernel("scale", 4, launched_at=(at(22),)),
        own_kernel("other", 9, launched_at=(at(23),)),
    )
    whole = report(frames=(frame(),), compiles=(compiled("0/0", 0, graph=graph),), own_kernels=kernels)
    (box,) = [box for box in picture(whole).boxes if box.kind is BoxKind.GRAPH]
    named = [fact for fact in box.facts if fact.startswith("Triton kernel")]
    assert named == [
        "Triton kernel scale (line 4): 64 registers, no spills, 48 KB shared, occupancy 50%, ~12.2 µs"
    ]


def chain(length: int, *, titles: int = 1) -> Report:
    """One function with a break on each of its lines, or of `titles` functions in turn."""
    lines = range(100, 100 + length)
    return report(
        frames=tuple(frame(f"f{line % titles}", 20, line - 1 if line > 100 else None) for line in lines),
        compiles=tuple(compiled(f"{index}/0", index, guard_us=index / 7) for index in range(length)),
        breaks=tuple(broken(at(line), compile_id=f"{index}/0") for index, line in enumerate(lines)),
    )


def test_a_small_picture_stays_as_it_is() -> None:
    new_picture = picture(chain(MAX // 2 - 1))
    assert fold(new_picture) == new_picture


def test_a_chain_of_equal_graphs_and_breaks_is_two_boxes_with_a_count() -> None:
    new_picture = fold(picture(chain(300)))
    assert arrows(new_picture) == [
        ("Net", "calls", "0/0 to 299/0 f0"),
        ("0/0 to 299/0 f0", "breaks", BRANCH),
    ]
    graph, broke = new_picture.boxes[1:]
    assert graph.facts == ("2 operators: sin x 2", "300 lines, 20 to 398")
    assert broke.facts == ("300 lines, 100 to 399",)
    assert [(member.label, member.at and member.at.line) for member in broke.members][:2] == [
        (BRANCH.replace(" ", ", ", 1), 100),
        (BRANCH.replace(" ", ", ", 1), 101),
    ]
    assert len(graph.members) == len(broke.members) == 300
    assert graph.members[7].label == "7/0, f0, from line 106 on, 2 operators: sin x 2"


def test_recompilations_of_folded_frames_are_folded_too() -> None:
    whole = chain(100)
    more = tuple(compiled(f"{index}/1", index) for index in range(100))
    whole = dataclasses.replace(
        whole,
        compiles=(*whole.compiles, *more),
        recompiles=tuple(again(f"{index}/1", f"{index}/0", "f0") for index in range(100)),
    )
    new_picture = fold(picture(whole))
    assert [(box.name, len(box.members)) for box in new_picture.boxes[1:]] == [
        ("0/0 to 99/0", 100),
        ("GB0170", 100),
        ("0/1 to 99/1", 100),
    ]
    assert arrows(new_picture)[-1] == ("0/0 to 99/0 f0", "compiled again", "0/1 to 99/1 f0")


def test_neighbors_that_differ_are_folded_by_their_kind_when_there_are_too_many() -> None:
    new_picture = fold(picture(chain(200, titles=7)))
    assert [box.title for box in new_picture.boxes] == ["Net", "f2 and 6 more", BRANCH.partition(" ")[2]]
    assert len(new_picture.boxes[1].members) == 200


def test_a_different_box_is_not_folded() -> None:
    whole = chain(100)
    odd = dataclasses.replace(whole.compiles[50], graph=Graph(9, targets=("torch.cos",) * 9))
    new_picture = fold(
        picture(dataclasses.replace(whole, compiles=(*whole.compiles[:50], odd, *whole.compiles[51:])))
    )
    assert [box.name for box in new_picture.boxes if box.kind is BoxKind.GRAPH] == [
        "0/0 to 49/0",
        "50/0",
        "51/0 to 99/0",
    ]
    assert [kind for _, kind, _ in arrows(new_picture)] == [
        "calls",
        "breaks",
        "goes on",
        "breaks",
        "goes on",
        "breaks",
    ]


@pytest.mark.slow
def test_boxes_that_cannot_be_folded_are_cut_with_their_count() -> None:
    # Each part has one break more than the one before it, round and round, so that no two neighbors are alike.
    whole = chain(4 * MAX)
    odd = tuple(broken(at(900 + index), compile_id=f"{index}/0") for index in range(1, 4 * MAX, 2))
    whole = dataclasses.replace(whole, breaks=(*whole.breaks, *odd))
    everything = picture(whole)
    new_picture = fold(everything)
    assert len(new_picture.boxes) == 2 * MAX
    assert new_picture.boxes[-1].kind is BoxKind.MORE
    assert new_picture.boxes[-1].title == f"and {len(everything.boxes) - 2 * MAX + 1} more boxes"
    assert {arrow.end for arrow in new_picture.arrows} >= {"more"}


def test_every_arrow_of_a_folded_picture_leads_from_box_to_box() -> None:
    for length in (MAX, 2 * MAX, 1500):
        new_picture = fold(picture(chain(length, titles=3)))
        ids = {box.id for box in new_picture.boxes}
        assert {end for arrow in new_picture.arrows for end in (arrow.start, arrow.end)} <= ids
        assert len(ids) == len(new_picture.boxes) <= 2 * MAX
        assert FILE in {box.at.path for box in new_picture.boxes if box.at}
