"""Effects that leave the compiled code: the text before, and the text after."""

from __future__ import annotations

import pytest

from fuselight_server.fixes.rewrites.families import FixClass, Remedy
from tests.support.offered_remedies import offered

HEAD = "import time\n\nimport torch\n\n\n"
SPLITS = {
    "a clock before and after, and a return that computes": (
        (
            '@torch.compile\ndef f(x):\n    """Doc."""\n    # begin\n    a = time.time()\n\n    # work\n    y = x * 2\n'
            "    z = y + 1\n    print(time.time() - a)  # end\n    return z * 2\n"
        ),
        "time.time()",
        (
            'def f(x):\n    """Doc."""\n    # begin\n    a = time.time()\n    result = _compiled_f(x)\n'
            "    print(time.time() - a)  # end\n    return result\n\n\n"
            "@torch.compile\ndef _compiled_f(x):\n    # work\n    y = x * 2\n    z = y + 1\n    return z * 2\n"
        ),
    ),
    "a time that is returned": (
        "def f(x):\n    a = time.time()\n    y = x * 2\n    b = time.time() - a\n    return y, b\n",
        "time.time()",
        (
            "def f(x):\n    a = time.time()\n    y = _compiled_f(x)\n    b = time.time() - a\n    return y, b\n\n\n"
            "@torch.compile\ndef _compiled_f(x):\n    y = x * 2\n    return y\n"
        ),
    ),
    "a seed": (
        (
            "@torch.compile(mode='default')  # why\ndef f(x, *, n=1):\n    torch.manual_seed(n)\n"
            "    return torch.rand(4) + x\n"
        ),
        "torch.manual_seed(n)",
        (
            "def f(x, *, n=1):\n    torch.manual_seed(n)\n    return _compiled_f(x, n=n)\n\n\n"
            "@torch.compile(mode='default')  # why\ndef _compiled_f(x, *, n=1):\n    return torch.rand(4) + x\n"
        ),
    ),
    "a file": (
        (
            "def f(x):\n    with open('a') as file:\n        text = file.read().strip()\n    n = float(text)\n"
            "    return x * n\n"
        ),
        "open('a')",
        (
            "def f(x):\n    with open('a') as file:\n        text = file.read().strip()\n"
            "    return _compiled_f(x, text)\n\n\n"
            "@torch.compile\ndef _compiled_f(x, text):\n    n = float(text)\n    return x * n\n"
        ),
    ),
    "a lock": (
        "def f(x):\n    with LOCK:\n        # one\n        y = x * 2\n\n        y = y + 1\n    return y\n",
        "with LOCK",
        (
            "def f(x):\n    with LOCK:\n        return _compiled_f(x)\n\n\n"
            "@torch.compile\ndef _compiled_f(x):\n    # one\n    y = x * 2\n\n    y = y + 1\n    return y\n"
        ),
    ),
}


def hoisted(text: str, mark: str, code: str = "GB0007") -> list[Remedy]:
    return [remedy for remedy in offered(HEAD + text, mark, code) if remedy.kind == "hoist"]


@pytest.mark.parametrize("case", SPLITS)
def test_an_effect_leaves_the_compiled_code(case: str) -> None:
    text, mark, after = SPLITS[case]
    (remedy,) = hoisted(text, mark)
    assert remedy.texts["m.py"] == HEAD + after
    assert remedy.fix_class is (FixClass.CHANGES if "computes" in case else FixClass.EXACT)


BETWEEN = {
    "an effect": (
        ("torch.manual_seed(3)", "before the compiled code"),
        "def f(x):\n    y = x + 1\n    torch.manual_seed(3)\n    return torch.rand(4) + y\n",
        """\
def f(x):
    torch.manual_seed(3)
    return _compiled_f(x)


@torch.compile
def _compiled_f(x):
    y = x + 1
    return torch.rand(4) + y
""",
    ),
    "a block": (
        ("with LOCK", "covers the whole compiled call"),
        "def f(x):\n    y = x + 1\n    with LOCK:\n        y = y * 2\n    return y\n",
        """\
def f(x):
    with LOCK:
        return _compiled_f(x)


@torch.compile
def _compiled_f(x):
    y = x + 1
    y = y * 2
    return y
""",
    ),
}


@pytest.mark.parametrize("case", BETWEEN)
def test_code_that_leaves_from_between_statements_says_what_changes(case: str) -> None:
    (mark, changes), text, after = BETWEEN[case]
    (remedy,) = hoisted(text, mark)
    assert remedy.texts["m.py"] == HEAD + after
    assert remedy.fix_class is FixClass.CHANGES
    assert changes in remedy.changes


