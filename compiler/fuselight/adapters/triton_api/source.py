# ruff: noqa: SLF001 - private names are this package's business
"""Reads the source of one Triton kernel as Inductor writes it, and asks Inductor's heuristics how it would be launched.

Invariant: what Triton is asked to compile is what Inductor would ask it for the device, because Inductor's own code
builds the request; the requested device replaces the device of the source. The user's autotuning cache is not read.
"""

from __future__ import annotations

import ast
import copy
import hashlib
import linecache
import types
from typing import Any

from fuselight.shared.report import Device, LaunchConfig

_DRIVER = "set_driver_to_gpu"
"""What Inductor's sources call first: it looks for a GPU, and there may be none."""
_UNTUNED = {
    "autotune_pointwise": False,
    "max_autotune": False,
    "max_autotune_pointwise": False,
    "autotune_hints": (),
}
_BLOCK_THREADS = 1024
"""Threads of a block at most, on every device that Triton compiles for."""


class NoKernel(Exception):  # noqa: N818 - what the text is, not what went wrong here
    """The text is not one kernel of Inductor's. The message says what is missing."""


class KernelSource:
    """A kernel's source, loaded for a device: its configurations and the request for each of them."""

    def __init__(self, text: str, device: Device) -> None:
        """Raises NoKernel for a text that is something else, and whatever the text raises."""
        self.file = _file_of(text)
        self.first_line = 0
        """1-based line of the kernel's `def`."""
        self._sizes: dict[str, int] = {}
        tree = _parsed(text)
        kernel, call = _kernel_of(tree)
        self.name, self.first_line = kernel.name, kernel.lineno
        kernel.decorator_list = [node for node in kernel.decorator_list if node is not call]
        tree.body = [node for node in tree.body if not _asks_for_driver(node)]
        # Triton reads a function's source where Python's tracebacks would.
        linecache.cache[self.file] = (len(text), None, text.splitlines(keepends=True), self.file)
        try:
            names: dict[str, Any] = {"__name__": "fuselight_kernel", "__file__": self.file}
            exec(compile(tree, self.file, "exec"), names)  # noqa: S102 - Inductor's code, as torch itself would run it
            jit = names[kernel.name]
            self._autotuner = _autotuner(call, names, device, jit, {})
            untuned = _autotuner(call, names, device, jit, _UNTUNED).configs[0]
        finally:
            linecache.cache.pop(self.file, None)
        self._configs = list(self._autotuner.configs)
        self.configs = tuple(_described(config) for config in self._configs)
        described = _described(untuned)
        self.default = self.configs.index(described) if described in self.configs else 0
        for node in kernel.body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                target, value = node.targets[0], node.value.value
                if isinstance(target, ast.Name) and type(value) is int and target.id.endswith("numel"):
                    self._sizes[target.id] = value

    def compile_request(self, index: int) -> dict[str, Any]:
        """What Inductor would pass to `triton.compile` for `configs[index]`: `source`, `target` and `options`."""
        from torch._inductor.runtime import triton_heuristics  # noqa: PLC0415

        class Asked(BaseException):
            """Goes past Inductor's `except Exception`, which logs a failed compile."""

        def compile_(*args: Any, **options: Any) -> Any:
            raise Asked(args, options)

        # Inductor's function with other globals: nothing that other threads see is replaced.
        real: Any = triton_heuristics.CachingAutotuner._precompile_config
        nothing = types.SimpleNamespace(set_driver_to_gpu=lambda: None, set_driver_to_cpu=lambda: None)
        names = vars(triton_heuristics) | {
            "triton": types.SimpleNamespace(compile=compile_),
            "triton_helpers": nothing,
        }
        ask = types.FunctionType(real.__code__, names, real.__name__, real.__defaults__, real.__closure__)
        ask.__kwdefaults__ = real.__kwdefaults__
        try:
            ask(self._autotuner, self._configs[index])
        except Asked as asked:
            (source,), options = asked.args
            return {"source": source, "target": options["target"], "options": options["options"]}
        raise NoKernel("Inductor did not ask Triton to compile it")

    def grid(self, index: int) -> tuple[int, ...] | None:
        """The blocks that are launched, None where that depends on what is known at run time only."""
        from torch._inductor.runtime import triton_heuristics  # noqa: PLC0415

        meta = self._autotuner.inductor_meta
        if "grid_type" not in meta:
            return None
        try:
            grid: Any = triton_heuristics.GridExpr.from_meta(meta, self._configs[index])
            return tuple(int(size) for size in grid.eval_slow(dict(self._sizes)))
        except (NameError, ValueError, TypeError, KeyError, AssertionError):
            return None

    def smaller(self, index: int, registers: int) -> LaunchConfig | None:
        """The configuration that Inductor adds when it sees how many registers `configs[index]` needs."""
        ask = getattr(self._autotuner, "_iter_rblock_scale_candidates", None)
        if ask is None or not getattr(self._autotuner, "_could_rblock_scale", False):
            return None
        compiled = types.SimpleNamespace(
            config=self._configs[index], kernel=types.SimpleNamespace(n_regs=registers)
        )
        autotuner = copy.copy(self._autotuner)
        autotuner.compile_results = [compiled]
        try:
            candidate = next(iter(type(autotuner)._iter_rblock_scale_candidates(autotuner)), None)
        except Exception:  # noqa: BLE001 - an extra that another torch may compute otherwise: the rest stays
            return None
        return _described(candidate) if candidate is not None else None


