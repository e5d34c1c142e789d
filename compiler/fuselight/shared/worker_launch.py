"""How a process in the user's interpreter is started: its command line and its variables.

Invariant: every client starts `launch.py`, and nothing here starts a process.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from fuselight import PACKAGE
from fuselight.shared.report import Culprit, Failure

_PATH = "PYTHONPATH"


def launch_path() -> str:
    """Return the script that enters the user's interpreter."""
    return os.path.join(PACKAGE, "worker", "launch.py")


def worker_command(executable: str, arguments: Sequence[str] = (), job: Sequence[str] = ()) -> list[str]:
    """The command line of a process of ours. `job`: `doctor` and its options; empty for the host."""
    return [executable, *arguments, "-X", "utf8", launch_path(), *job]


def program_command(executable: str, options: Sequence[str]) -> list[str]:
    """The command line of the user's program under the recorder, without an option of Python that it could notice."""
    return [executable, launch_path(), "run", *options]


def worker_environment(
    base: Mapping[str, str], changes: Mapping[str, str], *, hides_package: bool = False
) -> dict[str, str]:
    """The variables of a process.

    `hides_package`: leave our package out of PYTHONPATH, where a scheduler put it, so that user code does not find it.
    """
    variables = {**base, **changes}
    if hides_package and _PATH in variables:
        ours = os.path.realpath(os.path.dirname(PACKAGE))
        entries = [entry for entry in variables[_PATH].split(os.pathsep) if entry]
        kept = [entry for entry in entries if os.path.realpath(entry) != ours]
        del variables[_PATH]
        if kept:
            variables[_PATH] = os.pathsep.join(kept)
    return variables


def start_error(executable: str, error: OSError) -> str:
    """Say why the system does not start an interpreter."""
    return f"{executable} cannot be started: {error.strerror or error}"


def missing_torch(executable: str) -> Failure:
    """Describe an interpreter without torch."""
    return Failure(
        Culprit.ENVIRONMENT,
        "no_torch",
        f"{executable} has no torch",
        "choose the interpreter that has torch, or install torch in this one",
    )


def start_failure(executable: str, error: OSError) -> Failure:
    """Describe an interpreter that the system does not start."""
    return Failure(
        Culprit.ENVIRONMENT, "interpreter", start_error(executable, error), "choose another interpreter"
    )


def platform_problem(platform: str) -> Failure | None:
    """Say why nothing can run on this system, None where it can: a run needs process groups and signals."""
    if platform != "win32":
        return None
    return Failure(
        Culprit.ENVIRONMENT,
        "platform",
        "runs need Linux or macOS; on Windows, Fuselight reads source and opens the logs of jobs",
        "open the folder in WSL: VS Code's extension for it starts Fuselight there",
    )
