# ruff: noqa: PLC0415 - what needs Triton is imported when it is needed
"""Compiles the source of one kernel for a device and reads the result.

Invariant: `assemble` returns an `Assembled` for any input, and the same request gets the same result from
the cache: the key holds the source, the device, the configuration, the versions and Triton's variables.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable

import torch

from fuselight.adapters.torch_api.inductor.toolchain import matching_triton
from fuselight.adapters.triton_api import names, store, tools
from fuselight.adapters.triton_api.compiler import CompiledKernel, compile_request, short
from fuselight.adapters.triton_api.driver import virtual_driver
from fuselight.adapters.triton_api.forked_query import Ended, ask_apart
from fuselight.adapters.triton_api.lines import line_map
from fuselight.adapters.triton_api.occupancy import occupancy
from fuselight.adapters.triton_api.source import KernelSource, NoKernel
from fuselight.shared.codec import decode, encode
from fuselight.shared.report import Assembled, Device, Listing

_SCHEMA = 2
"""Version of the cached results: increased with each change of the result for the same request."""

MAX_SECONDS = 40.0
"""Of the compile of one kernel: a kernel of the user's may take minutes, as a `tl.dot` of 512 by 512 does."""
_ARCH = {"cuda": re.compile(r"[1-9]\d?\.\d"), "hip": re.compile(r"gfx[0-9a-f]{3,5}")}
_EXAMPLE = {"cuda": "`9.0`", "hip": "`gfx942`"}


@dataclasses.dataclass(frozen=True)
class _Question:
    """One kernel, and everything that its compilation depends on."""

    source: str
    device: Device
    config: int | None
    triton: str
    torch: str
    disassemble: bool

    def key(self) -> str:
        """Name its answer among those that are kept."""
        whole = json.dumps([_SCHEMA, encode(self), compile_variables()])
        return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()


def compile_variables() -> list[tuple[str, str]]:
    """Return the environment variables that decide on what is compiled."""
    return sorted(
        (name, value)
        for name, value in os.environ.items()
        if name.startswith(("TRITON_", "TORCHINDUCTOR_", "PTXAS_")) and not name.endswith(("_DIR", "_HOME"))
    )


def assemble(
    source: str,
    device: Device,
    *,
    config: int | None = None,
    cache: str | None = None,
    disassemble: bool = False,
) -> Assembled:
    """Compile the kernel `source` for `device` in the configuration `config`, by default the one Inductor starts with.

    `disassemble` asks for SASS as well, which takes NVIDIA's tool most of a second; other GPUs have none.

    `source` is the text that Inductor passes to `async_compile.triton`; its line numbers are those of the answer.
    `cache` is a folder to keep answers in; without one they are kept in memory.
    """
    known_versions = versions()
    if isinstance(known_versions, Exception):
        return Assembled(failure=_without_triton(known_versions))
    triton, torch_version = known_versions
    if device.backend not in ("cuda", "hip"):
        return Assembled(
            failure=f"kernels for {device.name} are not Triton's: there is nothing to assemble", triton=triton
        )
    if _ARCH[device.backend].fullmatch(device.arch) is None:
        why = f"{device.name} has the architecture {device.arch!r}: Triton takes one as {_EXAMPLE[device.backend]}"
        return Assembled(failure=why, triton=triton)
    asked = _Question(source, device, config, triton, torch_version, disassemble and device.backend == "cuda")
    key = asked.key()
    assembled_kernel, problem = store.find(key, cache)
    if assembled_kernel is None and not asked.disassemble:  # what was made with SASS has the rest as well
        assembled_kernel, _ = store.find(dataclasses.replace(asked, disassemble=True).key(), cache)
    if assembled_kernel is None:
        assembled_kernel, lasting = _asked(asked)
        if lasting:
            problem = store.keep(key, assembled_kernel, cache) or problem
    return (
        dataclasses.replace(assembled_kernel, problems=(*assembled_kernel.problems, problem))
        if problem
        else assembled_kernel
    )


def versions() -> tuple[str, str] | Exception:
    """Return Triton's version and torch's, or why there is no Triton."""
    try:
        version = names.version()
        from torch._inductor.runtime import triton_heuristics  # noqa: F401 - it needs more of Triton than its name
    except Exception as error:  # noqa: BLE001 - a broken build raises what it likes
        return error
    return version, str(torch.__version__)


