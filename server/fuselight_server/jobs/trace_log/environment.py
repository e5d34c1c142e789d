"""The environment variables of a job, as a runnable program in its log sets them."""

from __future__ import annotations

import re

from fuselight.shared.environment_record import allowed_variables

_ASSIGNED = re.compile(r"^os\.environ\['(\w+)'\] = '(.*)'$", re.MULTILINE)


def assigned_variables(program: str) -> dict[str, str]:
    """Those that a runnable program, as Inductor prints it for each graph, sets."""
    return allowed_variables({match[1]: match[2] for match in _ASSIGNED.finditer(program)})
