"""Advice to return or to pass a value: not in functions of which others decide what they get and return."""

from __future__ import annotations

import pytest

from fuselight.shared.report import GuardCause, Location
from fuselight_server.explain.findings import findings
from tests.support.recompilations import again, failed
from tests.support.reports import at, broken, report

TORCH = "/lib/torch/nn/modules/module.py"
STORE, RETURN = "Store the value as a tensor", "Return the tensor"
OUTPUT, GRADIENT = "Return it as one more output", "Do this with the gradient"
READ = "y.mean().item()"


def _hints(text: str, *, function: str, caller: str = "") -> tuple[str, ...]:
    """The advice for the number that is read in a function, which a line of torch may call."""
    lines = dict(enumerate(text.split("\n"), 1))
    line, row = next((number, row) for number, row in lines.items() if READ in row)
    place = at(line, (row.index(READ), row.index(READ) + len(READ)), function=function)
    above = Location(TORCH, 7, function="inner")
    stack = (at(1, function="step"), above, place) if caller else (place,)
    facts = report(breaks=(broken(*stack, gb="GB0124", frame_function="step"),))
    read = {TORCH: {7: caller}}
    (finding,) = findings(facts, read_line=lambda path, number: read.get(path, lines).get(number))
    return finding.hints


@pytest.mark.parametrize(
    ("text", "function", "step"),
    [
        ("def made():\n    def tap(y):\n        {}\n    return tap\n\nb.register_hook(made())", "tap", STORE),
        ("def tap(name, m, x, y):\n    {}\n\nb.register_forward_hook(partial(tap, 'a'))", "tap", STORE),
        ("def run(b):\n    b.register_forward_hook(lambda m, x, y: {})", "<lambda>", STORE),
        ("def run(b):\n    later = lambda y: {}\n    b.register_forward_hook(tap)", "<lambda>", RETURN),
        ("class Box:\n    @property\n    def mean(self):\n        {}", "mean", STORE),
        ("class Box:\n    @mean.setter\n    def mean(self, y):\n        {}", "mean", STORE),
        ("class Box:\n    def __setattr__(self, name, y):\n        {}", "__setattr__", STORE),
        ("class Box:\n    def __call__(self, y):\n        {}", "__call__", RETURN),
        ("class Box:\n    def __len__(self):\n        {}", "__len__", STORE),
        ("def parts(y):\n    {}\n    yield y", "parts", STORE),
        ("def parts(y):\n    {}\n    def inner():\n        yield y\n    return y", "parts", RETURN),
        ("class Double:\n    @staticmethod\n    def forward(ctx, y):\n        {}", "forward", OUTPUT),
        ("class Double:\n    @staticmethod\n    def backward(ctx, y):\n        {}", "backward", GRADIENT),
        ("class Net:\n    def forward(self, y):\n        {}", "forward", RETURN),
    ],
)  # fmt: skip
def test_only_a_function_whose_callers_get_its_result_is_told_to_return_more(
    text: str, function: str, step: str
) -> None:
    shown = f"print({READ})"
    assert _hints(text.format(shown), function=function)[0].startswith(step)


@pytest.mark.parametrize(
    ("caller", "step"),
    [("hook_result = hook(self, args, result)", STORE), ("result = forward_call(*args)", RETURN)],
)
def test_the_line_of_torch_that_calls_a_function_shows_whether_it_is_a_hook(caller: str, step: str) -> None:
    text = f"def tap(m, x, y):\n    print({READ})"
    assert _hints(text, function="tap", caller=caller)[0].startswith(step)


@pytest.mark.parametrize(
    ("registered", "first"), [("", "Keep a fixed number"), ("b.register_forward_hook(made('a'))", STORE)]
)
def test_a_hook_that_adds_to_a_list_is_not_told_to_return_the_element(registered: str, first: str) -> None:
    text = f"def made(name):\n    def tap(m, x, y):\n        kept.append(y)\n    return tap\n{registered}"
    lines = dict(enumerate(text.split("\n"), 1))
    born = (at(3, (8, 12), function="tap"),)
    grown = [
        failed(f"len(kept) was {n}, now {n + 1}", source="kept", cause=GuardCause.LENGTH, born=born)
        for n in (1, 2)
    ]
    facts = report(recompiles=(again(grown[0]), again(grown[1], compile_id="0/2")))
    (finding,) = findings(facts, read_line=lambda _path, number: lines.get(number))
    assert finding.hints[0].startswith(first)
    assert any("eturn what is added" in hint for hint in finding.hints) is not bool(registered)


def test_a_hook_is_passed_nothing_more() -> None:
    text = "def tap(m, x, y):\n    y = y * TABLE[NAME]\n\nb.register_forward_hook(tap)"
    lines = dict(enumerate(text.split("\n"), 1))
    born = (at(2, (18, 22), function="tap"),)
    changed = failed(
        "NAME was 'a', now 'b'", source="NAME", cause=GuardCause.VALUE, was="'a'", now="'b'", born=born
    )
    facts = report(recompiles=(again(changed),))
    (finding,) = findings(facts, read_line=lambda _path, number: lines.get(number))
    (step,) = (hint for hint in finding.hints if hint.startswith("Compute `TABLE[NAME]` outside"))
    assert "A hook gets no argument of yours" in step
