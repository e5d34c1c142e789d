# ruff: noqa: SLF001 - private names are this package's business
"""Records what Inductor chose by timing kernels on the device, and makes Inductor choose the same without timing.

Five families, all plain data: `triton` (launch configuration of a generated kernel, by a hash of its source without
its name, the GPU's index and the environment's settings), `algorithms` (implementation of a multiplication or
convolution, by operator, inputs and precision), `padding` (whether a multiplication is padded), `fusion` (what was not
fused because it was slower, by the operators of both sides), `multi_kernel` (which of several kernels for one reduction
runs, by their hashes). Invariant: under `replaying` no kernel is timed; where a choice is unknown, the library's
implementation, the fusion, the first kernel and a kernel's first configuration are taken.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import importlib
import inspect
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from fuselight.adapters.torch_api.choices.launch_configurations import (
    LENGTH,
    compile_seeded,
    first_key,
    kernel_key,
    key_of_kernel,
    read_shared,
    store,
    stored_configurations,
    tag_in_force,
    written,
)
from fuselight.adapters.torch_api.patching import wrapped

Choices = Mapping[str, Mapping[str, Any]]
"""Choices by family and key, as `report.tuned.TunedResult.kernels` has them."""

TRITON, ALGORITHMS, PADDING, FUSION, MULTI_KERNEL = (
    "triton", "algorithms", "padding", "fusion", "multi_kernel",
)  # fmt: skip
_NUMBER = re.compile(r"_\d+$")
_FUSING = ("speedup_by_fusion", "speedup_by_combo_kernel")
"""Methods of Inductor's scheduler that decide by timing: about two nodes, and about a list of them."""
_TIMED = ("benchmark_fusion", "benchmark_template_fusion")
"""Options by which Inductor times fused kernels, and does nothing else."""
_TIMED_TEMPLATES = "benchmark_epilogue_fusion"
"""The name of the last of them before torch 2.15, which warns of it."""
_TIMED_COMBOS = "benchmark_combo_kernel"
"""The same for combined kernels; it changes the sources of kernels, too."""
_NOT_A_CONFIG = ("configs_hash", "time_taken_ms", "triton_cache_hash", "found_by_coordesc", "extra_options")


