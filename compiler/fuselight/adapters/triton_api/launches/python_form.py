"""The functions of a kernel as Python that the interpreter can run, at their own lines.

Triton compiles a kernel's source; in Python the same source means something else in a few places: a number has no
methods of a tensor, `and` of two blocks gives the second one, a loop variable is no tensor. Each of them is replaced by
a call of a helper. Invariant: no module of the user's is changed, and positions stay those of the file.
"""

from __future__ import annotations

import ast
import functools
import time
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fuselight.adapters.triton_api import names
from fuselight.adapters.triton_api.launches.loop_sampling import SAMPLED, LoopSampler, sample_loop

_METHOD, _AND, _OR, _NOT, _RANGE = (
    f"__fuselight_{name}__" for name in ("method", "and", "or", "not", "range")
)
_processor_time = time.thread_time  # bound before any user code runs; the same on a busy machine


class _Rewriting(ast.NodeTransformer):
    """Replaces what means something else in Python."""

    def __init__(self, modules: frozenset[str], *, samples: bool) -> None:
        """`samples`: loops run in samples, as an address check has them."""
        self._modules, self._samples = modules, samples
        """Names that are modules, whose functions are no methods."""
        self._loops = 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.decorator_list, node.returns = [], None
        for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            argument.annotation = None
        self.generic_visit(node)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """Drop an annotation, which Python would evaluate at module level only, and `tl` may mean nothing there."""
        self.generic_visit(node)
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        return ast.copy_location(ast.Assign([node.target], node.value), node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        function = node.func
        if isinstance(function, ast.Attribute) and not self._is_module(function.value):
            name = ast.Constant(function.attr)
            node.func = _call(_METHOD, [function.value, name], function)
        return node

    def visit_For(self, node: ast.For) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        if not self._samples:
            return node
        self._loops += 1
        return sample_loop(node, self._loops)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        operands = [_later(value) for value in node.values]
        return _call(_AND if isinstance(node.op, ast.And) else _OR, operands, node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        return _call(_NOT, [node.operand], node) if isinstance(node.op, ast.Not) else node

    def _is_module(self, node: ast.expr) -> bool:
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and node.id in self._modules


def _call(name: str, args: list[ast.expr], at: ast.AST) -> ast.Call:
    function = ast.copy_location(ast.Name(name, ast.Load()), at)
    return ast.fix_missing_locations(ast.copy_location(ast.Call(function, args, []), at))


def _later(value: ast.expr) -> ast.expr:
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.copy_location(ast.Lambda(nothing, value), value)


def origin_of(function: Any) -> tuple[str, str]:
    """The module and the name of a function: a library may have loaded Triton's module a second time."""
    return str(getattr(function, "__module__", "")), str(getattr(function, "__name__", ""))


class PythonForms:
    """The Python of each function that a launch calls, made once."""

    def __init__(self, language: Any, semantic: Any, sampler: LoopSampler | None = None) -> None:
        """With a `sampler`, loops run in samples."""
        self._language, self._semantic, self._sampler = language, semantic, sampler
        self._jit = names.runtime_jit()
        self._functions: dict[int, tuple[Any, Callable[..., Any]]] = {}
        self.replaced: dict[tuple[str, str], Any] = {}
        """What stands for a function that a module has by name, by `origin_of` of it."""
        self.files: set[str] = set()
        """Files of the functions that were made."""
        self.iterations = 0
        """Of the loops over a range that have begun."""
        self.seconds = 0.0
        """Processor time that it took to make them."""

    def of(self, function: Any) -> Callable[..., Any]:
        """The Python of a `JITFunction`."""
        form = self._functions.get(id(function))
        if form is None:
            start = _processor_time()
            form = self._functions[id(function)] = function, self._rewritten(function)
            self.seconds += _processor_time() - start
        return form[1]

    def _rewritten(self, function: Any) -> Callable[..., Any]:
        scope = _scope(function)
        path = function.fn.__code__.co_filename
        self.files.add(path)
        code = _compiled(function, frozenset(_modules(scope)), samples=self._sampler is not None)
        for name, value in scope.items():
            if origin_of(value) in self.replaced:
                scope[name] = self.replaced[origin_of(value)]
            elif getattr(value, "__triton_builtin__", False):
                scope[name] = functools.partial(value, _semantic=self._semantic)
        scope |= self._helpers(scope)
        form = types.FunctionType(code, scope, function.__name__, function.fn.__defaults__)
        form.__kwdefaults__ = function.fn.__kwdefaults__
        return form

    def _helpers(self, scope: dict[str, Any]) -> dict[str, Any]:
        helpers: dict[str, Any] = {
            _METHOD: self._method,
            _AND: functools.partial(self._combined, "logical_and", stops=False),
            _OR: functools.partial(self._combined, "logical_or", stops=True),
            _NOT: self._negated,
        }
        if self._sampler is not None:
            helpers[SAMPLED] = self._sampler.loop
        builtins: dict[str, Any] = {
            "range": self.range,
            "min": self._extreme("minimum"),
            "max": self._extreme("maximum"),
        }
        builtins["print"] = lambda *_, **__: None
        return helpers | {name: value for name, value in builtins.items() if name not in scope}

    def range(self, *args: Any, **_: Any) -> Sequence[Any]:
        """The numbers of a loop, as a GPU has them: 32-bit integers that overflow."""
        wide = any(getattr(argument, "dtype", None) == self._language.int64 for argument in args)

        def tensor(number: int) -> Any:
            value = self._semantic.to_tensor(number)
            return self._semantic.cast(value, self._language.int64) if wide else value

        numbers = range(*(int(argument) for argument in args))
        self.iterations += len(numbers)
        return _LoopNumbers(numbers, tensor)

    def static_range(self, first: Any, last: Any = None, step: Any = 1) -> Iterator[int]:
        """The numbers of a loop that Triton unrolls: constants."""
        return iter(range(int(first)) if last is None else range(int(first), int(last), int(step)))

    def _method(self, owner: Any, name: str) -> Any:
        """`owner.name`, where `owner` may be a number that stands for a tensor."""
        if isinstance(owner, (bool, int, float)) and not hasattr(owner, name):
            owner = self._semantic.to_tensor(owner)
        attribute = getattr(owner, name)
        if isinstance(attribute, self._jit.JITFunction) and isinstance(owner, self._language.tensor):
            return functools.partial(attribute, owner)
        return attribute

    def _is_block(self, value: Any) -> bool:
        return isinstance(value, self._language.tensor) and value.type.is_block()

    def _combined(self, operation: str, *operands: Callable[[], Any], stops: bool) -> Any:
        """`and` or `or`: of blocks, each element by itself."""
        result = operands[0]()
        for later in operands[1:]:
            is_constant = not isinstance(result, self._language.tensor)
            if is_constant and bool(result) is stops:
                return result
            value = later()  # Triton computes both operands where the first is no constant
            if self._is_block(result) or self._is_block(value):
                left, right = self._semantic.to_tensor(result), self._semantic.to_tensor(value)
                result = getattr(self._semantic, operation)(left, right)
            elif is_constant or bool(result) is not stops:
                result = value
        return result

    def _negated(self, value: Any) -> Any:
        return self._semantic.not_(value) if self._is_block(value) else not value

    def _extreme(self, operation: str) -> Callable[..., Any]:
        """Triton's `min` or `max`."""
        plain = min if operation == "minimum" else max

        def extreme(*args: Any) -> Any:
            if not any(isinstance(argument, self._language.tensor) for argument in args):
                return plain(*args)
            compute = getattr(self._language, operation)
            return functools.reduce(compute, args)

        return extreme


class _LoopNumbers(Sequence[Any]):
    """The values of a loop variable, each made when it is asked for."""

    def __init__(self, numbers: range, tensor: Callable[[int], Any]) -> None:
        self._numbers, self._tensor = numbers, tensor

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, at: Any) -> Any:
        return self._tensor(self._numbers[at])


def _scope(function: Any) -> dict[str, Any]:
    """The names that a function sees. A copy."""
    capture = getattr(function, "get_capture_scope", None)
    if capture is not None:
        return dict(capture())
    plain = function.fn
    cells = zip(plain.__code__.co_freevars, plain.__closure__ or (), strict=True)
    return {**plain.__globals__, **{name: cell.cell_contents for name, cell in cells}}


def _modules(scope: dict[str, Any]) -> Iterator[str]:
    return (name for name, value in scope.items() if isinstance(value, types.ModuleType))


def _compiled(function: Any, modules: frozenset[str], *, samples: bool) -> types.CodeType:
    """The code of a function, at the lines of its file."""
    path, line = function.fn.__code__.co_filename, names.first_line(function)
    return _code_of(function.src, path, line, modules, samples)


@functools.lru_cache(maxsize=256)
def _code_of(
    source: str,
    path: str,
    line: int,
    modules: frozenset[str],
    samples: bool,  # noqa: FBT001 - a key of the cache
) -> types.CodeType:
    tree = _Rewriting(modules, samples=samples).visit(ast.parse(source))
    ast.increment_lineno(tree, line - 1)
    ast.fix_missing_locations(tree)
    module = compile(tree, path, "exec", dont_inherit=True)
    return next(constant for constant in module.co_consts if isinstance(constant, types.CodeType))
