"""The driver of annotated provenance: what it reads, what counts as a disagreement, what it writes."""

from __future__ import annotations

from collections import Counter

import pytest

from fuselight.shared.report import (
    CudagraphSkip,
    FusedOperator,
    GeneratedGraph,
    Kernel,
    KernelKind,
    Phase,
    Refusal,
    SavedTensor,
)
from tests.support.case_files import RELEASES
from tests.support.kernel_cases import Fact, disagreements, expectations, facts, rewritten
from tests.support.reports import FILE, LIBRARY, at, report

SOURCE = """\
def f(x):
    y = x.relu()  # kernel: triton_poi_fused_relu  # saves: float32[4, 8]
    return y.sum()
    # kernel: triton_red_fused_sum x 2
    # unfused: -1 they reduce
"""
PLAIN = "pass\n" * 20
FACTS = Counter({
    Fact(2, "kernel", "triton_poi_fused_relu"): 1,
    Fact(2, "saves", "float32[4, 8]"): 1,
    Fact(3, "kernel", "triton_red_fused_sum"): 2,
    Fact(3, "unfused", "-1 they reduce"): 1,
})  # fmt: skip


def test_comments_are_read_after_a_line_and_beneath_it() -> None:
    assert expectations(SOURCE) == FACTS


def test_agreement_is_silent() -> None:
    assert disagreements(SOURCE, FACTS) == []


@pytest.mark.parametrize("fact", FACTS, ids=str)
def test_a_missing_or_extra_fact_is_a_disagreement(fact: Fact) -> None:
    for count in (-1, 1):
        changed = FACTS.copy()
        changed[fact] += count
        assert [disagreement.partition(":")[0] for disagreement in disagreements(SOURCE, changed)] == [
            str(fact.line)
        ]


def test_an_expectation_on_another_line_or_of_another_kind_is_two_disagreements() -> None:
    for moved in (SOURCE.replace("def f", "\ndef f"), SOURCE.replace("# saves: f", "# backward: f")):
        assert len(disagreements(moved, FACTS)) >= 2


def test_a_case_is_rewritten_from_its_facts() -> None:
    bare = "".join(line.partition("  #")[0].rstrip() + "\n" for line in SOURCE.splitlines()[:3])
    text = rewritten(bare, FACTS)
    assert disagreements(text, FACTS) == []
    assert rewritten(text, FACTS) == text
    assert rewritten(SOURCE.replace("4, 8", "9"), FACTS) == text


def test_a_fact_without_a_line_is_on_the_target() -> None:
    seed = Kernel("aten.randint.low_out", KernelKind.EXTERN, 0)
    theirs = Kernel(
        "mm", KernelKind.EXTERN, 1, operators=(FusedOperator("aten.mm", stack=(at(9, path=LIBRARY),)),)
    )
    graph = GeneratedGraph("0/0", Phase.INFERENCE, kernels=(seed, theirs))
    assert facts([report(generated=(graph,))], FILE, PLAIN) == Counter({
        Fact(10, "kernel", "aten.randint.low_out"): 1, Fact(10, "kernel", "mm"): 1,
    })  # fmt: skip


def test_facts_are_those_of_the_file_by_the_users_innermost_line() -> None:
    inside = (at(2), at(40, path=LIBRARY))
    kernel = Kernel(
        "triton_poi_fused_relu_12", KernelKind.TRITON, 0, operators=(FusedOperator("aten.relu", stack=inside),)
    )  # fmt: skip
    fallback = Kernel(
        "torch.ops.aten.linalg_qr.default", KernelKind.FALLBACK, 1,
        operators=(FusedOperator("aten.linalg_qr.default", stack=(at(3),)),),
    )  # fmt: skip
    forward = GeneratedGraph(
        "0/0",
        Phase.FORWARD,
        kernels=(kernel, kernel, fallback),
        saved=(
            SavedTensor("y", "activation", "float32", ("4", "8"), 128, inside),
            SavedTensor("x", "input", "float32", ("4", "8"), 0, inside),
        ),
        cudagraph_skips=(CudagraphSkip("mutated inputs (2 instances)", (at(3),)),),
        refusals=(Refusal("no shared data", (at(3),), inside), Refusal("no shared data", inside, (at(3),))),
    )
    backward = GeneratedGraph("0/0", Phase.BACKWARD, kernels=(kernel,))
    assert facts([report(generated=(forward, backward))], FILE, PLAIN) == Counter({
        Fact(2, "kernel", "triton_poi_fused_relu"): 2,
        Fact(2, "backward", "triton_poi_fused_relu"): 1,
        Fact(2, "saves", "float32[4, 8]"): 1,
        Fact(3, "fallback", "aten.linalg_qr"): 1,
        Fact(3, "cudagraph", "mutated inputs"): 1,
        Fact(3, "unfused", "-1 they share no data: fusing them would save no memory traffic"): 1,
    })  # fmt: skip


def test_distances_count_the_lines_of_the_program() -> None:
    graph = GeneratedGraph("0/0", Phase.INFERENCE, refusals=(Refusal("no shared data", (at(2),), (at(4),)),))
    for source, distance in ((PLAIN, -2), (PLAIN.replace("pass", "a\nb\n# kernel: triton\nc", 1), -1)):
        (fact,) = facts([report(generated=(graph,))], FILE, source)
        assert (fact.line, fact.text.split()[0]) == (4, str(distance))


def test_a_fact_may_be_of_some_releases_only() -> None:
    fact, other = Fact(1, "kernel", "triton_poi"), Fact(1, "kernel", "triton_red")
    text = rewritten("x = 1  # kernel: triton_poi  # saves: i64[2]\n", Counter({fact: 2, other: 1}), "2.11")
    others = ", ".join(release for release in RELEASES if release != "2.11")
    assert text.splitlines() == [
        "x = 1",
        f"# kernel({others}): triton_poi",
        "# kernel(2.11): triton_poi x 2",
        "# kernel(2.11): triton_red",
        f"# saves({others}): i64[2]",
    ]
    assert expectations(text, "2.11") == Counter({fact: 2, other: 1})
    assert expectations(text, "2.14") == Counter({fact: 1, Fact(1, "saves", "i64[2]"): 1})
    assert [
        disagreement.partition(":")[2] for disagreement in disagreements(text, Counter({fact: 1}), "2.14")
    ] == [" expected 1, found 0: # saves: i64[2]"]


def test_a_change_for_the_main_release_applies_to_equal_releases() -> None:
    fact, other = Fact(1, "kernel", "triton_poi"), Fact(1, "kernel", "triton_red")
    rest = ", ".join(release for release in RELEASES if release not in {"2.11", "2.14"})
    text = f"x = 1  # kernel({rest}, 2.14): triton_poi  # kernel(2.11): triton_red\n"
    assert rewritten(text, Counter({other: 1}), "2.13") == "x = 1  # kernel: triton_red\n"
    assert rewritten(text, Counter({fact: 3}), "2.14") == (
        f"x = 1  # kernel({rest}): triton_poi  # kernel(2.14): triton_poi x 3  # kernel(2.11): triton_red\n"
    )
