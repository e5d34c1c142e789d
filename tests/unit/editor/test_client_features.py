"""What a client can do: read from what it says at its start, and nothing assumed."""

from __future__ import annotations

from typing import Any

import pytest
from lsprotocol import types
from lsprotocol.converters import get_converter

from fuselight_server.editor.handlers.client_features import client_features
from fuselight_server.editor.handlers.configuration import initial_settings
from fuselight_server.editor.handlers.protocol import NOTIFICATIONS, REPORT_CHANGED, STATUS
from fuselight_server.editor.messages.client_features import ClientFeatures


def features(
    capabilities: dict[str, Any] | None = None, options: dict[str, Any] | None = None
) -> ClientFeatures:
    params: types.ClientCapabilities = get_converter().structure(capabilities or {}, types.ClientCapabilities)
    return client_features(params, options or {})


def test_a_silent_client_gets_nothing_that_it_did_not_ask_for() -> None:
    assert features() == ClientFeatures(
        actions=False, lenses=False, action_literals=False, applies_edits=False, long_commands=False
    )


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        (True, NOTIFICATIONS),
        (["status", "fuselight/reportChanged"], {STATUS, REPORT_CHANGED}),
        (["no such message", 7], set()),
        (False, set()),
        ("status", set()),
        (None, set()),
    ],
)
def test_our_notifications_go_to_clients_that_ask(asked: object, names: set[str]) -> None:
    assert features(options={"notifications": asked}).notifications == names
    experimental = {"experimental": {"fuselight": {"notifications": asked}}}
    assert features(experimental).notifications == names


@pytest.mark.parametrize("experimental", [None, [], {"fuselight": True}, {"other": {"notifications": True}}])
def test_experimental_capabilities_of_others_ask_for_nothing(experimental: object) -> None:
    assert features({"experimental": experimental}).notifications == frozenset()


@pytest.mark.parametrize(
    ("formats", "markdown"),
    [(None, True), (["markdown"], True), (["markdown", "plaintext"], True), (["plaintext"], False)],
)
def test_a_hover_has_the_format_that_the_client_prefers(formats: list[str] | None, markdown: bool) -> None:  # noqa: FBT001
    hover: dict[str, Any] = {} if formats is None else {"contentFormat": formats}
    assert features({"textDocument": {"hover": hover}}).markdown is markdown


ACTIONS: dict[str, Any] = {"resolveSupport": {"properties": ["edit", "command"]}, "dataSupport": True}


@pytest.mark.parametrize(
    ("action", "resolves"),
    [
        (ACTIONS, True),
        ({**ACTIONS, "dataSupport": False}, False),
        ({**ACTIONS, "resolveSupport": {"properties": ["edit"]}}, False),
        ({"dataSupport": True}, False),
    ],
)
def test_a_fix_is_resolved_later_only_by_a_client_that_keeps_its_data_and_fills_in_all(
    action: dict[str, Any],
    resolves: bool,  # noqa: FBT001 - a row of the table
) -> None:
    assert features({"textDocument": {"codeAction": action}}).resolves_actions is resolves


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ({"settings": {"run": "manual"}}, {"run": "manual"}),
        ({"settings": {"fuselight": {"run": "manual"}}}, {"run": "manual"}),
        ({"fuselight": {"run": "manual"}}, {"run": "manual"}),
        ({}, None),
    ],
)
def test_settings_at_the_start_may_stand_under_their_section(
    options: dict[str, Any], settings: object
) -> None:
    assert initial_settings(options) == settings
