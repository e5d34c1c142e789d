"""What a launch and a warm-up return: a compiled kernel, which programs ask for its registers, or launch.

Invariant: nothing is compiled before an attribute is read, and then in a child, which may end or take too long.
"""

from __future__ import annotations

import json
import tempfile
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fuselight.adapters.triton_api import names, tools
from fuselight.adapters.triton_api.driver import virtual_driver
from fuselight.adapters.triton_api.forked_query import Ended, ask_apart

MAX_SECONDS = 40.0
"""Of a compile."""


@dataclass(frozen=True)
class CompileArguments:
    """What Triton compiles for a launch, as its `JITFunction.run` computes it."""

    function: Any
    """The `JITFunction`."""
    signature: dict[str, Any]
    constants: dict[Any, Any]
    attributes: dict[Any, Any]
    options: Any
    target: Any


class AbsentKernel:
    """In the place of Triton's CompiledKernel."""

    def __init__(self, arguments: CompileArguments, launch: Callable[..., Any]) -> None:
        """`launch(grid, args, named)` launches it."""
        self._arguments, self._launch = arguments, launch
        self._compiled: dict[str, Any] | None = None

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        return lambda *args, **named: self._launch(grid, args, named)

    def _init_handles(self) -> None:
        """Load it onto the device, which is not there."""

    @property
    def n_regs(self) -> int:
        """Registers of a thread."""
        return int(self._facts()["registers"] or 0)

    @property
    def n_spills(self) -> int:
        """Bytes of a thread's registers that are kept in memory, in words of 4, as the driver counts them."""
        return int(self._facts()["spills"] or 0) // 4

    @property
    def metadata(self) -> Any:
        """What Triton knows of it, such as `shared` and `num_warps`."""
        return types.SimpleNamespace(**self._facts()["metadata"])

    @property
    def asm(self) -> dict[str, str]:
        """The texts that it is compiled to, by stage."""
        return dict(self._facts()["texts"])

    @property
    def name(self) -> str:
        """Its name on the device."""
        return str(self._facts()["metadata"].get("name", self._arguments.function.__name__))

    def _facts(self) -> dict[str, Any]:
        """Compile it. Raises RuntimeError with the compiler's words."""
        compiled = self._compiled
        if compiled is None:
            try:
                answer = json.loads(ask_apart(lambda _: _facts_of(self._arguments), MAX_SECONDS))
            except Ended as ended:
                raise RuntimeError(str(ended)) from None
            if "failure" in answer:
                raise RuntimeError(answer["failure"])
            compiled = self._compiled = answer
        return compiled


def _facts_of(arguments: CompileArguments) -> bytes:
    """Compile a kernel, and describe it as JSON."""
    try:
        with tempfile.TemporaryDirectory() as folder, virtual_driver(arguments.target, folder):
            source = names.ast_source(
                arguments.function, arguments.signature, arguments.constants, arguments.attributes
            )
            compiled = names.compile_(source, target=arguments.target, options=vars(arguments.options))
            usage = _usage(compiled.asm)
            return json.dumps(
                {
                    "registers": usage.registers,
                    "spills": usage.spills,
                    "metadata": compiled.metadata._asdict(),
                    "texts": {stage: text for stage, text in compiled.asm.items() if isinstance(text, str)},
                },
                default=str,
            ).encode("utf-8", "surrogatepass")
    except Exception as error:  # noqa: BLE001 - Triton and MLIR raise what they like
        return json.dumps({"failure": f"{type(error).__name__}: {error}"}).encode("utf-8", "replace")


def _usage(texts: Any) -> tools.Usage:
    if "cubin" in texts:
        return tools.cubin_usage(texts["cubin"])[0]
    return tools.amd_usage(texts["amdgcn"])[0] if "amdgcn" in texts else tools.Usage()
