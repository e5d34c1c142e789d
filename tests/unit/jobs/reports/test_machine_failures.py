"""Compiles of jobs that failed: on the line of the function or of the operator, with the machine's part in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fuselight_server.base.finding import Finding
from fuselight_server.jobs.reports.machine_failures import machine_failure
from tests.support.job_logs import open_job, project, written
from tests.support.trace_logs import artifact, compiled, event, record

SOURCE = """\
import functools
import torch


@functools.cache
@torch.compile(
    mode="default"
)
def scale(x):
    y = x + 1
    return y.frexp()
"""
TRACEBACK = """\
Traceback (most recent call last):
  File "/env/lib/python3.11/site-packages/torch/_inductor/compile_fx.py", line 1608, in codegen_and_compile
    raise Permission denied, No space left on device, Found no NVIDIA driver
torch._inductor.exc.InductorError: {message}
{more}
Set TORCHDYNAMO_VERBOSE=1 for the internal stack trace
"""
MACHINE: dict[str, str] = {
    "InvalidCxxCompiler: No working C++ compiler found in config.cpp.cxx: (None, 'g++')": "no C++ compiler",
    "RuntimeError: Failed to find C compiler. Please specify via CC environment variable": "no C compiler",
    "CppCompileError: C++ compile error\\n\\nOutput:\\nx.cpp:2:10: fatal error: Python.h: No such file": "`Python.h`",
    "CppCompileError: C++ compile error\\nx.h:1:10: fatal error: 'omp.h' file not found": "`omp.h`",
    "CppCompileError: C++ compile error\\n/usr/bin/ld: cannot find -lcuda: No such file": "the library `cuda`",
    "ImportError: /lib/libstdc++.so.6: version `GLIBCXX_3.4.30' not found": "`GLIBCXX_3.4.30` is missing",
    "CppCompileError: g++: fatal error: Killed signal terminated program cc1plus": "memory runs out",
    "BrokenProcessPool: A process in the process pool was terminated abruptly": "memory runs out",
    "OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.": "the memory of the GPU",
    "OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB.": "the memory of the GPU",
    "TritonMissing: Cannot find a working triton installation.": "Triton is not installed",
    "GPUTooOldForTriton: Found K80 which is too old to be supported by the triton GPU compiler": "too old for Triton",
    "RuntimeError: Cannot find ptxas": "finds no `ptxas`",
    "FileNotFoundError: [Errno 2] No such file or directory: '/opt/triton/bin/ptxas'": "finds no `ptxas`",
    "PTXASError: ptxas fatal: Value 'sm_120a' is not defined for option 'gpu-name'": "does not know this GPU",
    "RuntimeError: The NVIDIA driver on your system is too old (found version 11040).": "does not fit this torch",
    "RuntimeError: CUDA error: CUDA driver version is insufficient for CUDA runtime version": "does not fit this torch",
    "RuntimeError: Found no NVIDIA driver on your system.": "no GPU or no driver",
    "RuntimeError: 0 active drivers ([]). There should only be one.": "no GPU or no driver",
    "RuntimeError: CUDA error: no kernel image is available for execution on the device": "no kernels for the GPU",
    "OSError: [Errno 28] No space left on device: '/tmp/torchinductor_u/a.py'": "the disk is full",
    "OSError: [Errno 122] Disk quota exceeded": "the disk is full",
    "OSError: [Errno 30] Read-only file system: '/cache'": "a read-only file system",
    "PermissionError: [Errno 13] Permission denied: '/cache/x'": "may not write or run",
    "BlockingIOError: [Errno 11] Resource temporarily unavailable": "refused to start another process",
    "RuntimeError: can't start new thread": "refused to start another process",
    "OSError: [Errno 12] Cannot allocate memory": "the memory of the machine",
    "OSError: [Errno 24] Too many open files": "too many open files",
    "OSError: [Errno 116] Stale file handle": "the file system failed",
    "Timeout: The file lock '/tmp/x.lock' could not be acquired.": "holds the lock",
}
FOUND_FROM = """\
  target: aten.frexp.default
Found from :
   File "/job/net.py", line 11, in scale
    return y.frexp()
