"""The logger that is on DEBUG for torch, and prints what it printed before."""

from __future__ import annotations

import logging

import pytest

from fuselight.adapters.torch_api.dynamo.trace_logs import record_key_factors


@pytest.mark.parametrize(
    ("above", "own", "printed"),
    [
        (logging.WARNING, logging.NOTSET, ["warning"]),
        (logging.DEBUG, logging.NOTSET, ["debug", "info", "warning"]),
        (logging.WARNING, logging.INFO, ["info", "warning"]),
        (logging.WARNING, logging.DEBUG, ["debug", "info", "warning"]),
    ],
)
def test_a_logger_answers_that_it_is_on_debug_and_prints_as_before(
    above: int, own: int, printed: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    parent = logging.getLogger(f"test_trace_logs.{above}_{own}")
    logger = parent.getChild("keys")
    parent.setLevel(above)
    logger.setLevel(own)
    record_key_factors(logger)
    assert logger.isEnabledFor(logging.DEBUG)
    logger.debug("debug")
    logger.info("info")
    logger.warning("warning")
    assert caplog.messages == printed
