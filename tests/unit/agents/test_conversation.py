"""The protocol by itself: both revisions, errors, cancellation, progress, questions to the user."""

from __future__ import annotations

import asyncio
import io
import json
import os
from dataclasses import dataclass, field
from typing import Any

import pytest

from fuselight_server.agents.protocol.conversation import AgentConversation
from fuselight_server.agents.protocol.lines import converse, read_line
from fuselight_server.agents.protocol.messages import encode_line
from fuselight_server.agents.protocol.revisions import HANDSHAKE
from fuselight_server.agents.protocol.toolbox import Caller, ToolResult, UnknownToolError
from tests.support.agents import STATELESS, MemoryClient, stateless_meta, talk

QUESTION = "May it?"


@dataclass
class FakeToolbox:
    """Tools that do what their name says."""

    instructions: str = "Use it."
    ended: list[str] = field(default_factory=list)
    is_closed: bool = False

    def descriptions(self) -> list[dict[str, Any]]:
        return [{"name": "echo", "inputSchema": {"type": "object"}}]

    async def call(self, name: str, arguments: dict[str, Any], caller: Caller) -> ToolResult:
        if name == "echo":
            return ToolResult("echoed", arguments)
        if name == "ask":
            return ToolResult(str(await caller.ask(QUESTION)))
        if name == "fail":
            raise ZeroDivisionError("of the tool")
        if name == "wait":
            caller.show("waiting")
            try:
                await asyncio.Event().wait()
            finally:
                self.ended.append("canceled")
        raise UnknownToolError(f"there is no tool `{name}`")

    async def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize("revision", HANDSHAKE)
def test_a_client_with_a_handshake_gets_its_revision(revision: str) -> None:
    async def script(client: MemoryClient) -> None:
        params = {
            "protocolVersion": revision,
            "capabilities": {},
            "clientInfo": {"name": "c", "version": "1"},
        }
        greeting = await client.request("initialize", params)
        assert greeting["protocolVersion"] == revision
        assert greeting["instructions"] == "Use it."
        assert greeting["serverInfo"]["name"] == "fuselight"
        client.send({"method": "notifications/initialized"})
        assert [tool["name"] for tool in (await client.request("tools/list"))["tools"]] == ["echo"]
        result = await client.call("echo", text="x")
        assert result == {
            "content": [{"type": "text", "text": "echoed"}],
            "isError": False,
            "structuredContent": {"text": "x"},
        }
        assert await client.request("ping") == {}

    talk(FakeToolbox, script)


def test_a_client_of_the_future_gets_the_newest_handshake() -> None:
    async def script(client: MemoryClient) -> None:
        greeting = await client.request("initialize", {"protocolVersion": "2099-01-01", "capabilities": {}})
        assert greeting["protocolVersion"] == HANDSHAKE[0]

    talk(FakeToolbox, script)


def test_a_client_without_a_handshake_discovers_and_calls() -> None:
    async def script(client: MemoryClient) -> None:
        meta = {"_meta": stateless_meta()}
        info = await client.request("server/discover", meta)
        assert info["supportedVersions"] == [STATELESS]
        assert (info["resultType"], info["cacheScope"]) == ("complete", "private")
        listed = await client.request("tools/list", meta)
        assert (listed["resultType"], listed["tools"][0]["name"]) == ("complete", "echo")
        result = await client.call("echo", meta=stateless_meta(), text="x")
        assert (result["resultType"], result["structuredContent"]) == ("complete", {"text": "x"})

    talk(FakeToolbox, script)


def test_an_unknown_revision_is_an_error_that_names_the_known_ones() -> None:
    async def script(client: MemoryClient) -> None:
        meta = {**stateless_meta(), "io.modelcontextprotocol/protocolVersion": "2099-01-01"}
        answer = await client.answer(client.start("tools/list", {"_meta": meta}))
        assert answer["error"]["code"] == -32022
        assert answer["error"]["data"] == {"supported": [STATELESS], "requested": "2099-01-01"}

    talk(FakeToolbox, script)


