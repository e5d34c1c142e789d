"""Directives that can be read and do not fit what they call: which part is wrong, and what to write instead."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fuselight.capture.calls.unfit_directives import check_arguments, uncallable_words, uncalled_words
from fuselight.shared.inputs import DirectiveError, parse_directive


class Net(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, x: Any, mask: Any = None) -> Any: ...


class Plain(torch.nn.Module):
    pass


@pytest.mark.parametrize(
    ("text", "called", "part", "message"),
    [
        ("f()", Net.forward, "()", "missing a required argument: 'self'"),
        ("net(f32[2], msak=None)", Net(1), "msak=None", "'msak', did you mean `mask`?"),
        ("net(f32[2], trian=True)", Net(1), "trian=True", "'trian', did you mean `train`?"),
        ("net(f32[2], other=True)", Net(1), "other=True", "'other'; it takes (x, mask)"),
        ("net(1, 2, 3)", Net(1), "(1, 2, 3)", "too many positional arguments; it takes (x, mask)"),
        (
            "Net.forward(f32[2])",
            Net.forward,
            "(f32[2])",
            "`Net` is a class: write `Net()` for an object of it",
        ),
    ],
)
def test_arguments_that_do_not_fit(text: str, called: Any, part: str, message: str) -> None:
    directive = parse_directive(text)
    values = dict.fromkeys((keyword.arg for keyword in directive.call.keywords), None)
    with pytest.raises(DirectiveError, match="these arguments do not fit") as raised:
        check_arguments(directive, called, list(directive.call.args), {str(key): None for key in values})
    assert message in raised.value.message
    assert text[raised.value.start : raised.value.end] == part


@pytest.mark.parametrize(
    ("text", "kind", "spelled"),
    [
        ("Plain(f32[2, 3])", Plain, "Plain()(f32[2, 3])"),
        ("Plain(f32[])", Plain, "Plain()(f32[])"),
        ("Plain()", Plain, "Plain()(f32[4, 8])"),
        ("Net(8)", Net, "Net(8)(f32[4, 8])"),
        ("Net(f32[2, 3])", Net, "Net(...)(f32[2, 3])"),
    ],
)
def test_a_class_that_is_not_called_has_its_call(text: str, kind: type, spelled: str) -> None:
    assert uncalled_words(parse_directive(text), kind).endswith(f"does not call it: write `{spelled}`")


def test_a_function_that_is_called_twice() -> None:
    directive = parse_directive("f(f32[2])(f32[2])")
    assert "`f(f32[2])` is the call already" in uncallable_words(directive, torch.ones(2))
    assert uncallable_words(parse_directive("f(f32[2])"), 3) == "int objects cannot be called"
