"""Each pair of lines gets Inductor's reason in plain English, or a text that there is none."""

from __future__ import annotations

from fuselight.shared.report import (
    FusedOperator,
    GeneratedGraph,
    Kernel,
    KernelKind,
    Location,
    Phase,
    Refusal,
    Report,
)
from fuselight_server.base.finding import SourceLine
from fuselight_server.explain.kernels.fusion import plain, sentence, why
from tests.support.reports import FILE, ROOT, report


def at(line: int) -> tuple[Location, ...]:
    return (Location(FILE, line),)


def kernel(name: str, *lines: int) -> Kernel:
    operators = tuple(FusedOperator("aten.add.Tensor", stack=at(line)) for line in lines)
    return Kernel(name, KernelKind.TRITON, 0, operators=operators)


def generated_report(*graphs: GeneratedGraph) -> Report:
    return report(roots=(ROOT,), generated=graphs)


ONE = generated_report(
    GeneratedGraph(
        "0/0",
        Phase.FORWARD,
        kernels=(kernel("triton_a", 1, 2), kernel("triton_b", 3), kernel("triton_c", 5)),
        refusals=(
            Refusal("memory deps did not match", at(2), at(3), 4),
            Refusal("a reason of tomorrow", at(3), at(2), 1),
        ),
    ),
    GeneratedGraph("1/0", Phase.FORWARD, kernels=(kernel("triton_a", 9),)),
)


def line(number: int) -> SourceLine:
    return SourceLine(FILE, number)


def test_two_lines_in_one_kernel_are_fused() -> None:
    fusion = why(ONE, line(1), line(2))
    assert (fusion.verdict, fusion.kernels) == ("fused", ("triton_a",))


def test_a_refusal_lists_reasons_by_frequency_in_either_order() -> None:
    for pair in ((2, 3), (3, 2)):
        fusion = why(ONE, line(pair[0]), line(pair[1]))
        assert fusion.verdict == "refused"
        assert [(reason, count) for _, reason, count in fusion.reasons] == [
            ("memory deps did not match", 4),
            ("a reason of tomorrow", 1),
        ]
    assert "in another order" in sentence(fusion, line(2), line(3))
    assert "a reason of tomorrow" in sentence(fusion, line(2), line(3))


def test_a_pair_without_a_reason_was_not_considered_or_is_in_other_graphs() -> None:
    assert why(ONE, line(1), line(5)).verdict == "not considered"
    assert why(ONE, line(1), line(9)).verdict == "apart"
    missing = why(ONE, line(1), line(77))
    assert missing.verdict == "no kernel"
    assert sentence(missing, line(1), line(77)) == (
        "Lines 1 and 77 cannot be compared: line 77 has no part in any kernel."
    )
    neither = sentence(why(ONE, line(76), line(77)), line(76), line(77))
    assert neither.endswith(": lines 76 and 77 have no part in any kernel.")


def test_unknown_reasons_are_quoted() -> None:
    assert plain("numel/rnumel mismatch (reduce) (%s, %s), (%s, %s)") == (
        "both reduce, but over tensors of different sizes"
    )
    assert plain("quite new") == "quite new"
