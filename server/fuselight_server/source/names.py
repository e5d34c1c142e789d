"""What names mean in one file: imports, aliases, classes that are modules, variables that hold a module.

Invariant: an unresolved name means nothing, so `re.compile` and a method that happens to be called `compile` are never
taken for torch's. `collect` depends on the outlines of the chunks alone: while those stay equal, so do the names.
"""

from __future__ import annotations

import builtins
import functools
import re
import sys
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, field

from fuselight_server.source.facts import Definition, Expression, Facts, Scope

_COMPILE = frozenset({"torch.compile", "torch.compiler.compile"})
_OPTIMIZE = frozenset({"torch._dynamo.optimize", "torch._dynamo.optimize_assert"})
_PARTIAL = "functools.partial"
_SAME_OBJECT = frozenset(
    {"to", "cuda", "cpu", "xpu", "eval", "train", "half", "float", "double", "bfloat16", "type"}
    | {"requires_grad_", "to_empty", "share_memory"}
)
"""Methods of a module that return the module itself."""
_FACTORIES = frozenset({"from_pretrained", "from_config", "load_from_checkpoint"})
_MODULES = re.compile(
    r"""torch\.nn\.(?:modules\.\w+\.|parallel\.|utils\.parametrize\.)?(?!Parameter$|Buffer$|Uninitialized)[A-Z]\w*$
    | torch\.(?:jit\.ScriptModule|fx\.GraphModule|ao\.nn\..*\.[A-Z]\w*)$
    | (?:lightning(?:\.pytorch)?|pytorch_lightning)(?:\.core(?:\.\w+)?)?\.LightningModule$
    | transformers\.(?:\w+\.)*(?:\w*Model|\w*PreTrainedModel|\w+For[A-Z]\w*)$
    | diffusers\.(?:\w+\.)*(?:ModelMixin|\w+Model)$
    | torchvision\.models\.(?:\w+\.)*[A-Z]\w*$
    | timm\.(?:models|layers)\.(?:\w+\.)*[A-Z]\w*$
    | torch_geometric\.nn\.(?:\w+\.)*[A-Z]\w*$
    | mmengine\.model\.(?:\w+\.)*Base[A-Z]\w*$
    | sentence_transformers\.(?:\w+\.)*SentenceTransformer$""",
    re.VERBOSE,
)
_MODULE_MAKERS = re.compile(r"torchvision\.models\.(?:\w+\.)*[a-z]\w*$|timm\.create_model$|torch\.hub\.load$")
_NOT_MODULES = re.compile(
    r"torch\.autograd\.(?:function\.)?\w*Function$|(?:builtins|typing|abc|enum|dataclasses)\."
)


@dataclass(frozen=True)
class Signature:
    """How a function of the file is called. Where it stands is left out: edits in its body keep it equal."""

    parameters: tuple[str, ...]
    """Without `self` for a method."""
    takes_self: bool


@dataclass(frozen=True)
class Class:
    """A class of the file."""

    bases: tuple[Expression, ...]
    forward: Signature | None


@dataclass(frozen=True)
class ImportedClass:
    """What another file of the workspace says of a class."""

    is_module: bool
    forward: Signature | None