def _file_of(text: str) -> str:
    """A path for the text that depends on nothing else, so that what is compiled from it can be cached by content."""
    return f"/fuselight/{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}/kernel.py"


def _parsed(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise NoKernel(f"it is not Python: {error}") from None


def _kernel_of(tree: ast.Module) -> tuple[ast.FunctionDef, ast.Call]:
    """The function that one of Inductor's heuristics decorates, and that decorator."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call) and "triton_heuristics" in ast.unparse(decorator.func):
                    return node, decorator
    raise NoKernel("no function in it has one of Inductor's heuristics (`@triton_heuristics...`)")


def _asks_for_driver(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and _DRIVER in ast.unparse(node.value.func)
    )


def _autotuner(
    call: ast.Call, names: dict[str, Any], device: Device, jit: Any, settings: dict[str, Any]
) -> Any:
    """What the decorator makes of the kernel on `device`."""
    heuristic, arguments = (_value(call.func, names), [_value(node, names) for node in call.args])
    options = {keyword.arg: _value(keyword.value, names) for keyword in call.keywords if keyword.arg}
    triton_meta, inductor_meta = options.get("triton_meta"), options.get("inductor_meta")
    if not isinstance(triton_meta, dict):
        raise NoKernel("its decorator has no `triton_meta`")
    options["triton_meta"] = triton_meta | {"device": _properties(device)}
    options["inductor_meta"] = (
        (inductor_meta or {})
        | {
            "force_disable_caches": True,  # else configurations that were tuned on a GPU of the user's replace the list
            "profile_bandwidth": False,
            "is_hip": device.backend == "hip",
            **settings,
        }
    )
    return heuristic(*arguments, **options)(jit)


def _value(node: ast.expr, names: dict[str, Any]) -> Any:
    return eval(compile(ast.Expression(node), names["__file__"], "eval"), names)  # noqa: S307 - as above


def _properties(device: Device) -> Any:
    """The device as Inductor's heuristics know one."""
    from torch._inductor.runtime.hints import DeviceProperties  # noqa: PLC0415

    facts: dict[str, Any] = {
        "type": device.backend,
        "index": 0,
        "multi_processor_count": device.multiprocessors,
        "cc": device.triton_arch,
        "major": device.capability[0],
        "regs_per_multiprocessor": device.registers,
        "max_threads_per_multi_processor": device.threads,
        "max_threads_per_block": _BLOCK_THREADS,
        "warp_size": device.warp,
    }
    return DeviceProperties(
        **{name: value for name, value in facts.items() if name in DeviceProperties._fields}
    )


def _described(config: Any) -> LaunchConfig:
    values = {
        str(name): value if type(value) is int else repr(value) for name, value in config.kwargs.items()
    }
    return LaunchConfig(values, config.num_warps, config.num_stages)
