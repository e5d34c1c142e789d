"""The orders that a coordinator gives to the process of a configuration; both ends read them here.

Invariant: the value of an order is what crosses the pipe, and what a failure names as its phase.
"""

from __future__ import annotations

from enum import Enum


class Order(str, Enum):
    """A step of a measurement, which the process answers once."""

    __str__ = str.__str__

    READY = "ready"
    """Answer once the file is imported; later, answer with the row."""
    BUILD = "build"
    """Build the target and its inputs."""
    FIRST = "first"
    """Make the first call, which compiles."""
    SETTLE = "settle"
    """Make further calls until nothing compiles."""
    WARM = "warm"
    """Make calls until their time is steady."""
    ROUND = "round"
    """Time a round of `calls` calls for the row."""
    SAMPLE = "sample"
    """Time a round of `calls` calls; the answer has its time and no row."""
    COMPARE = "compare"
    """Compare the results with eager's and with the reference."""
    COMPARE_RANDOM = "compare_random"
    """Compare the results, compiled again with eager's random numbers."""
    WEIGH = "weigh"
    """Measure the memory of a call."""
    PROFILE = "profile"
    """Record calls with the profiler."""
    READ = "read"
    """Read the profile and, with `look`, the machine's state; without `alone` make no call, and answer with `again` if
    one is needed."""
    ISOLATE = "isolate"
    """Time each kernel alone."""
    SEARCH = "search"
    """Search for the first line whose results differ."""
    REPLAY = "replay"
    """Answer with what a program needs to run this configuration."""
    FINISH = "finish"
    """Write the report of what was compiled."""
    REFERENCE = "reference"
    """Compute the results in float64, in eager mode; only the reference process does."""
