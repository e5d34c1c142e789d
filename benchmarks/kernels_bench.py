"""Kernels for an absent H100: against the compiler alone, a cold compile, the cache, a huge report.

Bare is a process that has imported everything and forks a child that builds the model and has Dynamo, AOTAutograd and
Inductor write the code for the same device, without a recorder. Ours is a run of the worker, from request to report.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.gpt2 import BUILD_AND_CALL, SOURCE, write_model
from benchmarks.save_to_diagnostics import Baseline
from benchmarks.table import Row, median, times_faster
from fuselight.shared.codec import encode
from fuselight.shared.devices import find
from fuselight.shared.protocol import GenerateRequest
from fuselight.shared.report import (
    FusedOperator,
    GeneratedGraph,
    Kernel,
    KernelKind,
    Location,
    Phase,
    Report,
    TargetRef,
    Tier,
    Versions,
)
from fuselight_server.base.store import Store
from fuselight_server.editor.presenters.lens import line_lenses
from fuselight_server.editor.results.kernels import KernelResult, kernel_result_of
from fuselight_server.editor.results.snapshot import Document
from fuselight_server.editor.session.state import State
from fuselight_server.execution.runs.kernel_cache import KernelCache
from fuselight_server.execution.runs.keys import Key
from fuselight_server.explain.kernels.shares import fold
from fuselight_server.source.document import SourceDocument
from tests.support.live_worker import LiveWorker

if TYPE_CHECKING:
    from fuselight.shared.protocol import RunRequest

ROUNDS = 3
DEADLINE = 600.0
KERNELS = 1000

_BARE = f"""{SOURCE}
{BUILD_AND_CALL}
import os, sys, tempfile, time
import torch._dynamo, torch._inductor.compile_fx
import transformers.models.gpt2.modeling_gpt2
from fuselight.shared.devices import find
from fuselight.shared.protocol import GenerateRequest
from fuselight.adapters.virtual_gpu.codegen import generate
torch.set_num_threads(1)
torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
threads = int(sys.argv[1])
class Nobody:
    def __getattr__(self, name):
        return lambda *args: None
def bare(gm, inputs):
    generate(gm, inputs, find("h100"), Nobody(), {{}})
    return gm.forward
def trained():
    model = Model().train()
    out = torch.compile(model, backend=bare)(torch.randint(50257, (1, 64)))
    out.logits.sum().backward()
