"""Numbers, counts and lists as text, and their fallback for a terminal that cannot show them."""

from __future__ import annotations

import time

import pytest

from fuselight_server.base.formatting import (
    cut_list,
    fit_encoding,
    format_change,
    format_count,
    format_estimate,
    format_first,
    format_flops,
    format_lines,
    format_list,
    format_moment,
    format_percent,
    format_ratio,
    format_size,
    format_spread,
    format_target,
    format_time,
)


@pytest.mark.parametrize(
    ("us", "expected"),
    [
        (0.0, "0 µs"), (0.004, "<0.01 µs"), (0.31, "0.31 µs"), (9.996, "10 µs"), (99.96, "100 µs"), (999.4, "999 µs"),
        (999.6, "1 ms"), (999_600.0, "1 s"), (12_345.0, "12.3 ms"), (5e9, "5,000 s"),
    ],
)  # fmt: skip
def test_a_time_has_the_unit_that_it_rounds_to(us: float, expected: str) -> None:
    assert format_time(us) == expected


@pytest.mark.parametrize(
    ("us", "expected"),
    [
        (0.0, "~0 µs"),
        (0.01, "<0.1 µs"),
        (0.05, "~0.1 µs"),
        (0.72, "~0.7 µs"),
        (41.0, "~41 µs"),
        (999.6, "~1 ms"),
        (2e6, "~2 s"),
    ],
)
def test_an_estimate_is_marked(us: float, expected: str) -> None:
    assert format_estimate(us) == expected


@pytest.mark.parametrize(
    ("part", "expected"), [(0.0, "± <1%"), (0.012, "± 1%"), (1.0, "± 100%"), (51.5, "± >100%")]
)
def test_a_spread_wider_than_the_time_has_no_number(part: float, expected: str) -> None:
    assert format_spread(part) == expected


@pytest.mark.parametrize(
    ("factor", "expected"),
    [
        (0.0039, "0.0039×"),
        (0.87, "0.87×"),
        (1.94, "1.94×"),
        (1.96, "2.0×"),
        (2.5, "2.5×"),
        (1259.0, "1,259×"),
    ],
)
def test_a_ratio_has_the_digits_that_it_needs(factor: float, expected: str) -> None:
    assert format_ratio(factor) == expected


def test_sizes_and_operations_have_units_of_1000() -> None:
    assert [format_size(number) for number in (0, 999, 999.6, 12_640_000)] == [
        "0 B",
        "999 B",
        "1 KB",
        "12.6 MB",
    ]
    assert format_flops(4.94e9) == "4.9 GFLOP"


def test_percents_say_less_than_one_rather_than_none() -> None:
    assert [format_percent(*entry) for entry in ((0,), (0.004,), (0.18,), (9, 50), (1, 0))] == [
        "0%", "<1%", "18%", "18%", "0%",
    ]  # fmt: skip
    assert [format_change(value) for value in (0.12, -0.034)] == ["+12%", "-3.4%"]


def test_counts_have_a_comma_and_agree_with_their_noun() -> None:
    counts = [format_count(number, "kernel") for number in (0, 1, 2.5, 2048)]
    assert counts == ["0 kernels", "1 kernel", "2.5 kernels", "2,048 kernels"]
    assert format_count(2, "pass", "passes") == "2 passes"


def test_a_list_ends_with_and() -> None:
    assert [format_list(text) for text in ("", "a", "ab", "abc")] == ["", "a", "a and b", "a, b and c"]
    assert [cut_list(text, 2) for text in ("", "ab", "abcd")] == [[], ["a", "b"], ["a", "b", "2 more"]]
    assert [format_first(text, 2) for text in ("", "ab", "abcd")] == ["", "a, b", "a, b and 2 more"]
    assert format_first("a" * 2_000, 1) == "a and 1,999 more"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [((), ""), ((3,), "line 3"), ((5, 3, 4), "lines 3-5"), ((1, 2, 2, 7, 9, 10), "lines 1-2, 7, 9-10")],
)
def test_neighboring_lines_are_a_range(lines: tuple[int, ...], expected: str) -> None:
    assert format_lines(lines) == expected


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the time zone is the machine's")
def test_a_moment_is_shown_in_local_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC-5:30")  # POSIX counts to the west
    time.tzset()
    try:
        assert format_moment("2026-01-31T22:00:00Z") == "2026-02-01 03:30"
        assert format_moment("then") == "then"
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [
        ("utf-8", "38.4 µs ± 1%, 2.5× é"),
        ("cp437", "38.4 µs ± 1%, 2.5x é"),  # the console of an older Windows: it has all but one
        ("ascii", "38.4 us +- 1%, 2.5x \\xe9"),
        ("no such encoding", "38.4 us +- 1%, 2.5x \\xe9"),
    ],
)
def test_a_terminal_gets_what_it_can_show(encoding: str, expected: str) -> None:
    assert fit_encoding("38.4 µs ± 1%, 2.5× é", encoding) == expected


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "__main__"),
        ("Net.forward", "Net.forward"),
        ("main.<locals>.step", "step in main"),
        ("Loop.run.<locals>.outer.<locals>.Net", "Net in outer in Loop.run"),
    ],
)
def test_a_target_of_a_function_is_named_with_the_function_around_it(name: str, words: str) -> None:
    assert format_target(name) == words