@pytest.mark.parametrize(
    ("line", "code", "identity"),
    [
        (b"{", -32700, None),
        (b"\xff\xfe", -32700, None),
        (b"[" * 100_000, -32700, None),
        (b"[]", -32600, None),
        (b"7", -32600, None),
        (b'{"id": 3}', -32600, 3),
        (b'{"id": true, "method": "ping"}', -32600, None),
        (b'{"id": 1.5, "method": "ping"}', -32600, None),
        (b'{"id": 3, "method": "ping", "params": []}', -32602, 3),
        (b'{"id": 3, "method": "resources/list"}', -32601, 3),
        (b'{"id": "\\ud800", "method": "ping"}', -32600, None),
        (b'{"id": "\xed\xa0\x80", "method": "ping"}', -32700, None),
        (b'{"id": 3, "method": "\\ud800"}', -32601, 3),
        (b'{"id": 3, "method": "tools/call", "params": {}}', -32602, 3),
        (b'{"id": 3, "method": "tools/call", "params": {"name": "echo", "arguments": []}}', -32602, 3),
        (b'{"id": 3, "method": "tools/call", "params": {"name": "absent"}}', -32602, 3),
        (b'{"id": 3, "method": "tools/call", "params": {"name": "fail"}}', -32603, 3),
    ],
)
def test_what_cannot_be_answered_is_an_error_and_the_conversation_goes_on(
    line: bytes, code: int, identity: int | None
) -> None:
    async def script(client: MemoryClient) -> None:
        client.conversation.receive(line)
        error = await client.until(lambda message: "error" in message)
        assert (error["error"]["code"], error["id"]) == (code, identity)
        assert error["error"]["message"]
        assert await client.request("ping") == {}

    talk(FakeToolbox, script)


@pytest.mark.parametrize(
    "line",
    [b"\n", b'{"method": "notifications/unknown"}', b'{"id": "x", "result": {}}', b'{"id": 9, "error": {}}'],
)
def test_what_needs_no_answer_gets_none(line: bytes) -> None:
    async def script(client: MemoryClient) -> None:
        client.conversation.receive(line)
        assert await client.request("ping") == {}
        assert len(client.sent) == 1

    talk(FakeToolbox, script)


def test_a_canceled_request_is_ended_and_not_answered() -> None:
    toolbox = FakeToolbox()

    async def script(client: MemoryClient) -> None:
        call = {"name": "wait", "_meta": {"progressToken": "p"}}
        identity = client.start("tools/call", call)
        await client.until(lambda message: message.get("method") == "notifications/progress")
        again = {"id": identity, "method": "ping"}
        client.send(again)
        refused = await client.until(lambda message: "error" in message)
        assert refused["error"]["code"] == -32600, "the id is in use"
        client.send({"method": "notifications/cancelled", "params": {"requestId": identity}})
        client.send({"method": "notifications/cancelled", "params": {"requestId": [identity]}})
        assert await client.request("ping") == {}
        assert toolbox.ended == ["canceled"]
        assert not [message for message in client.sent if "result" in message and message["id"] == identity]

    talk(lambda: toolbox, script)


def test_progress_needs_a_token() -> None:
    async def script(client: MemoryClient) -> None:
        silent = client.start("tools/call", {"name": "wait"})
        client.start("tools/call", {"name": "wait", "_meta": {"progressToken": 0}})
        await client.until(lambda message: message.get("method") == "notifications/progress")
        client.send({"method": "notifications/cancelled", "params": {"requestId": silent}})
        shown = [message["params"] for message in client.sent if "method" in message]
        assert shown == [{"progressToken": 0, "progress": 1, "message": "waiting"}]

    talk(FakeToolbox, script)


def test_the_end_cancels_requests_and_closes_the_tools() -> None:
    toolbox = FakeToolbox()

    async def script(client: MemoryClient) -> None:
        client.start("tools/call", {"name": "wait"})
        await asyncio.sleep(0)

    talk(lambda: toolbox, script)
    assert toolbox.is_closed
    assert toolbox.ended == ["canceled"]


