"""Estimated times of collectives, and where ranks differ, from data alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fuselight.shared.report import (
    Break,
    Collective,
    CollectiveMismatch,
    Compile,
    EqualRanks,
    Frame,
    Graph,
    GuardCause,
    GuardFailure,
    Location,
    Mismatch,
    Mode,
    Outcome,
    Recompile,
    World,
)
from fuselight.worker.ranks.blocked_calls import blocked_calls
from fuselight.worker.ranks.collective_order import mismatches
from fuselight_server.explain.findings.common.recompilation_hints import recompilation_hints
from fuselight_server.explain.ranks.collective_lines import collective_rows
from fuselight_server.explain.ranks.link import LinkError, estimated_us, parse_link
from fuselight_server.explain.ranks.rank_differences import world_differences

ROOTS = ("/project",)
LINE = Location("/project/train.py", 7, function="step")
OTHER = Location("/project/train.py", 9, function="step")


def _collective(kind: str, ranks: int, size: int, **more: object) -> Collective:
    return Collective(kind, tuple(range(ranks)), "float32", ((size // 4,),), size, (LINE,), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "ranks", "expected"),
    [
        ("all_reduce", 8, 10 + 2 * 7 / 8 * 1000),
        ("all_gather", 8, 10 + 7 / 8 * 1000),
        ("reduce_scatter", 4, 10 + 3 / 4 * 1000),
        ("broadcast", 4, 10 + 1000),
        ("barrier", 4, 10),
        ("all_reduce", 1, 0),
    ],
)
def test_a_ring_takes_its_latency_and_what_each_rank_sends(kind: str, ranks: int, expected: float) -> None:
    size = 0 if kind == "barrier" else 1_000_000
    assert estimated_us(_collective(kind, ranks, size), parse_link("1GB/s")) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("text", "per_second", "latency"),
    [
        ("400GB/s", 400e9, 10),
        ("200Gb/s", 25e9, 10),
        ("1.5TB/s,2us", 1.5e12, 2),
        ("100MB/s, 1ms", 100e6, 1000),
    ],
)
def test_links(text: str, per_second: float, latency: float) -> None:
    link = parse_link(text)
    assert link.bytes_per_second == pytest.approx(per_second)
    assert link.latency_us == latency


@pytest.mark.parametrize("text", ["", "fast", "0GB/s", "400GB", "400GB/s,", "400GB/s,soon"])
def test_a_link_that_is_none(text: str) -> None:
    with pytest.raises(LinkError, match="is not a link: write 400GB/s"):
        parse_link(text)


def test_the_last_bucket_of_ddp_overlaps_with_nothing() -> None:
    buckets = [_collective("all_reduce", 2, 8, source="ddp", is_backward=True, is_async=True)] * 3
    gather = _collective("all_gather", 2, 8, source="fsdp")
    rows = collective_rows([*buckets, gather], ROOTS, (), parse_link("1GB/s"))
    assert [(row.phase, row.count, row.bytes, row.overlapping) for row in rows] == [
        ("DDP backward", 3, 24, 2),
        ("FSDP2", 1, 8, 0),
    ]


def _ranks(
    *numbers: int, targets: tuple[str, ...] = ("relu", "sum"), inputs: str = "x: f32[4]"
) -> EqualRanks:
    graph = Graph(
        len(targets), lines=((LINE,), (OTHER,), (OTHER,))[: len(targets)], targets=targets, inputs=(inputs,)
    )
    return EqualRanks(numbers, (Frame("step", LINE),), (Compile("0/0", 0, Outcome.COMPILED, graph=graph),))


def _world(*groups: EqualRanks, mismatches: tuple[CollectiveMismatch, ...] = ()) -> World:
    return World(4, (), groups, {}, mismatches)


def test_equal_ranks_have_no_difference() -> None:
    assert world_differences(_world(_ranks(0, 1, 2, 3)), ROOTS) == ()


def test_the_first_operator_that_differs_is_named() -> None:
    differences = world_differences(_world(_ranks(0, 2, 3), _ranks(1, targets=("relu", "sin", "sum"))), ROOTS)
    assert [(difference.title, difference.location) for difference in differences] == [
        ("the graph of `step` differs: rank 1 has `sin` here, ranks 0, 2-3 have `sum`", OTHER)
    ]
    assert differences[0].code == "FL911"


def test_addresses_of_objects_are_no_difference() -> None:
    groups = [_ranks(rank, inputs=f"group: <ProcessGroup object at 0x7f{rank}>") for rank in (0, 1)]
    assert world_differences(_world(*groups), ROOTS) == ()


def test_other_sizes_are_a_minor_difference() -> None:
    (difference,) = world_differences(_world(_ranks(0), _ranks(1, inputs="x: f32[3]")), ROOTS)
    assert difference.code == "FL915"
    assert (
        difference.title
        == "inputs of the graph of `step` differ: `x: f32[3]` on rank 1, `x: f32[4]` on rank 0"
    )


def test_a_graph_break_of_one_rank() -> None:
    broken = EqualRanks((1,), breaks=(Break("0/0", ("GB0001",), ("print",), (LINE, OTHER)),))
    titles = [difference.title for difference in world_differences(_world(EqualRanks((0, 2)), broken), ROOTS)]
    assert titles == ["rank 1 has a graph break here, and ranks 0 and 2 do not"]


def test_ranks_that_call_other_collectives_would_wait() -> None:
    reduce, gather = _collective("all_reduce", 3, 64), _collective("all_gather", 3, 64)
    for other, words in (
        (gather, "rank 1 calls all_gather of 64 bytes (float32) instead"),
        (None, "no further collective"),
    ):
        mismatch = CollectiveMismatch((0, 1, 2), 4, (0, 1, 2), (reduce, other, reduce))
        (difference,) = world_differences(_world(_ranks(0, 1, 2), mismatches=(mismatch,)), ROOTS)
        assert difference.code == "FL912"
        assert difference.title.startswith("ranks 0 and 2 would wait here: ")
        assert words in difference.title
        assert difference.location == LINE


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"reduction": "max"}, "rank 1 calls all_reduce with max instead of sum"),
        ({"peer": 1}, "rank 1 calls all_reduce with root 1 instead of 0"),
        ({"bytes": 32}, "rank 1 calls all_reduce with 32 bytes instead of 64"),
        ({"group_name": "1"}, "rank 1 calls no further collective of this process group"),
    ],
)
def test_the_words_for_calls_that_do_not_fit_name_what_differs(changes: dict[str, Any], words: str) -> None:
    call = _collective("all_reduce", 2, 64, reduction="sum", peer=0, group_name="0")
    groups = tuple(
        EqualRanks((rank,), collectives=(replace(call, **more),), collective_count=1)
        for rank, more in enumerate(({}, changes))
    )
    first, *_ = world_differences(_world(*groups, mismatches=mismatches(groups)), ROOTS)
    assert first.title == f"rank 0 would wait here: {words}"


def _evaluated(*more: Collective) -> tuple[Collective, ...]:
    """Three reductions of training, with further calls after the second one, and a barrier at the end."""
    step = _collective("all_reduce", 2, 4)
    end = replace(_collective("barrier", 2, 0), stack=(Location("/project/train.py", 20),))
    return (step, step, *more, step, end)


def test_a_call_that_one_rank_makes_alone_is_named_where_a_later_one_does_not_fit() -> None:
    extra = replace(_collective("all_reduce", 2, 4), stack=(OTHER,))
    first, second = _evaluated(extra), _evaluated()
    groups = EqualRanks((0,), collectives=first), EqualRanks((1,), collectives=second)
    mismatch = CollectiveMismatch((0, 1), 3, (0, 1), (first[3], second[3]))
    (difference,) = world_differences(_world(*groups, mismatches=(mismatch,)), ROOTS)
    assert difference.title == "rank 0 calls all_reduce of 4 bytes (float32) here, and rank 1 does not"
    assert difference.location == OTHER
    assert difference.related[0] == (LINE, "rank 0 would wait here: rank 1 calls barrier (float32) instead")


def test_calls_that_fit_from_other_lines_are_no_extra_calls() -> None:
    """One rank sends what the others receive, from the two sides of a branch; a later call does not fit."""
    sent, received = (
        replace(_collective("broadcast", 2, 4, peer=0), stack=(Location("/project/train.py", line),))
        for line in (3, 5)
    )
    wrong = replace(_collective("all_gather", 2, 4), stack=(OTHER,))
    first, second = (sent, _collective("all_reduce", 2, 4)), (received, wrong)
    groups = EqualRanks((0,), collectives=first), EqualRanks((1,), collectives=second)
    mismatch = CollectiveMismatch((0, 1), 1, (0, 1), (first[1], second[1]))
    (difference,) = world_differences(_world(*groups, mismatches=(mismatch,)), ROOTS)
    assert difference.title.startswith("rank 0 would wait here: rank 1 calls all_gather")
    assert difference.location == LINE


def _again(rank: int, cause: GuardCause | None) -> EqualRanks:
    """A rank that compiles once more if there is a cause."""
    ranks = _ranks(rank)
    if cause is None:
        return ranks
    failure = GuardFailure("", "x", "", "it changed", cause=cause)
    return replace(
        ranks,
        compiles=(*ranks.compiles, replace(ranks.compiles[0], id="0/1")),
        recompiles=(Recompile("step", LINE, (Mismatch("0/0", (failure,)),)),),
    )


@pytest.mark.parametrize(
    ("cause", "hint"), [(GuardCause.DIMENSION, "Pad or drop"), (GuardCause.GLOBAL_STATE, "same modes")]
)
def test_one_more_compile_of_a_function_is_one_difference(cause: GuardCause, hint: str) -> None:
    (difference,) = world_differences(_world(_again(0, None), _again(1, cause)), ROOTS)
    assert difference.title == "rank 1 compiles `step` again (it changed), and rank 0 does not"
    assert hint in recompilation_hints(difference.cause)[0]


def test_one_more_object_of_a_class_is_named_as_such() -> None:
    more = replace(_ranks(1), compiles=(*_ranks(1).compiles, replace(_ranks(1).compiles[0], id="1/0")))
    (difference,) = world_differences(_world(_ranks(0), more), ROOTS)
    assert difference.title == "rank 1 compiles `step` once more, and rank 0 does not"


def test_a_module_of_a_library_differs_on_the_lines_that_call_it() -> None:
    """Its graph has no line of the user's, as that of a stage of a pipeline that is an `nn.Sequential`."""
    inside = Location("/lib/python3.11/site-packages/torch/nn/modules/container.py", 250)

    def stage(rank: int, caller: Location, *targets: str) -> EqualRanks:
        graph = Graph(len(targets), lines=((inside,),) * len(targets), targets=targets)
        compiled = Compile("0/0", 0, Outcome.COMPILED, graph=graph, caller=(caller,))
        return EqualRanks((rank,), (Frame("Sequential", inside),), (compiled,))

    groups = stage(0, LINE, "linear"), stage(1, OTHER, "linear", "relu")
    (difference,) = world_differences(_world(*groups), ROOTS)
    assert (difference.location, difference.related) == (OTHER, ((LINE, "rank 0"),))


