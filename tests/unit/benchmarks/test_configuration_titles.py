"""What a reader sees for the configuration `written`: the same words in a lens, in progress and on the page."""

from __future__ import annotations

from fuselight.shared.configurations import configuration_title
from fuselight.shared.report import Clock, Machine, Measured, MeasuredConfiguration, Timing, Work
from fuselight_server.explain.benchmarks.words import benchmark_times, first_calls
from tests.support.fake_processes import FakeProcesses


def rows() -> tuple[MeasuredConfiguration, ...]:
    wall = Timing(Clock.WALL, 3000.0, 2990.0, 3010.0, 30)
    return tuple(MeasuredConfiguration(name, first_us=2e6, wall=wall) for name in ("eager", "written"))


def test_lenses_name_it_as_the_page_does() -> None:
    times = benchmark_times(Measured(Work.INFERENCE, Machine("a device"), rows()), 3)
    first = first_calls(rows(), 3)
    for text in (times, first):
        assert configuration_title("written") in text
        assert "written" not in text


def test_progress_names_it_as_the_page_does() -> None:
    processes = FakeProcesses()
    processes.measure("written")
    assert f"{configuration_title('written')}: starting" in processes.messages
    assert not [text for text in processes.messages if "written" in text]
