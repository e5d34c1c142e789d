"""What the first layers of a module take: shapes, dtypes and bounds of its inputs, read from its source.

Invariant: nothing is run, and what the source does not say is not guessed: such a parameter has no entry. Sizes that no
layer decides (a batch, the length of a sequence, the size of an image) are small, and never 1, which torch.compile
treats as a constant.
"""

from __future__ import annotations

import ast
import contextlib
import math
import operator
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fuselight.shared.foreign_files import read_regular
from fuselight_server.source.imported_classes import module_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

BATCH, LENGTH, SIDE = 2, 16, 32
"""Sizes where no layer decides."""
_DIGITS = 28
"""A side of an image with one channel: most are those of MNIST and its kin."""
_DEPTH = 8
"""Modules within modules that are followed."""
_HOPS = 4
"""Files that one name is followed through."""
_MOST_STEPS = 5_000
"""Objects that are built and methods that are entered for one answer, some 0.1 s: classes that build or call each other
several times would take exponentially many."""
_LARGEST = 1_000_000
_MOST_SIDE = 1024
_IMAGE_SIZES = ("image_size", "img_size", "resolution", "input_size", "size", "img_res", "crop_size")
_LENGTHS = (
    *("block_size", "max_len", "max_seq_len", "max_length", "context_length", "n_positions", "seq_len"),
    *("max_position_embeddings", "n_ctx", "sequence_length", "max_seq_length", "context_size"),
)
_NEUTRAL_PARTS = ("Dropout", "ReLU", "GELU", "SiLU", "ELU", "Tanh", "Sigmoid", "Identity", "Softmax", "Mish")
_SAME_SHAPE = frozenset(
    {"float", "half", "double", "to", "contiguous", "clone", "detach", "cuda", "cpu", "type", "relu", "gelu"}
    | {"dropout", "type_as", "requires_grad_", "sigmoid", "tanh", "clamp", "abs", "long", "int", "bfloat16"}
)
"""Methods of tensors, and functions of torch, that keep the shape."""
_FLATTENS = frozenset({"flatten", "view", "reshape"})
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Div: operator.truediv,
}


@dataclass(frozen=True)
class Layer:
    """A layer of torch.nn with the arguments that could be read."""

    kind: str
    args: tuple[Any, ...]
    keywords: Mapping[str, Any]

    def argument(self, position: int, *names: str) -> Any:
        """The value of an argument; None where it is unknown."""
        for name in names:
            if name in self.keywords:
                return self.keywords[name]
        return self.args[position] if position < len(self.args) else None


@dataclass(frozen=True)
class Sequence:
    """Modules one after the other, or a list of them."""

    parts: tuple[Any, ...]


@dataclass
class Object:
    """An instance of a class of the workspace, or one that stands for it: its attributes, as far as they are known."""

    definition: ClassSource
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ClassSource:
    """A class and the file that it is in."""

    node: ast.ClassDef
    file: FileSource

    def method(self, name: str) -> ast.FunctionDef | None:
        """A method, also of a base class of the workspace."""
        for statement in self.node.body:
            if isinstance(statement, ast.FunctionDef) and statement.name == name:
                return statement
        for base in self.node.bases:
            found = self.file.find_class(base)
            if found is not None and found.node is not self.node:
                method = found.method(name)
                if method is not None:
                    return method
        return None

    @property
    def is_dataclass(self) -> bool:
        """Whether its fields are the parameters of its constructor."""
        names = (_dotted(one.func if isinstance(one, ast.Call) else one) for one in self.node.decorator_list)
        return any(name.rpartition(".")[2] in {"dataclass", "define", "frozen"} for name in names) or any(
            _dotted(base).rpartition(".")[2] in {"NamedTuple", "BaseModel"} for base in self.node.bases
        )

    def first_member(self) -> str:
        """The first member of an enumeration; empty for another class."""
        bases = {_dotted(base).rpartition(".")[2] for base in self.node.bases}
        if bases.isdisjoint({"Enum", "StrEnum", "IntEnum", "Flag", "IntFlag"}):
            return ""
        assigned = (one.targets[0] for one in self.node.body if isinstance(one, ast.Assign))
        return next((one.id for one in assigned if isinstance(one, ast.Name)), "")

    def fields(self) -> Iterator[tuple[str, ast.expr | None, ast.expr]]:
        """Name, default and annotation of each annotated attribute of its body."""
        for statement in self.node.body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                yield statement.target.id, statement.value, statement.annotation