@pytest.mark.parametrize("is_collective", [True, False])
def test_graphs_that_differ_in_a_reported_collective_are_one_finding(*, is_collective: bool) -> None:
    names = (
        ("_c10d_functional.all_reduce", "_c10d_functional.all_gather") if is_collective else ("sin", "cos")
    )
    groups = [_ranks(rank, targets=("relu", f"torch._ops.{name}.default")) for rank, name in enumerate(names)]
    calls = tuple(Collective(name, (0, 1), "float32", ((4,),), 16, (OTHER,)) for name in names)
    mismatch = CollectiveMismatch((0, 1), 0, (0, 1), calls)
    differences = world_differences(_world(*groups, mismatches=(mismatch,)), ROOTS)
    codes = [difference.code for difference in differences]
    assert codes == (["FL912"] if is_collective else ["FL912", "FL911"])


def test_a_collective_that_one_graph_has_alone_is_not_hidden_without_a_mismatch() -> None:
    graphs = _ranks(0), _ranks(1, targets=("relu", "torch._ops._c10d_functional.all_reduce.default", "sum"))
    assert [difference.code for difference in world_differences(_world(*graphs), ROOTS)] == ["FL911"]


def _in_modes(rank: int, *compiles: tuple[Mode, ...]) -> EqualRanks:
    """A rank that compiles `step` once in each of some sets of modes."""
    (compiled,) = _ranks(rank).compiles
    return replace(
        _ranks(rank),
        compiles=tuple(
            replace(compiled, id=f"0/{number}", modes=modes, caller=(OTHER,))
            for number, modes in enumerate(compiles)
        ),
    )


