"""The terminal lists tensors saved for backward, and recomputation."""

from __future__ import annotations

import io
import json
from dataclasses import replace

from fuselight.shared.report import (
    FusedOperator,
    GeneratedGraph,
    Kernel,
    KernelKind,
    Location,
    Phase,
    Recomputed,
    SavedTensor,
    Stack,
)
from fuselight_server.base.terminal import Terminal
from fuselight_server.cli.formats.kernels import Details, as_json, print_kernels
from fuselight_server.commands.outcome import CheckOutcome
from fuselight_server.source.document import read_source
from tests.support.reports import report

ROOT = "/w"


def at(line: int) -> Stack:
    return (Location(f"{ROOT}/model.py", line),)


GRAPHS = (
    GeneratedGraph(
        "0/0",
        Phase.FORWARD,
        saved=(
            SavedTensor("primals_1", "input"),
            SavedTensor("gelu", "activation", "float32", ("8", "256"), 8_000_000, at(12)),
            SavedTensor("view", "activation", "float32", ("2048",), 0, at(13)),
            SavedTensor("mean", "activation", "float32", ("8",), 1_000, at(9)),
        ),
    ),
    GeneratedGraph(
        "0/0",
        Phase.BACKWARD,
        recomputed=(
            Recomputed("tanh", "aten.tanh.default", at(14)),
            Recomputed("tanh_1", "aten.tanh.default", at(14)),
            Recomputed("mul", "aten.mul.Tensor"),
        ),
    ),
)


def test_saved_tensors_are_listed_by_line_and_recomputation_by_operator() -> None:
    out = io.StringIO()
    outcome = CheckOutcome(reports=[report(roots=(ROOT,), generated=GRAPHS)])
    print_kernels(outcome, Terminal(out))
    text = out.getvalue()
    assert "saves 8 MB for backward: 8 MB from /w/model.py:12, 1 KB from /w/model.py:9\n" in text
    assert "recomputes 3 operators instead of saving the results:\n" in text
    assert "aten.tanh.default × 2 from /w/model.py:14\n" in text
    assert "aten.mul.Tensor from no source line\n" in text


def test_json_has_both_with_their_stacks() -> None:
    outcome = CheckOutcome(reports=[report(roots=(ROOT,), generated=GRAPHS)])
    forward, backward = json.loads(as_json(outcome))["targets"][0]["graphs"]
    assert forward["saved_bytes"] == 8_001_000
    assert [value["kind"] for value in forward["saved"]] == ["input", *["activation"] * 3]
    assert [value["operator"] for value in backward["recomputed"]] == [
        *["aten.tanh.default"] * 2,
        "aten.mul.Tensor",
    ]
    assert backward["recomputed"][0]["stack"][0]["line"] == 14


def test_an_operator_without_a_kernel_is_a_finding_here_too() -> None:
    operators = (FusedOperator("aten.linalg_qr.default", stack=at(7)),)
    kernel = Kernel("torch.ops.aten.linalg_qr.default", KernelKind.FALLBACK, 0, operators=operators)
    graph = GeneratedGraph("0/0", Phase.INFERENCE, kernels=(kernel,))
    outcome = CheckOutcome(reports=[report(roots=(ROOT,), generated=(graph,))])
    out = io.StringIO()
    print_kernels(outcome, Terminal(out))
    text = "information[FL701] /w/model.py:7: no kernel is generated for `aten.linalg_qr`: ATen's own kernel is called"
    assert f"{text} (it is not fused with the operators around it)\n" in out.getvalue()
    (finding,) = json.loads(as_json(outcome))["targets"][0]["findings"]
    assert (finding["code"], finding["line"], finding["severity"]) == ("FL701", 7, "information")


def test_graphs_are_printed_as_text_the_joint_one_before_the_two_that_it_was_cut_into() -> None:
    forward, backward = GRAPHS
    texts = {"j": "def joint(): []", "f": "def forward(): []", "b": "def backward(): []"}
    graphs = (replace(forward, joint_key="j", aten_key="f"), replace(backward, aten_key="b"))
    outcome = CheckOutcome(reports=[report(roots=(ROOT,), generated=graphs, texts=texts)])
    out = io.StringIO()
    print_kernels(outcome, Terminal(out), Details(graphs=True))
    places = [out.getvalue().index(text) for text in texts.values()]
    assert places == sorted(places)
    shown = json.loads(as_json(outcome, Details(graphs=True)))["targets"][0]["graphs"]
    assert [(value["joint"], value["aten"]) for value in shown] == [
        (texts["j"], texts["f"]),
        (None, texts["b"]),
    ]
    out.truncate(0)
    print_kernels(outcome, Terminal(out))
    assert "def " not in out.getvalue()
    assert "aten" not in json.loads(as_json(outcome))["targets"][0]["graphs"][0]