@dataclass
class _Bounds:
    """What the files of one answer share: each is read once, however they import each other."""

    files: dict[Path, FileSource | None] = field(default_factory=dict)
    steps: int = 0

    def take_step(self) -> bool:
        """Whether one more object may be built, or one more method entered."""
        self.steps += 1
        return self.steps <= _MOST_STEPS


class FileSource:
    """One file: its classes, the names that it imports, its constants."""

    def __init__(self, path: str, statements: Iterable[ast.stmt], bounds: _Bounds | None = None) -> None:
        self.path = path
        self.bounds = _Bounds() if bounds is None else bounds
        self.bounds.files[Path(path)] = self
        self.classes: dict[str, ClassSource] = {}
        self.imported: dict[str, str] = {}
        """Names to what they stand for: `.config.Config`, `torch.nn`."""
        self.constants: dict[str, Any] = {}
        for statement in statements:
            with contextlib.suppress(RecursionError):
                self._read(statement)

    def _read(self, statement: ast.stmt) -> None:
        if isinstance(statement, ast.ClassDef):
            self.classes[statement.name] = ClassSource(statement, self)
        elif isinstance(statement, ast.ImportFrom):
            module = "." * statement.level + (statement.module or "")
            between = "." if module.strip(".") else ""
            for one in statement.names:
                self.imported[one.asname or one.name] = f"{module}{between}{one.name}"
        elif isinstance(statement, ast.Import):
            for one in statement.names:
                name = one.asname or one.name.partition(".")[0]
                self.imported[name] = one.name if one.asname else name
        elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target = statement.targets[0]
            if isinstance(target, ast.Name):
                self.constants[target.id] = Reader(self, {}).value(statement.value)

    def find_class(self, node: ast.expr | str, hops: int = _HOPS) -> ClassSource | None:
        """The class of the workspace that an expression names."""
        name = node if isinstance(node, str) else _dotted(node)
        if name in self.classes:
            return self.classes[name]
        first, _, rest = name.partition(".")
        full = self.imported.get(first)
        if full is None or not hops:
            return None
        module, _, last = (f"{full}.{rest}" if rest else full).rpartition(".")
        if not module or module.partition(".")[0] == "torch":
            return None
        if not module.strip("."):
            module = module or "."
        file = self._file(module)
        return file.find_class(last, hops - 1) if file is not None else None

    def _file(self, module: str) -> FileSource | None:
        files = self.bounds.files
        for path in module_files(Path(self.path), module):
            if path not in files:
                files[path] = None
                statements = _statements(path)
                if statements is not None:
                    FileSource(str(path), statements, self.bounds)
            if files[path] is not None:
                return files[path]
        return None


def _statements(path: Path) -> list[ast.stmt] | None:
    try:
        return ast.parse(read_regular(path, _LARGEST)).body
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return None


def file_source(path: str, chunks: Iterable[str]) -> FileSource:
    """Read a file from its top-level statements; those that do not parse are left out."""
    statements: list[ast.stmt] = []
    for chunk in chunks:
        try:
            statements += ast.parse(chunk).body
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return FileSource(path, statements)


def _dotted(node: ast.AST) -> str:
    """`a.b.c`; of a string, the name in it; empty for any other expression."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


@dataclass(frozen=True)
class Reader:
    """Evaluates expressions of a file with some names known. None stands for what is unknown."""

    file: FileSource
    names: Mapping[str, Any]
    depth: int = 0

    def value(self, node: ast.expr | None) -> Any:  # noqa: PLR0911 - one return a kind of expression
        """The value of an expression."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return self.names.get(node.id, self.file.constants.get(node.id))
        if isinstance(node, ast.Attribute):
            owner = self.value(node.value)
            return owner.attributes.get(node.attr) if isinstance(owner, Object) else None
        if isinstance(node, ast.BinOp):
            return self._binary(node)
        if isinstance(node, (ast.Tuple, ast.List)):
            return Sequence(tuple(map(self.value, node.elts)))
        if isinstance(node, ast.ListComp):
            return Sequence((self.value(node.elt),))
        if isinstance(node, ast.IfExp):
            return self.value(node.body) or self.value(node.orelse)
        if isinstance(node, ast.Call):
            return self._call(node)
        return None

    def _binary(self, node: ast.BinOp) -> Any:
        left, right, function = self.value(node.left), self.value(node.right), _BINARY.get(type(node.op))
        if function is None or not all(isinstance(one, (int, float)) for one in (left, right)):
            return None
        try:
            return function(left, right)
        except (ArithmeticError, ValueError):
            return None

    def _call(self, node: ast.Call) -> Any:
        name = _dotted(node.func)
        args = [
            self.value(one.elt if isinstance(one, ast.GeneratorExp) else _inner(one)) for one in node.args
        ]
        keywords = {one.arg: self.value(one.value) for one in node.keywords if one.arg}
        if name == "int" and args and isinstance(args[0], (int, float)):
            return int(args[0]) if math.isfinite(args[0]) else None
        definition = self.file.find_class(node.func) if name else None
        if definition is not None:
            is_bounded = self.depth < _DEPTH and self.file.bounds.take_step()
            return built(definition, args, keywords, self.depth + 1) if is_bounded else None
        last = name.rpartition(".")[2]
        if not last[:1].isupper():
            return None
        if last in {"Sequential", "ModuleList"}:
            parts = args[0].parts if len(args) == 1 and isinstance(args[0], Sequence) else tuple(args)
            return Sequence(parts)
        return Layer(last, tuple(args), keywords)


