"""Remedies that are settings of torch._dynamo or arguments of torch.compile."""

from __future__ import annotations

import dataclasses
import textwrap

import pytest

from fuselight.shared.report import (
    Break,
    Compile,
    Environment,
    Frame,
    Location,
    Outcome,
    Report,
    TargetRef,
    Tier,
    Versions,
)
from fuselight_server.base.finding import Finding, Severity, Span
from fuselight_server.fixes.rewrites.families import FixClass, rewrites
from tests.support.offered_remedies import finding_at

HEAD = '"""Doc."""\nfrom __future__ import annotations\n\nimport torch  # why\nimport logging\n\n# about f\n'
HEAD_OF_CHOICES = "import torch\n\n\ndef f(self, x, y, m):\n"
ITEM = f"{HEAD}def f(x):\n    return x[: x.max().item()]\n"


def report(text: str = "", *, torch: str = "2.13.0+cpu", **config: str) -> Report:
    line = text[: text.find("def f")].count("\n") + 1
    return Report(
        *(Versions("3.11", torch, None, "0", "linux", "python"), TargetRef("m.py", "f", line, "function")),
        *(Tier.CAPTURE, 1),
        environment=Environment(config=config),
    )


def finding(text: str, mark: str, code: str, *, title: str = "title", subject: str = "") -> Finding:
    before = text[: text.index(mark)]
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n") - 1
    span = Span("m.py", line, column, line, column + len(mark))
    return Finding(
        *(code, Severity.WARNING, title, "message", span, Tier.CAPTURE, "f", "", "2.13.0"), subject=subject
    )


def test_a_switch_follows_the_imports() -> None:
    (remedy,) = rewrites(finding(ITEM, "x.max().item()", "GB0124"), report(), {"m.py": ITEM}.get).remedies
    assert (remedy.kind, remedy.fix_class) == ("capture_scalar_outputs", FixClass.EXACT)
    assert remedy.is_setting
    assert remedy.texts == {
        "m.py": ITEM.replace(
            "import logging\n",
            "import logging\ntorch._dynamo.config.capture_scalar_outputs = True\n",
        )
    }


def test_the_switch_goes_into_the_file_of_the_target() -> None:
    other = dataclasses.replace(report(), target=TargetRef("main.py", "f", 1, "function"))
    main = "from m import f\r\nprint(f)\r\n"
    (remedy,) = rewrites(
        finding(ITEM, "x.max().item()", "GB0124"), other, {"m.py": ITEM, "main.py": main}.get
    ).remedies
    assert remedy.texts == {
        "main.py": "from m import f\r\nimport torch\r\n"
        "torch._dynamo.config.capture_scalar_outputs = True\r\nprint(f)\r\n"
    }


@pytest.mark.parametrize(
    ("text", "of_run"),
    [
        (ITEM, report(capture_scalar_outputs="True")),
        (ITEM.replace("# about", "torch._dynamo.config.capture_scalar_outputs = False\n# about"), report()),
        (ITEM.replace("import", "inport"), report()),
    ],
)
def test_no_switch_that_the_run_had(text: str, of_run: Report) -> None:
    assert rewrites(finding(text, "x.max().item()", "GB0124"), of_run, {"m.py": text}.get).remedies == ()


def test_a_logger_is_ignored_after_it_was_made() -> None:
    text = (
        f"{HEAD}logger = logging.getLogger(__name__)\n\n\ndef f(x):\n    logger.warning('a')\n    return x\n"
    )
    actual_remedies = rewrites(
        finding(text, "logger.warning('a')", "GB0291"), report(), {"m.py": text}.get
    ).remedies
    assert [remedy.kind for remedy in actual_remedies] == ["ignore_logging_functions", "is_compiling"]
    assert actual_remedies[0].texts["m.py"] == text.replace(
        "(__name__)\n",
        "(__name__)\ntorch._dynamo.config.ignore_logging_functions.add(logger.warning)\n",
    )
    assert all(remedy.changes and remedy.fix_class is FixClass.CHANGES for remedy in actual_remedies)


COMPILED = {
    "@torch.compile\ndef f(x): ...\n": "@torch.compile(dynamic=True)\ndef f(x): ...\n",
    "@torch.compile()\ndef f(x): ...\n": "@torch.compile(dynamic=True)\ndef f(x): ...\n",
    "def f(x): ...\ng = torch.compile(f)  # fast\n": "def f(x): ...\ng = torch.compile(f, dynamic=True)  # fast\n",
    "def f(x): ...\ng = torch.compile('é' and f, mode='a')\n": (
        "def f(x): ...\ng = torch.compile('é' and f, mode='a', dynamic=True)\n"
    ),
    "@torch.compile\ndef g(x): ...\n\n\n@torch.compile\ndef f(x): ...\n": (
        "@torch.compile\ndef g(x): ...\n\n\n@torch.compile(dynamic=True)\ndef f(x): ...\n"
    ),
}
NOT_COMPILED = [
    "def f(x): ...\n",
    "@torch.compile(dynamic=False)\ndef f(x): ...\n",
    "@torch.compile(**options)\ndef f(x): ...\n",
    "def f(x): ...\ng = torch.compile(f)\nh = torch.compile(f, mode='a')\n",
    "def f(x): ...\ng = torch.compile(\n    f,\n)\n",
]


