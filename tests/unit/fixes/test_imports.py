"""Imports that a fix leaves without a use go with it; those that something may use stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuselight_server.fixes.syntax import imports
from fuselight_server.fixes.syntax.imports import without_unused_imports
from tests.support.offered_remedies import offered

CODE = "\n\ndef f(x):\n    return x * np.random.rand()\n"
LATER = CODE.replace("np.random.rand()", "torch.rand(())")


@pytest.mark.parametrize(
    ("imports", "left"),
    [
        ("import numpy as np\nimport torch\n", "import torch\n"),
        ("import torch\r\nimport numpy as np\r\n", "import torch\r\n"),
        ("from lib import np, other\nimport torch\n", "from lib import other\nimport torch\n"),
        ("import os, numpy as np\n", "import os\n"),
        ("from lib import (\n    np,\n)\n", None),
        ("import numpy as np  # noqa: F401\n", None),
        ("try:\n    import numpy as np\nexcept ImportError:\n    pass\n", None),
        ("import numpy as np\n\n__all__ = ['f']\n", None),
        ('import numpy as np\n\nKIND: "np.ndarray"\n', None),
        ("import numpy as np\n# fuselight: f(np.zeros(4))\n", None),
        ("import numpy as np\n\nvalue = globals()['np']\n", None),
        ("from lib\timport  other, np\n", "from lib\timport  other\n"),
        ("from lib import np\n", None),
        ("from . import np\n", None),
        ("from .random import np\n", None),
        ("import lib as np\n", None),
        ("import os, lib as np\n", None),
        ('"""a\u2028b\x0c."""\nimport os\nimport numpy as np\n', '"""a\u2028b\x0c."""\nimport os\n'),
        ("from numpy import np as np\n", None),
        ("import np.random\n", None),
    ],
)
def test_an_import_goes_only_with_its_last_use(imports: str, left: str | None) -> None:
    expected = imports if left is None else left
    assert without_unused_imports("m.py", imports + CODE, imports + LATER) == expected + LATER


def test_a_package_may_export_what_it_imports() -> None:
    text = "import numpy as np\n"
    assert without_unused_imports("a/__init__.py", text + CODE, text + LATER) == text + LATER


def test_an_import_that_was_not_used_before_stays() -> None:
    text = "import os\nimport numpy as np\n"
    assert without_unused_imports("m.py", text + CODE, text + LATER) == f"import os\n{LATER}"


def test_a_rewrite_has_no_import_that_it_leaves_unused() -> None:
    text = f"import numpy as np\nimport torch\n{CODE}"
    remedy = offered(text, "np.random.rand()", "GB0007")[0]
    assert remedy.texts["m.py"] == f"import torch\n{LATER}"


TAKES = {
    "from m import np\n": True,
    "from pkg.m import f, np as numpy\n": True,
    "from .m import (\n    f,\n    np,\n)\n": True,
    "from m import *\n": True,
    "import m\nm.np.zeros(4)\n": True,
    "from pkg import m as lib\nlib.np.zeros(4)\n": True,
    "import numpy as np\nfrom m import f\n": False,
    "from m import f; np = f\n": False,
    "from other import np\n": False,
    "from mm import np\n": False,
}


@pytest.mark.parametrize("other", TAKES)
def test_an_import_stays_that_another_file_takes_from_here(other: str, tmp_path: Path) -> None:
    path = tmp_path / "pkg" / "m.py"
    path.parent.mkdir()
    path.write_text(f"import numpy as np\n{CODE}")
    (tmp_path / "train.py").write_text(other)
    (tmp_path / "venv").mkdir()
    (tmp_path / "venv" / "n.py").write_text("from m import np\n")
    expected = f"import numpy as np\n{LATER}" if TAKES[other] else LATER
    old, new = path.read_text(), f"import numpy as np\n{LATER}"
    assert without_unused_imports(str(path), old, new, [str(tmp_path)]) == expected


@pytest.mark.parametrize("bound", ["MAX_FILES", "_MAX_FOLDERS"])
def test_in_a_workspace_that_is_too_large_imports_stay(
    bound: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "n.py").write_text("")
    old, new = (f"import numpy as np\n{code}" for code in (CODE, LATER))
    assert without_unused_imports("m.py", old, new, [str(tmp_path)]) == LATER
    monkeypatch.setattr(imports, bound, 2)
    assert without_unused_imports("m.py", old, new, [str(tmp_path)]) == new
