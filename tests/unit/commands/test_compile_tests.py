"""Failed tests that are kept for the editor."""

from __future__ import annotations

from pathlib import Path

from fuselight.shared.report import Tier, data_key
from fuselight_server.base.finding import Finding, Severity, Span
from fuselight_server.base.store import TESTS, Store
from fuselight_server.commands.compile_tests import failed_test, keep_failed, read_failed


def finding_in(path: Path) -> Finding:
    return Finding(
        "GB0059", Severity.WARNING, "graph break", "why", Span(str(path), 1), Tier.CAPTURE, "Net", "", ""
    )


def test_a_test_that_ran_again_is_replaced_and_others_stay(tmp_path: Path) -> None:
    model, store = tmp_path / "model.py", Store.at(tmp_path)
    model.write_bytes(b"x = 1\n")
    first, second = (failed_test(f"test_{name}", [finding_in(model)]) for name in "ab")
    keep_failed(store, {"test_a", "test_b"}, [first, second])
    assert read_failed(store) == (first, second)
    assert first.files == {str(model): data_key(b"x = 1\n")}
    keep_failed(store, {"test_a"}, [])
    assert read_failed(store) == (second,)


def test_nothing_is_written_where_nothing_failed(tmp_path: Path) -> None:
    keep_failed(Store.at(tmp_path), {"test_a"}, [])
    assert list(tmp_path.iterdir()) == []


def test_a_finding_of_a_file_that_cannot_be_read_has_no_hash(tmp_path: Path) -> None:
    assert failed_test("test_a", [finding_in(tmp_path / "gone.py")]).files == {}


def test_a_damaged_file_reads_as_empty(tmp_path: Path) -> None:
    store = Store.at(tmp_path)
    store.prepare()
    for text in ("{", "[]", '{"schema": 9}', '{"schema": 1, "tests": [{}]}', '{"schema": 1, "tests": 3}'):
        (store.folder / TESTS).write_text(text)
        assert read_failed(store) == ()


def test_no_link_is_followed(tmp_path: Path) -> None:
    store, elsewhere = Store.at(tmp_path), tmp_path / "elsewhere.json"
    keep_failed(store, set(), [failed_test("test_a", [finding_in(tmp_path / "m.py")])])
    (store.folder / TESTS).rename(elsewhere)
    (store.folder / TESTS).symlink_to(elsewhere)
    assert read_failed(store) == ()
