"""The functions that Dynamo met, by the names that the user knows, and those that it did not compile."""

from __future__ import annotations

import threading
from dataclasses import replace
from types import CodeType

from fuselight.adapters.torch_api.dynamo import frames
from fuselight.capture.dynamo import stacks
from fuselight.capture.dynamo.wrappers import Callee
from fuselight.shared.report import Frame, Location, NotCompiled


def is_in_thread() -> bool:
    """Whether the code that runs is not the main thread's."""
    return threading.current_thread() is not threading.main_thread()


class FrameLog:
    """Each frame once, whatever the number of its compiles; each refusal once, whatever the number of its calls."""

    def __init__(self) -> None:
        self._callees: dict[CodeType, Callee] = {}
        self._indices: dict[tuple[object, ...], int] = {}
        self._frames: list[Frame] = []
        self._refused: dict[NotCompiled, None] = {}

    def frames(self) -> tuple[Frame, ...]:
        """The frames; a Compile has the index of its own."""
        return tuple(self._frames)

    def refused(self) -> tuple[NotCompiled, ...]:
        """What was not compiled, in the order in which it was met."""
        return tuple(self._refused)

    def forget(self, uncompiled_code: NotCompiled) -> None:
        """Drop a refusal that was recorded."""
        del self._refused[uncompiled_code]

    def add(self, code: CodeType, callee: Callee) -> int:
        """Record that `code` is compiled as the function `callee`; returns the index of its frame."""
        self._callees[code] = callee
        resumed = stacks.resumes_at(code)
        original = frames.original_code(code)
        carried = None if resumed is None else stacks.carried(code)
        columns = None if resumed is None else stacks.resumes_in_line(code)
        key = (original.co_filename, callee.function, original.co_firstlineno, resumed, carried, columns)
        index = self._indices.setdefault(key, len(self._frames))
        if index == len(self._frames):
            self._frames.append(
                Frame(
                    callee.function,
                    callee.location,
                    resumed,
                    parameters=callee.parameters,
                    wrapper=callee.wrapper,
                    wraps=callee.wraps,
                    carried=carried,
                )
            )
        return index

    def location(self, code: CodeType) -> Location:
        """The `def` line of the function that the user knows."""
        callee = self._callees.get(code)
        return callee.location if callee else stacks.def_location(code)

    def refuse(self, uncompiled_code: NotCompiled, code: CodeType | None = None) -> None:
        """Record a refusal; with `code`, under the function name that the user knows."""
        named = uncompiled_code if code is None else self._named(uncompiled_code, code)
        self._refused.setdefault(replace(named, in_thread=is_in_thread()))

    def refuse_for_limit(self, uncompiled_code: NotCompiled, code: CodeType) -> None:
        """Record once that a limit was reached, although each later call without a cache entry reaches it again."""
        named = self._named(uncompiled_code, code)
        known = {(old.kind, old.location) for old in self._refused}
        if (named.kind, named.location) not in known:
            self.refuse(named)

    def _named(self, uncompiled_code: NotCompiled, code: CodeType) -> NotCompiled:
        callee = self._callees.get(code)
        if callee is None:
            return uncompiled_code
        return replace(
            uncompiled_code, function=callee.function, location=callee.location, wrapper=callee.wrapper
        )
