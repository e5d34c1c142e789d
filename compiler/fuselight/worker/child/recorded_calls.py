"""The calls of a program that Dynamo begins to compile, in the notation of directives, for runs without the program.

Invariant: a process that user code forked records nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import CodeType

from fuselight.shared.inputs.records import MAX_CALLS, ConstructorCalls, call_text, is_resumed
from fuselight.shared.report import Recorded, is_user_file
from fuselight.worker.child.compiled_roots import CompiledRoots
from fuselight.worker.child.originals import getpid


class RecordedCalls:
    """The recorded calls of one run."""

    def __init__(self, user_roots: Sequence[str], compiled: CompiledRoots, pid: int) -> None:
        """`user_roots`: folders of the user's code. `compiled`: what it has given to torch.compile."""
        self._user_roots = user_roots
        self._compiled = compiled
        self._pid = pid
        self._constructors: ConstructorCalls | None = None
        """While calls are recorded: how the modules of the program were made."""
        self._calls: dict[Recorded, None] = {}

    @property
    def calls(self) -> tuple[Recorded, ...]:
        """Each call once, in the order of the first ones."""
        return tuple(self._calls)

    def listen(self) -> None:
        """Record the calls from now on."""
        self._constructors = ConstructorCalls(self._user_roots)
        self._constructors.listen()

    def forget_calls(self) -> None:
        """Drop the recorded calls, and record none from now on."""
        self._constructors = None
        self._calls.clear()

    def record_call(self, code: CodeType, f_locals: Mapping[str, object]) -> None:
        """Record a call of the program that Dynamo begins to compile."""
        if self._constructors is None or len(self._calls) >= MAX_CALLS or getpid() != self._pid:
            return
        if is_resumed(code):
            return
        root = self._compiled.of_frame(code, f_locals)
        if root is None and not is_user_file(code.co_filename, self._user_roots):
            return
        target, text = call_text(code, f_locals, self._constructors)
        path, line, at = code.co_filename, code.co_firstlineno, root.location if root else None
        if root is not None and at is not None:
            target = root.name
            if not is_user_file(path, self._user_roots):
                # No notation: the call is not rebuilt.
                path, line, text = at.path, at.line, f"<{target}>()"
        self._calls.setdefault(Recorded(path, target, line, text, at))
