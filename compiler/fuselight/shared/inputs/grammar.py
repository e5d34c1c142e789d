"""The grammar of directives: text to a checked syntax tree.

Invariant: `parse_directive` returns or raises `DirectiveError`, nothing else, and the range of the error lies
in the text, in UTF-8 bytes. Nothing is evaluated here, so the server may parse what it must never run.
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
import tokenize
import warnings
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, TypeGuard, cast

from fuselight.shared.foreign_data import parse_python
from fuselight.shared.inputs.dtypes import DTYPES
from fuselight.shared.report import WorldPlan
from fuselight.shared.world_plan import WorldError, world_plan

MAX_TEXT = 20_000
"""Longest directive, in characters: beyond it CPython's parser may run out of stack."""

MAX_DEPTH = 60
"""Deepest nesting, far below where the tree walk would meet Python's recursion limit."""


class DirectiveError(ValueError):
    """A directive that cannot be used. `start` and `end` are UTF-8 byte offsets in its text."""

    def __init__(self, message: str, start: int, end: int) -> None:
        super().__init__(message)
        self.message = message
        self.start = start
        self.end = end


_EMPTY_SHAPE = re.compile(r"\[\s*\]")


@dataclass(frozen=True)
class TensorSpec:
    """A tensor to make: `f32[4, 128]`, `i64[8] % 100`."""

    dtype: str
    """Name in the torch module, as `float32`."""
    shape: tuple[int, ...]
    bound: int | None = None
    """Integers are drawn from 0 up to, not including, `bound`."""


@dataclass(frozen=True)
class Options:
    """How a call is to be run. They stand among the keyword arguments (docs/inputs.md, Options)."""

    train: bool = False
    """Training mode, gradients on, and `.backward()` of the outputs."""
    no_grad: bool | None = None
    """None: gradients follow `train`."""
    training: bool | None = None
    """Training mode of the module, without `.backward()`. None: it follows `train`."""
    device: str | None = None
    fake: bool = False
    """Build and capture on fake tensors: shapes without data."""
    dynamic: bool | None = None
    """`torch.compile(dynamic=...)`, for targets that the source does not compile itself."""
    ranks: int | None = None
    """Run the target as each of this many ranks (docs/ranks.md)."""
    mesh: str | None = None
    """Mesh that the ranks form, as `data=4,model=2`."""
    reference: str | None = None
    """Name of a function of the file that computes the same with PyTorch, for targets with Triton kernels."""


OPTIONS: dict[str, tuple[type, ...]] = {
    "train": (bool,),
    "no_grad": (bool,),
    "training": (bool,),
    "device": (str,),
    "fake": (bool,),
    "dynamic": (bool, type(None)),
    "ranks": (int,),
    "mesh": (str,),
    "reference": (str,),
}
"""Name of each option to the types its value may have."""
_KINDS = {bool: "True or False", str: "a string", int: "a whole number", type(None): "None"}


