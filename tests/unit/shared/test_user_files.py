"""The rule for user files, which worker and server share."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fuselight.shared.report import Location, innermost_user_frame, is_user_file

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/w/model.py", True),
        ("/w/models/unet.py", True),
        ("/workspace/model.py", False),  # only the same letters at the start
        ("/elsewhere/model.py", False),
        ("/w", False),
        ("<frozen importlib>", False),
        ("/w/.venv/lib/python3.11/site-packages/torch/nn.py", False),
        (
            "/w/.venv/lib/python3.11/contextlib.py",
            False,
        ),  # the library of an interpreter inside the workspace
        ("/w/env/lib64/python3.12/json/decoder.py", False),
        ("/w/venv/Lib/site-packages/timm/layers.py", False),
        ("/w/vendor/dist-packages/timm/layers.py", False),
        ("/w/lib/python_tools/model.py", True),
        ("/w/site-packages.py", True),
    ],
)
def test_a_user_file_is_in_the_workspace_and_not_in_an_environment(path: str, *, expected: bool) -> None:
    assert is_user_file(path, ("/w",)) is expected
    assert is_user_file(path, ["/w/"]) is expected
    assert is_user_file(path, ("/other", "/w")) is expected


def test_an_opened_package_folder_is_the_users() -> None:
    root = "/usr/lib/python3.11/site-packages/timm"
    assert is_user_file(f"{root}/layers.py", (root,))
    assert not is_user_file(f"{root}/vendor/site-packages/x.py", (root,))


def test_the_root_of_the_file_system_can_be_a_workspace() -> None:
    assert is_user_file("/model.py", ("/",))


def test_the_innermost_user_frame_skips_libraries() -> None:
    stack = (
        Location("/w/train.py", 3),
        Location("/w/model.py", 9),
        Location("/w/.venv/site-packages/a.py", 2),
    )
    assert innermost_user_frame(stack, ("/w",)) == Location("/w/model.py", 9)
    assert innermost_user_frame(stack, ("/elsewhere",)) is None


def test_no_other_module_has_its_own_rule() -> None:
    prefix = re.compile(r"(?:startswith|is_relative_to)\([^)]*\broots?\b")
    sources = [*ROOT.glob("compiler/**/*.py"), *ROOT.glob("server/**/*.py")]
    names = [path.name for path in sources if prefix.search(path.read_text(encoding="utf-8"))]
    assert names == ["place.py"]
