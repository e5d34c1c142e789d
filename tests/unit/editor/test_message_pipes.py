"""The messages that an editor sends: one that was cut costs one pass over its bytes."""

from __future__ import annotations

import pytest

from fuselight_server.editor.handlers import pipes

_NESTED = b"[" * 300


@pytest.mark.parametrize(
    "text",
    [
        rb'"' + rb"print(\"[{}]\")\n" * 3000,
        rb'"' + rb"\"" * 3000 + b"\\",
        rb'"' + rb"a\\" * 3000,
        b'"' + b"x" * 3000,
    ],
    ids=["code with escaped quotes", "cut in an escape", "escaped backslashes", "no escape"],
)
def test_a_text_that_is_cut_is_one_token(text: bytes) -> None:
    """No part of it is searched a second time, so the work grows with the size of the message alone."""
    body = b'{"method": "textDocument/didOpen", "params": ' + _NESTED + text
    tokens = [match.span() for match in pipes._TOKEN.finditer(body)]
    assert tokens[-1] == (len(body) - len(text), len(body))
    assert pipes._deep_request(body) is None


@pytest.mark.parametrize("request_id", [7, "seven"])
def test_a_deep_request_that_is_cut_after_its_id_is_answered(request_id: int | str) -> None:
    """What the cut text contains does not count: neither brackets nor another ID."""
    named = b"7" if request_id == 7 else b'"seven"'
    cut = rb'"[{ \"id\": 8, \"'
    body = b'{"id": ' + named + b', "method": "shutdown", "params": ' + _NESTED + cut
    assert pipes._deep_request(body) == request_id
