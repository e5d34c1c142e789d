"""FL946 and FL947: kernels that Triton compiles or tunes again."""

from __future__ import annotations

import dataclasses

import pytest

from fuselight.shared.report import (
    Compile,
    Frame,
    Graph,
    KernelConfiguration,
    LaunchConfig,
    Outcome,
    OwnKernel,
)
from fuselight_server.base.finding import Finding, Severity
from fuselight_server.explain.findings import findings
from tests.support.reports import at, report

FIRST = OwnKernel(
    "scale",
    at(7),
    12,
    types={"x": "*fp32", "n": "i32", "BLOCK": "constexpr"},
    divisible=("x", "n"),
    values={"n": "1024", "BLOCK": "64"},
    launched_at=(at(20),),
)
CONFIGURATIONS = tuple(KernelConfiguration(LaunchConfig({"BLOCK": block})) for block in (64, 128))


def of(*changes: dict[str, object]) -> list[Finding]:
    """The findings of FIRST and of kernels that differ from it."""
    kernels = (FIRST, *(dataclasses.replace(FIRST, **change) for change in changes))  # type: ignore[arg-type]
    return [
        finding for finding in findings(report(own_kernels=kernels)) if finding.code in {"FL946", "FL947"}
    ]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            [{"divisible": ("x",), "values": {"n": "1000", "BLOCK": "64"}}],
            "`n` is a multiple of 16 (1024), then not (1000)",
        ),
        ([{"divisible": ("n",)}], "the address of `x` is a multiple of 16, then not"),
        (
            [{"types": {**FIRST.types, "n": "constexpr"}, "values": {"n": "1", "BLOCK": "64"}}],
            "`n` is 1, then 1024",
        ),
        ([{"types": {**FIRST.types, "n": "i64"}}], "`n` fits 32 bits in one launch only"),
        (
            [{"values": {"n": "1024", "BLOCK": block}} for block in ("128", "256")],
            "`BLOCK` is a constant with 3 values (64, 128, 256)",
        ),
    ],
)
def test_what_makes_a_kernel_compile_again_is_named(changes: list[dict[str, object]], reason: str) -> None:
    (finding,) = of(*changes)
    assert (finding.code, finding.severity, finding.span.line) == ("FL946", Severity.HINT, 7)
    assert finding.title == f"Triton compiles `scale` again: {reason}"
    assert f"need {len(changes) + 1} compiles" in finding.message
    assert [related.span.line for related in finding.related] == [20]


def test_of_a_kernel_that_a_graph_launches_the_compiles_are_those_of_eager_mode() -> None:
    """torch.compile compiles it with each version of the function, whatever the values of its launches."""
    kernels = (FIRST, dataclasses.replace(FIRST, divisible=("x",), values={"n": "1000", "BLOCK": "64"}))
    name = "torch.ops.higher_order.triton_kernel_wrapper_mutation"
    graph = Graph(1, lines=((at(20),),), targets=(name,))
    compiled = Compile("0/0", 0, Outcome.COMPILED, graph=graph)
    (finding,) = findings(report(own_kernels=kernels, compiles=(compiled,), frames=(Frame("run", at(19)),)))
    assert finding.title.startswith("in eager mode, Triton compiles `scale` again: `n` is a multiple of 16")
    assert "each version of the function that launches it: FL201 shows these" in finding.message


def test_what_is_meant_has_no_finding() -> None:
    assert not of()
    assert not of({"values": {"n": "1024", "BLOCK": "128"}})  # a kernel for two sizes
    assert not of({"types": {**FIRST.types, "x": "*bf16"}})
    tuned: dict[str, object] = {"configurations": CONFIGURATIONS, "key": ("n",), "key_values": ("1024",)}
    assert not of(tuned, tuned | {"values": {"n": "1024", "BLOCK": "128"}}, tuned | {"num_warps": 8})


def test_a_key_that_changes_with_each_size_is_named() -> None:
    tuned: dict[str, object] = {"configurations": CONFIGURATIONS, "key": ("n",), "decorator": at(5)}
    (finding,) = of(tuned | {"key_values": ("1024",), "further_key_values": (("2048",), ("512",))})
    assert (finding.code, finding.severity, finding.span.line) == ("FL947", Severity.HINT, 5)
    assert finding.title == "the autotuner of `scale` measures again for each value of `n`"
    assert "have 512, 1024, 2048.\n\nFor each of them, all 2 configurations" in finding.message


def test_a_key_that_is_missing_is_named_where_sizes_differ_much() -> None:
    tuned: dict[str, object] = {"configurations": CONFIGURATIONS, "bytes_read": 4000, "bytes_written": 4000}
    (finding,) = of(tuned, tuned | {"bytes_read": 400_000})
    assert finding.title == "the autotuner of `scale` measures for its first sizes only: its `key` is empty"
    assert not of(tuned, tuned | {"bytes_read": 5000})
