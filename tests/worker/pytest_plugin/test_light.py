"""A session without checks does not pay for the plugin."""

from __future__ import annotations

from pathlib import Path

from tests.support.pytest_runs import ROOT, run_pytest, write_files

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
    ran = run_pytest(tmp_path, fresh=True)
    assert "loaded []" in ran.output
    assert ran.summary("test_fails") == "FAILED test_plain.py::test_fails - assert 1 == 2"


def test_without_torch_a_check_says_what_to_do(tmp_path: Path) -> None:
    write_files(
        tmp_path,
        {
            "pytest.ini": "[pytest]\n",
            "test_plain.py": "def test_check(fuselight_check):\n    pass\n",
            "conftest.py": "import sys\n\nsys.modules['torch'] = None\n",
        },
    )
    ran = run_pytest(tmp_path, fresh=True)
    assert "needs torch in the Python that runs the tests. Install torch for" in ran.section(
        "ERROR at setup of test_check"
    )


def test_the_wheel_has_the_entry_point() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert "[project.entry-points.pytest11]" in text
    assert 'fuselight = "fuselight_server.pytest_plugin"' in text
