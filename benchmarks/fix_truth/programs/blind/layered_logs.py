"""A logger's child, a logger method under another name, a level check and extra keywords."""
import logging
import torch

log = logging.getLogger("layered")
say = log.info
seen = []

class Keep(logging.Handler):
    def emit(self, record):
        seen.append(record.getMessage())

log.addHandler(Keep())
log.setLevel(logging.INFO)

# fuselight: child(f32[3])
@torch.compile
def child(x):
    log.getChild("part").info("mean %.1f", x.mean())
    return x * 2

# fuselight: alias(f32[3])
@torch.compile
def alias(x):
    say("shape %s", tuple(x.shape))
    return x + len(seen)

# fuselight: checked(f32[3])
@torch.compile
def checked(x):
    if log.isEnabledFor(logging.INFO):
        log.info("sum", extra={"total": x.shape[0]}, stacklevel=2)
    return x - 1

def probe_child():
    """output"""
    seen.clear()
    return child(torch.ones(2)), len(seen)

def probe_alias():
    """values depend on what was logged"""
    seen.clear()
    return alias(torch.zeros(2)), alias(torch.zeros(2))

def probe_alias_off():
    """mode the logger is off"""
    seen.clear()
    log.disabled = True
    try:
        return alias(torch.zeros(2)), list(seen)
    finally:
        log.disabled = False

def probe_checked():
    """output"""
    seen.clear()
    return checked(torch.ones(2)), len(seen)