@dataclass
class ChoiceRecorder:
    """The choices of this process since `recording` was first entered."""

    shared: str = ""
    """A folder of choices that other processes fill or use; empty: none. What is there is taken without timing."""
    shares_launches: bool = True
    """Whether also launch configurations are left in the folder and taken: those of a kernel with the same source, in
    which Inductor writes how it tunes launches."""
    _algorithms: dict[str, str] = field(default_factory=dict)
    _padding: dict[str, bool] = field(default_factory=dict)
    _scaled: dict[str, dict[str, Any]] = field(default_factory=dict)
    _fusion: dict[str, bool] = field(default_factory=dict)
    """False for what was not fused. What was fused has no entry: Inductor fuses what it does not time."""
    _multi_kernel: dict[str, int] = field(default_factory=dict)
    _tags: set[str] = field(default_factory=lambda: {""})
    """Tags of torch's caches under which kernels were tuned; those that worker processes compile have none."""

    @property
    def by_family(self) -> dict[str, dict[str, Any]]:
        """All choices, by family and key; families without a choice are left out."""
        families: dict[str, dict[str, Any]] = {
            TRITON: {**self._scaled, **stored_configurations(self._tags)},
            ALGORITHMS: dict(self._algorithms),
            PADDING: dict(self._padding),
            FUSION: dict(self._fusion),
            MULTI_KERNEL: dict(self._multi_kernel),
        }
        return {family: choices for family, choices in families.items() if choices}

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Record what is chosen while Inductor compiles."""
        self._tags.add(tag_in_force())
        with contextlib.ExitStack() as stack:
            select: Any = importlib.import_module("torch._inductor.select_algorithm")
            pad_mm: Any = importlib.import_module("torch._inductor.fx_passes.pad_mm")
            ir: Any = importlib.import_module("torch._inductor.ir")
            stack.enter_context(wrapped(select.AlgorithmSelectorCache, "__call__", self._choosing))
            buffer = getattr(ir, "MultiTemplateBuffer", None)
            if self.shared and self.shares_launches:
                compile_module: Any = importlib.import_module("torch._inductor.async_compile")
                launches = read_shared(self.shared)
                taken = functools.partial(compile_seeded, lambda source: launches.get(kernel_key(source)))
                stack.enter_context(wrapped(compile_module.AsyncCompile, "triton", taken))
            for name in ("finalize_as_triton_caller", "finalize_as_triton_callers"):
                if hasattr(buffer, name):
                    stack.enter_context(wrapped(buffer, name, self._finalizing))
            padding = _padding_function(pad_mm)
            if padding is not None:
                stack.enter_context(wrapped(pad_mm, padding, self._deciding_padding))
            stack.enter_context(_deciding_fusions(self._fusing))
            yield

    def share(self) -> None:
        """Leave the launch configurations of this process's kernels in the shared folder, if there is one."""
        takes_part = self.shared and self.shares_launches
        if takes_part and (configurations := stored_configurations(self._tags)):
            os.makedirs(self.shared, exist_ok=True)
            store(os.path.join(self.shared, f"{os.getpid()}.json"), configurations)

    @contextlib.contextmanager
    def watching_launches(self) -> Iterator[None]:
        """Record what is chosen at the first launch of a kernel that has smaller blocks, or other kernels, to offer."""
        heuristics: Any = importlib.import_module("torch._inductor.runtime.triton_heuristics")
        with (
            wrapped(heuristics.CachingAutotuner, "autotune_to_one_config", self._launching),
            wrapped(_multi_kernel_call(), "run", self._running_one),
        ):
            yield

    def _choosing(
        self,
        real: Callable[..., Any],
        selector: Any,
        name: str,
        choices: Any,
        input_nodes: Any,
        *args: Any,
        **named: Any,
    ) -> Any:
        every = list(choices)
        key = _algorithm_key(name, input_nodes) if len(every) > 1 else None
        if key is None:
            return real(selector, name, every, input_nodes, *args, **named)
        for choice, identity in zip(every, _identities(every), strict=True):
            _mark(choice, functools.partial(self._algorithms.__setitem__, key, identity))
        return real(selector, name, every, input_nodes, *args, **named)

    @staticmethod
    def _finalizing(real: Callable[..., Any], buffer: Any, callers: Any) -> Any:
        """A template is chosen after its epilogues were timed."""
        caller = callers.get(None) if isinstance(callers, dict) else callers
        chosen = getattr(caller, "_fuselight_chosen", None)
        if chosen is not None:
            chosen()
        return real(buffer, callers)

    def _deciding_padding(self, real: Callable[..., Any], *args: Any, **named: Any) -> Any:
        """Whether a multiplication is padded: as the first process decided, because timings side by side differ."""
        key = next(iter(_padding_keys(real, args, named)), None)
        if key is None or _pads_always():
            pads = bool(real(*args, **named))
        elif key in self._padding:
            pads = self._padding[key]
        else:
            pads = _decided_first(self.shared, key, lambda: bool(real(*args, **named)))
        if key is not None:
            self._padding[key] = pads
        return pads

    def _launching(self, real: Callable[..., Any], kernel: Any, *args: Any, **named: Any) -> Any:
        launcher = real(kernel, *args, **named)
        key = key_of_kernel(kernel)
        if key is not None and not getattr(kernel, "save_cache_hook", None) and len(kernel.launchers) == 1:
            self._scaled[key] = _configuration(kernel.launchers[0].config)
        return launcher

    def _running_one(self, real: Callable[..., Any], call: Any, *args: Any, **named: Any) -> Any:
        output = real(call, *args, **named)
        if _chooses_by_timing(call) and not getattr(call, "_fuselight_noted", False):
            call._fuselight_noted = True  # later launches are timed
            key = _multi_kernel_key(call, key_of_kernel)
            if key is not None:
                self._multi_kernel[key] = int(call.picked_kernel)
        return output

    def _fusing(self, real: Callable[..., Any], scheduler: Any, *nodes: Any, **named: Any) -> Any:
        """A decision is there at once, or is made by a function once kernels are compiled."""
        key = _fusion_key(nodes, named)  # now: nodes that are fused later have other names
        is_fused = real(scheduler, *nodes, **named)
        decide = getattr(is_fused, "callable_fn", is_fused if callable(is_fused) else None)
        if decide is None:
            self._note_fusion(key, getattr(is_fused, "should_fuse", is_fused))
            return is_fused

        def decided() -> Any:
            is_faster = decide()
            self._note_fusion(key, is_faster)
            return is_faster

        if decide is is_fused:
            return decided
        result: Any = is_fused
        return dataclasses.replace(result, callable_fn=decided)

    def _note_fusion(self, key: str, fuses: Any) -> None:
        if fuses:
            self._fusion.pop(key, None)  # it was refused in an earlier round
        else:
            self._fusion[key] = False