SET = Location("/project/train.py", 3, function="main")
NO_GRAD = Mode("grad mode", "off", "on", (SET,))
EVAL = Mode("modules in", "eval() mode", "train() mode", (Location("/project/train.py", 4),))
AUTOTUNE = Mode("torch._inductor.config.max_autotune", "True", "False")


def test_ranks_in_other_modes_are_named_on_the_line_that_sets_one() -> None:
    (difference,) = world_differences(_world(_ranks(0, 2, 3), _in_modes(1, (NO_GRAD, EVAL))), ROOTS)
    assert (difference.code, difference.location) == ("FL918", SET)
    assert difference.title == (
        "rank 1 compiles `step` with grad mode off and modules in eval() mode; "
        "ranks 0, 2-3 have grad mode on and modules in train() mode"
    )
    assert "has no backward" in difference.text
    assert [(place.line, words) for place, words in difference.related] == [
        (4, "rank 1: modules in eval() mode"),
        (OTHER.line, "rank 1: this call is compiled"),
    ]


def test_a_setting_without_a_line_is_named_on_the_compiled_call() -> None:
    (difference,) = world_differences(_world(_ranks(0), _in_modes(1, (AUTOTUNE,))), ROOTS)
    assert difference.location == OTHER
    assert difference.title == (
        "rank 1 compiles `step` with `torch._inductor.config.max_autotune = True`; "
        "rank 0 has `torch._inductor.config.max_autotune = False`"
    )


