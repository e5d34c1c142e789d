"""Where a file calls a module that it compiles: all calls, or the reason why others may exist.

Invariant: a module counts only if the file makes one object of its class, and passes neither the object nor the
compiled one on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import libcst as cst

from fuselight_server.fixes.syntax.file_tree import FileTree
from fuselight_server.fixes.syntax.refusals import RewriteRefusedError
from fuselight_server.fixes.syntax.tree import dotted

_SAME_MODULE = frozenset(
    ("bfloat16", "cpu", "cuda", "double", "eval", "float", "half", "requires_grad_", "to", "train")
)
"""Methods that return the module itself."""


def calls_of_module(
    tree: FileTree, owner: cst.ClassDef, is_imported: Callable[[str], bool]
) -> list[cst.Call]:
    """The calls of the one compiled object of a class. Raises RewriteRefusedError."""
    return _ModuleUses(tree, owner, is_imported).calls()


@dataclass(frozen=True)
class _ModuleUses:
    """The uses of a class and of its object. Methods raise RewriteRefusedError."""

    tree: FileTree
    owner: cst.ClassDef
    is_imported: Callable[[str], bool]

    def calls(self) -> list[cst.Call]:
        """Each call of the compiled module."""
        value = self._same_module(self._construction())
        outer = self._compile_around(value)
        if outer is not None:
            return self._of_value(outer, is_compiled=True)
        return self._of_value(value, is_compiled=False)

    def _construction(self) -> cst.Call:
        name = self.owner.name.value
        inside = {id(node) for node in self.tree.all(self.owner)}
        uses = [load for load in self.tree.loads(self.tree.module, name) if id(load) not in inside]
        call = self.tree.parents[uses[0]] if len(uses) == 1 else None
        if not isinstance(call, cst.Call) or call.func is not uses[0]:
            raise RewriteRefusedError(f"the file does not make exactly one object of `{name}`")
        if isinstance(self.tree.scope(self.owner), cst.Module) and self.is_imported(name):
            raise RewriteRefusedError(f"another file imports `{name}`")
        forwards = [
            node
            for node in self.tree.all()
            if isinstance(node, cst.Attribute)
            and node.attr.value in {"forward", "__call__"}
            and dotted(node).count(".") == 1
        ]
        if forwards:
            raise RewriteRefusedError(
                f"line {self.tree.line(forwards[0])} calls `{dotted(forwards[0])}` itself"
            )
        return call

    def _same_module(self, node: cst.CSTNode) -> cst.CSTNode:
        """The outermost of calls like `.cuda()` around a module."""
        attribute = self.tree.parents[node]
        call = self.tree.parents.get(attribute)
        if (
            isinstance(attribute, cst.Attribute)
            and attribute.attr.value in _SAME_MODULE
            and isinstance(call, cst.Call)
            and call.func is attribute
        ):
            return self._same_module(call)
        return node

    def _compile_around(self, value: cst.CSTNode) -> cst.CSTNode | None:
        """The torch.compile that has a value as its first argument."""
        call = self.tree.parents[self.tree.parents[value]]
        if (
            isinstance(call, cst.Call)
            and call.args
            and call.args[0].value is value
            and self._is_compile(call)
        ):
            return self._same_module(call)
        return None

    def _is_compile(self, call: cst.Call) -> bool:
        return bool(self.tree.torch) and dotted(call.func) == f"{self.tree.torch}.compile"

    def _of_value(self, value: cst.CSTNode, *, is_compiled: bool) -> list[cst.Call]:
        """Calls of an expression: called at once, or assigned to a name."""
        parent = self.tree.parents[value]
        if isinstance(parent, cst.Call) and parent.func is value and is_compiled:
            return [parent]
        if not isinstance(parent, cst.Assign) or parent.value is not value or len(parent.targets) != 1:
            raise RewriteRefusedError(f"the module on line {self.tree.line(value)} is not assigned to a name")
        name = dotted(parent.targets[0].target)
        calls = list(self._uses(parent, name, is_compiled=is_compiled))
        if not calls:
            raise RewriteRefusedError(f"no call of `{name}` is in this file")
        return calls

    def _uses(self, assigned: cst.Assign, name: str, *, is_compiled: bool) -> Iterator[cst.Call]:
        self._check_name(assigned, name)
        for use in sorted(self._references(assigned, name), key=self._start):
            parent = self.tree.parents[use]
            compiled = None if is_compiled else self._compile_around(use)
            if compiled is not None:
                yield from self._of_compiled(compiled, name, assigned)
                if self._is_rebound(compiled, name):
                    is_compiled = True
            elif isinstance(parent, cst.Attribute):
                is_compiled = is_compiled or self._compiles_in_place(parent)
            elif isinstance(parent, cst.Call) and parent.func is use and is_compiled:
                yield parent
            elif isinstance(parent, cst.Call) and parent.func is use:
                raise RewriteRefusedError(f"line {self.tree.line(use)} calls `{name}` without torch.compile")
            else:
                raise RewriteRefusedError(
                    f"line {self.tree.line(use)} passes `{name}` on, so other calls may exist"
                )

    def _of_compiled(self, compiled: cst.CSTNode, name: str, assigned: cst.Assign) -> list[cst.Call]:
        """Calls of what torch.compile returned for a name."""
        if self._is_rebound(compiled, name):
            if self.tree.scope(compiled) is not self.tree.scope(assigned):
                raise RewriteRefusedError(
                    f"line {self.tree.line(compiled)} compiles `{name}` in another function"
                )
            return []
        return self._of_value(compiled, is_compiled=True)

    def _is_rebound(self, compiled: cst.CSTNode, name: str) -> bool:
        """Whether the compiled module takes the name of the module."""
        parent = self.tree.parents[compiled]
        return isinstance(parent, cst.Assign) and [dotted(target.target) for target in parent.targets] == [
            name
        ]

    def _compiles_in_place(self, attribute: cst.Attribute) -> bool:
        """Whether `model.compile(...)` is called."""
        call = self.tree.parents[attribute]
        return isinstance(call, cst.Call) and call.func is attribute and attribute.attr.value == "compile"

    def _check_name(self, assigned: cst.Assign, name: str) -> None:
        """Only the assignments that are known may bind the name."""
        if not name or (name.count(".") and (not name.startswith("self.") or name.count(".") > 1)):
            raise RewriteRefusedError(f"the module on line {self.tree.line(assigned)} has no plain name")
        bound = [
            target
            for node in self.tree.all()
            if isinstance(node, cst.Assign)
            for target in node.targets
            if dotted(target.target) == name and not self._is_known(node, assigned, name)
        ]
        others = [] if "." in name else self._other_stores(name)
        if bound or others:
            raise RewriteRefusedError(f"line {self.tree.line((*bound, *others)[0])} binds `{name}` again")
        is_global = "." not in name and isinstance(self.tree.scope(assigned), cst.Module)
        if is_global and self.is_imported(name):
            raise RewriteRefusedError(f"another file imports `{name}`")

    def _is_known(self, node: cst.Assign, assigned: cst.Assign, name: str) -> bool:
        """Whether an assignment is the one in question, or compiles the name."""
        value = node.value
        while (
            isinstance(value, cst.Call)
            and isinstance(value.func, cst.Attribute)
            and not self._is_compile(value)
        ):
            value = value.func.value
        is_compile = isinstance(value, cst.Call) and self._is_compile(value) and bool(value.args)
        return node is assigned or (
            is_compile and dotted(cst.ensure_type(value, cst.Call).args[0].value) == name
        )

    def _other_stores(self, name: str) -> list[cst.Name]:
        """Bindings of a name that are no assignments."""
        stores = self.tree.stores(name)
        return [store for store in stores if not isinstance(self.tree.parents[store], cst.AssignTarget)]

    def _references(self, assigned: cst.Assign, name: str) -> list[cst.BaseExpression]:
        if "." not in name:
            return list(self.tree.loads(self.tree.module, name))
        attribute = name.partition(".")[2]
        uses = [
            node
            for node in self.tree.all()
            if isinstance(node, cst.Attribute)
            and node.attr.value == attribute
            and not isinstance(self.tree.parents[node], cst.AssignTarget)
        ]
        classes = {self._class_of(node) for node in (*uses, assigned)}
        foreign = next((node for node in uses if dotted(node) != name), None)
        if foreign is not None or len(classes) != 1:
            line = self.tree.line(foreign or assigned)
            raise RewriteRefusedError(f"line {line} may use `{name}` of another object")
        return list(uses)

    def _class_of(self, node: cst.CSTNode) -> cst.CSTNode | None:
        return next(
            (parent for parent in self.tree.ancestors(node) if isinstance(parent, cst.ClassDef)), None
        )

    def _start(self, node: cst.CSTNode) -> tuple[int, int]:
        start = self.tree.ranges[node].start
        return start.line, start.column