for job in sys.stdin:
    started = time.perf_counter()
    child = os.fork()
    if child == 0:
        torch.set_num_threads(threads)
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp(dir=".")
        what = job.strip()
        if what == "train":
            trained()
        elif what == "bare":
            build_and_call(backend=bare)
        else:
            build_and_call()
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    print(time.perf_counter() - started if status == 0 else "failed", flush=True)
"""


def _request(live: LiveWorker, source: str) -> RunRequest:
    request = live.request(source, "Model", file="gpt2_model.py", seconds=DEADLINE, memory_mb=0)
    return request.of_kind(GenerateRequest, device=find("h100"))


def _run(live: LiveWorker, request: RunRequest) -> tuple[float, float, Report]:
    """Seconds until the first kernels are there, and until all are; and the report."""
    first: list[float] = []
    started = time.perf_counter()
    answer = live.do(
        live.worker.run(request, lambda _: None, lambda _: first.append(time.perf_counter() - started)),
        DEADLINE,
    )
    taken = time.perf_counter() - started
    report: Report = answer.report  # type: ignore[union-attr]  # a refusal has none, and ends the benchmark
    if report.failures or not any(graph.kernels for graph in report.generated):
        raise RuntimeError(f"the run gave nothing to measure: {report.failures} {report.problems}")
    return first[0] if first else taken, taken, report


def _measured(folder: Path) -> list[Row]:
    source = write_model(folder).read_text(encoding="utf-8")
    train = source.replace("i64[1, 64] % 50257", "i64[1, 64] % 50257, train=True")
    bare, live = Baseline(folder, _BARE), LiveWorker(folder)
    try:
        _run(live, _request(live, source))  # imports
        forward, baseline, both, bare_both, firsts = [], [], [], [], []
        colds = [bare.seconds("cold")]
        for _ in range(ROUNDS):
            forward.append(_run(live, _request(live, source))[1])
            baseline.append(bare.seconds("bare"))
        for _ in range(ROUNDS):
            first, taken, _report = _run(live, _request(live, train))
            firsts.append(first)
            both.append(taken)
            bare_both.append(bare.seconds("train"))
        request = _request(live, source)
        cached = _cached(folder, request, _run(live, request)[2])
    finally:
        bare.close()
        live.close()
    ours, theirs, all_ours, all_theirs = map(median, (forward, baseline, both, bare_both))
    return [
        Row("kernels of GPT-2, 12 layers, against the compiler alone", ours / theirs, 1.2,
            detail=f"{ours:.2f} s against {theirs:.2f} s"),
        times_faster("the same, against build + cold torch.compile for the CPU", ours, median(colds), 2.5),
        Row("forward and backward, against the compiler alone", all_ours / all_theirs, 1.2,
            detail=f"{all_ours:.2f} s against {all_theirs:.2f} s"),
        Row("its forward's kernels are there before all are", median(firsts) / all_ours, 0.8,
            detail=f"{median(firsts):.2f} s of {all_ours:.2f} s"),
        Row("unchanged source: answered from the cache", cached * 1000, 100, unit="ms"),
    ]  # fmt: skip


def _cached(folder: Path, request: RunRequest, report: Report) -> float:
    cache = KernelCache(Store.at(folder))
    cache.keep_report(request, report)
    taken = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        if cache.find(request, report.versions).report is None:
            raise RuntimeError("the cache does not know what it was given")
        taken.append(time.perf_counter() - started)
    return median(taken)


def _huge() -> Report:
    """A report of 1,000 kernels of ten operators each, as deep in calls as a transformer's."""
    kernels = []
    for number in range(KERNELS):
        stack = [Location("/w/model.py", 1 + number % 200, function="forward")]
        stack += [Location(f"/lib/site-packages/layer_{depth}.py", number % 90 + 1) for depth in range(6)]
        operators = tuple(FusedOperator("aten.add.Tensor", stack=tuple(stack)) for _ in range(10))
        kernels.append(
            Kernel(f"triton_poi_{number}", KernelKind.TRITON, number, operators=operators,
                   bytes_read=number * 100, bytes_written=100, estimate_us=float(number))
        )  # fmt: skip
    versions = Versions("3.11", "2.13", None, "0", "linux", "python")
    return Report(
        versions, TargetRef("/w/model.py", "Net", 1, "module"), Tier.KERNELS, 1,
        generated=(GeneratedGraph("0/0", Phase.INFERENCE, kernels=tuple(kernels)),), roots=("/w",),
    )  # fmt: skip


def _lenses(result: KernelResult) -> float:
    """Seconds to rebuild the lenses of every line, after an edit that moved nearly all."""
    state, uri = State(), "file:///w/model.py"
    text = "".join(f"x{number} = {number}\n" for number in range(220))
    document = Document(uri, "/w/model.py", 1, SourceDocument("/w/model.py", text), runnable=True)
    state.open(document)
    state.accept_result(result)
    taken = []
    for _ in range(ROUNDS):
        state.edit("/w/model.py", document.source.edit((1, 0), (1, 0), "new = 1\n"))
        started = time.perf_counter()
        snapshot = state.snapshot(uri, {})
        if snapshot is None or len(list(line_lenses(snapshot))) < 200:  # noqa: PLR2004 - lines that have kernels
            raise RuntimeError("the lenses are not there")
        taken.append(time.perf_counter() - started)
    return median(taken)


def rows() -> list[Row]:
    """The promises about kernels."""
    with tempfile.TemporaryDirectory() as folder:
        rows = _measured(Path(folder))
    report = _huge()
    started = time.perf_counter()
    data = json.dumps(encode(report))
    result = kernel_result_of(Key("/w/model.py", "Net", Tier.KERNELS), 1, report)
    fold(report.generated[0], report.roots)
    shown = time.perf_counter() - started
    return [
        *rows,
        Row("lenses of 1,000 kernels, after an edit", 1000 * _lenses(result), 50, unit="ms"),
        Row("a report of 1,000 kernels: written and shared between lines", shown, 1, unit="s"),
        Row("its size", len(data) / 1e6, 20, unit="MB"),
    ]


if __name__ == "__main__":
    from benchmarks.print_table import print_table

    asyncio.set_event_loop(asyncio.new_event_loop())
    sys.exit(print_table(rows()))
