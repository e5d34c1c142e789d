"""The client of one call: its progress, and its user, who may be asked.

Invariant: an answer counts only for a question that this conversation has asked.
"""

from __future__ import annotations

import collections
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from fuselight_server.agents.protocol.revisions import ProtocolClient

_KEY = "allow"
"""Name of the question, and of the field of its form."""
_MAX_QUESTIONS = 64
"""Questions without an answer that are kept."""
_PROGRESS_EVERY = 0.2
"""Seconds between two messages of progress."""


class InputRequiredError(Exception):
    """The user has to answer before the call goes on: the client calls again with the answer."""

    def __init__(self, result: dict[str, Any]) -> None:
        super().__init__("input required")
        self.result = result


def form(question: str) -> dict[str, Any]:
    """The parameters of `elicitation/create`."""
    return {
        "mode": "form",
        "message": question,
        "requestedSchema": {
            "type": "object",
            "properties": {_KEY: {"type": "boolean", "title": "Allow", "default": False}},
            "required": [_KEY],
        },
    }


def is_allowed(answer: object) -> bool:
    """Whether the user has allowed what the form asked."""
    if not isinstance(answer, dict) or answer.get("action") != "accept":
        return False
    content = answer.get("content")
    return isinstance(content, dict) and content.get(_KEY) is True


class OpenQuestions:
    """The questions that stateless clients have not answered yet."""

    def __init__(self) -> None:
        self._questions: collections.OrderedDict[str, str] = collections.OrderedDict()

    def open(self, question: str) -> str:
        """The state that the client sends back with the answer."""
        state = secrets.token_urlsafe(16)
        self._questions[state] = question
        while len(self._questions) > _MAX_QUESTIONS:
            self._questions.popitem(last=False)
        return state

    def take_question(self, state: object) -> str | None:
        """The question of a state, once."""
        return self._questions.pop(state, None) if isinstance(state, str) else None


@dataclass
class ConversationCaller:
    """A caller of one conversation."""

    client: ProtocolClient
    params: dict[str, Any]
    """Of the request."""
    notify: Callable[[dict[str, Any]], None]
    request: Callable[[str, dict[str, Any]], Awaitable[dict[str, Any] | None]]
    """Sends a request to the client; None: it answered with an error."""
    questions: OpenQuestions
    progress_token: str | int | None = None
    _progress: int = 0
    _shown_at: float = field(default=float("-inf"))
    _answers: dict[str, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Take the answer that the call comes with."""
        question = self.questions.take_question(self.params.get("requestState"))
        responses = self.params.get("inputResponses")
        if question is not None and isinstance(responses, dict):
            self._answers[question] = is_allowed(responses.get(_KEY))

    def show(self, text: str) -> None:
        """Report progress, if the client wants it."""
        now = time.monotonic()
        if self.progress_token is None or not text or now - self._shown_at < _PROGRESS_EVERY:
            return
        self._progress += 1
        self._shown_at = now
        params = {"progressToken": self.progress_token, "progress": self._progress, "message": text}
        self.notify({"method": "notifications/progress", "params": params})

    async def ask(self, question: str) -> bool | None:
        """Ask the user. Raises InputRequiredError."""
        if not self.client.can_ask:
            return None
        if question in self._answers:
            return self._answers[question]
        if not self.client.is_stateless:
            return is_allowed(await self.request("elicitation/create", form(question)))
        asked = {_KEY: {"method": "elicitation/create", "params": form(question)}}
        raise InputRequiredError({"inputRequests": asked, "requestState": self.questions.open(question)})
