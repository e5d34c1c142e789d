"""What a call can reach is read without code of the user's: of a proxy, of a list with an iterator of its own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fuselight.capture.calls import reachable_objects
from fuselight.capture.calls.reachable_objects import MethodOwners, objects_with_method
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


def test_what_a_large_function_reaches_is_not_walked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    walked: list[int] = []
    usual = reachable_objects._held_by

    def held_by(value: Any) -> list[Any]:
        walked.append(id(value))
        return usual(value)

    monkeypatch.setattr(reachable_objects, "_held_by", held_by)
    monkeypatch.setattr(reachable_objects, "_MAX_WALKED", 3)
    code, passed = Target.run.__code__, Target()
    method = (stacks.absolute(code.co_filename), code.co_firstlineno)
    owner, owners = Reader([Target(), Target()]), MethodOwners()
    first = owners.of(method, None, owner, [passed, owner])
    assert {id(item) for item in first} == {id(item) for item in (*list.__iter__(owner), passed)}
    assert len(first) == 3
    walked.clear()
    another = Target()
    assert owners.of(method, None, owner, [another]) == [*first[:2], another]
    assert walked == [id(another)]


def test_an_object_that_replaces_another_between_calls_is_found() -> None:
    code, owner, owners = Target.run.__code__, SimpleNamespace(target=Target()), MethodOwners()
    method = (stacks.absolute(code.co_filename), code.co_firstlineno)
    assert owners.of(method, None, owner, []) == [owner.target]
    owner.target = Target()
    assert owners.of(method, None, owner, []) == [owner.target]
