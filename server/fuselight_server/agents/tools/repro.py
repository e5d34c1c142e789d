"""`repro`: the smallest program that shows a fault of the compiler, with the text of an issue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fuselight_server.agents.answers import ToolAnswer
from fuselight_server.agents.finding_data import failure_text
from fuselight_server.agents.tool import declared_tool
from fuselight_server.base.default_limits import COMPILE_LIMITS
from fuselight_server.commands.finding_rows import problem_texts
from fuselight_server.commands.repro import SECONDS, Fault, ReproOutcome, ReproPlan, reproduce
from fuselight_server.commands.sources import shown_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fuselight_server.agents.protocol.toolbox import Caller
    from fuselight_server.agents.session import AgentSession
    from fuselight_server.base.cancellation import CancelToken

_NOTHING = "No fault of the compiler was seen."


async def _repro(session: AgentSession, arguments: dict[str, Any], caller: Caller) -> ToolAnswer:
    paths = [session.existing(path) for path in arguments["paths"]]
    await session.permit(paths, caller)
    plan = ReproPlan(arguments["seconds"], arguments["with_values"])

    async def work(show: Callable[[str], None], token: CancelToken) -> ToolAnswer:
        notices: list[str] = []
        options = session.options(paths, arguments["targets"], notices=notices, limits=COMPILE_LIMITS)
        return _answer(await reproduce(options, show, token, plan=plan), notices)

    return await session.work.do("repro", work, arguments["wait_seconds"], caller)


def _answer(outcome: ReproOutcome, notices: list[str]) -> ToolAnswer:
    reports = outcome.check.reports
    data: dict[str, Any] = {
        "faults": [_fault(fault) for fault in outcome.faults],
        "failures": [failure_text(failure) for report in reports for failure in report.failures],
        "problems": problem_texts(outcome.check.problems),
        "notices": notices,
    }
    return ToolAnswer("\n".join(_lines(data)) or _NOTHING, data)


def _fault(fault: Fault) -> dict[str, Any]:
    confirmed = fault.confirmed
    return {
        "path": shown_path(fault.path),
        "target": fault.target or "__main__",
        "name": fault.name,
        "what": fault.what,
        "confirmed": confirmed is not None,
        "why_not": fault.why_not,
        "title": confirmed.title if confirmed is not None else "",
        "script": confirmed.script if confirmed is not None else "",
        "issue": fault.issue,
    }


def _lines(data: dict[str, Any]) -> Iterator[str]:
    for fault in data["faults"]:
        where = f"{fault['name'] or fault['target']} ({fault['path']})"
        yield f"{where}: {fault['issue'] if fault['confirmed'] else 'no program: ' + fault['why_not']}"
    yield from (f"failed: {text}" for text in data["failures"])
    yield from filter(None, [*data["problems"], *data["notices"]])


REPRO = declared_tool("repro", _repro, seconds={"default": SECONDS})
