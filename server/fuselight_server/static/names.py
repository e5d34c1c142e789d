"""What names mean in one file: imports, aliases, classes that are modules, variables that hold one.

Invariant: a name that cannot be resolved from this file alone stands for nothing, so `re.compile` and a method that
happens to be called `compile` are never taken for torch's.
"""

from __future__ import annotations

import builtins
import re
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fuselight_server.static.facts import Expression, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    | timm\.models\.(?:\w+\.)*[A-Z]\w*$""",
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
    is_async: bool
    is_generator: bool
    takes_self: bool


@dataclass(frozen=True)
class Class:
    """A class of the file."""

    bases: tuple[Expression, ...]
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
    modules: dict[Scope, bool] = field(default_factory=dict, compare=False)

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
            (found for around in self._visible(scope) if (found := (*around, *parts)) in self.classes), None
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
            return next((found for at in places if (found := self.instances.get((at, value.dotted)))), None)
        if value.function.owner is not None:
            return (
                self.class_of(value.function.owner, scope)
                if value.function.attribute in _SAME_OBJECT
                else None
            )
        return self.class_at(value.function.dotted, scope) if value.function.dotted else None

    def forward(self, path: Scope, depth: int = 0) -> Signature | None:
        """The `forward` of the class at `path`, its own or inherited within the file."""
        found = self.classes[path]
        if found.forward is not None or depth >= len(self.classes):
            return found.forward
        for base in found.bases:
            own = self.class_at(base.dotted, path[:-1]) if base.dotted else None
            if own is not None and own != path and (inherited := self.forward(own, depth + 1)) is not None:
                return inherited
        return None

    def is_module(self, path: Scope) -> bool:
        """Whether the class at `path` is an nn.Module, as far as this file tells."""
        if path not in self.modules:
            self.modules[path] = False  # a class among its own bases
            self.modules[path] = self._derives(path)
        return self.modules[path]

    def may_be_module(self, path: Scope, depth: int = 0) -> bool:
        """Whether the class at `path` is an nn.Module, or could be one by a base that is not in this file."""
        if self.is_module(path):
            return True
        for base in self.classes[path].bases if depth < len(self.classes) else ():
            own = self.class_at(base.dotted, path[:-1]) if base.dotted else None
            if own is not None and own != path:
                if self.may_be_module(own, depth + 1):
                    return True
            elif base.dotted != "object" and not self._is_known_otherwise(base, path[:-1]):
                return True
        return False

    def holds_unknown(self, dotted: str, scope: Scope) -> bool:
        """Whether the variable `dotted` was made by a class imported from elsewhere, in a file that knows torch."""
        found = any((around, dotted) in self.unknown for around in self._attribute_scopes(dotted, scope))
        return found and any(full.partition(".")[0] == "torch" for full in self.imported.values())

    def makes_unknown(self, value: Expression, scope: Scope) -> bool:
        """Whether `value` makes an object of a class that was imported, and of which this file tells no more."""
        made = value.function
        if made is None:
            return False
        if made.owner is not None:
            return made.attribute in _SAME_OBJECT and self.makes_unknown(made.owner, scope)
        full = self.full(made.dotted, scope) if made.dotted else ""
        is_class = full.rpartition(".")[2][:1].isupper()
        return is_class and full.partition(".")[0] != "torch" and not self._is_known_otherwise(made, scope)

    def names_module(self, expression: Expression, scope: Scope) -> bool:
        """Whether `expression` names a module class."""
        if not expression.dotted:
            return False
        path = self.class_at(expression.dotted, scope)
        if path is not None:
            return self.is_module(path)
        return _MODULES.match(self.full(expression.dotted, scope)) is not None

    def is_instance(self, value: Expression, scope: Scope) -> bool:
        """Whether `value` makes a module: `Net()`, `Net().cuda()`, `AutoModel.from_pretrained(...)`."""
        if value.choices:
            return any(self.is_instance(choice, scope) for choice in value.choices)
        made = value.function
        if made is None:
            return bool(value.dotted) and self.holds_module(value.dotted, scope)
        if made.owner is not None:
            return made.attribute in _SAME_OBJECT and self.is_instance(made.owner, scope)
        if self.names_module(made, scope) or _MODULE_MAKERS.match(self.full(made.dotted, scope)):
            return True
        owner, _, method = made.dotted.rpartition(".")
        if method in _FACTORIES:
            return self.names_module(Expression(owner, dotted=owner), scope)
        return method in _SAME_OBJECT and bool(owner) and self.holds_module(owner, scope)

    def holds_module(self, dotted: str, scope: Scope) -> bool:
        """Whether the variable `dotted` is known to hold a module."""
        return any((around, dotted) in self.instances for around in self._attribute_scopes(dotted, scope))

    def compiles(self, value: Expression, scope: Scope) -> bool:
        """Whether calling `value` with a function compiles it: `torch.compile`, `partial(torch.compile)`, an alias."""
        if value.function is None:
            if not value.dotted:
                return False
            if any(
                (around, value.dotted) in self.compilers
                for around in self._attribute_scopes(value.dotted, scope)
            ):
                return True
            return self.full(value.dotted, scope) in _COMPILE
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
            found = self.compiled(choice, scope)
            if found is not None:
                return found
        if value.function is None:
            return None
        if value.function.owner is not None:
            return (
                self.compiled(value.function.owner, scope)
                if value.function.attribute in _SAME_OBJECT
                else None
            )
        return _compiled_argument(value) if self.compiles(value.function, scope) else None

    def _is_known_otherwise(self, name: Expression, scope: Scope) -> bool:
        """Whether `name` is known to stand for no module: it is Python's own, or an autograd function."""
        if not name.dotted:
            return False
        full = self.full(name.dotted, scope)
        if not full:
            return not self.stars and hasattr(builtins, name.dotted)
        return _NOT_MODULES.match(full) is not None or full.partition(".")[0] in sys.stdlib_module_names

    def _derives(self, path: Scope) -> bool:
        found = self.classes[path]
        scope = path[:-1]
        unknown = False
        for base in found.bases:
            own = self.class_at(base.dotted, scope) if base.dotted else None
            if own == path:
                continue
            if own is not None:
                if self.is_module(own):
                    return True
                continue
            full = self.full(base.dotted, scope) if base.dotted else ""
            if _MODULES.match(full):
                return True
            unknown = unknown or (bool(full) and not _NOT_MODULES.match(full))
        # A base class from another file together with a `forward` method: in practice a module.
        return unknown and found.forward is not None and found.forward.takes_self

    def _visible(self, scope: Scope) -> Iterator[Scope]:
        """`scope` and those around it, but for classes that are not the innermost: their names are not seen inside."""
        for end in range(len(scope), -1, -1):
            around = scope[:end]
            if end == len(scope) or around not in self.classes:
                yield around

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
