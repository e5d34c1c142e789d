"""The reduction of a program by runs, with a function in place of torch."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Callable
from dataclasses import replace

from fuselight.shared.report import RecordedGraph, RecordedNode, ScriptOutcome, ScriptState, TensorTraits
from fuselight_server.repro.model import Fill, Observed, SmallProgram, program_of
from fuselight_server.repro.reduction import Reduction, variants
from fuselight_server.repro.sizes import smaller_sizes
from fuselight_server.repro.text import script_of

FLOATS = TensorTraits("float32", (64, 64), (64, 1), low=-1.0, high=1.0)
RIGHT = ScriptOutcome(ScriptState.RIGHT)
FAULT = ScriptOutcome(ScriptState.FAULT, "Tensor-likes are not close!")


def chain(length: int, wrong: int) -> SmallProgram:
    """`torch.cos` of `torch.cos` and so on, with `torch.acosh` at one place."""
    nodes = []
    for index in range(length):
        name = "acosh" if index == wrong else "cos"
        nodes.append(RecordedNode(f"v_{index + 1}_", f"torch.{name}(v_{index}_)", (f"v_{index}_",)))
    traits = {f"v_{index}_": FLOATS for index in range(length + 1)}
    return SmallProgram(tuple(nodes), (f"v_{length}_",), traits, versions="torch 2.13.0")


def reduced(
    program: SmallProgram, is_fault: Callable[[str], bool], seconds: float = 100.0
) -> tuple[SmallProgram | None, Reduction]:
    """What a search returns if each run takes a second."""
    ticks = itertools.count()
    time = [0.0]

    async def trial(text: str) -> ScriptOutcome:
        next(ticks)
        time[0] += 1.0
        return FAULT if is_fault(text) else RIGHT

    search = Reduction(trial, lambda: time[0], seconds)
    programs = variants(program, {}, dynamic=False, with_values=False, may_train=False)
    return asyncio.run(search.reduce(programs)), search


def test_one_operator_of_many_remains_with_small_plain_inputs() -> None:
    smallest, search = reduced(chain(40, 17), lambda text: "torch.acosh(" in text)
    assert smallest is not None
    assert [node.code for node in smallest.nodes] == ["torch.acosh(v_17_)"]
    assert smallest.traits["v_17_"].shape == (2, 2)
    assert smallest.fills == {"v_17_": Fill.ONES}
    assert not search.is_spent
    assert search.tried < 40


def test_two_operators_that_are_needed_together_stay() -> None:
    program = chain(32, 20)
    nodes = list(program.nodes)
    nodes[5] = replace(nodes[5], code="torch.sin(v_5_)")
    program = replace(program, nodes=tuple(nodes))
    smallest, _ = reduced(
        program, lambda text: "torch.acosh(" in text and "torch.sin(" in text, seconds=500.0
    )
    assert smallest is not None
    assert sorted(re.findall(r"torch\.(acosh|sin|cos)", script_of(smallest))) == ["acosh", "sin"]


def test_the_best_program_so_far_is_kept_when_the_time_is_over() -> None:
    smallest, search = reduced(chain(40, 17), lambda text: "torch.acosh(" in text, seconds=8.0)
    assert smallest is not None
    assert "torch.acosh(" in script_of(smallest)
    assert len(smallest.nodes) < 40
    assert search.is_spent
    assert search.tried <= 9


def test_a_fault_that_no_program_shows_gives_none() -> None:
    smallest, search = reduced(chain(3, 1), lambda _text: False)
    assert smallest is None
    assert search.tried > 1, "ranges and tolerances are tried"


def test_a_smaller_program_has_to_fail_in_the_same_way() -> None:
    async def trial(text: str) -> ScriptOutcome:
        is_first = "torch.acosh(" in text
        words = f"LoweringException: no lowering for '{len(text)}'" if is_first else "NameError: x"
        return ScriptOutcome(ScriptState.FAULT, words)

    search = Reduction(trial, lambda: 0.0, 10.0)
    program = replace(chain(12, 5), observed=Observed.FAILURE)
    smallest = asyncio.run(search.reduce(iter([program])))
    assert smallest is not None
    assert [node.code for node in smallest.nodes] == ["torch.acosh(v_5_)"]


def test_rounding_is_no_fault() -> None:
    async def trial(_text: str) -> ScriptOutcome:
        return ScriptOutcome(ScriptState.ROUNDING, "Tensor-likes are not close!")

    search = Reduction(trial, lambda: 0.0, 10.0)
    assert asyncio.run(search.reduce(iter([chain(2, 1)]))) is None


def test_what_a_size_is_made_of_stays_with_its_user() -> None:
    size = RecordedNode("v_2_", "v_1_.size()", ("v_1_",))
    part = RecordedNode("v_3_", "v_2_[0]", ("v_2_",))
    last = RecordedNode("v_4_", "v_1_ * v_3_", ("v_1_", "v_3_"))
    program = SmallProgram((size, part, last), ("v_4_",), {"v_1_": FLOATS, "v_4_": FLOATS})
    assert program.with_closure([last]).nodes == (size, part, last)
    assert program.with_closure([last]).is_closed


def test_lines_that_torch_alone_cannot_run_become_inputs() -> None:
    own = RecordedNode("v_2_", "", ("v_1_",), foreign="shop::scale")
    last = RecordedNode("v_3_", "v_2_.exp()", ("v_2_",))
    graph = RecordedGraph(("v_1_",), (own, last), ("v_3_",), {"v_1_": FLOATS, "v_2_": FLOATS, "v_3_": FLOATS})
    program = program_of(graph, Observed.OUTPUTS, "torch 2.13.0")
    assert (program.nodes, program.inputs) == ((last,), ("v_2_",))
    without = program_of(replace(graph, traits={"v_1_": FLOATS}), Observed.OUTPUTS, "")
    assert without.nodes == ()
    assert not without.is_closed


def test_smaller_sizes_change_shapes_and_numbers_together() -> None:
    node = RecordedNode("v_2_", "v_1_.view(64, 8, 8) + 1.64", ("v_1_",))
    program = SmallProgram((node,), ("v_2_",), {"v_1_": FLOATS})
    smaller = next(iter(smaller_sizes(program)))
    assert smaller.nodes[0].code == "v_1_.view(2, 8, 8) + 1.64"
    assert (smaller.traits["v_1_"].shape, smaller.traits["v_1_"].stride) == ((2, 2), (2, 1))


def test_an_index_stays_within_a_smaller_table() -> None:
    index = TensorTraits("int64", (8,), (1,), low=0.0, high=63.0)
    node = RecordedNode("v_3_", "v_1_[v_2_]", ("v_1_", "v_2_"))
    program = SmallProgram((node,), ("v_3_",), {"v_1_": FLOATS, "v_2_": index})
    smaller = next(iter(smaller_sizes(program)))
    assert smaller.traits["v_2_"].high == 1.0
    assert smaller.traits["v_2_"].shape == (8,)