@pytest.mark.parametrize("body", [*COMPILED, *NOT_COMPILED])
def test_sizes_that_vary_are_compiled_dynamically(body: str) -> None:
    text = f"import torch\n\n\n{body}"
    sizes = finding(
        text, "def f", "FL201", title="recompiled: x.size(0) was 4, now 7", subject="dimension x.size(0)"
    )
    actual_remedies = rewrites(sizes, report(text), {"m.py": text}.get).remedies
    expected = [f"import torch\n\n\n{COMPILED[body]}"] if body in COMPILED else []
    assert [remedy.texts["m.py"] for remedy in actual_remedies] == expected


def test_an_integer_of_a_module_is_not_guarded_by_value() -> None:
    text = f"{HEAD}def f(x): ...\n"
    counter = finding(
        text, "def f", "FL201", title="recompiled: self.c was 1, now 2", subject="number self.c"
    )
    (remedy,) = rewrites(counter, report(text), {"m.py": text}.get).remedies
    assert remedy.kind == "allow_unspec_int_on_nn_module"
    fraction = dataclasses.replace(counter, title="recompiled: self.c was 0.5, now 2")
    assert rewrites(fraction, report(text), {"m.py": text}.get).remedies == ()


def test_a_declared_encoding_is_not_applied_to_the_text() -> None:
    text = "# -*- coding: no-such-encoding -*-\nimport torch\n\n\n"
    text += "@torch.compile\ndef f(x):\n    return x.max().item()\n"
    (switch,) = rewrites(finding(text, "x.max().item()", "GB0124"), report(text), {"m.py": text}.get).remedies
    assert switch.texts["m.py"].startswith(
        "# -*- coding: no-such-encoding -*-\nimport torch\ntorch._dynamo.config."
    )
    sizes = finding(text, "def f", "FL201", subject="dimension x.size(0)")
    (dynamic,) = rewrites(sizes, report(text), {"m.py": text}.get).remedies
    assert dynamic.texts["m.py"] == text.replace("@torch.compile", "@torch.compile(dynamic=True)")


CHOICES = {
    "n = max(x.max().item(), y.max().item())\nreturn x * n\n": False,
    "n = x.max().item()\nk = y.max().item()\nreturn x * min(n, k)\n": False,
    "n = max(0.5, x.max().item())\nreturn x * n\n": False,
    "n = max(x.max().item(), 0.5)\nreturn x * n\n": True,
    "n = max(x.max().item(), 1)\nreturn x * n\n": False,
    "return x / max(x.max().item(), 1)\n": True,
    "n = max(x.max().item(), 0.1, 0.2)\nreturn x * n\n": False,
    "n = max(m.argmax().item(), 3)\nreturn x[:n]\n": True,
    "n = max(m.sum().int().item(), 0.5)\nreturn x * n\n": False,
    "n = max(len(y), int(x.sum()))\nreturn x[:n]\n": True,
    "n = max(x.tolist())\nreturn x * n\n": False,
    "first, *_ = sorted([x.max().item(), 0.5])\nreturn x * first\n": False,
    "n = x.max().item()\nreturn x * n + max(2, 3.5)\n": True,
    "max = torch.maximum\nn = x.max().item()\nreturn x * n * max(x, y)\n": True,
    "return x * (x.max().item() == y.max().item())\n": False,
    "n, k = x.max().item(), y.max().item()\nreturn x if n != k else y\n": False,
    "for n in x.tolist():\n    if n == y.max().item():\n        x = x * n\nreturn x\n": False,
    "n: float = x.max().item()\nk = 0\nk += y.max().item()\nreturn x if n == k else y\n": False,
    "n, k = m.argmax().item(), m.argmin().item()\nreturn x if n != k else y\n": True,
    "n = x.max().item()\nk = y.max().item()\nreturn x if n != k else y\n": False,
    "n = x.max().item()\nreturn x if n != n else y\n": False,
    "n = x.max().item()\nseen = [y.min().item(), 2.0]\nreturn x if n in seen else y\n": False,
    "n = x.max().item()\nreturn x if n in (0.5, 2.0) else y\n": True,
    "n = m.argmax().item()\nreturn x if n == m.argmin().item() else y\n": True,
    "n = m.argmax().item()\nreturn x if n > y.min().item() else y\n": False,
    "n = x.item()\nreturn x if n > y.item() else y\n": True,
    "n = x.item()\nreturn x if n >= y.item() else y\n": False,
    "n = m.argmax().item()\nreturn x if n > 2.0 ** 53 else y\n": False,
    "limit = 1e17\nn = m.argmax().item()\nreturn x if 0 < n < limit else y\n": False,
    "n = m.argmax().item()\nreturn x if n > 0.5 else y\n": True,
    "n = m.argmax().item()\nreturn x if n > 2 ** 60 else y\n": True,
    "n = x.max().item()\nreturn x if n == float('inf') else y\n": True,
    "n = x.max().item()\nreturn x if math.isclose(n, y.max().item()) else y\n": False,
    "return x if x.max().item().__eq__(y.max().item()) else y\n": False,
    "return x * x.tolist().count(y.max().item())\n": False,
}

