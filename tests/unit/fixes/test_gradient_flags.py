"""Rewrites of tensors that are to require a gradient: flags and parameters."""

from __future__ import annotations

import textwrap

import pytest

from tests.support.offered_remedies import first, offered, refused, rewrites

REWRITES = {
    "plain_tensor: a new tensor": (
        (
            "with torch.no_grad():\n    p = torch.nn.Parameter(torch.zeros(4))\n    x = x + p\nreturn x\n",
            "torch.nn.Parameter(torch.zeros(4))",
            "GB0264",
        ),
        ("plain_tensor", "with torch.no_grad():\n    p = torch.zeros(4)\n    x = x + p\nreturn x\n"),
    ),
    "plain_tensor: a computed value": (
        (
            "with torch.inference_mode():\n    return torch.nn.Parameter(x * 2) + torch.pi\n",
            "torch.nn.Parameter(x * 2)",
            "GB0264",
        ),
        ("plain_tensor", "with torch.inference_mode():\n    return (x * 2).detach() + torch.pi\n"),
    ),
}


@pytest.mark.parametrize("case", REWRITES)
def test_a_parameter_becomes_a_tensor(case: str) -> None:
    (body, mark, *code), after = REWRITES[case]
    assert first(body, mark, *code) == after


@pytest.mark.parametrize(
    "body",
    [
        "p = torch.nn.Parameter(x)\nreturn y + p\n",
        "with torch.no_grad():\n    p = torch.nn.Parameter(x)\n    y = y + p\nreturn y * p\n",
        "with torch.no_grad():\n    p = torch.nn.Parameter(x)\n    return p\n",
    ],
)
def test_a_parameter_stays_where_gradients_are_recorded(body: str) -> None:
    assert rewrites(body, "torch.nn.Parameter(x)", "GB0264") == []
    assert [rewrite.kind for rewrite in refused(body, "torch.nn.Parameter(x)", "GB0264")] == ["plain_tensor"]


def test_a_parameter_of_the_module_stays() -> None:
    body = "self.p = torch.nn.Parameter(x)\nreturn x\n"
    assert rewrites(body, "torch.nn.Parameter(x)", "GB0264") == []


IN_EAGER_MODE = "if not torch.compiler.is_compiling():\n    "
FLAGS = {
    "h.requires_grad = True\nreturn h\n": f"{IN_EAGER_MODE}h.requires_grad = True\nreturn h\n",
    "h.requires_grad_()\nreturn h\n": f"{IN_EAGER_MODE}h.requires_grad_()\nreturn h\n",
    "h.requires_grad = False\nreturn h\n": "",
    "h.requires_grad_(False)\nreturn h\n": "",
    "return h.requires_grad_()\n": ("return h if torch.compiler.is_compiling() else h.requires_grad_()\n"),
    "x = torch.zeros(2).requires_grad_(True)\nreturn x\n": (
        "x = torch.zeros(2) if torch.compiler.is_compiling() else torch.zeros(2).requires_grad_(True)\nreturn x\n"
    ),
    "return [h.requires_grad_()]\n": "",
}


@pytest.mark.parametrize("body", FLAGS)
def test_a_tensor_that_is_to_require_a_gradient(body: str) -> None:
    head = "import torch\n\n\ndef f(h):\n"
    mark = next(text for text in ("h.requires_grad", "torch.zeros(2).requires_grad_(True)") if text in body)
    remedies = offered(head + textwrap.indent(body, "    "), mark, "GB0206")
    texts = [textwrap.dedent(remedy.texts["m.py"][len(head) :]) for remedy in remedies]
    assert texts == ([FLAGS[body]] if FLAGS[body] else [])
