"""Skipped work gives the same text as the real work."""

from __future__ import annotations

import ast
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest
import torch

from fuselight.adapters.torch_api.dynamo import frame_text_cache
from fuselight.capture import dynamo

pytestmark = pytest.mark.torch


@pytest.mark.skipif(sys.version_info < (3, 11), reason="before Python 3.11 no columns are marked")
def test_a_frame_is_formatted_once_and_reads_as_python_writes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        len(str(1) + 1)  # type: ignore[operator]
    except TypeError as error:
        stack = traceback.extract_tb(error.__traceback__)
    wanted = stack.format()
    parsed = []
    parse = ast.parse

    def counted(*args: Any) -> Any:
        parsed.append(args)
        return parse(*args)

    monkeypatch.setattr(ast, "parse", counted)
    with dynamo.Recorder(roots=()):
        texts = [traceback.StackSummary.from_list(stack).format() for _ in range(5)]
    assert texts == [wanted] * 5
    assert len(parsed) <= 1  # Python parses the line to mark the operator
    assert stack.format() == wanted


def test_dynamo_says_which_files_it_has_listed_and_lists_one_ahead(tmp_path: Path) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x.sin()

    torch._dynamo.reset()
    torch.compile(f, backend="eager")(torch.ones(2))
    assert __file__ in frame_text_cache.named_files()
    other = tmp_path / "other.py"
    other.write_text("def g():\n    pass\n")
    frame_text_cache.name_functions(str(other))
    assert str(other) in frame_text_cache.named_files()


@pytest.mark.parametrize("text", [b"def g():\n    pass\n  pass\n", b"# coding: no-such\n", b"x = '\xff'\n"])
def test_a_file_that_is_no_longer_python_is_omitted(tmp_path: Path, text: bytes) -> None:
    other = tmp_path / "other.py"
    other.write_bytes(text)
    frame_text_cache.name_functions(str(other))
    assert str(other) not in frame_text_cache.named_files()
