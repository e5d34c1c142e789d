"""The argument `recompile_limit` of torch.compile, which counts in the place of torch's setting."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
import torch

from tests.support.recording import record

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(
        "recompile_limit" not in inspect.signature(torch.compile).parameters,
        reason="torch.compile has no such argument before torch 2.13",
    ),
]


def test_the_limit_of_a_torch_compile_is_reported_as_its_argument(tmp_path: Path) -> None:
    got = record(
        tmp_path,
        """
        def f(x, a):
            return x + len(a)

        own, usual = torch.compile(f, recompile_limit=2), torch.compile(lambda x, a: x * len(a))

        def main():
            for length in range(1, 5):
                own(torch.ones(2), "a" * length)
                usual(torch.ones(2), "a" * length)
        """,
    )
    (refused,) = got.parts.not_compiled
    assert refused.reason.startswith("recompile_limit=2 of its torch.compile is reached")
    limits = [(got.parts.frames[item.frame].function, item.own_limit) for item in got.parts.compiles]
    assert limits.count(("f", 2)) == 2
    assert {limit for function, limit in limits if function != "f"} == {None}