@dataclass(frozen=True)
class Directive:
    """A parsed directive. `callee` is called with the arguments of `call`."""

    text: str
    call: ast.Call
    scalars: frozenset[int] = field(default=frozenset(), repr=False)
    """Byte offsets of dtype names that were written `f32[]`."""

    @property
    def callee(self) -> ast.expr:
        """What is called: `Net(dim=64)` in `Net(dim=64)(f32[4])`."""
        return self.call.func

    @property
    def callee_key(self) -> str:
        """Equal for callees that are written alike, whatever the spaces: their calls share one object."""
        return ast.dump(self.call.func)

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Byte range of `node` in the text."""
        start = getattr(node, "col_offset", 0)
        end = getattr(node, "end_col_offset", None)
        return start, end if end is not None else len(self.text.encode())

    def source(self, node: ast.AST) -> str:
        """The text of `node`."""
        start, end = self.span(node)
        return self.text.encode("utf-8", "surrogatepass")[start:end].decode("utf-8", "surrogatepass")

    def error(self, message: str, node: ast.AST) -> DirectiveError:
        """An error at `node`."""
        return DirectiveError(message, *self.span(node))

    def is_scalar_tensor(self, node: ast.AST) -> TypeGuard[ast.Call]:
        """Whether `node` was written as `f32[]`."""
        # A call of what a tensor has, as in `f32[].sum()`, begins at the same column.
        return (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.col_offset in self.scalars
        )


_ALLOWED = (
    ast.Constant,
    ast.Name,
    ast.Attribute,
    ast.Call,
    ast.keyword,
    ast.Tuple,
    ast.List,
    ast.Dict,
    ast.Set,
    ast.UnaryOp,
    ast.BinOp,
    ast.Subscript,
    ast.Slice,
    ast.Starred,
    ast.operator,
    ast.unaryop,
    ast.expr_context,
)

_WORDS = {
    "Lambda": "a lambda",
    "NamedExpr": "an assignment (`:=`)",
    "Await": "await",
    "JoinedStr": "an f-string",
    "Compare": "a comparison",
    "BoolOp": "`and` / `or`",
    "IfExp": "a conditional expression",
    "ListComp": "a comprehension",
    "SetComp": "a comprehension",
    "DictComp": "a comprehension",
    "GeneratorExp": "a comprehension",
}


def parse_directive(text: str) -> Directive:
    """Read `Net(dim=64)(f32[4, 128, 64])`. Raises DirectiveError, with the nearest right spelling if one is known."""
    try:
        return _read(text)
    except DirectiveError as error:
        raise _with_spelling(text, error) from None


def _with_spelling(text: str, error: DirectiveError) -> DirectiveError:
    """The error at the part of the text that has another spelling with which it can be read."""
    from fuselight.shared.inputs.corrections import correction  # noqa: PLC0415 - after an error

    nearest = correction(text, _is_readable)
    if nearest is None:
        return error
    marked = nearest.marked or (nearest.start, nearest.end)
    start, end = (len(text[:at].encode("utf-8", "surrogatepass")) for at in marked)
    return DirectiveError(nearest.message, start, end)


def _is_readable(text: str) -> bool:
    try:
        _read(text)
    except DirectiveError:
        return False
    return True


def _read(text: str) -> Directive:
    size = len(text.encode("utf-8", "surrogatepass"))
    if not text.strip():
        raise DirectiveError("expected a call, as Net()(f32[4, 8])", 0, size)
    if len(text) > MAX_TEXT:
        raise DirectiveError(f"longer than {MAX_TEXT} characters", 0, size)
    if "\n" in text or "\r" in text:
        raise DirectiveError("a directive is one line", 0, size)
    if text != text.lstrip():
        raise DirectiveError("a directive starts at its first character", 0, len(text) - len(text.lstrip()))
    source, scalars = _scalar_tensors(text)
    tree = _parse(source, size)
    if not isinstance(tree, ast.Call):
        raise DirectiveError(_no_call(tree), 0, size)
    directive = Directive(text=text, call=tree, scalars=scalars)
    if directive.is_scalar_tensor(tree):
        raise DirectiveError("expected a call, not a tensor", 0, size)
    _check(directive, tree, 0)
    return directive


def _no_call(tree: ast.expr) -> str:
    """What to write in place of a directive that is no call."""
    if isinstance(tree, ast.Tuple) and any(isinstance(part, ast.Call) for part in tree.elts):
        return "a directive is one call: write a `# fuselight:` line for each"
    if isinstance(tree, ast.Name) and tree.id not in DTYPES:
        return f"expected a call, as `{tree.id}{'()' if tree.id[:1].isupper() else ''}(f32[4, 8])`"
    if dtype_of(tree) is not None or isinstance(tree, (ast.Tuple, ast.List)):
        inputs = ast.unparse(tree).removeprefix("(").removesuffix(")")
        return f"expected a call: write the name of the function before its inputs, as `step({inputs})`"
    return "expected a call, as Net()(f32[4, 8])"


def _scalar_tensors(text: str) -> tuple[str, frozenset[int]]:
    """Write `f32[]`, which is no Python, as `f32()`: the same columns, and remembered as a tensor."""
    if not _EMPTY_SHAPE.search(text):
        return text, frozenset()
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError, ValueError):
        return text, frozenset()
    characters = list(text)
    tensors = set()
    for name, left, right in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if (
            name.type == tokenize.NAME
            and name.string in DTYPES
            and (left.string, right.string) == ("[", "]")
            and name.start[0] == 1
        ):
            characters[left.start[1]], characters[right.start[1]] = "(", ")"
            tensors.add(len(text[: name.start[1]].encode("utf-8", "surrogatepass")))
    return "".join(characters), frozenset(tensors)


def _parse(source: str, size: int) -> ast.expr:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # the user's text: not our warnings
            return parse_python(source, mode="eval").body
    except SyntaxError as error:
        start = _offset(source, error.lineno, error.offset, size)
        end = max(_offset(source, error.end_lineno, error.end_offset, size), start + 1)
        message = (error.msg or "invalid syntax").partition(". ")[0].rstrip(".")  # its guesses are of Python
        reason = message[0].lower() + message[1:]
        raise DirectiveError(reason, min(start, size), min(end, size)) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise DirectiveError(f"cannot be read: {error or type(error).__name__}", 0, size) from None


def _offset(source: str, line: int | None, offset: int | None, size: int) -> int:
    if line != 1 or not offset or offset < 1:
        return size
    return len(source[: offset - 1].encode("utf-8", "surrogatepass"))


def _check(directive: Directive, node: ast.AST, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise directive.error("nested too deeply", node)
    if isinstance(node, ast.Compare) and dtype_of(node.left) is not None:
        raise directive.error(
            f"the values of `{ast.unparse(node.left)}` cannot be chosen by a comparison: "
            "`i64[8] % 32` are integers below 32, `f32[8] * 0.1` is a smaller tensor",
            node,
        )
    if not isinstance(node, _ALLOWED):
        what = _WORDS.get(type(node).__name__, "this")
        raise directive.error(f"{what} cannot stand in a directive: write a literal, a name or a call", node)
    if isinstance(node, ast.Subscript) and dtype_of(node) is not None:
        _check_shape(directive, node)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and dtype_of(node.left) is not None:
        _check_bound(directive, node)
    for child in ast.iter_child_nodes(node):
        _check(directive, child, depth + 1)


def dtype_of(node: ast.AST) -> str | None:
    """Return the torch dtype name of a tensor such as `f32[4]`, None for any other node."""
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
        return DTYPES.get(node.value.id)
    return None


def _check_shape(directive: Directive, node: ast.Subscript) -> None:
    sizes = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    for size in sizes:
        if isinstance(size, (ast.List, ast.Tuple)):
            sizes_alone = ", ".join(map(ast.unparse, size.elts))
            raise directive.error(
                f"a shape has sizes, not a list: write `{ast.unparse(node.value)}[{sizes_alone}]`", node
            )
        if isinstance(size, ast.Slice):
            raise directive.error("a shape has sizes, not slices", size)
        negative = isinstance(size, ast.UnaryOp) and isinstance(size.op, ast.USub)
        if negative or (isinstance(size, ast.Constant) and (type(size.value) is not int or size.value < 0)):
            raise directive.error("a size is a whole number, 0 or more", size)


def _check_bound(directive: Directive, node: ast.BinOp) -> None:
    dtype = dtype_of(node.left) or ""
    if not dtype.startswith(("int", "uint")):
        raise directive.error("`% n` bounds integers, and this tensor has none", node)
    if isinstance(node.right, ast.Constant) and (type(node.right.value) is not int or node.right.value < 1):
        raise directive.error("a bound is a whole number, 1 or more", node.right)


def split_options(
    directive: Directive, parameters: Collection[str] = ()
) -> tuple[Options, tuple[ast.keyword, ...]]:
    """Part the run options from the keyword arguments that go to the callee.

    A parameter of the callee with an option's name wins: the keyword is then the callee's.
    Raises DirectiveError.
    """
    options = Options()
    rest = []
    for keyword in directive.call.keywords:
        name = keyword.arg
        if name is None or name not in OPTIONS or name in parameters:
            rest.append(keyword)
            continue
        kinds = OPTIONS[name]
        if name == "reference" and isinstance(keyword.value, (ast.Name, ast.Attribute)):
            options = replace(options, reference=ast.unparse(keyword.value))
            continue
        if not isinstance(keyword.value, ast.Constant) or type(keyword.value.value) not in kinds:
            wanted = " or ".join(_KINDS[kind] for kind in kinds)
            is_word = kinds == (str,) and isinstance(keyword.value, ast.Name)
            spelled = f': write `{name}="{ast.unparse(keyword.value)}"`' if is_word else ""
            raise directive.error(f"the option {name} takes {wanted}{spelled}", keyword.value)
        options = replace(options, **{name: cast("Any", keyword.value.value)})
        if name in {"ranks", "mesh"}:
            _check_world(directive, options, keyword.value)
    if options.train and options.no_grad:
        raise DirectiveError("train=True needs gradients: leave no_grad out", 0, len(directive.text.encode()))
    return options, tuple(rest)


def _check_world(directive: Directive, options: Options, node: ast.expr) -> None:
    """Check the ranks and the mesh that are known by now. Raises DirectiveError."""
    try:
        world_plan(options.ranks, options.mesh)
    except WorldError as error:
        raise directive.error(str(error), node) from None


def world_of_directives(texts: Iterable[str]) -> WorldPlan | None:
    """The world that the first directive with `ranks=` or `mesh=` asks for; wrong ones are ignored."""
    for text in texts:
        if "ranks" in text or "mesh" in text:
            with contextlib.suppress(DirectiveError):
                options, _ = split_options(parse_directive(text))
                plan = world_plan(options.ranks, options.mesh)
                if plan is not None:
                    return plan
    return None