@pytest.mark.parametrize(
    ("first", "second", "named"),
    [
        # An evaluation of one rank, before or after the training of all.
        ((), ((NO_GRAD,), ()), ""),
        ((), ((), (NO_GRAD,)), ""),
        # A rank that stays in eval mode after it: the nearest compiles are compared.
        ((), ((NO_GRAD, EVAL), (EVAL,)), "modules in eval() mode; "),
        # As many compiles, one of them in a mode that the other rank never has.
        (((), ()), ((), (NO_GRAD,)), "grad mode off; "),
        # The same modes in another order.
        (((NO_GRAD,), ()), ((), (NO_GRAD,)), ""),
    ],
)
def test_a_further_compile_in_another_mode_is_no_difference_of_modes(
    first: tuple[tuple[Mode, ...], ...], second: tuple[tuple[Mode, ...], ...], named: str
) -> None:
    groups = _in_modes(0, *(first or ((),))), _in_modes(1, *second)
    titles = [item.title for item in world_differences(_world(*groups), ROOTS) if item.code == "FL918"]
    assert len(titles) == bool(named)
    assert all(f"with {named}rank 0" in title for title in titles)


def test_a_recompilation_in_another_mode_lists_the_lines_that_set_it() -> None:
    again = _again(1, GuardCause.GLOBAL_STATE)
    again = replace(
        again,
        compiles=(again.compiles[0], replace(again.compiles[1], modes=(NO_GRAD,))),
        recompiles=(replace(again.recompiles[0], compile_id="0/1"),),
    )
    (difference,) = world_differences(_world(_again(0, None), again), ROOTS)
    assert (difference.code, difference.related) == ("FL913", ((SET, "grad mode off"),))


