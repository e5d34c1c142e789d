"""Questions before code runs, for clients that keep no answers: put once, and kept in the user's own store.

Invariant: an answer that another window or `fuselight consent` stores while a question is open counts as its answer.
Where the client cannot show a question, or does not answer it, a message says once how to answer in a terminal.
"""

from __future__ import annotations

import asyncio
import shlex

from fuselight_server.base.consent_store import ConsentAnswer, ConsentStore
from fuselight_server.editor.handlers.server import Server
from fuselight_server.editor.session.consent import LATER, NEVER
from fuselight_server.editor.session.state import Folder
from fuselight_server.editor.session.ui import Question, Ui

LOOK_SECONDS = 1.0
"""Between two looks at the store while a question is open."""
SILENT_SECONDS = 30.0
"""After which a question without an answer may be one that the client does not show."""


class KeptConsent:
    """Asks by a message with buttons, and keeps the answers."""

    def __init__(self, server: Server, ui: Ui) -> None:
        """Ask through `ui`."""
        self._server, self._ui = server, ui
        self._store = ConsentStore()
        self._explained: set[str] = set()
        """Subjects whose answer in a terminal was already explained."""

    async def answer(self, question: Question) -> str:
        """The answer that the user has given before, else the one that the user gives now, which is kept."""
        kept = await self._stored(question)
        # A user who asks for a run where runs are off may have changed their mind; an agent has none.
        asks_again = (
            kept is not None and question.explicit and not question.is_for_agents and kept.answer == NEVER
        )
        if kept is not None and kept.answer in question.answers.values() and not asks_again:
            return kept.answer
        offer = asyncio.ensure_future(self._offered(question))
        try:
            elsewhere = await self._stored_meanwhile(question, kept, offer)
        except BaseException:
            offer.cancel()
            raise
        if elsewhere is None:
            return await offer
        self._server.spawn(self._late(question, offer), "waiting for a second answer")
        return elsewhere

    def forget_folder(self, folder: Folder) -> None:
        """Forget the answers about a folder and its programs."""
        try:
            self._store.forget_answers(folder.path)
        except OSError as error:
            self._ui.say(f"{self._store.path} could not be changed: {error.strerror or error}", error=True)

    async def _stored(self, question: Question) -> ConsentAnswer | None:
        return await asyncio.to_thread(self._store.entry, question.subject)

    async def _stored_meanwhile(
        self, question: Question, before: ConsentAnswer | None, offer: asyncio.Future[str]
    ) -> str | None:
        """Wait for the client's answer, or return one that another program has stored since `before`."""
        loop = asyncio.get_running_loop()
        silent_at = loop.time() + SILENT_SECONDS
        while not (await asyncio.wait({offer}, timeout=LOOK_SECONDS))[0]:
            now = await self._stored(question)
            if now is not None and now != before and now.answer in question.answers.values():
                return None if offer.done() else now.answer
            if loop.time() >= silent_at:
                self._explain(question, "A question about running code waits for an answer.")
        return None

    async def _offered(self, question: Question) -> str:
        """Put the question; keep and return the answer."""
        try:
            title = await self._ui.offer(f"{question.message} {question.detail}", tuple(question.answers))
        except Exception:
            self._explain(question, "This editor shows no questions of a language server.")
            raise
        answer = question.answers.get(title or "", LATER)
        try:
            await asyncio.to_thread(self._store.keep_answer, question.subject, answer)
        except OSError as error:
            self._server.state.log(f"the answer is not kept: {self._store.path}: {error.strerror or error}")
        return answer

    async def _late(self, question: Question, offer: asyncio.Future[str]) -> None:
        """Take an answer that the client gives after another program has given one: the user's last word counts."""
        try:
            answer = await offer
        except Exception as error:  # noqa: BLE001 - the question has been answered elsewhere
            self._server.state.log(
                f"the question about running {question.subject} was not answered here: {error!r}"
            )
        else:
            if answer != LATER:
                self._server.analysis.consent.accept_answer(question, answer)

    def _explain(self, question: Question, why: str) -> None:
        """Say once for each subject how to answer in a terminal."""
        path = question.program or question.folder.path
        if question.subject in self._explained or question.is_for_agents:
            return
        self._explained.add(question.subject)
        what = "this program" if question.program is not None else "code of this folder"
        self._ui.say(
            f"{why} To let {what} run without one, run `fuselight consent --allow {shlex.quote(path)}`.",
            error=False,
        )
