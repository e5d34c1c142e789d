"""The formats of `fuselight check`: one file each, each a function from an outcome to text on stdout.

Invariant: a format decides only how; which findings there are is settled before it is called.
"""

from __future__ import annotations

import enum


class Format(str, enum.Enum):
    """How findings are printed."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"
    GITHUB = "github"
