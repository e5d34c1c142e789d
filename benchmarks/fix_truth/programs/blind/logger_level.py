"""Logs at a level that is on or off."""
import logging
import torch

LOG = logging.getLogger("blind.logger_level")

# fuselight: shift(f32[4])
@torch.compile
def shift(x):
    LOG.info("shape %s", tuple(x.shape))
    return x + 1

def probe_records():
    """output records"""
    records = []
    handler = logging.Handler()
    handler.emit = lambda r: records.append(r.getMessage())
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    shift(torch.ones(2))
    shift(torch.ones(3))
    LOG.removeHandler(handler)
    return records
