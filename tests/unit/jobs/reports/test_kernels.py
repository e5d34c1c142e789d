"""The code that Inductor generated in a job, split into kernels with their source and their lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuselight.shared.report import KernelKind, Phase, Report
from fuselight_server.commands.opened_job import OpenedJob
from tests.support.job_logs import open_job, project, written
from tests.support.trace_logs import JOBS, RECORDINGS, record

SOURCE = """\
import torch


def forward(x, w):
    y = torch.relu(x)
    z = y @ w
    q = torch.linalg.qr(z)[0]
    return q.softmax(-1) + y
"""
CAPTURED = """\
class GraphModule(torch.nn.Module):
    def forward(self, L_x_: "f32[8, 8]", L_w_: "f32[8, 8]"):
        # File: /job/net.py:5 in forward, code: y = torch.relu(x)
        y: "f32[8, 8]" = torch.relu(l_x_)
        # File: /job/net.py:6 in forward, code: z = y @ w
        z: "f32[8, 8]" = y @ l_w_
        # File: /job/net.py:7 in forward, code: q = torch.linalg.qr(z)[0]
        linalg_qr = torch.linalg.qr(z)
        q: "f32[8, 8]" = linalg_qr[0]
        # File: /job/net.py:8 in forward, code: return q.softmax(-1) + y
        softmax: "f32[8, 8]" = q.softmax(-1)
        add: "f32[8, 8]" = softmax + y
        return (add,)
"""
LOWERED = """\
class <lambda>(torch.nn.Module):
    def forward(self, arg0_1: "f32[8, 8]", arg1_1: "f32[8, 8]"):
        # File: /job/net.py:5 in forward, code: y = torch.relu(x)
        relu: "f32[8, 8]" = torch.ops.aten.relu.default(arg0_1);  arg0_1 = None
        # File: /job/net.py:6 in forward, code: z = y @ w
        mm: "f32[8, 8]" = torch.ops.aten.mm.default(relu, arg1_1);  arg1_1 = None
        # File: /job/net.py:7 in forward, code: q = torch.linalg.qr(z)[0]
        linalg_qr = torch.ops.aten.linalg_qr.default(mm);  mm = None
        getitem: "f32[8, 8]" = linalg_qr[0];  linalg_qr = None
        # File: /job/net.py:8 in forward, code: return q.softmax(-1) + y
        amax: "f32[8, 1]" = torch.ops.aten.amax.default(getitem, [-1], True)
        add: "f32[8, 8]" = torch.ops.aten.add.Tensor(amax, relu);  relu = None
        return (add,)
"""
MODULE = """\
# AOT ID: ['3_inference']
import torch
from torch._inductor.async_compile import AsyncCompile
aten = torch.ops.aten
async_compile = AsyncCompile()

# kernel path: /tmp/torchinductor/ab/cab.py
# Topologically Sorted Source Nodes: [y], Original ATen: [aten.relu]
# Source node to ATen node mapping:
#   y => relu
triton_poi_fused_relu_0 = async_compile.triton('triton_poi_fused_relu_0', '''
import triton
@triton.jit
def triton_poi_fused_relu_0(in_ptr0, out_ptr0, xnumel):
    triton_poi_fused_relu_0.run(in_ptr0)
''', device_str='cuda')

mine_0 = async_compile.triton('mine', '''
def mine(): pass
''', device_str='cuda')

triton_red_fused__softmax_add_1 = async_compile.triton('triton_red_fused__softmax_add_1', '''
def kernel(): pass
''', device_str='cuda')

async_compile.wait(globals())
del async_compile

class Runner:
    def recursively_apply_fns(self, fns):
        new_callables.append(fn(c))

    def call(self, args):
        arg0_1, arg1_1 = args
        args.clear()
        with torch.cuda._DeviceGuard(0):
            torch.cuda.set_device(0)
            buf0 = empty_strided_cuda((8, 8), (8, 1), torch.float32)
            # Topologically Sorted Source Nodes: [y], Original ATen: [aten.relu]
            stream0 = get_raw_stream(0)
            triton_poi_fused_relu_0.run(arg0_1, buf0, 64, stream=stream0)
            # Topologically Sorted Source Nodes: [y, z], Original ATen: [aten.relu, aten.mm]
            extern_kernels.mm(buf0, arg1_1, out=buf1)
            # Topologically Sorted Source Nodes: [linalg_qr], Original ATen: [aten.linalg_qr]
            buf2 = torch.ops.aten.linalg_qr.default(buf1)
            buf3 = torch.ops.inductor._reinterpret_tensor(buf2, (8, 8))
            # Topologically Sorted Source Nodes: [softmax, add], Original ATen: [aten._softmax, aten.add]
            stream0 = get_raw_stream(0)
            triton_red_fused__softmax_add_1.run(buf2, buf0, buf3, 64, stream=stream0)
            buf4 = torch.ops._c10d_functional.all_reduce_.default(buf3, 'sum', '0')
            mine_0.run(buf4, stream=stream0)
        return (buf4, )

