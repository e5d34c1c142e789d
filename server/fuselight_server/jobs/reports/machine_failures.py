"""Failures of compiles whose cause is the machine: a compiler, a driver, memory, a disk, a limit of the system.

Invariant: only the text of the exception decides, never a line of source in its traceback. What the code itself can
raise, as an `OSError`, counts only where the compiler raised it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_CACHE = "`TORCHINDUCTOR_CACHE_DIR` (default: `torchinductor_USER` in the folder for temporary files)"
_FEWER = (
    "run fewer processes on one machine, or compile kernels one by one with `TORCHINDUCTOR_COMPILE_THREADS=1`"
)
_DRIVER = "Update the driver of the machine, or install a torch for an older CUDA"


@dataclass(frozen=True, slots=True)
class MachineFailure:
    """What the machine lacks, and what to do. `{0}` stands for the first group of the pattern."""

    title: str
    next_step: str


def _system(number: int, words: str) -> str:
    return rf"\[Errno {number}\]|{words}"


_OF_MACHINE: tuple[tuple[str, MachineFailure], ...] = (
    (
        r"InvalidCxxCompiler|No working C\+\+ compiler found",
        MachineFailure(
            "no C++ compiler works on the machine",
            "Install g++ or clang in the image of the job, or set `CXX` to the path of one that works.",
        ),
    ),
    (
        r"Failed to find C compiler",
        MachineFailure(
            "Triton finds no C compiler on the machine",
            "Install gcc or clang in the image of the job, or set `CC` to its path.",
        ),
    ),
    (
        r"Killed signal terminated program|BrokenProcessPool|process pool was terminated abruptly|std::bad_alloc",
        MachineFailure(
            "a process that compiled a kernel was ended, as when memory runs out",
            f"Look for `Out of memory` in `dmesg`. If memory ran out: {_FEWER}.",
        ),
    ),
    (
        r"(?:fatal error: |')(?P<name>Python\.h)(?::|')",
        MachineFailure(
            "the C++ compiler does not find `Python.h`",
            "Install the headers of the Python that the job runs, of the same version: on Debian and Ubuntu the "
            "package `python3-dev`.",
        ),
    ),
    (
        r"fatal error: (?:')?(?P<name>[\w./+-]{1,80}\.h\w*|\w{1,40})(?:')?(?:: No such file| file not found)",
        MachineFailure(
            "the C++ compiler does not find `{0}`",
            "Install the package with this header in the image of the job.",
        ),
    ),
    (
        r"(?:cannot find|library not found for|unable to find library) -l(?P<name>[\w+.-]{1,60})",
        MachineFailure(
            "the linker does not find the library `{0}`",
            "Install the library in the image of the job, or name its folder in `LIBRARY_PATH`; `cuda` is part of the "
            "driver.",
        ),
    ),
    (
        r"(?P<name>(?:GLIBCXX|GLIBC|CXXABI)_[\d.]{1,20})['\x60]? not found",
        MachineFailure(
            "the C++ library of the machine is too old: `{0}` is missing",
            "Use one toolchain for Python, torch and the C++ compiler, or put the newer `libstdc++` first in "
            "`LD_LIBRARY_PATH`.",
        ),
    ),
    (
        r"OutOfMemoryError|(?:CUDA|HIP|XPU) out of memory|CUDA error: out of memory|CUDA_ERROR_OUT_OF_MEMORY",
        MachineFailure(
            "the memory of the GPU ran out during the compile",
            "Use a smaller batch, or end what else uses the GPU; autotuning needs memory for its inputs, which other "
            "modes than `max-autotune` do not.",
        ),
    ),
    (
        r"TritonMissing|Cannot find a working triton|No module named 'triton'",
        MachineFailure(
            "Triton is not installed, or too old",
            "Install the Triton that this release of torch names (`pip install torch` does), or run on the CPU.",
        ),
    ),
    (
        r"GPUTooOldForTriton|too old to be supported by the triton",
        MachineFailure(
            "the GPU is too old for Triton",
            "Use a newer GPU, or another backend on this one: `torch.compile(..., backend='aot_eager')`.",
        ),
    ),
    (
        r"[Cc]annot find ptxas|ptxas\S{0,3}:? (?:not found|No such file)|No such file or directory: '[^']*ptxas",
        MachineFailure(
            "Triton finds no `ptxas`",
            "Install Triton again, whose package has it, or set `TRITON_PTXAS_PATH` to that of a CUDA toolkit.",
        ),
    ),
    (
        r"is not defined for option 'gpu-name'|Unsupported \.version|unsupported toolchain|CUDA_ERROR_UNSUPPORTED_PTX",
        MachineFailure(
            "`ptxas` or the driver does not know this GPU or this version of PTX",
            "Install a newer Triton or a newer driver, or set `TRITON_PTXAS_PATH` to the `ptxas` of a newer CUDA "
            "toolkit.",
        ),
    ),
    (
        (
            r"driver on your system is too old|driver version is insufficient|SYSTEM_DRIVER_MISMATCH"
            r"|forward compatibility was|unsupported display driver|driver/library version mismatch"
        ),
        MachineFailure("the driver of the GPU does not fit this torch", f"{_DRIVER}."),
    ),
    (
        (
            r"Found no NVIDIA driver|No CUDA GPUs are available|0 active drivers|no CUDA-capable device"
            r"|libcuda\.so[\w.]* cannot (?:be )?found|libcuda\.so[\w.]*: cannot open"
        ),
        MachineFailure(
            "no GPU or no driver is visible to the process",
            "Start the job with its GPUs (`CUDA_VISIBLE_DEVICES`, those of a container), and install the driver on "
            "the machine.",
        ),
    ),
    (
        r"no kernel image is available",
        MachineFailure(
            "this torch has no kernels for the GPU",
            "Install a torch that is built for this GPU: `torch.cuda.get_arch_list()` lists those of the installed "
            "release.",
        ),
    ),
)
"""What only the machine can raise, whoever asked for it."""
_OF_SYSTEM: tuple[tuple[str, MachineFailure], ...] = (
    (
        _system(28, r"No space left on device") + r"|\[Errno 122\]|Disk quota exceeded",
        MachineFailure(
            "the disk is full",
            f"Free space, or move the folder with {_CACHE} and `TMPDIR` to another disk.",
        ),
    ),
    (
        _system(30, r"Read-only file system"),
        MachineFailure(
            "a folder that the compiler writes is on a read-only file system",
            f"Set {_CACHE}, `TRITON_CACHE_DIR` and `TMPDIR` to folders that can be written.",
        ),
    ),
    (
        _system(13, r"Permission denied") + r"|\[Errno 1\]|Operation not permitted",
        MachineFailure(
            "the process may not write or run a file of the compiler's cache",
            f"Set {_CACHE} and `TRITON_CACHE_DIR` to folders of this user, on a disk that is not mounted with "
            "`noexec`.",
        ),
    ),
    (
        _system(11, r"Resource temporarily unavailable") + r"|can't start new thread",
        MachineFailure(
            "the system refused to start another process or thread",
            f"Raise the limit (`ulimit -u`, the limit of PIDs of the container), or {_FEWER}.",
        ),
    ),
    (
        _system(12, r"Cannot allocate memory") + r"|MemoryError",
        MachineFailure("the memory of the machine ran out", f"{_FEWER[0].upper()}{_FEWER[1:]}."),
    ),
    (
        _system(24, r"Too many open files") + r"|\[Errno 23\]",
        MachineFailure("the process has too many open files", "Raise the limit (`ulimit -n`)."),
    ),
    (
        _system(116, r"Stale file handle") + r"|\[Errno 5\]|Input/output error",
        MachineFailure(
            "the file system failed",
            f"Put the folder with {_CACHE} on a local disk.",
        ),
    ),
    (
        r"The file lock '.*' could not be acquired",
        MachineFailure(
            "another process holds the lock of the compiler's cache",
            f"End the process that holds it, or give each job a folder of its own: {_CACHE}.",
        ),
    ),
)
"""What files and processes of the code raise, too."""


def machine_failure(text: str, *, is_of_compiler: bool) -> MachineFailure | None:
    """What the machine lacks, by the text of an exception; None if that is not known to be the cause.

    `is_of_compiler`: whether the compiler raised it, and not the code that it traced.
    """
    for pattern, failure in (*_OF_MACHINE, *(_OF_SYSTEM if is_of_compiler else ())):
        match = re.search(pattern, text)
        if match is not None:
            name = match.groupdict().get("name") or ""
            return MachineFailure(failure.title.format(name), failure.next_step)
    return None