class _ReplayHooks:
    """What replaces Inductor's decisions by timing."""

    def __init__(self, choices: Choices) -> None:
        self._algorithms, self._padding, self._triton, self._fusion, self._multi_kernel = (
            choices.get(text, {}) for text in (ALGORITHMS, PADDING, TRITON, FUSION, MULTI_KERNEL)
        )
        self._keys: dict[str, str] = {}
        """Keys of the kernels that were compiled here, by file name: a kernel from saved artifacts names a file of the
        machine that saved them."""
        self.known = self.unknown = 0
        """Kernels with a recorded configuration, and those that have several but no recorded one."""

    def choose(
        self,
        real: Callable[..., Any],
        selector: Any,
        name: str,
        choices: Any,
        input_nodes: Any,
        *args: Any,
        **named: Any,
    ) -> Any:
        """Leave the recorded candidate, else the library's, else the first: a single one is not timed."""
        every = list(choices)
        if len(every) > 1:
            library = sys.modules["torch._inductor.select_algorithm"].ExternKernelCaller
            taken = _recorded(every, self._algorithms.get(_algorithm_key(name, input_nodes) or ""))
            every = [taken or next((value for value in every if isinstance(value, library)), every[0])]
        return real(selector, name, every, input_nodes, *args, **named)

    def pad(self, real: Callable[..., Any], *args: Any, **named: Any) -> Any:
        """Pad a multiplication if it was padded."""
        if _pads_always():
            return real(*args, **named)
        known = (self._padding[key] for key in _padding_keys(real, args, named) if key in self._padding)
        return bool(next(known, False))

    def fuse(self, real: Callable[..., Any], scheduler: Any, *nodes: Any, **named: Any) -> Any:
        """Fuse unless it was slower."""
        if self._fusion.get(_fusion_key(nodes, named)) is not False:
            config: Any = sys.modules["torch._inductor.config"]
            with config.patch({_TIMED_COMBOS: False} if hasattr(config, _TIMED_COMBOS) else {}):
                return real(scheduler, *nodes, **named)
        result: Any = getattr(sys.modules["torch._inductor.scheduler"], "FusionResult", None)
        is_pair = real.__name__ == _FUSING[0]
        return result.fuse(should_fuse=False) if is_pair and result is not None else False

    def make_multi_kernel(self, real: Callable[..., Any], call: Any, *args: Any, **named: Any) -> None:
        """Have the kernel that was the fastest run from the first launch on."""
        real(call, *args, **named)
        if call.picked_kernel is None and _chooses_by_timing(call):
            picked = self._multi_kernel.get(_multi_kernel_key(call, self._key_of) or "")
            call.picked_kernel = picked if picked in range(len(call.kernels)) else 0

    def compile_kernel(self, real: Callable[..., Any], *args: Any, **named: Any) -> Any:
        """Compile a kernel in its recorded configuration alone."""

        def choice_of(source: str) -> Any:
            keys = (kernel_key(source), first_key(source))
            key = self._keys[os.path.basename(written(source))] = keys[keys[1] in self._triton]
            self.known += key in self._triton
            return self._triton.get(key)

        return compile_seeded(choice_of, real, *args, **named)

    def scale_blocks(self, real: Callable[..., Any], kernel: Any, *args: Any, **named: Any) -> Any:
        """Compile smaller blocks of a reduction only if they were chosen; leaves one configuration."""
        choice = self._triton.get(self._key_of(kernel) or "")
        if choice is not None and not any(_is_of(launcher.config, choice) for launcher in kernel.launchers):
            real(kernel, *args, **named)
        self.unknown += not _keep_one(kernel, choice)

    def _key_of(self, kernel: Any) -> str | None:
        name = os.path.basename(getattr(kernel, "filename", None) or "")
        return self._keys.get(name) or key_of_kernel(kernel)