def _exchanging(rank: int, calls: str) -> EqualRanks:
    """A rank that calls `>1` (send to rank 1), `<1` (receive from it), `~1` (irecv), `?` (receive), `b` (barrier)."""
    kinds = {">": "send", "<": "recv", "~": "recv", "?": "recv", "b": "barrier", "r": "broadcast"}
    collectives = []
    for number, text in enumerate(calls.split()):
        kind, (peer, _, tag) = text[0], text[1:].partition("t")
        group = (0, 1, 2) if kind in "br" else (0, 1)
        collectives.append(
            Collective(
                kinds[kind],
                group,
                "float32",
                ((1,),),
                4,
                (Location("/project/train.py", 10 * rank + number, function="step"),),
                is_async=kind == "~",
                peer=int(peer) if peer else None,
                tag=int(tag or 0),
            )
        )
    return EqualRanks((rank,), collectives=tuple(collectives), collective_count=len(collectives))


@pytest.mark.parametrize(
    ("sequences", "waiting"),
    [
        # A pipeline, and one whose stages both receive first.
        ((">1 <1 b", "<0 >0 b", "b"), []),
        (("<1 >1 b", "<0 >0 b", "b"), [0, 1, 2]),
        # Both receive first, but one does not wait for it.
        (("~1 >1 b", "<0 >0 b", "b"), []),
        # A receive that does not wait takes the first message, and the next one has none.
        (("~1 <1 b", ">0 b", "b"), [0, 1, 2]),
        # It may take the message with its own tag.
        (("~1t7 <1 b", ">0 b", "b"), []),
        # Sends never wait: a backend may keep what was sent.
        ((">1 <1 b", ">0 <0 b", "b"), []),
        # One more receive than the other rank sends.
        ((">1 b", "<0 <0 b", "b"), [0, 1, 2]),
        # A rank is in a barrier, and would send after it.
        (("b >1", "<0 b", "b"), [0, 1, 2]),
        # The root of a broadcast does not wait for the others.
        (("r0 >1", "<0 r0", "r0"), []),
        # Who sends to a receive of any source is not known.
        (("? b", "<0 b", "b"), []),
        # No receive: ranks that call other collectives are a mismatch.
        (("b", "b", ""), []),
    ],
)
def test_receives_that_nothing_can_end(sequences: tuple[str, str, str], waiting: list[int]) -> None:
    ranks = [_exchanging(rank, calls) for rank, calls in enumerate(sequences)]
    assert [item.rank for item in blocked_calls(ranks, 3)] == waiting
    assert blocked_calls(ranks, 4) == (), "a rank that did not run may send"
    assert blocked_calls([replace(ranks[0], collective_count=9), *ranks[1:]], 3) == ()


@pytest.mark.parametrize(
    ("sequences", "title"),
    [
        (("<1 b", "<0 b", "b"), "it receives from rank 1, which would wait in recv from rank 0 itself"),
        (("<1", "", ""), "it receives from rank 1, which sends it nothing more"),
        (("<1 b", "b >0", "b"), "it receives from rank 1, which would wait in barrier itself"),
    ],
)
def test_the_first_receive_that_cannot_end_is_named_with_where_the_others_wait(
    sequences: tuple[str, str, str], title: str
) -> None:
    ranks = [_exchanging(rank, calls) for rank, calls in enumerate(sequences)]
    world = replace(_world(*ranks), blocked=blocked_calls(ranks, 3))
    (difference,) = world_differences(world, ROOTS)
    assert (difference.code, difference.title) == ("FL912", f"rank 0 would wait here: {title}")
    assert difference.location is not None
    assert difference.location.line == 0
    assert [place.line for place, _ in difference.related] == [
        10 * item.rank for item in world.blocked if item.rank
    ]
    assert "send before it receives" in difference.hint
    mismatch = CollectiveMismatch((0, 1), 0, (0, 1), (ranks[0].collectives[0], None))
    hidden = world_differences(replace(world, mismatches=(mismatch,)), ROOTS)
    assert all("it receives from" not in item.title for item in hidden)
