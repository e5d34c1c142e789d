"""What the source of a context manager says of an exception: never more than the code does."""

from __future__ import annotations

import ast
from pathlib import Path
from types import TracebackType

import pytest

from fuselight.shared.suppression import exit_suppresses, static_value

FATAL = (RuntimeError, LookupError)
LATER: tuple[type[BaseException], ...] | None = None


class Managed:
    fatal: tuple[type[BaseException], ...] = (IndexError,)

    def __enter__(self) -> None:
        pass


class KeepsNamedTypes(Managed):
    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> bool:
        return kind is not None and not issubclass(kind, FATAL)


class EndsNamedTypes(Managed):
    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> bool:
        return kind is not None and issubclass(kind, FATAL)


class EndsOtherTypes(Managed):
    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> bool:
        if kind is None or issubclass(kind, (OSError, pytest.UsageError)):
            return False
        return kind is not KeyError


class AsksAnAttribute(Managed):
    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> bool:
        return not isinstance(error, self.fatal)


class AsksAVariable(Managed):
    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> bool:
        return kind not in (LATER or ())


@pytest.mark.parametrize(
    "kind", [KeepsNamedTypes, EndsNamedTypes, EndsOtherTypes, AsksAnAttribute, AsksAVariable]
)
def test_it_suppresses_only_what_its_exit_ends(kind: type) -> None:
    raised = [base.__name__ for base in IndexError.__mro__]
    text = Path(__file__).read_text(encoding="utf-8")
    assert exit_suppresses(kind, raised, lambda _: ast.parse(text)) == (
        kind in {EndsNamedTypes, EndsOtherTypes}
    )


def test_no_property_runs_for_the_value_of_a_name() -> None:
    class Settings:
        @property
        def guard(self) -> object:
            raise AssertionError

        @staticmethod
        def quiet() -> None:
            pass

    variables = {"SETTINGS": Settings()}
    assert static_value("SETTINGS.quiet", variables) is Settings.quiet
    assert static_value("SETTINGS.guard", variables) is vars(Settings)["guard"]
    assert static_value("SETTINGS.absent.name", variables) is None
    assert static_value("IndexError", variables) is IndexError
