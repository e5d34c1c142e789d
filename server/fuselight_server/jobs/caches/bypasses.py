"""Why torch cannot cache a compile, in plain words, on the line that has the cause, with its cure.

torch's reason is a text; each entry of `_REASONS` knows one form of it. Invariant: a reason of no known form is shown
as torch wrote it, without a cure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from fuselight.shared.report import Location
from fuselight_server.jobs.caches.model import CacheCause, CauseKind, Cure, CureRewrite
from fuselight_server.jobs.trace_log.graphs import GraphLine, lines_of

ReadLine = Callable[[str, int], str | None]

_TARGET = re.compile(
    r"Unsupported call_(?:function|method) target (?P<target>.*?)\. ?\s*"
    r"(?:Function|Method) module: (?P<module>[^,\n]*),\s*(?:Function|Method) name: (?P<name>[^\n]*)",
    re.DOTALL,
)
_TARGET_OF_TORCH = re.compile(_TARGET.pattern.replace("(?P<module>", r"(?P<module>torch\b"), re.DOTALL)
_AUTOCAST = re.compile(r"\b_enter_autocast\b")
_AUTOGRAD_FUNCTION = re.compile(r"\b(?:autograd_function_apply|AutogradFunctionApply|FunctionCtx)\b")
_HIGHER_ORDER = re.compile(r"Can't cache HigherOrderOperator: (?P<name>[\w.:]+)")
_CLASS = re.compile(r"unpicklable type (?P<name>[\w.<>]+)")
_WITH_AUTOCAST = re.compile(r"^\s*(?:async\s+)?(?:with\b|@).*\bautocast\b")
_DEF = re.compile(r"^\s*(?:async\s+)?def\b")
_MAX_LINES_ABOVE = 60
_ALLOW_AUTOGRAD = "torch._functorch.config.autograd_cache_allow_custom_autograd_functions"
_MARK_CACHEABLE = "torch._inductor.config.unsafe_marked_cacheable_functions"


@dataclass(frozen=True, slots=True)
class _Reason:
    """One form of torch's reasons."""

    pattern: re.Pattern[str]
    text: str
    """With the groups of the pattern as fields."""
    cure: Cure | None
    node: str | None = None
    """Regular expression for the operator in the graph that has the cause, with the pattern's groups as fields."""


_PASS_CURE = Cure(
    "Derive the pass from torch._inductor.custom_graph_pass.CustomGraphPass and return from `uuid()` a text that "
    "changes with its code, such as `get_hash_for_files((__file__,))`.",
    rewrite=CureRewrite.PASS_KEY,
)
_REASONS = (
    _Reason(
        _AUTOCAST,
        "autocast is entered inside the compiled function, and AOTAutograd's cache has no key for that",
        Cure(
            "Enter autocast around the call of the compiled function: its state is then part of the key.",
            rewrite=CureRewrite.AUTOCAST_OUTSIDE,
        ),
        r"(?:.*\.)?_enter_autocast",
    ),
    _Reason(
        _AUTOGRAD_FUNCTION,
        "an autograd.Function is inside the compiled function, and AOTAutograd's cache skips it by default",
        Cure(
            f"Set `{_ALLOW_AUTOGRAD} = True` (TORCHINDUCTOR_AUTOGRAD_CACHE_ALLOW_CUSTOM_AUTOGRAD=1), or register the "
            "function with torch.library.custom_op and register_autograd.",
            setting=_ALLOW_AUTOGRAD,
            value=True,
        ),
        r"(?:.*\.)?(?:autograd_function_apply|FunctionCtx)",
    ),
    _Reason(
        _HIGHER_ORDER,
        "the higher-order operator `{name}` cannot be part of a cache key",
        Cure(
            f"Keep it outside of the compiled function, or name it in `{_MARK_CACHEABLE}` if its code never changes."
        ),
        r"(?:.*\.)?{name}",
    ),
    _Reason(
        re.compile(r"SAC context_fn does not have a cache_hash"),
        "the context_fn of a selective checkpoint has no `cache_hash`, so its choices cannot be part of the key",
        Cure(
            "Set `context_fn.cache_hash` to a text that changes with what it saves (on the partial, if it is one)."
        ),
        r"(?:.*\.)?(?:tag_activation_checkpoint|checkpoint)\w*",
    ),
    _Reason(
        _TARGET_OF_TORCH,
        "torch's own `{name}` is called in the graph, and this release of torch has no cache key for it",
        None,
        r"(?:.*[._])?{name}",
    ),
    _Reason(
        _TARGET,
        "`{module}.{name}` is called in the graph, and torch does not know whether its code has changed",
        Cure(
            "Register it with torch.library.custom_op, or name it in "
            f"`{_MARK_CACHEABLE}` with a version that you change with its code.",
            rewrite=CureRewrite.FUNCTION_KEY,
        ),
        r"(?:.*[._])?{name}",
    ),
    _Reason(
        re.compile(r"Unsupported (?P<stage>pre grad|post grad|joint) custom pass"),
        "the custom pass on the {stage} graph has no `uuid()`",
        _PASS_CURE,
    ),
    _Reason(
        re.compile(r"Unsupported (?P<setting>_\w+)"),
        "`torch._inductor.config.{setting}` is a function without a `uuid()`",
        _PASS_CURE,
    ),
    _Reason(
        re.compile(r"freezing|frozen constants"),
        "freezing is on: the weights become constants of the code",
        Cure(
            "Set `torch._inductor.config.freezing = False` where a fast start counts more.",
            setting="torch._inductor.config.freezing",
        ),
    ),
    _Reason(
        re.compile(r"FX graph cache is not enabled"),
        "the FX graph cache is switched off, and AOTAutograd's cache needs it",
        Cure(
            "Set `torch._inductor.config.fx_graph_cache = True`, or remove TORCHINDUCTOR_FX_GRAPH_CACHE=0.",
            setting="torch._inductor.config.fx_graph_cache",
            value=True,
        ),
    ),
    _Reason(
        re.compile(r"mkldnn tensors"),
        "the graph has mkldnn tensors, which freezing makes of weights and which cannot be part of a cache key",
        Cure("Switch freezing off, or pass dense tensors, where a fast start counts more."),
    ),
    _Reason(
        re.compile(r"[Tt]orchbind|ScriptObject"),
        "the graph has a TorchScript object, which cannot be part of a cache key",
        Cure("Keep the object outside of the compiled function."),
        r"call_torchbind|(?:.*\.)?call_torchbind",
    ),
    _Reason(
        re.compile(r"[Rr]untime constant folding"),
        "runtime constant folding is on, and its constants differ between runs",
        Cure(
            "Set `torch._inductor.config.aot_inductor.use_runtime_constant_folding = False`.",
            setting="torch._inductor.config.aot_inductor.use_runtime_constant_folding",
        ),
    ),
    _Reason(re.compile(r"bisect"), "the compiler bisector is on", Cure("End the bisection.")),
    _Reason(
        re.compile(r"fakify_first_call"),
        "the graph was compiled before its first call, as torch's deferred compilation does",
        None,
    ),
    _Reason(
        re.compile(r"Reduce unsupported"),
        "the graph has hooks whose state compiled autograd passes at run time (BackwardState)",
        Cure("Register hooks on tensors outside of the compiled function."),
    ),
    _Reason(
        re.compile(r"activation_memory_budget|CustomRuntimeEstimator|CustomKnapsackSolver"),
        "the estimator or solver of the activation memory budget has no `uuid()`",
        Cure(
            "Derive it from CustomRuntimeEstimator or CustomKnapsackSolver, and return from `uuid()` a text that "
            "changes with its code."
        ),
    ),
    _Reason(
        _CLASS,
        "an object of type `{name}` in the key cannot be pickled",
        Cure("Keep objects of this type outside of the compiled function and of torch's settings."),
    ),
    _Reason(
        re.compile(r"[Ff]ailed to pickle|[Pp]ickl"),
        "something in the key cannot be pickled",
        Cure("Look for a custom object in the backend's options or among the constants of the function."),
    ),
    _Reason(
        re.compile(r"requires triton|triton 3"),
        "the installed Triton is too old for AOTAutograd's cache",
        Cure("Install the Triton that this torch was built with."),
    ),
    _Reason(re.compile(r"No shape env"), "the graph was compiled without a shape environment", None),
)