# Questions to the user


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ({"action": "accept", "content": {"allow": True}}, "True"),
        ({"action": "accept", "content": {"allow": "yes"}}, "False"),
        ({"action": "accept", "content": {"allow": False}}, "False"),
        ({"action": "decline"}, "False"),
        ("accept", "False"),
    ],
)
def test_a_stateless_client_calls_again_with_the_answer(response: object, answer: str) -> None:
    async def script(client: MemoryClient) -> None:
        call = {"name": "ask", "_meta": stateless_meta(elicitation={"form": {}})}
        asked = await client.request("tools/call", call)
        assert asked["resultType"] == "input_required"
        ((key, question),) = asked["inputRequests"].items()
        assert question["method"] == "elicitation/create"
        assert question["params"]["message"] == QUESTION
        again = {**call, "requestState": asked["requestState"], "inputResponses": {key: response}}
        result = await client.request("tools/call", again)
        assert result["content"][0]["text"] == answer
        once_more = await client.request("tools/call", again)
        assert once_more["resultType"] == "input_required", "an answer counts once"

    talk(FakeToolbox, script)


def test_an_answer_to_a_question_that_was_not_asked_does_not_count() -> None:
    async def script(client: MemoryClient) -> None:
        call = {
            "name": "ask",
            "_meta": stateless_meta(elicitation={}),
            "requestState": "guessed",
            "inputResponses": {"allow": {"action": "accept", "content": {"allow": True}}},
        }
        assert (await client.request("tools/call", call))["resultType"] == "input_required"

    talk(FakeToolbox, script)


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ({"result": {"action": "accept", "content": {"allow": True}}}, "True"),
        ({"error": {"code": -1, "message": "no"}}, "False"),
    ],
)
def test_a_client_with_a_handshake_is_asked_by_a_request(response: dict[str, Any], answer: str) -> None:
    async def script(client: MemoryClient) -> None:
        await client.request(
            "initialize", {"protocolVersion": HANDSHAKE[0], "capabilities": {"elicitation": {}}}
        )
        identity = client.start("tools/call", {"name": "ask"})
        asked = await client.until(lambda message: message.get("method") == "elicitation/create")
        client.send({"id": asked["id"], **response})
        assert (await client.answer(identity))["result"]["content"][0]["text"] == answer

    talk(FakeToolbox, script)


@pytest.mark.parametrize("capabilities", [{}, {"elicitation": {"url": {}}}, {"elicitation": 7}])
def test_a_client_without_forms_is_not_asked(capabilities: dict[str, Any]) -> None:
    async def script(client: MemoryClient) -> None:
        result = await client.call("ask", meta=stateless_meta(**capabilities))
        assert result["content"][0]["text"] == "None"

    talk(FakeToolbox, script)


# Lines


def test_a_line_that_is_too_long_is_skipped() -> None:
    pipe = io.BytesIO(b"12345\n1234567890123\n12\n123456")
    lines = []
    while (line := read_line(pipe, 6)) != b"":
        lines.append(line)
    assert lines == [b"12345\n", None, b"12\n", b"123456"]


def test_a_pipe_is_read_to_its_end() -> None:
    read, write = os.pipe()
    sent: list[bytes] = []

    async def run() -> None:
        conversation = AgentConversation(FakeToolbox(), sent.append)
        with os.fdopen(write, "wb") as pipe:
            pipe.write(b'{"id": 1, "method": "initialize"}\n{"id": 2, "method": "nothing"}')
        with os.fdopen(read, "rb") as pipe:
            await converse(conversation, pipe)
        await conversation.close()

    asyncio.run(run())
    assert json.loads(sent[0])["id"] == 1


def test_numbers_that_json_lacks_are_null() -> None:
    line = encode_line({"result": {"inf": float("inf"), "rows": [float("nan"), 1.5], "text": "\u2028"}})
    assert json.loads(line)["result"] == {"inf": None, "rows": [None, 1.5], "text": "\u2028"}
    assert line.isascii()


def test_what_is_no_text_is_replaced_and_whole_characters_are_not() -> None:
    line = encode_line({"result": {"\udcff": ["a\ud800", "\U0001f600", "\\ud800"]}})
    assert json.loads(line)["result"] == {"\ufffd": ["a\ufffd", "\U0001f600", "\\ud800"]}
    assert line.isascii()