def get_args():
    return [torch.ops.aten.ones.default(8)]
"""


def log_of_code(module: str = MODULE) -> bytes:
    start = {"stack": [{"line": 4, "name": "forward", "filename": "/job/net.py"}]}
    metrics = {"co_name": "forward", "co_filename": "/job/net.py", "co_firstlineno": 4, "graph_op_count": 5}
    return b"".join(
        (
            record("dynamo_start", start),
            record("dynamo_output_graph", {}, CAPTURED),
            record("aot_inference_graph", {}, LOWERED),
            record("inductor_post_grad_graph", {}, LOWERED),
            record("inductor_output_code", {"filename": "/cache/x.py"}, module),
            record("compilation_metrics", metrics),
        )
    )


def opened(tmp_path: Path, module: str = MODULE) -> Report:
    logs = written(tmp_path / "logs", {"a": log_of_code(module)})
    return open_job(logs, project(tmp_path / "source", {"net.py": SOURCE})).processes[0].report


def lines(report: Report) -> list[tuple[str, list[int]]]:
    return [
        (kernel.name, sorted({place.line for operator in kernel.operators for place in operator.stack}))
        for graph in report.generated
        for kernel in graph.kernels
    ]


def test_a_module_is_its_launches_in_order_with_their_lines(tmp_path: Path) -> None:
    report = opened(tmp_path)
    assert lines(report) == [
        ("triton_poi_fused_relu_0", [5]),
        ("extern_kernels.mm", [6]),
        ("torch.ops.aten.linalg_qr.default", [7]),
        ("triton_red_fused__softmax_add_1", [8]),
        ("torch.ops._c10d_functional.all_reduce_.default", []),
        ("mine_0", []),
    ]
    (graph,) = report.generated
    assert [kernel.kind for kernel in graph.kernels] == [
        KernelKind.TRITON,
        KernelKind.EXTERN,
        KernelKind.FALLBACK,
        KernelKind.TRITON,
        KernelKind.EXTERN,
        KernelKind.USER_TRITON,
    ]
    relu = graph.kernels[0]
    assert (graph.phase, graph.compile_id) == (Phase.INFERENCE, "0/0")
    assert relu.call == "triton_poi_fused_relu_0.run(arg0_1, buf0, 64, stream=stream0)"
    assert report.texts[graph.text_key or ""].splitlines()[(relu.wrapper_line or 0) - 1].strip() == relu.call
    assert report.texts[relu.text_key or ""].startswith(
        "import triton\n@triton.jit\ndef triton_poi_fused_relu_0"
    )
    assert report.texts[graph.aten_key or ""].strip() == LOWERED.strip()
    assert relu.operators[0].stack[0].path.endswith("source/net.py")
    assert all(
        (kernel.bytes_read, kernel.estimate_us, kernel.flops) == (None, None, None)
        for kernel in graph.kernels
    )


def test_an_operator_without_a_kernel_is_a_finding_on_its_line(tmp_path: Path) -> None:
    logs = written(tmp_path / "logs", {"a": log_of_code()})
    job = open_job(logs, project(tmp_path / "source", {"net.py": SOURCE}))
    assert [(finding.code, finding.span.line) for finding in job.findings] == [("FL701", 7)]


@pytest.mark.parametrize(
    "module",
    [
        "",
        "garbage \x00 [",
        "# AOT ID: ['x_backward']\n" + "cpp_fused_relu_0(x)\n" * 3,
        MODULE[: len(MODULE) // 2],
    ],
    ids=["empty", "no code", "launches without kernels", "cut in the middle"],
)
def test_code_of_any_form_gives_a_report(tmp_path: Path, module: str) -> None:
    assert len(opened(tmp_path, module).generated) <= 1


def recorded(name: str) -> list[OpenedJob]:
    return [open_job(folder, RECORDINGS) for folder in JOBS if folder.name == name]


def test_recorded_cpp_kernels_have_the_lines_of_their_operators() -> None:
    """In C++ modules no comment names the nodes of a kernel; the local source is the recorded program."""
    for job in recorded("training"):
        (process,) = job.processes
        forward, backward = process.report.generated
        assert (forward.phase, backward.phase) == (Phase.FORWARD, Phase.BACKWARD)
        names = [[operator.name for operator in kernel.operators] for kernel in forward.kernels]
        scaled = [["aten.addmm.default"], ["aten.mul.Tensor"]]
        if (process.log.torch_version or "").startswith(("2.14", "2.15")):
            scaled = [["aten.addmm.default"]]  # they drop `* 1.0`
        assert names == [["aten.addmm.default"], ["aten.relu.default"], *scaled]
        for graph in (forward, backward):
            for kernel in graph.kernels:
                assert {place.line for operator in kernel.operators for place in operator.stack} == {20}, (
                    kernel.name
                )
                assert (kernel.text_key in process.report.texts) == kernel.name.startswith("cpp_")