def bypass_cause(
    reason: str | None, exception: str | None, graph: str | None, read_line: ReadLine | None = None
) -> CacheCause:
    """The cause of a bypass.

    `graph`: Dynamo's, as printed; `read_line`: a line of the source that ran, where it is available.
    """
    text = (reason or "").strip()
    lines = [] if graph is None else list(lines_of(graph))
    for known in _REASONS:
        match = known.pattern.search(text)
        if match is None:
            continue
        groups = {name: (value or "").strip() for name, value in match.groupdict().items()}
        where = _location(known, groups, lines, read_line)
        cure = known.cure
        if cure is not None and cure.rewrite is CureRewrite.FUNCTION_KEY:
            cure = replace(cure, subject=f"{groups['module']}.{groups['name']}")
        return CacheCause(CauseKind.BYPASS, known.text.format(**groups), where, cure=cure, torch_reason=text)
    shown = " ".join(text.split())[:300] or exception or "torch gives no reason"
    return CacheCause(CauseKind.BYPASS, f"torch does not cache it: {shown}", torch_reason=text or None)


def _location(
    known: _Reason, groups: dict[str, str], lines: Sequence[GraphLine], read_line: ReadLine | None
) -> Location | None:
    if known.node is None:
        return None
    escaped = {name: re.escape(value) for name, value in groups.items()}
    node = re.compile(known.node.format(**escaped))
    index = next((number for number, line in enumerate(lines) if node.fullmatch(line.operator)), None)
    if index is None:
        return None
    if known.pattern is _AUTOCAST:
        return _autocast_location(lines, index, read_line)
    return lines[index].location


def _autocast_location(lines: Sequence[GraphLine], index: int, read_line: ReadLine | None) -> Location | None:
    """The `with` statement or decorator; without the source the first line under it.

    torch prints no line above the operator that enters autocast, so that the line above it is of another operator.
    """
    inside = next((line for line in lines[index + 1 :] if "autocast" not in line.operator), None)
    where = None if inside is None else inside.location
    if where is None or read_line is None:
        return where
    return _statement_above(where, read_line) or where


def _statement_above(where: Location, read_line: ReadLine) -> Location | None:
    """The statement that enters autocast around a line, by indentation; else a decorator of its function."""
    text = read_line(where.path, where.line)
    indent, is_above_def = 0 if text is None else _indent(text), False
    for number in range(where.line - 1, max(0, where.line - _MAX_LINES_ABOVE), -1):
        above = read_line(where.path, number)
        if above is None:
            return None
        is_decorator = above.lstrip().startswith("@")
        if not above.strip() or (not is_above_def and _indent(above) >= indent):
            continue
        if is_above_def and not is_decorator:
            return None
        if _WITH_AUTOCAST.match(above):
            return replace(where, line=number)
        indent, is_above_def = _indent(above), is_above_def or _DEF.match(above) is not None
    return None


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())
