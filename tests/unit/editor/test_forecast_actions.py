"""How a verification of a forecast can end: each end says what happened, and what to do next."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from fuselight.shared.report.forecast import CallChange, ChangeKind
from fuselight_server.editor.handlers.forecast_actions import verify_forecast
from fuselight_server.execution.runs.keys import Key
from fuselight_server.explain.findings.forecasts.forecasts import ExpectedChange

URI = "file:///w/net.py"
CHANGE = ExpectedChange(
    ChangeKind.SIZE,
    ("x",),
    ("step",),
    "/w/net.py",
    "the batch",
    "the batch changes",
    "",
    recompiles=True,
    is_likely=True,
    cost="one more compile",
    further_compiles=1,
    reason="x.size(0) == 4",
    guards=(),
    place=None,
    remedies=(),
    call_changes=(CallChange(ChangeKind.SIZE, ("x.size(0)",), "5"),),
)
SECOND = dataclasses.replace(CHANGE, subject=("y",))


def result(name: str, *changes: ExpectedChange, stale: bool = False, end: str = "") -> Any:
    tried = {change: (end,) for change in changes if end}
    return SimpleNamespace(key=Key("/w/net.py", name), expected_changes=changes, stale=stale, tried=tried)


async def message_of(*results: Any, target: str | None = "step", why: str = "", passed: int = 0) -> str:
    """Verify a forecast, and return the one message that it ends with."""
    messages: list[str] = []
    shown: list[object] = []

    async def try_forecast(of: Any) -> str:
        for change in of.expected_changes[:passed]:
            of.tried[change] = ("verified: Compile with dynamic=True",)
        return why

    server: Any = SimpleNamespace(
        state=SimpleNamespace(captures={item.key: item for item in results}),
        ui=SimpleNamespace(say=lambda text, **_: messages.append(text), results_changed=shown.append),
        analysis=SimpleNamespace(
            verification_runs=SimpleNamespace(agrees=lambda _key, _go_on: True),
            fixes=SimpleNamespace(try_forecast=try_forecast),
        ),
    )
    await verify_forecast(server, {"uri": URI, "target": target})
    (message,) = messages
    return message


@pytest.mark.asyncio
async def test_what_cannot_be_verified_yet_says_what_is_missing() -> None:
    both = result("step", CHANGE), result("other", SECOND)
    assert (await message_of()).startswith("Run the target first")
    assert (await message_of(result("step", CHANGE, stale=True))).startswith(
        "Run step again: its files have changed"
    )
    assert (
        await message_of(result("step"))
        == "The forecast of step has no likely change that compiles it again."
    )
    assert (await message_of(*both, target=None)).startswith(
        "Several targets have a forecast. Move the cursor"
    )
    unlikely = dataclasses.replace(CHANGE, is_likely=False)
    assert "no likely change" in await message_of(result("step", unlikely))


@pytest.mark.asyncio
async def test_each_end_says_what_came_of_it_and_the_next_step() -> None:
    pair = result("step", CHANGE, SECOND)
    assert (await message_of(pair, passed=1)).startswith(
        "1 of 2 likely changes of step has a verified remedy."
    )
    assert (await message_of(pair, passed=2, target=None)).startswith(
        "2 of 2 likely changes of step have a verified"
    )
    failed = await message_of(result("step", CHANGE, end="refused: Compile with dynamic=True"))
    assert failed == "No remedy passed for what compiles step again. Hover over its name to read why."
    untried = await message_of(result("step", CHANGE, end="no remedy was tried: the call raises ValueError"))
    assert untried.startswith("No remedy could be tried for what compiles step again.")
    for why in ("it was canceled", "the files have changed"):
        text = await message_of(result("", CHANGE), target="", why=why)
        assert text.startswith(
            f"The forecast of __main__ was not verified: {why}. Run the target, then verify"
        )
