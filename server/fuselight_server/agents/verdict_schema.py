"""The schema of a verdict, whose rows `commands/verdict_rows.py` makes."""

from __future__ import annotations

from fuselight_server.commands.verify import VerdictKind

_NUMBERS = {
    "type": "object",
    "properties": {name: {"type": "integer"} for name in ("graphs", "breaks", "recompilations")},
}
VERDICT_SCHEMA = {
    "type": "object",
    "properties": {
        "target": {"type": "string"},
        "verdict": {
            "type": "string",
            "enum": [kind.value for kind in VerdictKind],
            "description": "`unconcerned`: this target runs nothing that the patch changes",
        },
        "why": {"type": "string"},
        "class": {
            "type": ["string", "null"],
            "description": "`exact`: the same bits in eager mode; `equal`: the same up to rounding or with the "
            "exceptions in `why`; `changes`: differs only in what was allowed; null: refused",
        },
        "before": _NUMBERS,
        "after": {
            **_NUMBERS,
            "type": ["object", "null"],
            "description": "null: the new text did not run, so no finding is known to be fixed",
        },
        "findings_fixed": {"type": "array", "items": {"type": "string"}},
        "findings_new": {"type": "array", "items": {"type": "object"}},
        "findings_next": {
            "type": "array",
            "items": {"type": "object"},
            "description": "Findings in code that ran in eager mode before and is compiled now: progress",
        },
        "findings_kept": {"type": "array", "items": {"type": "string"}},
        "compared": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Which calls were compared",
        },
        "not_compared": {"type": "array", "items": {"type": "string"}},
        "old_lines_not_run": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Changed and deleted lines of the old text that no compared call ran",
        },
        "lines_not_run": {
            "type": "array",
            "description": "Changed lines that no compared call ran",
            "items": {"type": "string"},
        },
        "notes": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["target", "verdict", "why"],
}