@contextlib.contextmanager
def replaying(choices: Choices, unknown: Callable[[], None] = lambda: None) -> Iterator[None]:
    """While Inductor compiles within the block, take these choices and time nothing.

    `unknown` is called at the end if there are choices of launch configurations and none is for a kernel here. (One for
    a part of them is missing where a search compiled a kernel that it never launched.)
    """
    hooks = _ReplayHooks(choices)
    select: Any = importlib.import_module("torch._inductor.select_algorithm")
    pad_mm: Any = importlib.import_module("torch._inductor.fx_passes.pad_mm")
    compile_module: Any = importlib.import_module("torch._inductor.async_compile")
    heuristics: Any = importlib.import_module("torch._inductor.runtime.triton_heuristics")
    config: Any = importlib.import_module("torch._inductor.config")
    with contextlib.ExitStack() as stack:
        stack.enter_context(wrapped(select.AlgorithmSelectorCache, "__call__", hooks.choose))
        stack.enter_context(wrapped(compile_module.AsyncCompile, "triton", hooks.compile_kernel))
        name = _padding_function(pad_mm)
        if name is not None:
            stack.enter_context(wrapped(pad_mm, name, hooks.pad))
        if hasattr(heuristics.CachingAutotuner, "_dynamic_scale_rblock"):
            stack.enter_context(
                wrapped(heuristics.CachingAutotuner, "_dynamic_scale_rblock", hooks.scale_blocks)
            )
        stack.enter_context(_deciding_fusions(hooks.fuse))
        stack.enter_context(wrapped(_multi_kernel_call(), "__init__", hooks.make_multi_kernel))
        timed = [text for text in _TIMED if hasattr(config, text)]
        if _TIMED[-1] not in timed and hasattr(config, _TIMED_TEMPLATES):
            timed.append(_TIMED_TEMPLATES)
        stack.enter_context(config.patch(dict.fromkeys(timed, False)))
        yield
    if hooks.unknown and not hooks.known and choices.get(TRITON):
        unknown()


def _mark(choice: Any, chosen: Callable[[], None]) -> None:
    """Have a candidate report when it is taken."""
    real = choice.output_node

    def output_node(*args: Any, **named: Any) -> Any:
        chosen()
        return real(*args, **named)

    with contextlib.suppress(AttributeError):  # a candidate with slots: it is not recorded
        choice.output_node = output_node
        choice._fuselight_chosen = chosen


def _identities(choices: list[Any]) -> list[str]:
    """A name for each candidate, the same in every process, different for each."""
    identities: list[str] = []
    seen: dict[str, int] = {}
    for choice in choices:
        text = f"{_NUMBER.sub('', str(choice.name))} {getattr(choice, 'description', '') or ''}".strip()
        seen[text] = seen.get(text, 0) + 1
        identities.append(text if seen[text] == 1 else f"{text} #{seen[text]}")
    return identities


def _recorded(choices: list[Any], identity: object) -> Any:
    if identity is None:
        return None
    return next(
        (choice for choice, text in zip(choices, _identities(choices), strict=True) if text == identity), None
    )


def _algorithm_key(name: str, nodes: Any) -> str | None:
    select: Any = sys.modules["torch._inductor.select_algorithm"]
    make = getattr(select, "create_inputs_key", None)
    return None if make is None else f"{name} {make(nodes)} {torch.get_float32_matmul_precision()}"


@contextlib.contextmanager
def _deciding_fusions(function: Callable[..., Any]) -> Iterator[None]:
    """Have each decision about a fusion be `function(real, scheduler, ...)`."""
    scheduler: Any = importlib.import_module("torch._inductor.scheduler").Scheduler
    with contextlib.ExitStack() as stack:
        for name in _FUSING:
            if hasattr(scheduler, name):
                stack.enter_context(wrapped(scheduler, name, function))
        yield


def _fusion_key(nodes: tuple[Any, ...], named: Mapping[str, Any]) -> str:
    """The key of operators that may become one kernel: two nodes of Inductor's scheduler, or a list of them."""
    texts: list[str] = []
    for side in (*nodes, *named.values()):
        for node in side if isinstance(side, (list, tuple)) else [side]:
            texts += [_operator(child) for child in node.get_nodes()] + ["|"]
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:LENGTH]


