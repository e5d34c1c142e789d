"""The protocol: the handshake, unreadable messages, and requests that run nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.server.conftest import interpreter, settings
from tests.support.lsp_client import CAPABILITIES, DEADLINE, Client

if TYPE_CHECKING:
    from tests.server.conftest import Start

SOURCE = """\
import torch


@torch.compile
def f(x):
    return x.sin()
"""
WIDE = "x = '\N{SLICE OF PIZZA}é'  # fuselight: ignore[GB0001]\n# fuselight: f(\N{SLICE OF PIZZA}, 3)\n"


def write(folder: Path, text: str = SOURCE, name: str = "model.py") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_it_starts_and_ends(connect: Start, tmp_path: Path) -> None:
    client = connect(
        fresh=True, settings=settings(resolvedInterpreter=interpreter(executable=sys.executable))
    )
    capabilities = client.start(tmp_path)["capabilities"]
    assert capabilities["textDocumentSync"]["change"] == 2
    assert capabilities["textDocumentSync"]["willSave"]
    assert "diagnosticProvider" not in capabilities, "push and pull would show everything twice"
    assert "fuselight.server.run" in capabilities["executeCommandProvider"]["commands"]
    assert client.idle(0)["interpreter"] == sys.executable
    assert client.stop() == 0


@pytest.mark.parametrize(
    ("encoding", "column"), [("utf-8", 4 + 4 + 1), ("utf-16", 4 + 2 + 1), ("utf-32", 4 + 1 + 1)]
)
def test_columns_are_in_the_clients_encoding(
    connect: Start, tmp_path: Path, encoding: str, column: int
) -> None:
    text = "a = '\N{SLICE OF PIZZA}'; g = 1\n" + SOURCE
    client = connect()
    answer = client.start(
        tmp_path, capabilities={**CAPABILITIES, "general": {"positionEncodings": [encoding]}}
    )
    assert answer["capabilities"]["positionEncoding"] == encoding
    uri = client.open(write(tmp_path, text))
    # Insert a compiled variable after the wide character, by an edit in the encoding.
    client.edit(uri, (0, column + 3), (0, column + 8), "g = torch.compile(len)")
    lenses = client.request("textDocument/codeLens", {"textDocument": {"uri": uri}})
    place = next(lens["range"] for lens in lenses if lens["command"]["arguments"][0].get("target") == "g")
    assert place["start"] == {"line": 0, "character": column + 3}


COMPILED_ELSEWHERE = """\
import torch

# fuselight: Net(4)(f32[2, 4])
class Net(torch.nn.Module):
    def __init__(self):
        self.fast = torch.compile(self.step)
    def step(self, x):
        return x

