"""The settings and commands are the same in package.json, in the server and in docs/settings.md."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from fuselight.shared.devices import AUTO, DEVICES
from fuselight.shared.devices.choose import BACKENDS, DTYPES, KEYS
from fuselight.shared.version import version
from fuselight_server.base.settings import Settings, key_of, parse_settings
from fuselight_server.editor import app
from fuselight_server.editor.handlers import protocol
from fuselight_server.explain.findings import Thresholds

ROOT = Path(__file__).parent.parent
MANIFEST = json.loads((ROOT / "package.json").read_text(encoding="utf-8"))
PROPERTIES: dict[str, dict[str, Any]] = MANIFEST["contributes"]["configuration"]["properties"]
BY_CLIENT = "resolved_interpreter"
"""Put in by the extension's middleware, so not a setting."""


def _settings(value: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    for item in dataclasses.fields(value):
        if item.name == BY_CLIENT:
            continue
        here = getattr(value, item.name)
        name = f"{prefix}.{key_of(item.name)}"
        if dataclasses.is_dataclass(here):
            yield from _settings(here, name)
        else:
            yield name, here


SERVER = dict(_settings(Settings(), "fuselight"))


def test_the_server_and_the_manifest_have_the_same_settings() -> None:
    assert set(SERVER) == set(PROPERTIES)


@pytest.mark.parametrize("name", sorted(PROPERTIES))
def test_defaults_agree(name: str) -> None:
    assert json.loads(json.dumps(SERVER[name])) == PROPERTIES[name]["default"]


@pytest.mark.parametrize("name", sorted(name for name in PROPERTIES if "enum" in PROPERTIES[name]))
def test_the_server_takes_every_value_that_the_manifest_offers_and_no_other(name: str) -> None:
    def parsed(value: str) -> tuple[str, ...]:
        nested: Any = value
        for part in reversed(name.split(".")[1:]):
            nested = {part: nested}
        return parse_settings(nested)[1]

    for value in PROPERTIES[name]["enum"]:
        assert parsed(value) == ()
    assert len(parsed("no such value")) == 1


def test_the_manifest_names_every_device_and_every_key_of_ones_own() -> None:
    assert PROPERTIES["fuselight.device"]["examples"] == [AUTO, *(device.key for device in DEVICES)]
    own = PROPERTIES["fuselight.devices"]["additionalProperties"]["properties"]
    assert set(own) == set(KEYS)
    assert own["backend"]["enum"] == list(BACKENDS)
    assert own["tflops"]["propertyNames"]["enum"] == list(DTYPES)


def test_every_setting_is_described() -> None:
    assert [
        name
        for name, entry in PROPERTIES.items()
        if not (entry.keys() & {"description", "markdownDescription"})
    ] == []


def test_settings_are_shown_in_the_order_of_the_manifest() -> None:
    assert [entry["order"] for entry in PROPERTIES.values()] == [*range(1, len(PROPERTIES) + 1)]


def test_the_settings_page_lists_every_setting_with_its_default() -> None:
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    rows = {
        name: json.loads(default)
        for name, default in re.findall(r"^\| `(fuselight\.[\w.]+)` \| `(.*?)` \|", page, re.MULTILINE)
    }
    assert rows == {name: entry["default"] for name, entry in PROPERTIES.items()}


def test_the_command_warns_of_guards_from_where_the_editor_does() -> None:
    command = Thresholds()
    assert SERVER["fuselight.guards.warnCount"] == command.guard_count
    assert SERVER["fuselight.guards.warnMicroseconds"] == command.guard_us
    page = (ROOT / "docs/findings/FL203.md").read_text(encoding="utf-8")
    assert f"({command.guard_count}; `fuselight check --guard-count`)" in page
    assert f"({command.guard_us:g}; `--guard-us`)" in page


def test_the_editor_advises_from_where_the_pages_say() -> None:
    defaults = Thresholds()
    assert SERVER["fuselight.kernels.adviseFromPercent"] == 100 * defaults.kernel_share
    assert SERVER["fuselight.kernels.adviseRepeats"] == defaults.repeats
    for name in ("FL705", "FL706"):
        page = " ".join((ROOT / f"docs/findings/{name}.md").read_text(encoding="utf-8").split())
        assert f"from {100 * defaults.kernel_share:g}% of the target's estimated kernel time" in page
    page = (ROOT / "docs/findings/FL707.md").read_text(encoding="utf-8")
    assert f"from {defaults.repeats} equal instances (" in page


def test_commands_in_menus_exist() -> None:
    contributes = MANIFEST["contributes"]
    commands = {entry["command"] for entry in contributes["commands"]}
    used = {entry["command"] for entries in contributes["menus"].values() for entry in entries}
    used |= {entry["command"] for entry in contributes.get("keybindings", [])}
    assert used <= commands


MESSAGES = (ROOT / "extension" / "src" / "messages" / "protocol.ts").read_text(encoding="utf-8")


def test_the_extension_and_the_server_have_the_same_messages() -> None:
    names = re.findall(r"= (?:request|notification)<.*?>\(\s*\"(\w+)\"", MESSAGES, re.DOTALL)
    of_server = {
        value
        for value in vars(protocol).values()
        if isinstance(value, str) and re.fullmatch(r"fuselight/\w+", value)
    }
    assert {f"fuselight/{name}" for name in names} == of_server
    assert len(names) == len(of_server)


def test_the_server_has_each_command_that_the_extension_sends() -> None:
    sent = set(re.findall(r"\"(fuselight\.server\.\w+)\"", MESSAGES))
    assert sent
    assert sent <= set(app.COMMANDS)


def test_settings_have_hints_that_the_parser_knows() -> None:
    assert BY_CLIENT in get_type_hints(Settings)


def test_one_version() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", MANIFEST["version"])
    assert version() == MANIFEST["version"]
