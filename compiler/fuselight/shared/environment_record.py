"""The environment variables of a process that Fuselight records: they change what torch compiles, and hold no secrets.

Invariant: a variable that is not in `environment_record.json` is never kept, and of a kept one never a password in an
address.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from fuselight.shared.codec import read_table

RECORD = "fuselight_environment"
"""Name of the artifact in torch's log with the variables of its process."""
ALLOWED = frozenset(read_table(tuple[str, ...], __file__))
_PASSWORD = re.compile(r"(?<=//)[^/\s@]+@")
_LONGEST = 500


def allowed_variables(variables: Mapping[Any, object]) -> dict[str, str]:
    """Those of the variables that may be kept and shown."""
    return {
        str(name): _PASSWORD.sub("", str(value))[:_LONGEST]
        for name, value in variables.items()
        if name in ALLOWED
    }