def _inner(node: ast.expr) -> ast.expr:
    """What `*[...]` unpacks."""
    return node.value if isinstance(node, ast.Starred) else node


def built(
    definition: ClassSource, args: Iterable[Any], keywords: Mapping[str, Any], depth: int = 0
) -> Object:
    """What a constructor makes of its arguments: attributes are read from `__init__`, or from the fields."""
    made = Object(definition)
    for name, default, _ in definition.fields():
        made.attributes[name] = Reader(definition.file, {}, depth).value(default)
    function = definition.method("__init__")
    if function is None:
        fields = [name for name, _, _ in definition.fields()]
        made.attributes.update(zip(fields, args, strict=False))
        made.attributes.update(keywords)
        return made
    names = bound(definition.file, function, args, keywords)
    names["self"] = made
    _run(Reader(definition.file, names, depth), function.body, names)
    return made


def bound(
    file: FileSource, function: ast.FunctionDef, args: Iterable[Any], keywords: Mapping[str, Any]
) -> dict[str, Any]:
    """The values of a method's parameters, defaults included."""
    parameters = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
    defaults = function.args.defaults
    reader = Reader(file, {})
    values: dict[str, Any] = {}
    for name, default in zip(parameters[len(parameters) - len(defaults) :], defaults, strict=True):
        values[name] = reader.value(default)
    for one, maybe in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True):
        values[one.arg] = reader.value(maybe)
    values.update(zip(parameters[1:], args, strict=False))
    values.update(keywords)
    return values


