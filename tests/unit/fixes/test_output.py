"""Rewrites of statements that print or log."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fuselight.shared.report import Location
from fuselight_server.explain.findings.advice.break_cures import INLINED
from fuselight_server.fixes.rewrites import families
from fuselight_server.fixes.rewrites.remedy import FixClass
from tests.support.offered_remedies import finding_at, first, offered, rewrites
from tests.support.reports import broken

REWRITES = {
    "graph_print: tensors and text": (
        (
            'print("sum", x.sum(), f"{y.mean():.2f} of {m!r}")\nreturn y\n',
            'print("sum", x.sum(), f"{y.mean():.2f} of {m!r}")',
            "GB0059",
        ),
        (
            "graph_print",
            'torch._higher_order_ops.print("sum {!s} {:.2f} of {!r}", x.sum(), y.mean(), m)\nreturn y\n',
        ),
    ),
    "is_compiling: print to a file": (
        ("print(x, file=y)\nreturn y\n", "print(x, file=y)", "GB0059"),
        ("is_compiling", "if not torch.compiler.is_compiling():\n    print(x, file=y)\nreturn y\n"),
    ),
    "is_compiling: print of text with braces": (
        ("print('{}', x)\nreturn y\n", "print('{}', x)", "GB0059"),
        ("is_compiling", "if not torch.compiler.is_compiling():\n    print('{}', x)\nreturn y\n"),
    ),
    "is_compiling: print over several lines": (
        (
            'y = x\nprint(\n    "a",  # one\n    x,\n)  # two\nreturn y\n',
            'print(\n    "a",  # one\n    x,\n)',
            "GB0059",
        ),
        (
            "is_compiling",
            """\
y = x
if not torch.compiler.is_compiling():
    print(
        "a",  # one
        x,
    )  # two
