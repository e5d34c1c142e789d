"""Advice about generated kernels: graph breaks between kernels, copies, repeated blocks, choices that need a GPU."""

from __future__ import annotations

import importlib.util

import pytest

from fuselight.shared.devices import find
from fuselight.shared.protocol import GenerateRequest
from fuselight.shared.report import Report
from fuselight_server.explain.findings import findings_of_kernels
from tests.support.case_files import marked
from tests.support.live_worker import LiveWorker

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="this environment has no Triton"),
]
BREAK = """\
import torch
# fuselight: f(f32[1024, 1024]{options})
def f(x):
    y = (x * 2).relu()
    print("here")
    return {behind}
"""
BLOCKS = """\
import torch
from torch import nn
# fuselight: Net()(f32[4, 16])
class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.first = nn.Linear(width, width)
        self.second = nn.Linear(width, width)
    def forward(self, x):
        h = self.first(self.norm(x)).relu() * 2
        h = self.second(h).sigmoid().tanh() - 1
        return x + h * {scale}
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block(16) for _ in range({count}))
    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x
"""


def report_of(live: LiveWorker, source: str, name: str = "f", device: str = "h100") -> Report:
    report = live.report(live.request(source, name).of_kind(GenerateRequest, device=find(device)))
    assert report.failures == ()
    assert report.generated
    assert [graph.failure for graph in report.generated] == [None] * len(report.generated)
    return report


def codes_and_lines(report: Report) -> list[tuple[str, int]]:
    return [(finding.code, finding.span.line) for finding in findings_of_kernels(report)]


def test_memory_traffic_across_a_break_is_reported_with_its_bytes(live: LiveWorker) -> None:
    report = report_of(live, BREAK.format(options="", behind="y.exp() + 1"))
    (finding,) = findings_of_kernels(report)
    assert (finding.code, finding.span.line) == ("FL705", 5)
    assert finding.cost[0].startswith(
        "up to 4.2 MB written and 4.2 MB read more than in one graph, ~2.9 µs on"
    )


@pytest.mark.parametrize(
    "behind",
    marked(
        ("y.softmax(-1)", "y.sum(-1) * 2", "y.view(512, 2048) + 1", "(y + 1, y.mean())"),
        {"y.sum(-1) * 2", "y.view(512, 2048) + 1"},
    ),
)
def test_pointwise_kernels_and_reductions_of_the_same_elements_are_reported(
    live: LiveWorker, behind: str
) -> None:
    assert codes_and_lines(report_of(live, BREAK.format(options="", behind=behind))) == [("FL705", 5)]


@pytest.mark.parametrize(
    "behind",
    marked(("y @ y", "y[::2] + 1", "y.roll(1)", "y.cumsum(0)"), {"y[::2] + 1", "y.roll(1)"}),
    ids=["library", "part", "shifted", "across"],
)
def test_kernels_that_cannot_be_fused_are_not_reported(live: LiveWorker, behind: str) -> None:
    report = report_of(live, BREAK.format(options="", behind=behind))
    assert len(report.generated) == 2
    assert "FL705" not in [code for code, _ in codes_and_lines(report)]


def test_a_small_tensor_is_not_reported(live: LiveWorker) -> None:
    source = BREAK.format(options="", behind="y.exp() + 1").replace("1024, 1024", "16, 16")
    report = report_of(live, source)
    assert [handed_tensor.bytes for graph in report.generated for handed_tensor in graph.handed] == [1024]
    assert codes_and_lines(report) == []


def test_in_training_saved_tensors_are_always_written(live: LiveWorker) -> None:
    source = (
        "import torch\n# fuselight: Net()(f32[1024, 1024], train=True)\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n"
        "        self.scale = torch.nn.Parameter(torch.ones(1024))\n"
        "    def forward(self, x):\n        y = (x * self.scale).relu()\n"
        "        print('here')\n        return y.exp() + 1\n"
    )
    report = report_of(live, source, "Net")
    handed = [handed_tensor for graph in report.generated for handed_tensor in graph.handed]
    assert [(handed_tensor.bytes, handed_tensor.kept, handed_tensor.read_by) for handed_tensor in handed] == [
        (4194304, True, (0,))
    ]
    (finding,) = [finding for finding in findings_of_kernels(report) if finding.code == "FL705"]
    assert finding.span.line == 9
    assert finding.cost[0].startswith("up to 4.2 MB read more than in one graph")


def test_a_break_in_an_inlined_function_is_on_its_own_line(live: LiveWorker) -> None:
    source = (
        "import torch\n"
        "def helper(x):\n    y = x.sin()\n    torch._dynamo.graph_break()\n    return y.cos()\n"
        "# fuselight: f(f32[1024, 1024])\ndef f(x):\n    return helper(x * 2) + 1\n"
    )
    report = report_of(live, source)
    assert [len(graph.handed) for graph in report.generated] == [0, 1, 1, 1]
    lines = {
        (finding.span.line, finding.count)
        for finding in findings_of_kernels(report)
        if finding.code == "FL705"
    }
    assert lines == {(4, 3)}


def test_a_tensor_of_an_earlier_call_is_not_handed_over(live: LiveWorker) -> None:
    source = (
        "import torch\nfrom torch import nn\n"
        "def f(x):\n    return x.relu() * 2\n"
        "def g(x):\n    return x.exp() + 1\n"
        "if __name__ == '__main__':\n"
        "    y = torch.compile(f)(torch.randn(512, 512))\n    torch.compile(g)(y)\n"
    )
    report = report_of(live, source, "")
    assert [len(graph.handed) for graph in report.generated] == [0, 1]  # it is, and no break is between
    assert codes_and_lines(report) == []