def _run(reader: Reader, body: Iterable[ast.stmt], names: dict[str, Any]) -> None:
    """Take in the assignments of an `__init__`; of branches, the first that gives a value counts."""
    for statement in body:
        if isinstance(statement, (ast.Assign, ast.AnnAssign)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            value = reader.value(statement.value)
            for target in targets:
                _assign(target, value, names)
        elif isinstance(statement, (ast.If, ast.For, ast.With, ast.Try)):
            _run(reader, statement.body, names)
            _run(reader, getattr(statement, "orelse", []), names)


def _assign(target: ast.expr, value: Any, names: dict[str, Any]) -> None:
    if isinstance(target, ast.Name):
        names[target.id] = value
    elif isinstance(target, ast.Attribute) and isinstance(names.get(_dotted(target.value)), Object):
        attributes = names[_dotted(target.value)].attributes
        if attributes.get(target.attr) is None:
            attributes[target.attr] = value
    elif isinstance(target, ast.Tuple) and isinstance(value, Sequence):
        for one, part in zip(target.elts, value.parts, strict=False):
            _assign(one, part, names)


# Configurations


_CONFIGURATION = re.compile(r"(?:.*_)?(?:config|cfg|conf|args|opts?|options|hparams|params|settings)$")


def configurations(file: FileSource, name: str, plain_value: Callable[[str, str], str]) -> dict[str, str]:
    """Texts that make the parameters of a class's constructor that are objects of a configuration class.

    The class is the one that a parameter is annotated with, else one that the file knows and that has every attribute
    that the constructor reads. `plain_value` makes the text of a value from its name and its annotation.
    """
    definition = file.find_class(name)
    function = definition.method("__init__") if definition is not None else None
    if definition is None or function is None:
        return {}
    found = {}
    for parameter in _required(function):
        annotation = ast.unparse(parameter.annotation).strip("'\"") if parameter.annotation else ""
        kind = file.find_class(annotation) if annotation else None
        if kind is None and not annotation and _CONFIGURATION.match(parameter.arg):
            annotation, kind = _class_with(file, _attributes_read(function, parameter.arg))
        if kind is not None and annotation.partition(".")[0] in {*file.classes, *file.imported}:
            found[parameter.arg] = f"{annotation}({_fields(kind, plain_value)})"
    return found


def construction(file: FileSource, annotation: str, plain_value: Callable[[str, str], str]) -> str:
    """A text that makes an object of the class that an annotation names; empty for no class of the workspace."""
    kind = file.find_class(annotation) if annotation else None
    if kind is None or annotation.partition(".")[0] not in {*file.classes, *file.imported}:
        return ""
    member = kind.first_member()
    return f"{annotation}.{member}" if member else f"{annotation}({_fields(kind, plain_value)})"


def _required(function: ast.FunctionDef) -> list[ast.arg]:
    positional = [*function.args.posonlyargs, *function.args.args]
    keywords = zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
    given = len(positional) - len(function.args.defaults)
    return [*positional[1:given], *(one for one, default in keywords if default is None)]


def _attributes_read(function: ast.FunctionDef, name: str) -> set[str]:
    return {
        node.attr
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name
    }


def _class_with(file: FileSource, attributes: set[str]) -> tuple[str, ClassSource | None]:
    """A class of the file's names that has the attributes."""
    for name in (*file.classes, *file.imported):
        kind = file.find_class(name) if attributes and name[:1].isupper() else None
        if kind is not None and kind.method("forward") is None:
            known = built(kind, (), {}).attributes
            if attributes <= known.keys():
                return name, kind
    return "", None


def _fields(kind: ClassSource, plain_value: Callable[[str, str], str]) -> str:
    """The arguments that a configuration cannot be made without."""
    function = kind.method("__init__")
    if function is not None:
        needed = [(one.arg, one.annotation) for one in _required(function)]
    elif kind.is_dataclass:
        needed = [(name, annotation) for name, default, annotation in kind.fields() if default is None]
    else:
        needed = []
    return ", ".join(
        f"{name}={plain_value(name, ast.unparse(annotation) if annotation else '')}"
        for name, annotation in needed
    )


# What an input needs to be


@dataclass(frozen=True)
class Need:
    """What the first layer says about one input."""

    layer: Layer
    is_flat: bool = False
    """Whether the input is flattened before it."""


@dataclass
class _Flow:
    """Follows the parameters of one method until a layer takes each."""

    owner: Object
    depth: int
    holds: dict[str, tuple[str, bool]]
    """Variables that hold a parameter, and whether it is flat by then."""
    needs: dict[str, Need] = field(default_factory=dict)
    dimensions: dict[str, int] = field(default_factory=dict)
    locals: dict[str, Any] = field(default_factory=dict)

    def body(self, statements: Iterable[ast.stmt]) -> None:
        for statement in statements:
            self.statement(statement)

    def statement(self, statement: ast.stmt) -> None:
        if isinstance(statement, (ast.Assign, ast.AnnAssign)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            held = self.expression(statement.value)
            for target in targets:
                self._unpack(target, statement.value)
                if isinstance(target, ast.Name):
                    self._hold(target.id, held)
        elif isinstance(statement, ast.For):
            modules = self._module(statement.iter)
            if isinstance(modules, Sequence) and modules.parts and isinstance(statement.target, ast.Name):
                self.locals[statement.target.id] = modules.parts[0]
            self.expression(statement.iter)
            self.body(statement.body)
        elif isinstance(statement, (ast.If, ast.While)):
            self.expression(statement.test)
            self.body(statement.body)
            self.body(statement.orelse)
        elif isinstance(statement, (ast.With, ast.Try)):
            self.body(statement.body)
        elif isinstance(statement, (ast.Return, ast.Expr)):
            self.expression(statement.value)

    def _hold(self, name: str, held: tuple[str, bool] | None) -> None:
        if held is None:
            self.holds.pop(name, None)
        else:
            self.holds[name] = held

    def _unpack(self, target: ast.expr, value: ast.expr | None) -> None:
        """Learn the number of dimensions from `b, c, h, w = x.shape`."""
        if not isinstance(target, (ast.Tuple, ast.List)) or value is None:
            return
        if any(isinstance(one, ast.Starred) for one in target.elts):
            return
        size = value.func if isinstance(value, ast.Call) and not value.args else value
        if isinstance(size, ast.Attribute) and size.attr in {"shape", "size"}:
            held = self.holds.get(_dotted(size.value))
            if held is not None and not held[1]:
                self.dimensions.setdefault(held[0], len(target.elts))

    def expression(self, node: ast.expr | None) -> tuple[str, bool] | None:
        """Visit an expression; returns the parameter that its value still is, element by element."""
        if node is None:
            return None
        if isinstance(node, ast.Name):
            return self.holds.get(node.id)
        if isinstance(node, ast.Call):
            return self._call(node)
        parts = [self.expression(one) for one in ast.iter_child_nodes(node) if isinstance(one, ast.expr)]
        if isinstance(node, (ast.BinOp, ast.UnaryOp)):
            return next(filter(None, parts), None)
        return None

    def _call(self, node: ast.Call) -> tuple[str, bool] | None:
        given: list[tuple[int | str, tuple[str, bool] | None]] = []
        given += [(index, self.expression(one)) for index, one in enumerate(node.args)]
        given += [(one.arg or "", self.expression(one.value)) for one in node.keywords]
        held = [(place, one) for place, one in given if one is not None]
        module = self._module(node.func)
        if module is not None:
            results = [self._give(module, place, one) for place, one in held]
            return next(filter(None, results), None)
        name = _dotted(node.func)
        method = self.owner.definition.method(name.removeprefix("self."))
        if name.startswith("self.") and method is not None and self.depth < _DEPTH:
            self._enter(self.owner, method, held)
            return None
        last = node.func.attr if isinstance(node.func, ast.Attribute) else name
        of = self.expression(node.func.value) if isinstance(node.func, ast.Attribute) else None
        passed = of or (held[0][1] if held else None)
        if passed is None or last not in {*_SAME_SHAPE, *_FLATTENS}:
            return None
        return (passed[0], True) if last in _FLATTENS else passed

    def _module(self, node: ast.expr) -> Any:
        """The module that an expression names: `self.stem`, `self.layers[0]`, a loop's variable."""
        if isinstance(node, ast.Subscript):
            outer = self._module(node.value)
            return outer.parts[0] if isinstance(outer, Sequence) and outer.parts else None
        value = Reader(self.owner.definition.file, {**self.locals, "self": self.owner}, _DEPTH).value(node)
        return value if isinstance(value, (Layer, Sequence, Object)) else None

    def _give(self, module: Any, place: int | str, held: tuple[str, bool]) -> tuple[str, bool] | None:
        """Give a parameter to a module; returns what is still that parameter, element by element."""
        name, is_flat = held
        if name in self.needs:
            return None
        for part in module.parts if isinstance(module, Sequence) else (module,):
            if isinstance(part, Layer) and part.kind.startswith(_NEUTRAL_PARTS):
                continue
            if isinstance(part, Layer) and part.kind == "Flatten":
                is_flat = True
                continue
            if isinstance(part, Sequence):
                return self._give(part, place, (name, is_flat))
            if isinstance(part, Layer):
                self.needs[name] = Need(part, is_flat)
            elif isinstance(part, Object):
                forward = part.definition.method("forward")
                if forward is not None and self.depth < _DEPTH:
                    self._enter(part, forward, [(place, (name, is_flat))])
            return None
        return name, is_flat

    def _enter(
        self,
        owner: Object,
        method: ast.FunctionDef,
        held: Iterable[tuple[int | str, tuple[str, bool]]],
    ) -> None:
        """Follow parameters into a method that gets them."""
        if not self.owner.definition.file.bounds.take_step():
            return
        names = [one.arg for one in (*method.args.posonlyargs, *method.args.args)][1:]
        holds = {}
        for place, one in held:
            if isinstance(place, str):
                holds[place] = one
            elif place < len(names):
                holds[names[place]] = one
        inner = _Flow(owner, self.depth + 1, holds, self.needs, self.dimensions)
        inner.body(method.body)


def inputs_of(owner: Object, method: str = "forward") -> dict[str, str]:
    """What each parameter of a method has to be, as in a directive: `f32[2, 3, 32, 32]`. Without the unknown ones."""
    function = owner.definition.method(method)
    if function is None:
        return {}
    names = [one.arg for one in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)][
        1:
    ]
    flow = _Flow(owner, 0, {name: (name, False) for name in names})
    flow.body(function.body)
    sizes = _Sizes(owner)
    found = {}
    for name in names:
        need, dimensions = flow.needs.get(name), flow.dimensions.get(name)
        text = _text(need, dimensions, sizes) if need is not None else ""
        if text:
            found[name] = text
    return found


class _Sizes:
    """Sizes that the object and its configuration name."""

    def __init__(self, owner: Object) -> None:
        objects = [owner, *(one for one in owner.attributes.values() if isinstance(one, Object))]
        self._known = [one.attributes for one in objects]

    def side(self, kernel: Any) -> int:
        """A side of an image that a kernel fits into."""
        known = self._first(_IMAGE_SIZES)
        side = known if known is not None and known <= _MOST_SIDE else SIDE
        return max(side, 2 * kernel) if isinstance(kernel, int) and side < kernel else side

    def length(self) -> int:
        """The length of a sequence."""
        known = self._first(_LENGTHS)
        return LENGTH if known is None else min(LENGTH, known)

    def _first(self, names: Iterable[str]) -> int | None:
        values = (attributes.get(name) for name in names for attributes in self._known)
        return next((one for one in values if type(one) is int and one > 1), None)


_SPATIAL = {"Conv1d": 1, "Conv2d": 2, "Conv3d": 3, "BatchNorm2d": 2, "BatchNorm3d": 3, "InstanceNorm1d": 1}
_SPATIAL |= {
    "GroupNorm": 2,
    "ConvTranspose1d": 1,
    "ConvTranspose2d": 2,
    "ConvTranspose3d": 3,
    "InstanceNorm2d": 2,
}
_FEATURES = {"Linear": 0, "BatchNorm1d": 0, "LazyLinear": 9}
"""Layers of the last dimension, and the position of its size."""
_SEQUENCES = {"LSTM": ("input_size",), "GRU": ("input_size",), "RNN": ("input_size",)}
_SEQUENCES |= {"LayerNorm": ("normalized_shape",), "RMSNorm": ("normalized_shape",)}
_SEQUENCES |= {"MultiheadAttention": ("embed_dim",), "TransformerEncoderLayer": ("d_model",)}
_SEQUENCES |= {"TransformerDecoderLayer": ("d_model",), "Transformer": ("d_model",)}


def _text(need: Need, dimensions: int | None, sizes: _Sizes) -> str:
    layer = need.layer
    if layer.kind in {"Embedding", "EmbeddingBag"}:
        rows = layer.argument(0, "num_embeddings")
        shape = [sizes.length()] if dimensions == 1 else [BATCH, sizes.length()]
        return f"i64{shape} % {rows}" if type(rows) is int else ""
    shape = _shape(layer, dimensions, sizes, is_flat=need.is_flat)
    return f"f32{shape}" if shape and all(type(size) is int and size > 0 for size in shape) else ""


def _shape(layer: Layer, dimensions: int | None, sizes: _Sizes, *, is_flat: bool) -> list[Any]:
    if layer.kind in _SPATIAL and not is_flat:
        position = 1 if layer.kind == "GroupNorm" else 0
        channels = layer.argument(position, "in_channels", "num_features", "num_channels")
        spatial = _SPATIAL[layer.kind]
        kernel = layer.argument(2, "kernel_size") if "Conv" in layer.kind else None
        kernel = kernel.parts[0] if isinstance(kernel, Sequence) and kernel.parts else kernel
        depth = [8] if spatial == len("xyz") else []
        sides = [sizes.side(kernel)] * (spatial - len(depth))
        if channels == 1 and spatial == len("hw") and sides[0] == SIDE:
            sides = [_DIGITS] * spatial
        return [BATCH, channels, *depth, *sides]
    if layer.kind == "TransformerEncoder":
        layer = layer.argument(0, "encoder_layer")
        if not isinstance(layer, Layer):
            return []
    if layer.kind in _SEQUENCES:
        size = layer.argument(0, *_SEQUENCES[layer.kind])
        size = size.parts[-1] if isinstance(size, Sequence) and size.parts else size
        return _padded(size, dimensions or len("btc"), sizes)
    if layer.kind in _FEATURES:
        size = layer.argument(_FEATURES[layer.kind], "in_features", "num_features")
        if is_flat and dimensions is not None:
            return [BATCH, size, *[1] * max(dimensions - 2, 0)]
        return _padded(size, dimensions or len("bc"), sizes)
    return []


def _padded(size: Any, dimensions: int, sizes: _Sizes) -> list[Any]:
    """A shape with `dimensions` dimensions, the last of which is `size`."""
    before = [BATCH, *[sizes.length()] * max(dimensions - 2, 0)]
    return [*before[: max(dimensions - 1, 0)], size]