COMPARED = (
    "n, k = m.argmax().item(), m.argmin().item()\nreturn x if n != k else y\n",
    "n = m.argmax().item()\nreturn x if n == m.argmin().item() else y\n",
    "n = x.item()\nreturn x if n > y.item() else y\n",
)
"""Two numbers of tensors that another caller may pass as an integer and a float."""


TAKEN = (
    "x.max().item()",
    "x.item()",
    "m.argmax().item()",
    "m.sum().int().item()",
    "int(x.sum())",
    "x.tolist()",
)


@pytest.mark.parametrize("body", CHOICES)
def test_a_number_by_whose_order_python_chooses_is_not_traced(body: str) -> None:
    mark = next(name for name in TAKEN if name in body)
    text = HEAD_OF_CHOICES + textwrap.indent(body, "    ")
    finding, traced = finding_at(text, mark, "GB0124")
    kinds = [remedy.kind for remedy in rewrites(finding, traced, {"m.py": text}.get).remedies]
    assert ("capture_scalar_outputs" in kinds) is CHOICES[body]
    for remedy in rewrites(finding, traced, {"m.py": text}.get).remedies:
        is_limited = remedy.kind == "capture_scalar_outputs" and body in COMPARED
        assert ("as doubles" in remedy.caveat) is is_limited
        assert not is_limited or remedy.fix_class is FixClass.EQUAL
    reasons = [refusal.reason for refusal in rewrites(finding, traced, {"m.py": text}.get).refused]
    assert any("and compiled code does not" in reason for reason in reasons) is not CHOICES[body]


METHODS = """\
import torch


class Trainer:
    def step(self, x):
        return x * x.max().item()

    def fit(self, xs):
        best = 9.0
        for x in xs:
            best = min(best, self.step(x).sum().item())
        return best
"""


@pytest.mark.parametrize(("caller", "is_offered"), [("fit", True), ("other", False)])
def test_what_python_chooses_in_code_that_is_not_compiled_refuses_no_setting(
    caller: str, *, is_offered: bool
) -> None:
    finding, traced = finding_at(METHODS, "x.max().item()", "GB0124")
    calling = (Location("m.py", 11, function=caller),)
    frames = (Frame("Trainer.step", Location("m.py", 5)),)
    traced = dataclasses.replace(
        traced, frames=frames, compiles=(Compile("0/0", 0, Outcome.COMPILED, caller=calling),)
    )
    known = rewrites(finding, traced, {"m.py": METHODS}.get)
    assert ("capture_scalar_outputs" in [remedy.kind for remedy in known.remedies]) is is_offered


CHOOSING = "\n\ndef g(x, y):\n    return x * max(x.max().item(), y.max().item())\n"


@pytest.mark.parametrize(
    ("line", "of_other", "is_offered"),
    [(9, False, False), (9, True, False), (5, False, True), (5, True, True)],
)
def test_a_setting_is_refused_by_each_break_that_it_traces(
    line: int,
    of_other: bool,  # noqa: FBT001 - a row
    is_offered: bool,  # noqa: FBT001 - a row
) -> None:
    text = f"{HEAD_OF_CHOICES}    return x * x.sum().item()\n{CHOOSING}"
    at = Break("0/0", ("GB0124",), ("type",), (Location("m.py", line, function="g"),))
    finding, traced = finding_at(text, "x.sum().item()", "GB0124", breaks=() if of_other else (at,))
    others = [dataclasses.replace(traced, breaks=(at,))] if of_other else []
    known = rewrites(finding, traced, {"m.py": text}.get, others)
    assert ("capture_scalar_outputs" in [remedy.kind for remedy in known.remedies]) is is_offered