return y
""",
        ),
    ),
    "is_compiling: a logger": (
        ('logger.info("a %s", x)\nreturn y\n', 'logger.info("a %s", x)', "GB0291"),
        ("is_compiling", 'if not torch.compiler.is_compiling():\n    logger.info("a %s", x)\nreturn y\n'),
    ),
}


@pytest.mark.parametrize("case", REWRITES)
def test_a_statement_that_prints(case: str) -> None:
    (body, mark, *code), after = REWRITES[case]
    assert first(body, mark, *code) == after


READS = ("y.unique().numel()", "y.nonzero()", "y.histc(8).tolist()")
EFFECTS = ("y.add_(1)", "y.bernoulli()", "y.sum().backward()", "self.note(y)", "registry.unique()")


@pytest.mark.parametrize("value", [*READS, *EFFECTS])
def test_only_methods_that_read_a_tensor_may_be_skipped(value: str) -> None:
    call = f"logger.info('of %s', {value})"
    body = f"y = x.sin()\n{call}\nreturn y\n"
    after = f"y = x.sin()\nif not torch.compiler.is_compiling():\n    {call}\nreturn y\n"
    if value in READS:
        assert first(body, call, "GB0291") == ("is_compiling", after)
    else:
        assert rewrites(body, call, "GB0291") == []


REFUSED = {
    "print as a value": ("y = print(x)\nreturn y\n", "print(x)", "GB0059"),
    "print beside another statement": ("y = x; print(x)\nreturn y\n", "print(x)", "GB0059"),
    "print after a colon": ("if y: print(x)\nreturn y\n", "print(x)", "GB0059"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_no_rewrite_of_a_print_that_is_no_statement(case: str) -> None:
    body, mark, *code = REFUSED[case]
    assert rewrites(body, mark, *code) == []


def test_torch_is_imported_where_the_new_code_needs_it() -> None:
    text = "from math import pi\n\n\ndef f(x):\n    print(x)\n    return x * pi\n"
    *_, remedy = offered(text, "print(x)", "GB0059")
    assert remedy.texts["m.py"] == (
        "from math import pi\nimport torch\n\n\ndef f(x):\n"
        "    if not torch.compiler.is_compiling():\n        print(x)\n    return x * pi\n"
    )
    assert remedy.changes


@pytest.mark.parametrize("text", ["'a\\tb'", "'\\x1b[1m'", "f'a\tb{x}'"])
def test_text_that_cannot_be_seen_stays_as_it_is_written(text: str) -> None:
    body = f"import torch\n\n\ndef f(x):\n    print({text}, x)\n    return x\n"
    assert "graph_print" not in [remedy.kind for remedy in offered(body, f"print({text}, x)", "GB0059")]
    plain = "import torch\n\n\ndef f(x):\n    print('a', x)\n    return x\n"
    assert "graph_print" in [remedy.kind for remedy in offered(plain, "print('a', x)", "GB0059")]


@pytest.mark.parametrize("value", ["tuple(x.shape)", "x.shape", "x.size()", "[x]", "(x, x)", "f'{x.shape}'"])
def test_a_tuple_is_not_printed_in_the_graph(value: str) -> None:
    """Inductor fails on it: `example_value (2, 32, 64) is not a leaf node`."""
    body = f"import torch\n\n\ndef f(x):\n    print('a', {value})\n    return x\n"
    assert "graph_print" not in [remedy.kind for remedy in offered(body, f"print('a', {value})", "GB0059")]


CLOCK = "import time\nimport torch\n\n\ndef f(x):\n    print('größe', time.time())\n    return x\n"


@pytest.mark.parametrize("columns", [True, False])
@pytest.mark.parametrize("argument", [True, False])
def test_a_print_of_what_breaks_too_leaves_with_it(*, argument: bool, columns: bool) -> None:
    call = Location("m.py", 6, *((4, 6, 33) if columns else ()))
    clock = Location("m.py", 6, *((21, 6, 32) if columns else ()))
    breaks = (broken(call, gb="GB0059"), *([broken(clock, gb="GB0007")] if argument else []))
    remedies = offered(CLOCK, "print('größe', time.time())", "GB0059", breaks=breaks)
    in_place = ["graph_print", "reorderable_logging_functions"]
    assert [remedy.kind for remedy in remedies] == [*([] if argument else in_place), "is_compiling"]


@pytest.mark.parametrize("call", ["warnings.warn('slow')", "print(x)", "logger.info('a')"])
def test_a_warning_may_be_an_error(call: str) -> None:
    head = "import torch\nimport warnings\nimport logging\n\nlogger = logging.getLogger()\n\n\n"
    text = f"{head}def f(x):\n    {call}\n    return x\n"
    entries = {remedy.kind: remedy.changes for remedy in offered(text, call, "GB0059")}
    assert ("filter makes an error" in entries["is_compiling"]) is call.startswith("warnings")
    is_moved = "filter makes an error" in entries.get("reorderable_logging_functions", "")
    assert is_moved is call.startswith("warnings")


SHOWN = {
    "a tensor": ('print("a", x.sum())', True),
    "a tensor in an f-string": ('print(f"{x}")', True),
    "what is not known": ("print(self.norm(x))", True),
    "a tensor by its conversion": ('print(f"{x.mean()!r}")', True),
    "a tensor beside text": ('print("a", x.dtype, x.sum())', True),
    "a number by its format": ('print(f"{x.mean():.2f}")', False),
    "a comparison": ("print(x > 0)", False),
    "a detached tensor": ("print(x.detach())", False),
    "a number": ("print(x.sum().item())", False),
    "a dtype": ("print(x.dtype, m)", False),
}


@pytest.mark.parametrize("case", SHOWN)
def test_a_print_in_the_graph_names_the_gradient_that_it_does_not_show(case: str) -> None:
    statement, shows = SHOWN[case]
    text = f"import torch\n\n\ndef f(self, x, y, m):\n    {statement}\n    return x\n"
    remedies = {remedy.kind: remedy for remedy in offered(text, statement, "GB0059")}
    remedy = remedies["graph_print"]
    assert ("grad_fn" in remedy.changes, remedy.fix_class is FixClass.CHANGES) == (shows, shows)
    assert remedy.caveat == "it fails under torch.func and for nested or lazily conjugated tensors"


@pytest.mark.parametrize(
    ("argument", "is_said"),
    [("f'{x.shape[0]:03d}'", True), ("'a', f'{x}'", False), ("x", False), ("'{:03d}'", False)],
)
def test_the_exceptions_of_formats_that_compiled_calls_lose_are_said(
    argument: str,
    is_said: bool,  # noqa: FBT001 - a row
) -> None:
    call = f"print({argument})"
    remedies = offered(f"import torch\n\n\ndef f(x):\n    {call}\n    return x\n", call, "GB0059")
    (changes,) = (remedy.changes for remedy in remedies if remedy.kind == "is_compiling")
    assert changes.endswith(", nor raise exceptions of its formats") is is_said


def test_a_message_of_a_function_that_is_traced_into_is_not_moved_after_the_graph() -> None:
    text = "import torch\n\n\ndef f(x):\n    print('a', x.dtype)\n    return x\n"
    finding, report = finding_at(text, "print('a', x.dtype)", "GB0059")
    for data, is_moved in (((), True), ((INLINED,), False)):
        remedies = families.rewrites(replace(finding, data=data), report, {"m.py": text}.get).remedies
        assert ("reorderable_logging_functions" in {remedy.kind for remedy in remedies}) is is_moved


def test_no_setting_traces_the_backward_pass_that_compiled_autograd_captures() -> None:
    text = "import torch\n\n\ndef f(x):\n    x.sum().backward()\n    return x\n"
    finding, report = finding_at(text, "x.sum().backward()", "GB0123")
    for config, is_set in (({}, True), ({"compiled_autograd": "True"}, False)):
        environment = replace(report.environment, config=config)
        remedies = families.rewrites(finding, replace(report, environment=environment), {"m.py": text}.get)
        assert ("trace_autograd_ops" in {remedy.kind for remedy in remedies.remedies}) is is_set