def _operator(node: Any) -> str:
    """What tells an operator from others, in this graph and in most others: names alone repeat from graph to graph."""
    buffer = node.node
    origins = sorted(str(value) for value in getattr(buffer, "origins", None) or ())
    size: Any = getattr(buffer, "maybe_get_size", tuple)() or ()  # none: an operator with several results
    return f"{node.get_name()} {origins} {[str(value) for value in size]}"


def _multi_kernel_call() -> Any:
    return importlib.import_module("torch._inductor.codegen.multi_kernel").MultiKernelCall


def _chooses_by_timing(call: Any) -> bool:
    return type(call) is _multi_kernel_call()  # a subclass chooses by size


def _multi_kernel_key(call: Any, key_of: Callable[[Any], str | None]) -> str | None:
    """The key of several kernels for one reduction."""
    keys = [key_of(kernel) for kernel in call.kernels]
    return None if None in keys else hashlib.sha256(" ".join(map(str, keys)).encode()).hexdigest()[:LENGTH]


def _pads_always() -> bool:
    return bool(importlib.import_module("torch._inductor.config").force_shape_pad)


def _padding_function(pad_mm: Any) -> str | None:
    return next((text for text in ("_should_pad", "should_pad_bench") if hasattr(pad_mm, text)), None)


def _padding_keys(real: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> list[str]:
    """The key of a multiplication, and the one in files from before 2026-11-26; none for another torch's function."""
    try:
        given = inspect.signature(real).bind(*args, **named).arguments
    except TypeError:  # nothing is recorded, and nothing padded
        return []
    tensors = [value for value in given.values() if isinstance(value, torch.Tensor)]
    sizes = [f"{tensor.dtype}{list(tensor.shape)}{list(tensor.stride())}" for tensor in tensors]
    key = f"{given.get('op')} {' '.join(sizes)} {torch.get_float32_matmul_precision()}"
    return [" ".join([key, *_written_padded(given.get("match"))]), key]


def _written_padded(match: Any) -> list[str]:
    """The operands of a multiplication that are computed in the graph and may be written padded: it takes no time."""
    pad_mm: Any = importlib.import_module("torch._inductor.fx_passes.pad_mm")
    try:
        return [name for name in ("mat1", "mat2") if pad_mm.should_exclude_padding_time(match, name)]
    except Exception:  # noqa: BLE001 - of a private function, for a multiplication that Inductor may not pad
        return []


def _decided_first(folder: str, key: str, decide: Callable[[], bool]) -> bool:
    """What the first process decided about a key, which is left in the folder; without a folder, what this one does."""
    if not folder:
        return decide()
    path = os.path.join(folder, hashlib.sha256(key.encode()).hexdigest()[:LENGTH])
    with contextlib.suppress(OSError):
        return bool(int(Path(path).read_text(encoding="utf-8")))
    decision = decide()
    with contextlib.suppress(OSError):
        os.makedirs(folder, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=folder)
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(str(int(decision)))
        try:
            os.link(temporary, path)  # fails if there is one
        except FileExistsError:
            decision = bool(int(Path(path).read_text(encoding="utf-8")))
        finally:
            os.unlink(temporary)
    return decision


def _configuration(config: Any) -> dict[str, Any]:
    settings = {**config.kwargs, "num_warps": config.num_warps, "num_stages": config.num_stages}
    return {name: value for name, value in settings.items() if isinstance(value, (bool, int))}


def _is_of(config: Any, choice: Mapping[str, Any]) -> bool:
    own = _configuration(config)
    wanted = {name: value for name, value in choice.items() if name not in _NOT_A_CONFIG}
    return all(wanted.get(name) == value for name, value in own.items())


def _keep_one(kernel: Any, choice: Mapping[str, Any] | None) -> bool:
    """Keep the launcher of a choice, else the first, so that none is timed at the first launch.

    Whether it is that of the choice, or the only one.
    """
    launchers = list(kernel.launchers)
    if not launchers:
        return True
    chosen = [launcher for launcher in launchers if choice is not None and _is_of(launcher.config, choice)]
    kernel.launchers = [(chosen or launchers)[0]]
    for searched in ("found_by_coordesc", "found_by_combo_autotune"):  # no search around it either
        setattr(kernel.launchers[0].config, searched, True)
    return bool(chosen) or len(launchers) == 1
