"""The error of a program that asks for what a world without a network is not."""

from __future__ import annotations

from fuselight.shared.report import Culprit, Failure


class FakeWorldError(ValueError):
    """The program asks for what this world is not. `failure` says so to the user."""

    def __init__(self, message: str, next_step: str) -> None:
        super().__init__(f"{message}: {next_step}")
        self.failure = Failure(Culprit.USER, "world", message, next_step, exception="ValueError")