@dataclass
class Names:
    """The names of one file. Compared by value: while it stays equal, resolved targets stay valid."""

    imported: dict[tuple[Scope, str], str] = field(default_factory=dict)
    """Local name to what it stands for, as `("", "N")` to `torch.nn`."""
    stars: tuple[str, ...] = ()
    classes: dict[Scope, Class] = field(default_factory=dict)
    functions: dict[Scope, Signature] = field(default_factory=dict)
    compilers: set[tuple[Scope, str]] = field(default_factory=set)
    """Variables that compile what they are called with: `fast = functools.partial(torch.compile, ...)`."""
    instances: dict[tuple[Scope, str], Scope | None] = field(default_factory=dict)
    """Variables that hold a module, `self.layer` under the class's scope, and its class if that is in the file."""
    unknown: set[tuple[Scope, str]] = field(default_factory=set)
    """Variables that hold an object of a class from another file."""
    imported_class: Callable[[str], ImportedClass | None] = field(default=lambda _full: None, compare=False)
    """Looks up a class that another file of the workspace defines, by the name that it is imported under."""
    _forwards: dict[Scope, Signature | None] = field(default_factory=dict, compare=False)
    _modules: dict[Scope, bool] = field(default_factory=dict, compare=False)
    _possible_modules: dict[Scope, bool] = field(default_factory=dict, compare=False)

    def full(self, dotted: str, scope: Scope) -> str:
        """What `dotted` stands for outside the file, as `torch.nn.Module`; empty when own or unknown."""
        head, dot, rest = dotted.partition(".")
        for around in self._visible(scope):
            if (around, head) in self.imported:
                return self.imported[around, head] + dot + rest
            if (*around, head) in self.classes or (*around, head) in self.functions:
                return ""
        for star in self.stars:
            name = f"{star}.{dotted}"
            if name in _COMPILE or _MODULES.match(name):
                return name
        return ""

    def class_at(self, dotted: str, scope: Scope) -> Scope | None:
        """The path of the class of this file that `dotted` names."""
        parts = tuple(dotted.split("."))
        return next(
            (
                qualified
                for around in self._visible(scope)
                if (qualified := (*around, *parts)) in self.classes
            ),
            None,
        )

    def function_at(self, dotted: str, scope: Scope) -> Signature | None:
        """The function of this file that `dotted` names; `self.step` is a method of the class around."""
        path = tuple(dotted.removeprefix("self.").split("."))
        return next(
            (f for at in self._attribute_scopes(dotted, scope) if (f := self.functions.get((*at, *path)))),
            None,
        )

    def class_of(self, value: Expression, scope: Scope) -> Scope | None:
        """The class of this file that `value` is an instance of: `Net()`, `Net().cuda()`, a variable that holds one."""
        if value.function is None:
            places = self._attribute_scopes(value.dotted, scope) if value.dotted else ()
            return next(
                (instance for at in places if (instance := self.instances.get((at, value.dotted)))), None
            )
        if value.function.owner is not None:
            return (
                self.class_of(value.function.owner, scope)
                if value.function.attribute in _SAME_OBJECT
                else None
            )
        return self.class_at(value.function.dotted, scope) if value.function.dotted else None

    def forward(self, path: Scope) -> Signature | None:
        """The `forward` of the class at `path`, its own or inherited."""
        known, waiting, entered = self._forwards, [path], {path}
        while waiting and path not in known:
            current = waiting[-1]
            signature = self.classes[current].forward
            if signature is None:
                unread = (
                    own_base
                    for own_base in self._own_bases(current)
                    if own_base not in known and own_base not in entered
                )
                base = next(unread, None)
                if base is not None:
                    entered.add(base)
                    waiting.append(base)
                    continue
                signature = self._inherited_forward(current)
            known[current] = signature
            waiting.pop()
        return known[path]

    def _inherited_forward(self, path: Scope) -> Signature | None:
        """The first `forward` among the bases of a class; those of this file are in `_forwards` by now."""
        for base in self._own_bases(path):
            if (own := self._forwards.get(base)) is not None:
                return own
        outside = map(self.imported_class, self._outside_names(path))
        return next(
            (
                imported_class.forward
                for imported_class in outside
                if imported_class is not None and imported_class.forward
            ),
            None,
        )

    def is_module(self, path: Scope) -> bool:
        """Whether the class at `path` is an nn.Module, as far as the workspace tells."""
        return self._inherits(path, self._modules, self._derives_from_module)

    def may_be_module(self, path: Scope) -> bool:
        """Whether the class at `path` is an nn.Module, or could be one by a base that is not in the workspace."""
        return self._inherits(path, self._possible_modules, self._may_derive_from_module)

    def holds_unknown(self, dotted: str, scope: Scope) -> bool:
        """Whether the variable `dotted` was made by a class imported from elsewhere, in a file that knows torch."""
        knows_torch = any(full.partition(".")[0] == "torch" for full in self.imported.values())
        return knows_torch and self._is_among(self.unknown, dotted, scope)

    def makes_unknown(self, value: Expression, scope: Scope) -> bool:
        """Whether `value` makes an object of a class that was imported, and of which this file tells no more."""
        expression = value.function
        if expression is None:
            return False
        if expression.owner is not None:
            return expression.attribute in _SAME_OBJECT and self.makes_unknown(expression.owner, scope)
        full = self.full(expression.dotted, scope) if expression.dotted else ""
        is_class = full.rpartition(".")[2][:1].isupper()
        return (
            is_class and full.partition(".")[0] != "torch" and not self._is_known_otherwise(expression, scope)
        )

    def names_module(self, expression: Expression, scope: Scope) -> bool:
        """Whether `expression` names a module class."""
        if not expression.dotted:
            return False
        path = self.class_at(expression.dotted, scope)
        if path is not None:
            return self.is_module(path)
        return self._is_outside_module(self.full(expression.dotted, scope))

    def is_instance(self, value: Expression, scope: Scope) -> bool:
        """Whether `value` makes a module: `Net()`, `Net().cuda()`, `AutoModel.from_pretrained(...)`."""
        if value.choices:
            return any(self.is_instance(choice, scope) for choice in value.choices)
        expression = value.function
        if expression is None:
            return bool(value.dotted) and self.holds_module(value.dotted, scope)
        if expression.owner is not None:
            return expression.attribute in _SAME_OBJECT and self.is_instance(expression.owner, scope)
        if self.names_module(expression, scope) or _MODULE_MAKERS.match(self.full(expression.dotted, scope)):
            return True
        owner, _, method = expression.dotted.rpartition(".")
        if method in _FACTORIES:
            return self.names_module(Expression(owner, dotted=owner), scope)
        return method in _SAME_OBJECT and bool(owner) and self.holds_module(owner, scope)

    def holds_module(self, dotted: str, scope: Scope) -> bool:
        """Whether the variable `dotted` is known to hold a module."""
        return self._is_among(self.instances, dotted, scope)

    def compiles(self, value: Expression, scope: Scope) -> bool:
        """Whether calling `value` with a function compiles it: `torch.compile`, `partial(torch.compile)`, an alias."""
        if value.function is None:
            if not value.dotted:
                return False
            compiles = self._is_among(self.compilers, value.dotted, scope)
            return compiles or self.full(value.dotted, scope) in _COMPILE
        name = self.full(value.function.dotted, scope) if value.function.dotted else ""
        if name == _PARTIAL:
            alone = len(value.arguments) == 1 and all(key != "model" for key, _ in value.keywords)
            return alone and self.compiles(value.arguments[0], scope)
        if name in _OPTIMIZE:
            return True
        return self.compiles(value.function, scope) and _compiled_argument(value) is None

    def compiled(self, value: Expression, scope: Scope) -> Expression | None:
        """What `value` compiles: `Net()` for `torch.compile(Net()).eval()`. None when it compiles nothing."""
        for choice in value.choices:
            expression = self.compiled(choice, scope)
            if expression is not None:
                return expression
        if value.function is None:
            return None
        if value.function.owner is not None:
            return (
                self.compiled(value.function.owner, scope)
                if value.function.attribute in _SAME_OBJECT
                else None
            )
        return _compiled_argument(value) if self.compiles(value.function, scope) else None

    def _is_among(self, variables: Container[tuple[Scope, str]], dotted: str, scope: Scope) -> bool:
        return any((around, dotted) in variables for around in self._attribute_scopes(dotted, scope))

    def _is_known_otherwise(self, name: Expression, scope: Scope) -> bool:
        """Whether `name` is known to stand for no module: it is Python's own, or an autograd function."""
        if not name.dotted:
            return False
        full = self.full(name.dotted, scope)
        if not full:
            return not self.stars and hasattr(builtins, name.dotted)
        return _NOT_MODULES.match(full) is not None or full.partition(".")[0] in sys.stdlib_module_names

    def _inherits(self, path: Scope, known: dict[Scope, bool], test: Callable[[Scope], bool]) -> bool:
        """Whether `test` holds for the class at `path` or an ancestor in this file. Each class is visited once."""
        came_from: dict[Scope, Scope | None] = {path: None}
        pending = [path]
        while pending:
            current = pending.pop()
            if current in known and not known[current]:
                continue
            if known.get(current) or test(current):
                heir: Scope | None = current
                while heir is not None:
                    known[heir] = True
                    heir = came_from[heir]
                return True
            for base in self._own_bases(current):
                if base not in came_from:
                    came_from[base] = current
                    pending.append(base)
        known.update(dict.fromkeys(came_from, False))
        return False

    def _own_bases(self, path: Scope) -> list[Scope]:
        """The bases of a class that are classes of this file."""
        bases = (self.class_at(base.dotted, path[:-1]) for base in self.classes[path].bases if base.dotted)
        return [base for base in bases if base is not None]

    def _outside_bases(self, path: Scope) -> list[Expression]:
        scope = path[:-1]
        return [
            base
            for base in self.classes[path].bases
            if not base.dotted or self.class_at(base.dotted, scope) is None
        ]

    def _outside_names(self, path: Scope) -> list[str]:
        """What the bases of a class stand for outside the file, the unknown ones left out."""
        names = (self.full(base.dotted, path[:-1]) for base in self._outside_bases(path) if base.dotted)
        return [name for name in names if name]

    def _derives_from_module(self, path: Scope) -> bool:
        """Whether a base from outside makes the class a module."""
        full = self._outside_names(path)
        if any(map(self._is_outside_module, full)):
            return True
        # A base class from elsewhere together with a `forward` method: in practice a module.
        unknown = any(not _NOT_MODULES.match(name) for name in full)
        forward = self.classes[path].forward
        return unknown and forward is not None and forward.takes_self

    def _may_derive_from_module(self, path: Scope) -> bool:
        return self._derives_from_module(path) or any(
            base.dotted != "object" and not self._is_known_otherwise(base, path[:-1])
            for base in self._outside_bases(path)
        )

    def _is_outside_module(self, full: str) -> bool:
        if _MODULES.match(full):
            return True
        imported_class = self.imported_class(full)
        return imported_class is not None and imported_class.is_module

    def _visible(self, scope: Scope) -> Iterator[Scope]:
        """`scope` and those around it, but for classes that are not the innermost: their names are not seen inside."""
        for end in range(len(scope), -1, -1):
            around = scope[:end]
            if end == len(scope) or around not in self.classes:
                yield around

    def owner(self, target: str, scope: Scope) -> Scope:
        """Where a variable lives: `self.f` belongs to the class around."""
        return next(self._attribute_scopes(target, scope), scope)

    def _attribute_scopes(self, dotted: str, scope: Scope) -> Iterator[Scope]:
        if dotted.startswith("self."):
            yield from (scope[:end] for end in range(len(scope), 0, -1) if scope[:end] in self.classes)
        else:
            yield from self._visible(scope)


