"""The user's own Triton kernels: what their texts show, in lenses, documents and findings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fuselight.shared import kernel_forms
from fuselight.shared.devices import find
from fuselight.shared.kernel_forms import Accessed, DotUse, MemoryAccess
from fuselight.shared.kernel_options import wanted_trials
from fuselight.shared.report import Assembled, CompiledOption, Listing, Occupancy, OwnKernel, VariedCalls
from fuselight_server.explain.findings import findings
from fuselight_server.explain.kernels import own_documents, own_kernels
from tests.support.own_kernels import (
    DEVICE,
    KERNELS_FILE,
    own_kernel,
    own_report,
    recorded,
    recorded_kernel,
    tuned_kernel,
)

SPILLED = Assembled(
    registers=255, spills=1184, shared=0, num_warps=4, occupancy=Occupancy(8, 64, 2, "registers")
)


def assembled(kernel: OwnKernel) -> Assembled:
    assert kernel.assembled is not None
    return kernel.assembled


def ttir(*lines: str, head: str = "%x: !tt.ptr<f32> loc(#a), %n: i32, %o: !tt.ptr<f32>") -> str:
    return "\n".join([f"tt.func public @k({head}) attributes {{noinline = false}} {{", *lines, "}"])


LOADED = "%1 = tt.load %x : !tt.ptr<f32>"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (ttir(LOADED, "tt.store %o, %1 : !tt.ptr<f32>"), Accessed(frozenset({0}), frozenset({2}))),
        (
            ttir(
                "%p = tt.splat %x : !tt.ptr<f32> -> tensor<4x!tt.ptr<f32>>",
                "%q = tt.addptr %p, %n : tensor<4x!tt.ptr<f32>>, tensor<4xi32>",
                "%1 = tt.load %q : tensor<4x!tt.ptr<f32>>",
            ),
            Accessed(frozenset({0}), frozenset()),
        ),
        (
            ttir("%1 = tt.atomic_rmw fadd, acq_rel, gpu, %o, %n : (!tt.ptr<f32>, f32) -> f32"),
            Accessed(frozenset({2}), frozenset({2})),
        ),
        (
            ttir(
                "%r:2 = scf.for %k = %a to %b step %c iter_args(%s = %t, %p = %x) -> (f32, !tt.ptr<f32>) {",
                "%1 = tt.load %p : !tt.ptr<f32>",
            ),
            Accessed(frozenset({0}), frozenset()),
        ),
        (ttir("%1 = tt.load %p : !tt.ptr<f32>"), None),  # a pointer that was not followed
        (ttir("%p = scf.if %c -> (!tt.ptr<f32>) {", "%1 = tt.load %p : !tt.ptr<f32>"), None),
        (ttir(LOADED) + "\ntt.func private @other(%y: i32) {", None),
        ("", None),
        ("no text of Triton's", None),
    ],
)
def test_the_arguments_that_a_kernel_reads_and_writes(text: str, expected: Accessed | None) -> None:
    assert kernel_forms.accessed(text) == expected


def test_the_recorded_kernels_read_and_write_their_tensors() -> None:
    def named(kernel: OwnKernel) -> tuple[set[str], set[str]]:
        accessed = kernel_forms.accessed(assembled(kernel).listings["ttir"].text)
        assert accessed is not None
        arguments = [name for name, kind in kernel.types.items() if kind != "constexpr"]
        return {arguments[at] for at in accessed.read}, {arguments[at] for at in accessed.written}

    assert named(recorded_kernel("add_k")) == ({"x", "y"}, {"out"})
    assert named(recorded_kernel("multiply", EXACT="True")) == ({"a", "b"}, {"out"})
    assert (recorded_kernel("add_k").bytes_read, recorded_kernel("add_k").bytes_written) == (8000, 8000)


def test_accesses_have_the_width_of_their_instructions_and_that_of_their_layout() -> None:
    assert kernel_forms.memory_accesses(assembled(recorded_kernel("add_k"))) == (
        MemoryAccess(10, is_store=False, width=4, possible=16, instructions=16),
        MemoryAccess(11, is_store=True, width=4, possible=16, instructions=8),
    )


@pytest.mark.parametrize(
    ("assembly", "width"),
    [
        ("@%p1 ld.global.v4.b32 { %r1, %r2, %r3, %r4 }, [ %rd1 + 0 ];", 16),
        ("ld.global.L1::evict_last.v2.b16 { %h1, %h2 }, [ %rd1 + 0 ];", 4),
        ("cp.async.cg.shared.global [ %r1 + 0 ], [ %rd1 + 0 ], 0x10, 0x10;", 16),
        ("global_load_dwordx4 v[0:3], v[4:5], off", 16),
        ("buffer_load_ushort v0, v1, s[0:3], 0 offen", 2),
    ],
)
def test_the_width_of_a_load_is_read_of_each_kind_of_assembly(assembly: str, width: int) -> None:
    layout = "#blocked = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [1, 32], order = [1, 0]}>"
    load = "%1 = tt.load %0 : tensor<4x8x!tt.ptr<f16>, #blocked>"
    compiled = Assembled(
        listings={"ttgir": Listing(f"{layout}\n{load}", (0, 7)), "ptx": Listing(assembly, (7,))}
    )
    assert kernel_forms.memory_accesses(compiled) == (
        MemoryAccess(7, is_store=False, width=width, possible=16, instructions=1),
    )


def test_a_dot_has_its_sides_and_its_instructions() -> None:
    exact, rounded = (
        kernel_forms.dots(assembled(recorded_kernel("multiply", EXACT=value))) for value in ("True", "False")
    )
    assert exact == (DotUse(21, (16, 16, 32), "f32", "ieee", ""),)
    assert rounded == (DotUse(21, (16, 16, 32), "bf16", "tf32", "mma.sync"),)


def test_texts_that_are_damaged_show_nothing() -> None:
    for stage in ("ttir", "ttgir", "ptx"):
        kernel = recorded_kernel("multiply", EXACT="True")
        listing = assembled(kernel).listings[stage]
        cut = Listing(listing.text[: len(listing.text) // 3], listing.lines[:3])
        compiled = replace(assembled(kernel), listings={**assembled(kernel).listings, stage: cut})
        kernel_forms.memory_accesses(compiled)
        kernel_forms.dots(compiled)
    assert kernel_forms.memory_accesses(Assembled()) == ()
    assert kernel_forms.dots(Assembled()) == ()


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (own_kernel(), []),
        (own_kernel(assembled=SPILLED), ["num_warps=8", "num_warps=16"]),
        (own_kernel(assembled=SPILLED, num_warps=32), []),
        (
            own_kernel(assembled=replace(SPILLED, spills=0, registers=255)),
            ["num_warps=8", "num_warps=2"],
        ),
        (
            own_kernel(
                assembled=replace(
                    SPILLED, spills=0, shared=200_000, occupancy=Occupancy(4, 64, 1, "shared memory")
                )
            ),
            ["num_stages=2"],
        ),
        (own_kernel(assembled=replace(SPILLED, failure="refused")), []),
        (own_kernel(assembled=None), []),
        (recorded_kernel("add_k"), ["n=16"]),
    ],
)
def test_only_changes_that_may_help_are_compiled(kernel: OwnKernel, expected: list[str]) -> None:
    assert [f"{trial.option}={trial.value}" for trial in wanted_trials(kernel, DEVICE)] == expected


@pytest.mark.parametrize(
    ("kernels", "expected"),
    [
        ([own_kernel()], "h100-sxm: 64 registers, no spills, 48 KB shared, occupancy 50%, ~12.2 µs"),
        (
            [tuned_kernel(14.0, 10.0, None)],
            "h100-sxm: 64 registers, no spills, 48 KB shared, occupancy 50%, 14 µs, 3 configurations",
        ),
        (
            [own_kernel(estimate_us=None, assembled=SPILLED), own_kernel()],
            "h100-sxm: 255 registers, 1184 bytes spilled, occupancy 12%, 2 specializations",
        ),
        (
            [own_kernel(estimate_us=None, not_estimated="contended atomic operations")],
            (
                "h100-sxm: 64 registers, no spills, 48 KB shared, occupancy 50%, time not estimated: contended atomic "
                "operations"
            ),
        ),
        ([own_kernel(assembled=None, estimate_us=None)], "h100-sxm: not compiled yet"),
        (
            [own_kernel(assembled=Assembled(failure="no such name"), estimate_us=None)],
            "h100-sxm: does not compile: no such name",
        ),
        (
            [own_kernel(assembled=Assembled(failure="the compiler did not finish within 15 seconds"))],
            "h100-sxm: the compiler did not finish within 15 seconds, ~12.2 µs",
        ),
        ([own_kernel(assembled=Assembled(registers=10))], "h100-sxm: 10 registers, ~12.2 µs"),
    ],
)
def test_a_lens_says_what_is_known(kernels: list[OwnKernel], expected: str) -> None:
    assert own_kernels.summary(kernels, DEVICE) == expected


def lines_of_document(kernel: OwnKernel, form: str) -> Any:
    key = own_kernels.key_of(kernel)
    document = own_documents.own_document(
        own_report(*recorded()), key, form, lambda _path, line: f"line {line}"
    )
    assert document is not None
    return document


def test_each_line_of_a_form_is_linked_to_the_line_of_the_kernel() -> None:
    document = lines_of_document(recorded_kernel("add_k"), "ptx")
    text = document.text.split("\n")
    loads = {
        place.line
        for link in document.links
        for place in link.places
        if any("ld.global" in line for line in text[link.first - 1 : link.last])
    }
    assert loads == {10}
    assert text[0] == "// add_k, compiled by Triton 3.7.1 for h100-sxm (NVIDIA H100 80GB HBM3)."
    assert "// Compiled: 26 registers, no spills, occupancy 100%, ~0.7 µs." in text
    assert [form for form, _ in document.forms] == ["source", "ttir", "ttgir", "llir", "ptx", "sass"]


def test_the_source_of_a_kernel_is_linked_line_by_line() -> None:
    document = lines_of_document(recorded_kernel("add_k"), "source")
    text = document.text.split("\n")
    assert [text[link.first - 1] for link in document.links] == [f"line {line}" for line in range(7, 12)]
    assert [place.line for link in document.links for place in link.places] == list(range(7, 12))


def test_a_form_that_is_missing_says_why() -> None:
    refused = lines_of_document(recorded_kernel("refused"), "ptx")
    assert "There is no PTX: AttributeError" in refused.text
    key = own_kernels.key_of(recorded_kernel("add_k"))
    report = own_report(*recorded())
    compiling = own_documents.own_document(report, key, "sass", lambda *_: None, is_compiling=True)
    assert compiling is not None
    assert "It is being compiled: its SASS is shown here when that is done." in compiling.text
    assert own_documents.own_document(report, "own:triton:0:other", "ptx", lambda *_: None) is None


def test_configurations_stand_side_by_side() -> None:
    kernel = tuned_kernel(14.0, 10.0, None)
    compiled = replace(
        kernel.configurations[0],
        registers=32,
        spills=0,
        occupancy=Occupancy(64, 64, 16, "warps"),
        is_compiled=True,
    )
    failed = replace(kernel.configurations[2], failure="out of resource: shared memory", is_compiled=True)
    kernel = replace(kernel, configurations=(compiled, kernel.configurations[1], failed))
    assert own_kernels.configuration_table(kernel) == [
        "configuration                            registers  spills  occupancy  limited by  programs  measured",
        "BLOCK=128, 4 warps, 3 stages (launched)  32         0       100%       warps       8         14 µs",
        "BLOCK=256, 4 warps, 3 stages                                                       4         10 µs",
        "BLOCK=512, 4 warps, 3 stages             out of resource: shared memory",
    ]
    assert own_kernels.fastest(kernel) == kernel.configurations[1]
    assert own_kernels.fastest(tuned_kernel(14.0, None)) is None, "one measured time compares nothing"
    document = own_documents.own_document(
        own_report(kernel), own_kernels.key_of(kernel), "configurations", lambda *_: None
    )
    assert document is not None
    assert (
        'The fastest for these sizes: triton.Config({"BLOCK": 256}, num_warps=4, num_stages=3)'
        in document.text
    )


def codes(*kernels: OwnKernel) -> list[tuple[str, int]]:
    return [(finding.code, finding.span.line) for finding in findings(own_report(*kernels))]


def test_the_recorded_kernels_have_their_findings_on_their_lines() -> None:
    assert codes(*recorded()) == [
        ("FL966", 7),
        ("FL964", 10),
        ("FL964", 11),
        ("FL965", 21),
        ("FL965", 21),
        ("FL962", 36),
        ("FL961", 49),
    ]
    assert all(finding.span.path == KERNELS_FILE for finding in findings(own_report(*recorded())))


def test_right_kernels_have_no_findings() -> None:
    assert codes(own_kernel(), tuned_kernel(1.0, 2.0), recorded_kernel("scale")) == []
    assert codes(replace(recorded_kernel("add_k"), options=(), unused=())) == [], (
        "no cause was seen to matter"
    )
    unfinished = Assembled(failure="the compiler did not finish within 15 seconds")
    assert codes(own_kernel(assembled=unfinished)) == [], "no fault of the kernel"


def message(kernel: OwnKernel) -> str:
    (finding,) = findings(own_report(kernel))
    return "\n".join([finding.title, finding.message, *finding.hints])


def test_an_unused_argument_is_removed_or_not_specialized_where_either_is_possible() -> None:
    hint = 'name it in `@triton.jit(do_not_specialize=["n"])`.'
    for kernel, expected in (
        (own_kernel(unused=("n",)), f"Remove `n`, or {hint}"),
        (own_kernel(unused=("n",), key=("n",)), hint.capitalize()),
        (own_kernel(unused=("BLOCK",)), "Remove `BLOCK`."),
    ):
        (finding,) = findings(own_report(kernel))
        assert (finding.code, finding.hints) == ("FL966", (expected,))


def test_a_change_that_was_tried_has_its_figures() -> None:
    better = CompiledOption(
        "num_warps", 8, registers=64, spills=0, shared=0, occupancy=Occupancy(32, 64, 4, "registers")
    )
    worse = CompiledOption("num_warps", 16, registers=255, spills=2000)
    text = message(own_kernel(assembled=replace(SPILLED, occupancy=None), options=(worse, better)))
    assert "`num_warps=8`: 64 registers, no spills, occupancy 50% (tried)" in text
    assert "`num_warps=16`" not in text


def test_a_change_that_did_not_help_is_named_and_an_unfinished_one_is_not() -> None:
    spilled = replace(SPILLED, occupancy=None)
    worse = CompiledOption("num_warps", 8, spills=2000)
    unfinished = CompiledOption("num_warps", 16, failure="the compiler did not finish within 3 seconds")
    text = message(own_kernel(assembled=spilled, options=(worse, unfinished)))
    assert "Tried without success: `num_warps=8`." in text


def test_low_occupancy_has_its_cause_and_matrix_kernels_have_none() -> None:
    low = replace(SPILLED, spills=0)
    text = message(own_kernel(assembled=low))
    assert "8 of 64 warps of `add` fit on a multiprocessor of h100-sxm" in text
    assert "because each thread takes 255 registers" in text
    multiply = recorded_kernel("multiply", EXACT="False")
    busy = replace(multiply, assembled=replace(assembled(multiply), occupancy=low.occupancy))
    assert codes(busy) == [("FL965", 21)]
    assert codes(own_kernel(assembled=low)) == [("FL963", 4)]


def test_calls_with_other_sizes_are_listed() -> None:
    calls = tuple(f"f(f32[{size}])" for size in range(10))
    varied = VariedCalls(None, calls, refused=("f(f32[0])",))
    report = replace(own_report(own_kernel()), varied_calls=(varied, VariedCalls(None, refused=("g()",))))
    (words,) = own_kernels.varied_words(report)
    assert words.startswith("Also checked: `f(f32[0])`, `f(f32[1])`")
    assert words.endswith("`f(f32[7])` and 2 more; the program refuses 1 other call.")


def float64_kernel(code: str, **changes: Any) -> OwnKernel:
    """A kernel whose TTIR has this operation on line 9."""
    lines = (
        "tt.func public @k(%x: !tt.ptr<f32>, %s: !tt.ptr<f64>) {",
        "%a = arith.extf %v : tensor<64xf32> to tensor<64xf64>",
        *code.split("\n"),
    )
    listing = Listing("\n".join(lines), (0, 8, *[9] * (len(lines) - 2)))
    compiled = replace(own_kernel().assembled or Assembled(), listings={"ttir": listing})
    return own_kernel(**{"assembled": compiled, **changes})


def test_float64_without_need_has_its_reason_and_what_was_tried() -> None:
    tried = CompiledOption("float64", 32, registers=14, spills=0)
    by_argument = "%b = tt.load %s : !tt.ptr<f64>\n%c = arith.mulf %a, %b : tensor<64xf64>"
    text = message(float64_kernel(by_argument, without_float64=tried))
    assert text.startswith(
        "`add` computes in float64, and stores nothing in float64\nThe reason: `s` is float64."
    )
    assert "Pass `s` in float32: 14 registers, no spills (tried)." in text
    text = message(
        float64_kernel(
            "%b = arith.constant dense<1.0E-40> : tensor<64xf64>\n%c = arith.mulf %a, %b : tensor<64xf64>"
        )
    )
    assert "Triton makes 1e-40 float64" in text
    assert "tried" not in text, "advice that was not tried is not given"


def test_float64_that_is_asked_for_is_reported_on_devices_that_are_slow_at_it() -> None:
    kernel = float64_kernel("%c = arith.mulf %a, %a : tensor<64xf64>")
    assert codes(kernel) == []
    (finding,) = findings(replace(own_report(kernel), own_kernels_device=find("l4")))
    assert (finding.code, finding.span.line) == ("FL967", 9)
    assert "l4 computes float64 at 0.47 TFLOP/s, and float32 at 30.3." in finding.message


@pytest.mark.parametrize(
    "code",
    [
        "%c = arith.mulf %a, %a : tensor<64xf64>\ntt.store %p, %c : tensor<64x!tt.ptr<f64>>",
        "%b = tt.load %s : !tt.ptr<f64>\n%c = arith.truncf %b : f64 to f32",
        "%b = arith.constant 1.0E-40 : f64",
    ],
)
def test_float64_that_is_stored_or_rounded_at_once_is_right(code: str) -> None:
    assert codes(float64_kernel(code)) == []
