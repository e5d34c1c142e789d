"""The options of the command line that stand for settings: texts name the setting, and a terminal shows the option.

Invariant: a text that an editor shows names no option, as nobody can type one there.
"""

from __future__ import annotations

import re

_OPTIONS = {
    "fuselight.limits.seconds": "--time-limit",
    "fuselight.limits.memoryMb": "--memory-limit",
    "fuselight.bench.timeLimit": "--time-limit",
    "fuselight.tune.timeLimit": "--time-limit",
    "fuselight.tune.budget": "--budget",
    "fuselight.tune.numerics": "--numerics",
    "fuselight.tune.fixedModules": "--fixed-modules",
}
_PHRASES = {
    "`fuselight fix` with a warm start": "`fuselight fix --warm`",
    "not tried yet.": "not tried yet: see `fuselight check --tries all`.",
    "not verified yet.": "not verified yet: see `fuselight fix`.",
    "follow it while it runs": "follow it (`--follow`)",
    "Name a Python that has torch.": "Name one that has torch with --python PATH.",
    "allow changes of behavior": "allow it with `--allow-behavior-changes`",
    "the JSON has all": "`--format json` has all",
    "write the result to another file": "name another file with `--output FILE`",
}
_SETTING = re.compile(r"(?:the setting )?`(fuselight\.[A-Za-z.]+)`")


def with_options(text: str) -> str:
    """Return a text with the options of commands in place of the settings that it names."""
    if "fuselight." in text:
        text = _SETTING.sub(_option, text)
    for phrase, option in _PHRASES.items():
        text = text.replace(phrase, option)
    return text


def _option(match: re.Match[str]) -> str:
    option = _OPTIONS.get(match[1])
    return match[0] if option is None else f"`{option}`"