def _compiled_argument(call: Expression) -> Expression | None:
    """The first argument of `torch.compile(...)`, None when there is only configuration."""
    given = (
        call.arguments[0] if call.arguments else next((v for key, v in call.keywords if key == "model"), None)
    )
    return None if given is None or given.text == "None" else given


def collect(
    chunks: Iterable[Facts], imported_class: Callable[[str], ImportedClass | None] = lambda _full: None
) -> Names:
    """The names of the file whose chunks, in order, have these facts."""
    names = Names(imported_class=functools.cache(imported_class))  # a lookup reads the disk, also one in vain
    kept = [facts for facts in chunks if facts.definitions or facts.bindings or facts.imports]
    stars: list[str] = []
    for facts in kept:
        for item in facts.imports:
            if item.name == "*":
                stars.append(item.full)
            else:
                names.imported[item.scope, item.name] = item.full
        _add_definitions(names, facts)
    names.stars = tuple(dict.fromkeys(stars))
    for facts in kept:
        for definition in facts.definitions:
            scope = (*definition.scope, definition.name)
            for name, written in definition.annotations:
                if names.names_module(Expression(written, dotted=written), definition.scope):
                    names.instances[scope, name] = names.class_at(written, definition.scope)
        for binding in facts.bindings:
            _bind(names, binding.target, binding.value, binding.scope)
    names.imported_class = imported_class
    return names