def test_a_copy_into_the_layout_of_a_convolution_is_reported(live: LiveWorker) -> None:
    source = (
        "import torch\n# fuselight: Net()(f32[8, 64, 56, 56])\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n"
        "        self.conv = torch.nn.Conv2d(64, 64, 3)\n"
        "    def forward(self, x):\n        return self.conv(x) + 1\n"
    )
    report = report_of(live, source, "Net")
    (finding,) = findings_of_kernels(report)
    assert (finding.code, finding.span.line) == ("FL706", 8)
    assert "`aten.convolution`" in finding.title
    copies = [kernel for graph in report.generated for kernel in graph.kernels if kernel.copies]
    assert len(copies) == 2  # the input, and the weight, which is too small to be reported
    assert all(kernel.bytes_read == kernel.bytes_written for kernel in copies)


@pytest.mark.parametrize(
    ("how", "expected"), [(".t().contiguous()", [("FL706", 4)]), (".half()", []), (".t()", []), (" * 2", [])]
)
def test_a_requested_copy_is_reported_and_other_kernels_are_not(
    live: LiveWorker, how: str, expected: list[tuple[str, int]]
) -> None:
    source = f"import torch\n# fuselight: f(bf16[2048, 2048], fake=True)\ndef f(x):\n    y = x{how}\n    return y @ y\n"
    assert codes_and_lines(report_of(live, source)) == expected


def test_equal_blocks_are_reported_on_their_call(live: LiveWorker) -> None:
    report = report_of(live, BLOCKS.format(count=12, scale=1), "Net")
    repeat = report.generated[0].repeated
    assert repeat is not None
    assert (repeat.name, repeat.count, repeat.location and repeat.location.line) == ("Block", 12, 10)
    assert repeat.operators == repeat.whole
    assert [frame.line for frame in repeat.call] == [20]
    (finding,) = [finding for finding in findings_of_kernels(report) if finding.code == "FL707"]
    assert (finding.span.line, finding.count) == (20, 12)
    assert "92% of all operators are in the instances after the first" in finding.cost


def test_blocks_that_differ_in_a_constant_are_not_equal(live: LiveWorker) -> None:
    source = BLOCKS.format(count=4, scale="self.scale").replace(
        "self.norm = ", "self.scale = len(SEEN); SEEN.append(0); self.norm = "
    )
    report = report_of(live, source.replace("class Block", "SEEN = []\nclass Block", 1), "Net")
    repeat = report.generated[0].repeated
    assert repeat is None or repeat.name != "Block"


def test_a_small_model_is_not_advised(live: LiveWorker) -> None:
    report = report_of(live, BLOCKS.format(count=4, scale=1), "Net")
    assert report.generated[0].repeated is not None
    assert codes_and_lines(report) == []


def test_candidates_are_listed_for_timed_multiplications(live: LiveWorker) -> None:
    source = (
        "import torch\n# fuselight: f(bf16[2048, 2048], fake=True)\n"
        "@torch.compile(mode='max-autotune-no-cudagraphs')\ndef f(x):\n    return (x @ x).relu()\n"
    )
    report = report_of(live, source)
    (graph,) = report.generated
    multiplied, relu = graph.kernels
    assert multiplied.name == "extern_kernels.mm"
    assert multiplied.candidates[0] == "mm of a library"
    templates = [
        candidate for candidate in multiplied.candidates if candidate.startswith("triton_mm BLOCK_K=")
    ]
    assert len(templates) > 5
    assert all("num_warps=" in template for template in templates)
    assert relu.candidates == ()
    problems = [problem for problem in report.problems if problem.what.startswith("max_autotune ")]
    assert ["needs the device itself" in problem.why for problem in problems] == [True]


def test_padding_that_a_gpu_would_time_is_reported_with_its_sizes_and_nothing_is_padded(
    live: LiveWorker,
) -> None:
    directive = "# fuselight: f(bf16[2048, 2047], bf16[2047, 2050], fake=True)"
    source = f"import torch\n{directive}\ndef f(x, y):\n    return x @ y\n"
    report = report_of(live, source)
    (kernel,) = report.generated[0].kernels
    assert kernel.candidates == (
        "[2048, 2047] @ [2047, 2050] as it is",
        "padded to [2048, 2048] @ [2048, 2056]",
    )
    assert [problem.what for problem in report.problems] == ["whether multiplications are padded"]


@pytest.mark.parametrize("sizes", ["bf16[2048, 2048], bf16[2048, 2056]", "bf16[16, 15], bf16[15, 16]"])
def test_aligned_and_memory_bound_multiplications_are_not_timed(live: LiveWorker, sizes: str) -> None:
    source = f"import torch\n# fuselight: f({sizes}, fake=True)\ndef f(x, y):\n    return x @ y\n"
    report = report_of(live, source)
    assert [kernel.candidates for graph in report.generated for kernel in graph.kernels] == [()]
    assert report.problems == ()


def test_the_backward_multiplications_have_their_own_padding(live: LiveWorker) -> None:
    source = (
        "import torch\n# fuselight: Net()(bf16[1024, 1023], train=True, fake=True)\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n"
        "        self.linear = torch.nn.Linear(1023, 2049, dtype=torch.bfloat16)\n"
        "    def forward(self, x):\n        return self.linear(x).relu()\n"
    )
    forward, backward = report_of(live, source, "Net").generated
    candidates = [
        kernel.candidates[1] for graph in (forward, backward) for kernel in graph.kernels if kernel.candidates
    ]
    assert candidates == ["padded to [1024, 1024] @ [1024, 2056]", "padded to [2056, 1024] @ [1024, 1024]"]