def _without_triton(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == "triton":
        package = "triton-windows" if sys.platform == "win32" else "triton"
        release = matching_triton()
        wanted = f"{package}=={release}" if release and package == "triton" else package
        return (
            "Triton is not installed in this Python, so registers, occupancy and assembly are absent. "
            f"Run `pip install {wanted}` there"
        )
    why = f"{type(error).__name__}: {error}"
    return f"Triton cannot be imported ({why}), so registers, occupancy and assembly are absent"


def _asked(asked: _Question) -> tuple[Assembled, bool]:
    """What the compiler answers, and whether it would answer so again."""

    def question(read_output: Callable[[], str]) -> bytes:
        assembled_kernel, lasting = _assembled(asked, read_output)
        return json.dumps([encode(assembled_kernel), lasting]).encode("utf-8", "surrogatepass")

    try:
        names.warm_up()
        kernel_data, lasting = json.loads(ask_apart(question, MAX_SECONDS))
        return decode(Assembled, kernel_data), lasting
    except Ended as ended:
        return Assembled(failure=short(str(ended)), triton=asked.triton), False
    except (OSError, ImportError, ValueError) as error:
        why = f"the compiler could not be asked: {short(str(error))}"
        return Assembled(failure=why, triton=asked.triton), False


def _assembled(asked: _Question, read_output: Callable[[], str]) -> tuple[Assembled, bool]:
    device, triton = asked.device, asked.triton
    try:
        target = names.gpu_target(device.backend, device.triton_arch, device.warp)
        with (
            tempfile.TemporaryDirectory(prefix="fuselight-", ignore_cleanup_errors=True) as folder,
            virtual_driver(target, folder),
        ):
            kernel = KernelSource(asked.source, device)
            chosen = kernel.default if asked.config is None else asked.config
            if not 0 <= chosen < len(kernel.configs):
                count = len(kernel.configs)
                why = f"there is no configuration {chosen}: the kernel has {count}, counted from 0"
                return Assembled(kernel.configs, kernel.default, failure=why, triton=triton), True
            compiled = compile_request(
                kernel.compile_request(chosen), kernel.file, kernel.first_line, folder, read_output
            )
            assembled_kernel = _described(kernel, chosen, compiled, asked)
            return assembled_kernel, compiled.lasting and not assembled_kernel.problems
    except NoKernel as error:
        return Assembled(failure=f"this is not a Triton kernel of Inductor's: {error}", triton=triton), True
    except (Exception, SystemExit) as error:  # noqa: BLE001 - heuristics and the text itself raise what they like
        why = f"Inductor's heuristics did not take it for {device.name} ({type(error).__name__}: {error})"
        return Assembled(failure=why, triton=triton), False


def _described(kernel: KernelSource, chosen: int, compiled: CompiledKernel, asked: _Question) -> Assembled:
    result = assembled_of(
        compiled, asked.device, file=kernel.file, disassemble=asked.disassemble, triton=asked.triton
    )
    return dataclasses.replace(
        result,
        configs=kernel.configs,
        default=kernel.default,
        config=chosen,
        smaller=kernel.smaller(chosen, result.registers) if result.registers is not None else None,
        grid=kernel.grid(chosen),
    )


def assembled_of(
    compiled: CompiledKernel, device: Device, *, file: str, disassemble: bool, triton: str
) -> Assembled:
    """Describe what a kernel was compiled to; the lines of its listings are those of `file`."""
    usage, texts = tools.Usage(), dict(compiled.texts)
    problems: tuple[str, ...] = ()
    if compiled.binary is not None and device.backend == "cuda":
        usage, problems = tools.cubin_usage(compiled.binary)
        if disassemble:
            text, more = tools.sass(compiled.binary)
            problems += more
            if text:
                texts["sass"] = text
    elif "amdgcn" in texts:
        usage, problems = tools.amd_usage(texts["amdgcn"])
    figures = {"registers": usage.registers, "shared": compiled.shared, "num_warps": compiled.num_warps}
    too_large = _too_large(compiled, device)
    return Assembled(
        registers=usage.registers,
        spills=usage.spills,
        shared=compiled.shared,
        num_warps=compiled.num_warps,
        num_stages=compiled.num_stages,
        occupancy=occupancy(device, **figures) if too_large is None else None,
        listings={stage: Listing(text, line_map(stage, text, file)) for stage, text in texts.items()},
        failure=compiled.failure or too_large,
        failure_line=compiled.failure_line,
        disassembled=disassemble,
        problems=problems,
        triton=triton,
    )


def _too_large(compiled: CompiledKernel, device: Device) -> str | None:
    """What Triton would say where it loads the kernel: there the device's limits are looked at."""
    most = device.shared_kb * 1024
    if compiled.shared is None or not 0 < most < compiled.shared:
        return None
    return str(names.out_of_resources(compiled.shared, most, "shared memory"))