NOT_MOVED = {
    "a file that the code before writes": (
        "def f(x):\n    Path('a').write_text('1')\n    text = Path('a').read_text()\n    return x * len(text)\n",
        "Path('a').read_text()",
    ),
    "a time that is computed with": (
        "def f(x):\n    a = time.time()\n    return x * a\n",
        "time.time()",
    ),
    "a seed between an early return and the rest": (
        "def f(x):\n    if x is None:\n        torch.manual_seed(3)\n    return x + 1\n",
        "torch.manual_seed(3)",
    ),
    "a name that the code before assigns": (
        "def f(x):\n    n = x.shape[0]\n    torch.manual_seed(n)\n    return torch.rand(4) + x\n",
        "torch.manual_seed(n)",
    ),
    "a tensor after the code": (
        "def f(x):\n    a = time.time()\n    y = x * 2\n    b = y * (time.time() - a)\n    return b\n",
        "time.time()",
    ),
    "an early return before a time": (
        (
            "def f(x):\n    a = time.time()\n    if x is None:\n        return x\n    y = x * 2\n"
            "    print(time.time() - a)\n    return y\n"
        ),
        "time.time()",
    ),
    "a function that is not the target": (
        "def g(x):\n    torch.manual_seed(3)\n    return x + 1\n\n\ndef f(x):\n    return g(x)\n",
        "torch.manual_seed(3)",
    ),
    "another decorator": (
        "@torch.no_grad()\ndef f(x):\n    torch.manual_seed(3)\n    return x + 1\n",
        "torch.manual_seed(3)",
    ),
    "a generator": (
        "def f(x):\n    torch.manual_seed(3)\n    yield x + 1\n",
        "torch.manual_seed(3)",
    ),
    "a lock that the code makes": (
        "def f(x):\n    lock = Lock()\n    with lock:\n        return x + 1\n",
        "with lock",
    ),
    "a block that binds a name": (
        "def f(x):\n    with LOCK as key:\n        return x + key\n",
        "with LOCK as key",
    ),
    "a comment at the block": (
        "def f(x):\n    with LOCK:  # one\n        return x + 1\n",
        "with LOCK",
    ),
    "text over lines": (
        'def f(x):\n    with LOCK:\n        a = """a\nb"""\n        return x + len(a)\n',
        "with LOCK",
    ),
    "a file that is read within the code": (
        "def f(x):\n    y = x + 1\n    with open('a') as file:\n        y = y * float(file.read())\n    return y\n",
        "open('a')",
    ),
}


@pytest.mark.parametrize("case", NOT_MOVED)
def test_an_effect_stays_where_the_code_needs_it(case: str) -> None:
    assert hoisted(*NOT_MOVED[case]) == []


def measured(text: str) -> str:
    (remedy,) = (remedy for remedy in offered(text, "time.time()", "GB0007") if remedy.kind == "is_compiling")
    assert remedy.fix_class is FixClass.CHANGES
    return remedy.texts["m.py"]


def test_a_measurement_is_skipped_in_compiled_code() -> None:
    text = (
        f"{HEAD}def f(x):\n    a = time.time()\n    for _ in range(3):\n        x = x + 1\n"
        "        b = time.time() - a\n        print(b)  # seconds\n    return x\n"
    )
    assert measured(text) == (
        f"{HEAD}def f(x):\n    if not torch.compiler.is_compiling():\n        a = time.time()\n"
        "    for _ in range(3):\n        x = x + 1\n        if not torch.compiler.is_compiling():\n"
        "            b = time.time() - a\n            print(b)  # seconds\n    return x\n"
    )


@pytest.mark.parametrize("shown", ["print(b)", "print(time.time() - a)"])
def test_what_another_fix_has_skipped_in_compiled_code_is_skipped_once(shown: str) -> None:
    guard = "    if not torch.compiler.is_compiling():\n"
    after = f"    x = x + 1\n{guard}        b = time.time() - a\n        {shown}\n    return x\n"
    text = f"{HEAD}def f(x):\n    a = time.time()\n{after}"
    assert measured(text) == f"{HEAD}def f(x):\n{guard}        a = time.time()\n{after}"
    of_other = after.replace("not torch.compiler.is_compiling()", "torch.compiler.is_compiling()")
    assert measured(f"{HEAD}def f(x):\n    a = time.time()\n{of_other}").count("if not ") == 2


@pytest.mark.parametrize(
    "body",
    [
        "    a = time.time()\n    return x * a\n",
        "    a = time.time()\n    self.seconds = time.time() - a\n    return x\n",
        "    a = time.time()\n    if time.time() - a > 1:\n        x = x + 1\n    return x\n",
        "    return x * time.time()\n",
    ],
)
def test_a_time_that_has_a_use_is_measured(body: str) -> None:
    remedies = offered(f"{HEAD}def f(x):\n{body}", "time.time()", "GB0007")
    assert [remedy.kind for remedy in remedies] == []