net = torch.compile(Net())
head = torch.compile(Net().head)
"""


def test_a_target_with_inputs_of_another_target_has_a_lens_and_no_hint(client: Client, folder: Path) -> None:
    uri = client.open(write(folder, COMPILED_ELSEWHERE))
    entries = client.notified("textDocument/publishDiagnostics", lambda params: params["uri"] == uri)
    assert [diagnostic["range"]["start"]["line"] for diagnostic in entries["diagnostics"]] == [10], (
        "no class gives a part inputs"
    )
    lenses = client.request("textDocument/codeLens", {"textDocument": {"uri": uri}})
    titles: dict[int, list[str]] = {}
    for lens in lenses:
        title, arguments = lens["command"]["title"], lens["command"]["arguments"]
        titles.setdefault(lens["range"]["start"]["line"], []).append(
            f"{title} {arguments[0]['target']}" if arguments else title
        )
    assert (
        titles[3]
        == titles[9]
        == [
            "Run Net",
            "Kernels Net",
            "Accuracy Net",
            "Memory Net",
            "Benchmark Net",
            "Tune Net",
            "inputs from line 3",
        ]
    )
    assert (titles[5], titles[10]) == (["Run Net.fast"], ["Run head"])


def test_lenses_and_a_hint_without_a_run(client: Client, folder: Path) -> None:
    uri = client.open(write(folder))
    assert client.lenses(uri) == ["Run"]
    entries = client.notified("textDocument/publishDiagnostics", lambda params: params["uri"] == uri)
    assert [diagnostic["code"] for diagnostic in entries["diagnostics"]] == ["FL502"]
    answer = client.request(
        "textDocument/codeAction",
        {
            "textDocument": {"uri": uri},
            "range": {"start": {"line": 4, "character": 4}, "end": {"line": 4, "character": 4}},
            "context": {"diagnostics": []},
        },
    )
    edit = answer[0]["edit"]["changes"][uri][0]
    assert edit["newText"].startswith("# fuselight: f("), answer
    assert edit["range"]["start"]["line"] == 3


def test_half_typed_code_keeps_its_lenses(client: Client, folder: Path) -> None:
    uri = client.open(write(folder))
    client.edit(uri, (5, 4), (5, 18), "return x.sin(")
    assert client.lenses(uri) == ["Run"]
    mark = client.mark()
    client.save(uri)
    client.notified("window/logMessage", lambda params: "does not parse" in params["message"], since=mark)


def test_an_untitled_buffer_says_that_a_run_needs_a_file(client: Client, folder: Path) -> None:
    untitled = client.open(folder, SOURCE, uri="untitled:Untitled-1")
    assert "Save this to a file" in client.lenses(untitled)[0]


def test_a_client_without_push_pulls(connect: Start, tmp_path: Path) -> None:
    client = connect()
    document = {"diagnostic": {"dynamicRegistration": False}}
    answer = client.start(tmp_path, capabilities={"textDocument": document})
    assert answer["capabilities"]["diagnosticProvider"]
    uri = client.open(write(tmp_path))
    report = client.request("textDocument/diagnostic", {"textDocument": {"uri": uri}})
    assert [value["code"] for value in report["items"]] == ["FL502"]
    assert not [
        message for message in client.messages if message.get("method") == "textDocument/publishDiagnostics"
    ]


def test_an_unreadable_request_is_answered_and_ends_nothing(connect: Start, tmp_path: Path) -> None:
    client = connect()
    client.start(tmp_path)
    unknown = client.answer(client.ask("textDocument/nonsense", {}))
    assert unknown["error"]["code"] == -32601
    misfit = client.answer(client.ask("textDocument/hover", {"textDocument": 7}))
    assert misfit["error"]["code"] == -32602
    assert "Traceback" not in str(misfit)
    client.notify("$/unheardOf", {"class": 1})
    client.send_bytes(b'Content-Length: 9\r\n\r\n{"jsonrp!')
    command = client.answer(
        client.ask("workspace/executeCommand", {"command": "fuselight.server.run", "arguments": [[1]]})
    )
    assert command["result"] is None
    uri = client.open(write(tmp_path))
    for damaged in ({"uri": "file://["}, {"uri": "file:///%00"}, {"uri": uri, "line": 1e300}, {"uri": 7}):
        for name in ("run", "kernels", "cancel", "copyFinding", "bench", "cancelBench", "forgetBench"):
            client.command(f"fuselight.server.{name}", {"target": "f", **damaged})
    assert not [message for message in client.messages if " failed (" in str(message.get("params"))]
    while client.lenses(uri)[-1:] != ["Run"]:  # what was canceled ends a moment later
        since = client.mark()
        client.wait(
            lambda message: message.get("method") == "fuselight/status", "the end of a run", since=since
        )


def test_a_request_before_the_handshake_is_an_error(connect: Start, tmp_path: Path) -> None:
    client = connect()
    client.notify("textDocument/didOpen", {"textDocument": {"uri": "file:///a.py"}})
    for method in ("textDocument/hover", "shutdown", "fuselight/graphs", "no/such\u202emethod"):
        early = client.answer(
            client.ask(
                method,
                {
                    "textDocument": {"uri": "file:///a.py"},
                    "uri": "a",
                    "position": {"line": 0, "character": 0},
                },
            )
        )
        assert early["error"]["code"] == -32002, early
        assert early["error"]["message"].endswith("Send `initialize` first")
    client.start(tmp_path)
    assert client.lenses(client.open(write(tmp_path))) == ["Run"]


@pytest.mark.parametrize("depth", [250, 1_200, 50_000])
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_a_request_that_is_nested_too_deeply_gets_an_error(
    connect: Start, tmp_path: Path, depth: int, opening: bytes, closing: bytes
) -> None:
    client = connect()
    client.start(tmp_path)
    params = opening * depth + b"1" + closing * depth
    head = b'{"jsonrpc": "2.0", "id": 9001, "method": "textDocument/hover", "params": '
    tail = b'{"params": %s, "jsonrpc": "2.0", "method": "fuselight/graphs", "id": "a]b"}' % params
    for body in (head + params + b"}", tail):
        client.send_bytes(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    for number in (9001, "a]b"):
        answer = client.answer(number)
        assert answer["error"]["code"] == -32602
        assert answer["error"]["message"] == "the parameters are nested more than 200 deep"
    assert client.lenses(client.open(write(tmp_path))) == ["Run"]


def test_a_request_after_the_shutdown_is_an_error(connect: Start, tmp_path: Path) -> None:
    client = connect()
    client.start(tmp_path)
    assert "error" not in client.answer(client.ask("shutdown", None))
    for method in ("textDocument/hover", "shutdown", "fuselight/graphs", "no/such"):
        place = {"textDocument": {"uri": "file:///a.py"}, "uri": "a", "position": {"line": 0, "character": 0}}
        late = client.answer(client.ask(method, place))
        assert late["error"]["code"] == -32600, late
        assert late["error"]["message"].endswith("came after `shutdown`. Send `exit`")
    client.notify("exit")
    assert client.process.wait(60) == 0


def test_a_malformed_message_costs_one_line_of_log(connect: Start, tmp_path: Path) -> None:
    client = connect()
    client.start(tmp_path)
    client.idle(0)
    uri = client.open(write(tmp_path))
    client.lenses(uri)
    mark, errors = client.mark(), len(client.stderr)
    bodies = (
        b"{", b"\xff", b"[]", b"7", b"null", b"{}", b'{"jsonrpc": "2.0"}', b'{"jsonrpc": "1.0", "method": "x"}',
        b"[" * 100_000, b'{"jsonrpc": "2.0", "method": "textDocument/didOpen", "params": 7}',
        b'{"jsonrpc": "2.0", "method": "textDocument/didOpen", "params": {"a": "' + b"\\u001b" * 100_000 + b'"}}',
        b'{"jsonrpc": "2.0", "id": 90001, "method": "textDocument/hover", "params": {"textDocument": 1}}',
        b'{"jsonrpc": "2.0", "id": [1], "result": 1}',
    )  # fmt: skip
    for body in bodies:
        client.send_bytes(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    assert client.lenses(uri) == ["Run"]
    results = [
        message["params"]["message"]
        for message in client.messages[mark:]
        if message.get("method") == "window/logMessage"
    ]
    results += client.stderr[errors:].decode().splitlines()
    assert len(results) <= len(bodies), results
    assert sum("message not handled" in result for result in results) >= 8
    assert not [result for result in results if len(result) > 500 or "\n" in result or "\x1b" in result]


DAMAGED = ("file://[", "file:///a%00b", "file:", f"file:///{'a' * 5000}", "::", "", None, 5, ["a"], {"a": 1})


def test_damaged_arguments_give_no_popup(connect: Start, tmp_path: Path) -> None:
    client = connect(settings=settings(run="manual"))
    client.start(tmp_path)
    client.idle(0)
    uri = client.open(write(tmp_path))
    for name in client.capabilities["executeCommandProvider"]["commands"]:
        for damaged in DAMAGED:
            client.command(name, {"uri": damaged, "folder": damaged, "target": damaged})
            if name not in {"fuselight.server.run", "fuselight.server.kernels"}:
                line = {"line": damaged, "last": damaged, "run": damaged, "code": damaged}
                client.command(name, {"uri": uri, "target": 5, **line})
    for damaged in DAMAGED:
        folder = {"uri": damaged, "name": "x"}
        document = {"uri": damaged, "languageId": "python", "version": 1, "text": "x = 1"}
        client.notify("textDocument/didOpen", {"textDocument": document})
        client.notify("textDocument/didSave", {"textDocument": document})
        client.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": damaged, "type": 3}]})
        client.notify(
            "workspace/didChangeWorkspaceFolders", {"event": {"added": [folder], "removed": [folder]}}
        )
    client.request("fuselight/reportTree", {"uri": None})
    results = [
        message["params"]["message"]
        for message in client.messages
        if message.get("method") == "window/showMessage"
    ]
    assert not [text for text in results if "failed" in text], client.transcript()


def test_a_message_of_an_impossible_length_is_skipped(client: Client, folder: Path) -> None:
    client.send_bytes(b'Content-Length: 1000000000000\r\n\r\n{"jsonrpc": "2.0"}')
    assert client.request("fuselight/reportTree", {"uri": folder.as_uri()}) == {"nodes": []}


def test_a_large_file_has_all_lenses_and_a_bearable_number_of_hints(client: Client, folder: Path) -> None:
    count = 3_000
    function = '@torch.compile\ndef f{}(x):\n    """{}"""\n    return x.sin()\n'
    text = "import torch\n" + "".join(function.format(n, "-" * 100) for n in range(count))
    uri = client.open(write(folder, text))
    assert client.lenses(uri) == ["Run"] * count
    client.until(lambda: client.diagnostics(uri) != [], "hints")
    assert len(client.diagnostics(uri)) == 50
    first = client.ask("textDocument/codeLens", {"textDocument": {"uri": uri}})
    client.edit(uri, (1, 0), (1, 0), "\n\n")
    second = client.ask("textDocument/codeLens", {"textDocument": {"uri": uri}})
    lines = [
        [lens["range"]["start"]["line"] for lens in client.answer(number)["result"]]
        for number in (first, second)
    ]
    assert lines[1] == [2 + 2 + 4 * number for number in range(count)]
    assert lines[0] in (lines[1], [line - 2 for line in lines[1]]), "never a mix of two texts"
    client.until(lambda: client.diagnostics(uri)[0]["range"]["start"]["line"] == 4, "moved hints")


def test_settings_change_without_a_restart_and_a_bad_one_is_named(connect: Start, tmp_path: Path) -> None:
    client = connect()
    client.start(tmp_path)
    uri = client.open(write(tmp_path))
    assert client.lenses(uri) == ["Run"]
    client.settings = {**client.settings, "codeLens": "off", "limits": {"seconds": "long"}}
    client.notify("workspace/didChangeConfiguration", {"settings": None})
    client.notified("window/showMessage", lambda params: "fuselight.limits.seconds" in params["message"])
    assert client.lenses(uri) == []


def test_the_server_ends_with_its_client(connect: Start, tmp_path: Path) -> None:
    parent = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    client = connect(fresh=True)
    client.start(tmp_path, process_id=parent.pid)
    client.idle(0)
    parent.kill()
    parent.wait(DEADLINE)
    assert parent.stdin is not None
    parent.stdin.close()
    assert client.process.wait(DEADLINE) == 1, (
        "stdin is still open, so the server must have watched the process id"
    )


def test_the_server_ends_with_its_pipe(connect: Start, tmp_path: Path) -> None:
    client = connect()
    client.start(tmp_path)
    client.idle(0)
    assert client.process.stdin is not None
    client.process.stdin.close()
    assert client.process.wait(DEADLINE) == 0


def test_a_cancel_that_comes_after_the_answer_is_no_error(connect: Start, tmp_path: Path) -> None:
    client = connect()
    client.start(tmp_path)
    uri = client.open(write(tmp_path))
    number = client.ask("textDocument/codeLens", {"textDocument": {"uri": uri}})
    assert client.answer(number)["result"]
    for identity in (number, 9999):
        client.notify("$/cancelRequest", {"id": identity})
    client.request("textDocument/codeLens", {"textDocument": {"uri": uri}})
    assert client.stop() == 0
    assert b"ancel" not in client.stderr
