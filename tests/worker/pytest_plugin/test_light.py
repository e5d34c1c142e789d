"""A session without checks does not pay for the plugin."""

from __future__ import annotations

from pathlib import Path

from tests.support.pytest_runs import run_pytest, write_files

HEAVY = (
    "torch",
    "fuselight",
    "libcst",
    "tree_sitter",
    "fuselight_server.explain",
    "fuselight_server.commands",
)


def test_a_session_without_checks_imports_nothing_of_ours(tmp_path: Path) -> None:
    write_files(
        tmp_path,
        {
            "pytest.ini": "[pytest]\nfuselight_expect = graphs=1\n",
            "test_plain.py": "def test_it():\n    pass\n\ndef test_fails():\n    assert 1 == 2\n",
            "conftest.py": (
                "import sys\n\ndef pytest_unconfigure():\n"
                f"    print('loaded', [name for name in {HEAVY} if name in sys.modules])\n"
            ),
        },
    )
    ran = run_pytest(tmp_path)
    assert "loaded []" in ran.output
    assert ran.summary("test_fails") == "FAILED test_plain.py::test_fails - assert 1 == 2"