def _add_definitions(names: Names, facts: Facts) -> None:
    for definition in facts.definitions:
        path = (*definition.scope, definition.name)
        if definition.is_class:
            names.classes[path] = Class(definition.bases, None)
            continue
        owner = names.classes.get(definition.scope)
        taken = signature(definition, in_class=owner is not None)
        names.functions[path] = taken
        if definition.name == "forward" and owner is not None:
            names.classes[definition.scope] = Class(owner.bases, taken)


def signature(definition: Definition, *, in_class: bool) -> Signature:
    """The signature of a function of the file."""
    static = any(decorator.dotted == "staticmethod" for decorator in definition.decorators)
    takes_self = in_class and not static and bool(definition.parameters)
    return Signature(
        parameters=definition.parameters[1:] if takes_self else definition.parameters,
        takes_self=takes_self,
    )


def _bind(names: Names, target: str, value: Expression, scope: Scope) -> None:
    place = (names.owner(target, scope), target)
    if value.dotted and not names.compiles(value, scope):
        full = names.full(value.dotted, scope)
        if full and "." not in target:
            names.imported.setdefault((scope, target), full)
    if names.compiles(value, scope):
        names.compilers.add(place)
    elif names.is_instance(value, scope):
        names.instances[place] = names.class_of(value, scope)
    elif names.makes_unknown(value, scope):
        names.unknown.add(place)