"""


def failed(message: str, *, more: str = "", fail_type: str = "InductorError", **options: Any) -> bytes:
    """A compile of `scale` that ended with an exception."""
    text = message.replace("\\n", "\n")
    start = {"stack": [{"line": 5, "name": "scale", "filename": "/job/net.py"}]}
    metrics = {
        "co_name": "scale",
        "co_filename": "/job/net.py",
        "co_firstlineno": 5,
        "fail_type": fail_type,
        "fail_reason": text,
    }
    return b"".join(
        (
            event("dynamo", "B", 1000.0, **options),
            record("dynamo_start", start, **options),
            record("dynamo_output_graph", {}, "class GraphModule:\n    pass", **options),
            artifact("dynamo_error", TRACEBACK.format(message=text, more=more), **options),
            event("dynamo", "E", 1001.0, **options),
            record("compilation_metrics", metrics, **options),
        )
    )


def findings_of(tmp_path: Path, log: bytes, *, code: str = "FL402") -> list[Finding]:
    source = project(tmp_path / "source", {"net.py": SOURCE})
    job = open_job(written(tmp_path / "logs", {"a": log}), source)
    return [finding for finding in job.findings if finding.code == code]


@pytest.mark.parametrize("message", MACHINE)
def test_what_the_machine_lacks_is_named_on_the_def_line(tmp_path: Path, message: str) -> None:
    (finding,) = findings_of(tmp_path, failed(message))
    assert MACHINE[message] in finding.title
    assert (Path(finding.span.path).name, finding.span.line) == ("net.py", 9)
    assert "The cause is the machine" in finding.message
    assert "PyTorch" not in finding.message, "nothing to report there"
    assert "disable" not in finding.message


@pytest.mark.parametrize(
    "message", ["AssertionError: unexpected layout", "LoweringException: KeyError: 'a'", "RuntimeError: x"]
)
def test_a_failure_of_the_compiler_itself_is_reported_to_pytorch(tmp_path: Path, message: str) -> None:
    (finding,) = findings_of(tmp_path, failed(message))
    assert finding.title.endswith(message)
    assert finding.span.line == 9
    assert "report the traceback to PyTorch" in finding.message


def test_a_lowering_that_names_the_operator_is_on_its_line(tmp_path: Path) -> None:
    (finding,) = findings_of(tmp_path, failed("LoweringException: AssertionError: x", more=FOUND_FROM))
    assert finding.span.line == 11


def test_a_backward_that_failed_is_a_finding_too(tmp_path: Path) -> None:
    metrics = {"fail_type": "InductorError", "fail_reason": "OSError: [Errno 28] No space left on device"}
    log = compiled(path="/job/net.py", function=("scale", 5)) + record("bwd_compilation_metrics", metrics)
    (finding,) = findings_of(tmp_path, log)
    assert "the disk is full" in finding.title
    assert finding.span.line == 9
    assert "It compiled the backward of this function." in finding.message


def test_what_the_code_raises_itself_is_its_own() -> None:
    assert machine_failure("PermissionError: [Errno 13] Permission denied: 'a'", is_of_compiler=False) is None
    assert machine_failure("Found no NVIDIA driver on your system", is_of_compiler=False) is not None
    assert machine_failure("the disk of the model is round", is_of_compiler=True) is None


def test_two_ranks_fail_by_two_machines_and_a_third_is_well(tmp_path: Path) -> None:
    source = project(tmp_path / "source", {"net.py": SOURCE})
    logs = {
        "rank_0_x": failed("OSError: [Errno 28] No space left on device", process=20, rank=0),
        "rank_1_x": failed("PermissionError: [Errno 13] Permission denied: '/c'", process=21, rank=1),
        "rank_2_x": compiled(path="/job/net.py", function=("scale", 5), process=22, rank=2),
    }
    job = open_job(written(tmp_path / "logs", logs), source)
    assert len([finding for finding in job.findings if finding.code == "FL402"]) == 2
    (finding,) = [finding for finding in job.findings if finding.code == "FL914"]
    assert finding.span.line == 9
    assert "The disk is full: Free space" in finding.message
    assert "The process may not write" in finding.message
