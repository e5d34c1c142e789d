# Every target sets up what it needs under .cache/ (once) and runs one script, so that Windows, which has no make,
# can call `python scripts/test.py` all the same.
PYTHON ?= python3

.PHONY: demo test lint bench package lock
demo: ; @$(PYTHON) scripts/demo.py
test: ; @$(PYTHON) scripts/test.py
lint: ; @$(PYTHON) scripts/lint.py
bench: ; @$(PYTHON) scripts/bench.py
package: ; @$(PYTHON) scripts/bundle.py
lock: ; @$(PYTHON) scripts/lock.py
