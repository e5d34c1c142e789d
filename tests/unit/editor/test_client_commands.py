"""Which command a lens runs, for clients with commands of ours, without, and without texts for lenses."""

from __future__ import annotations

from typing import Any

import pytest

from fuselight_server.editor import app
from fuselight_server.editor.messages.client_features import ClientFeatures
from fuselight_server.editor.presenters import client_commands
from fuselight_server.editor.presenters.client_commands import NO_ACTION, command_for, lenses_for
from fuselight_server.editor.presenters.lens import lens
from fuselight_server.editor.results.lens_facts import (
    ASK_BENCHMARK,
    ASK_TUNE,
    BENCH,
    DETAILS,
    SHOW_BENCHMARK,
    SHOW_JOB,
    SHOW_KERNEL,
    SHOW_TUNING,
    TUNE,
)

OF_CLIENT = (DETAILS, SHOW_KERNEL, SHOW_BENCHMARK, SHOW_TUNING, SHOW_JOB, ASK_BENCHMARK, ASK_TUNE)
PLACE: Any = {"start": {"line": 3, "character": 0}, "end": {"line": 3, "character": 1}}


@pytest.mark.parametrize("name", [*OF_CLIENT, client_commands.OPEN_PAGE])
def test_the_server_has_a_command_in_place_of_each_of_the_clients(name: str) -> None:
    served = command_for(name, ClientFeatures())
    assert served in app.COMMANDS
    assert command_for(name, ClientFeatures(commands=frozenset({name}))) == name


@pytest.mark.parametrize("name", [BENCH, TUNE])
def test_a_command_of_the_server_stays(name: str) -> None:
    assert command_for(name, ClientFeatures()) == name


def test_a_command_that_nobody_has_is_none() -> None:
    assert not command_for("fuselight.unknown", ClientFeatures())


def test_a_lens_without_a_command_is_text_or_does_nothing() -> None:
    lenses = [lens(PLACE, "2 graphs"), lens(PLACE, "Run", "fuselight.server.run", {"uri": "file:///m.py"})]
    assert lenses_for(lenses, ClientFeatures(text_lenses=True)) == lenses
    text, run = lenses_for(lenses, ClientFeatures())
    assert text["command"] == {"title": "2 graphs", "command": NO_ACTION, "arguments": []}
    assert text["range"] == PLACE
    assert run == lenses[1]
    assert NO_ACTION in app.COMMANDS


def test_arguments_stay_with_the_command_in_its_place() -> None:
    at: dict[str, str | int] = {"uri": "file:///m.py", "target": "f"}
    (shown,) = lenses_for([lens(PLACE, "eager 3 ms", SHOW_BENCHMARK, at)], ClientFeatures())
    assert shown["command"] == {
        "title": "eager 3 ms", "command": client_commands.SERVER_BENCHMARK, "arguments": [at],
    }  # fmt: skip
