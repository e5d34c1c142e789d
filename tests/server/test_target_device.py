"""The target device over the protocol: in the status, in the picker, and a wrong name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.server.conftest import settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.server.conftest import Start
    from tests.support.lsp_client import Client

WRONG = "There is no device `h1000`. Nearest: h100-sxm"


def test_each_folder_has_its_device_and_a_change_is_shown(connect: Start, tmp_path: Path) -> None:
    path, two = tmp_path / "one", tmp_path / "two"
    path.mkdir()
    two.mkdir()
    client = connect()
    client.settings_by_folder[two.as_uri()] = settings(device="RTX 4090")
    client.start(path, two)

    def shown(folder: Path, key: str) -> str:
        status = client.notified(
            "fuselight/status",
            lambda status: status["folder"] == folder.as_uri() and status["device"]["key"] == key,
        )
        return str(status["device"]["words"])

    assert shown(path, "auto") == "Kernels are for the GPU that is there, else h100-sxm."
    assert shown(two, "rtx-4090").startswith(
        "Kernels are for NVIDIA GeForce RTX 4090: capability 8.9, 128 SMs"
    )
    client.settings_by_folder[two.as_uri()] = settings(device="t4")
    client.notify("workspace/didChangeConfiguration", {"settings": None})
    shown(two, "t4")


def test_the_list_has_user_devices_and_marks_the_current_one(
    client: Client, folder: Path, configure: Callable[..., None]
) -> None:
    configure(device="lab", devices={"lab": {"like": "h100", "memoryGb": 94}})
    client.notified("fuselight/status", lambda status: status["device"]["key"] == "lab")
    entries = client.command("fuselight.server.devices", {"folder": folder.parent.as_uri()})
    assert [entry["key"] for entry in entries[:2]] == ["auto", "lab"]
    assert [entry["key"] for entry in entries if entry["current"]] == ["lab"]
    assert "94 GB" in entries[1]["detail"]
    outside = client.command("fuselight.server.devices")
    assert len(outside) == len(entries)


def test_a_wrong_name_is_reported_once_with_the_nearest(connect: Start, tmp_path: Path) -> None:
    path, two = tmp_path / "one", tmp_path / "two"
    path.mkdir()
    two.mkdir()
    client = connect(settings=settings(device="h1000"))
    client.start(path, two)
    status = client.notified("fuselight/status", lambda status: status["folder"] == two.as_uri())
    assert WRONG in status["device"]["problem"]
    assert status["device"]["key"] == "auto"
    messages = [
        message["params"]["message"]
        for message in client.messages
        if message.get("method") == "window/showMessage"
    ]
    assert len(messages) == 1
    assert messages[0].startswith(f"Fuselight: {WRONG}")


def test_a_client_with_a_device_picker_reports_a_wrong_name_itself(connect: Start, tmp_path: Path) -> None:
    client = connect(settings=settings(device="h1000"))
    client.start(tmp_path, options={"clientCommands": ["fuselight.chooseDevice"]})
    status = client.notified("fuselight/status")
    assert WRONG in status["device"]["problem"]
    assert [message for message in client.messages if message.get("method") == "window/showMessage"] == []


def test_an_invalid_device_is_named_and_the_others_stay(
    client: Client, folder: Path, configure: Callable[..., None]
) -> None:
    configure(devices={"bad": {"like": "h100", "sms": 3}, "good": {"like": "t4"}})
    messages = [
        message["params"]["message"]
        for message in client.messages
        if message.get("method") == "window/showMessage"
    ]
    assert len(messages) == 1
    assert messages[0].startswith("Fuselight: fuselight.devices.bad.sms is not known")
    keys = [
        entry["key"]
        for entry in client.command("fuselight.server.devices", {"folder": folder.parent.as_uri()})
    ]
    assert "good" in keys
    assert "bad" not in keys
