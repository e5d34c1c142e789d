"""Exceptions that an assert of the graph replaces: only those that are nothing but an exception."""

from __future__ import annotations

import pytest

from fuselight_server.fixes.rewrites.families import rewrites
from tests.support.offered_remedies import finding_at, offered

_CODE = "\n\n\ndef f(x):\n    if x.sum() > 9:\n        raise {}\n    return x * 2\n"
_LOG = "import torch\nfrom errors import Other\n\nSEEN = []\n\n\n"
KEPT = {
    "of Python": ("", "OverflowError('large')"),
    "without a message": ("", "ValueError"),
    "without a body": ("class Bad(ValueError): ...", "Bad('large')"),
    "with a base of the file": ("class Base(Exception):\n    pass\n\n\nclass Bad(Base):\n    pass", "Bad(3)"),
    "with a constructor that stores": (
        "class Bad(Exception):\n    def __init__(self, name):\n        super().__init__(str(name))\n        self.a = 1",
        "Bad('x')",
    ),
    "with a method that is called later": (
        "class Bad(Exception):\n    def show(self):\n        SEEN.append(self)",
        "Bad('x')",
    ),
}
LOST = {
    "counts": (
        "class Bad(Exception):\n    def __init__(self, n):\n        super().__init__(n)\n        SEEN.append(n)",
        "Bad('x')",
    ),
    "counts in a base": (
        "class Base(Exception):\n    def __init__(self):\n        SEEN.append(1)\n\n\nclass Bad(Base):\n    pass",
        "Bad()",
    ),
    "counts in a class variable": (
        "class Bad(Exception):\n    count = 0\n\n    def __init__(self):\n        Bad.count += 1",
        "Bad()",
    ),
    "stores by a property": (
        "class Bad(Exception):\n    def __init__(self):\n        self.n = 1\n\n    def n(self, _): SEEN.append(1)",
        "Bad()",
    ),
    "is created by code of its class": (
        "class Bad(Exception):\n    def __new__(cls):\n        SEEN.append(cls)\n        return super().__new__(cls)",
        "Bad()",
    ),
    "calls a function for its message": ("", "ValueError(describe(x))"),
    "is imported": ("", "Other('x')"),
    "has the name of an exception of Python": (
        "class ValueError(Exception):\n    def __init__(self):\n        SEEN.append(1)",
        "ValueError()",
    ),
    "is what a function gives": ("", "make()"),
}


@pytest.mark.parametrize("case", KEPT)
def test_an_exception_that_keeps_its_arguments_becomes_an_assert(case: str) -> None:
    definition, raised = KEPT[case]
    text = f"{_LOG}{definition}{_CODE.format(raised)}"
    assert "assert_async" in [remedy.kind for remedy in offered(text, "x.sum() > 9")]


@pytest.mark.parametrize("case", LOST)
def test_an_exception_that_does_more_is_refused(case: str) -> None:
    definition, raised = LOST[case]
    text = f"{_LOG}{definition}{_CODE.format(raised)}"
    assert "assert_async" not in [remedy.kind for remedy in offered(text, "x.sum() > 9")]
    finding, report = finding_at(text, "x.sum() > 9")
    reasons = {
        refusal.kind: refusal.reason for refusal in rewrites(finding, report, {"m.py": text}.get).refused
    }
    assert raised.partition("(")[0] in reasons["assert_async"] or "describe" in reasons["assert_async"]


def test_a_message_that_calls_a_function_is_refused() -> None:
    text = "import torch\n\n\ndef f(x):\n    assert x.sum() > 9, report(x)\n    return x\n"
    finding, report = finding_at(text, "x.sum() > 9")
    assert "assert_async" not in [remedy.kind for remedy in offered(text, "x.sum() > 9")]
    assert "`report(x)`" in next(iter(rewrites(finding, report, {"m.py": text}.get).refused)).reason