def test_candidates_of_a_gpu_are_summarized_in_text_and_complete_in_json() -> None:
    tried = ("mm of a library", *(f"triton_mm BLOCK_K={size}" for size in range(20)))
    kernel = Kernel("extern_kernels.mm", KernelKind.EXTERN, 0, candidates=tried)
    graph = GeneratedGraph("0/0", Phase.INFERENCE, kernels=(kernel,))
    outcome = CheckOutcome(reports=[report(roots=(ROOT,), generated=(graph,))])
    out = io.StringIO()
    print_kernels(outcome, Terminal(out))
    assert "autotuned on a GPU from 21: mm of a library, triton_mm BLOCK_K=0, " in out.getvalue()
    assert "BLOCK_K=4 and 15 more\n" in out.getvalue()
    (kernel,) = json.loads(as_json(outcome))["targets"][0]["graphs"][0]["kernels"]
    assert tuple(kernel["candidates"]) == tried
    assert kernel["copies"] is False


def test_a_comment_silences_a_kernel_finding_and_no_ignore_is_unused() -> None:
    operators = (FusedOperator("aten.linalg_qr.default", stack=at(2)),)
    kernel = Kernel("torch.ops.aten.linalg_qr.default", KernelKind.FALLBACK, 0, operators=operators)
    given = report(roots=(ROOT,), generated=(GeneratedGraph("0/0", Phase.INFERENCE, kernels=(kernel,)),))
    source = "x = 1  # fuselight: ignore[FL702]\ny = 1  # fuselight: ignore[{}]\n"
    for code, codes in (("FL701", []), ("FL702", ["FL701"])):
        path = f"{ROOT}/model.py"
        outcome = CheckOutcome(readings={path: read_source(path, source.format(code))})
        assert [finding.code for finding in outcome.of_kernels(given)] == codes


def launched(compile_id: str, count: int) -> GeneratedGraph:
    """A graph that calls the library's `mm` for line 12, `count` times, each with the same sizes."""
    kernel = Kernel("mm", KernelKind.EXTERN, 0, bytes_read=2_000, bytes_written=1_000, flops=4_000_000)
    operators = (FusedOperator("mm", "aten.mm.default", at(12)),)
    kernels = [
        replace(kernel, launch=index, operators=operators, estimate_us=2.0, bound="launch")
        for index in range(count)
    ]
    return GeneratedGraph(compile_id, Phase.INFERENCE, kernels=tuple(kernels))


def printed(*graphs: GeneratedGraph) -> str:
    """The terminal's text for these graphs."""
    out = io.StringIO()
    print_kernels(CheckOutcome(reports=[report(roots=(ROOT,), generated=graphs)]), Terminal(out))
    return out.getvalue()


def test_equal_launches_add_their_time_and_show_bytes_per_launch() -> None:
    assert (
        "mm × 8  extern, ~16 µs in total (launch-bound), each reads 2 KB, writes 1 KB, each 4 MFLOP\n"
        in printed(launched("0/0", 8))
    )
    assert "mm  extern, ~2 µs (launch-bound), reads 2 KB, writes 1 KB, 4 MFLOP\n" in printed(
        launched("0/0", 1)
    )


def test_the_total_is_that_of_one_call_and_recompiled_graphs_come_after_its_graphs() -> None:
    graphs = (launched("0/0", 1), launched("0/1", 4), launched("1/0_1", 1), launched("1/2", 2))
    text = printed(*graphs)
    assert "\ntotal    2 kernels, ~4 µs on cpu, 6 more in recompiles; times assume typical" in text
    assert "/w/model.py:12     ~4 µs   100%        2     6 KB\n" in text
    heads = [text.index(f"graph {compile_id}: ") for compile_id in ("0/0", "1/0_1", "0/1", "1/2")]
    apart = text.index("recompiled graphs, which a call runs in place of those above:")
    assert heads == sorted(heads)
    assert heads[1] < apart < heads[2]
    assert "recompile" not in printed(launched("0/0", 1), launched("1/0_1", 1))


def test_json_has_the_lines_of_one_call_and_marks_its_graphs() -> None:
    graphs = (launched("0/0", 1), launched("0/1", 4))
    outcome = CheckOutcome(reports=[report(roots=(ROOT,), generated=graphs)])
    (target,) = json.loads(as_json(outcome))["targets"]
    assert [graph["in_call"] for graph in target["graphs"]] == [True, False]
    assert [(line["kernels"], line["estimate_us"]) for line in target["lines"]] == [(1, 2.0)]
