"""What a call can reach is read without code of the user's: of a proxy, of a list with an iterator of its own."""

from __future__ import annotations

from typing import Any

from fuselight.capture.calls.reachable_objects import objects_with_method
from fuselight.capture.dynamo import stacks


class Target:
    def run(self) -> None:
        """The method that is looked for."""


class Lazy:
    """Whatever is asked of it makes the object, which fails."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)


class Reader(list[Any]):
    def __iter__(self) -> Any:
        raise RuntimeError("read")


def test_no_code_of_the_users_runs() -> None:
    target = Target()
    code = Target.run.__code__
    method = (stacks.absolute(code.co_filename), code.co_firstlineno)
    given = [Lazy(), Reader([{"a": (target,)}])]
    assert list(objects_with_method(method, None, given)) == [target]
