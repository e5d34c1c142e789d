# Each target sets up what it needs under .cache/ (once) and runs one script, so that Windows, which has no make,
# can call `python scripts/test.py` instead.
PYTHON ?= python3

.PHONY: demo quick test corpora lint bench package release site lock pictures
demo: ; @$(PYTHON) scripts/demo.py
quick: ; @$(PYTHON) scripts/quick.py
# make test TORCH=2.15.0: what relies on torch, on that version of it
test: ; @$(PYTHON) scripts/test.py $(if $(TORCH),--torch $(TORCH))
corpora: ; @$(PYTHON) scripts/test.py --corpora
lint: ; @$(PYTHON) scripts/lint.py
bench: ; @$(PYTHON) scripts/bench.py
# make pictures NAMES="tuning hover": these pictures of docs/images; without NAMES, all of them
pictures: ; @$(PYTHON) scripts/pictures.py $(NAMES)
package: ; @$(PYTHON) scripts/bundle.py
# make release REPOSITORY=https://github.com/OWNER/fuselight VERSION=0.2.0: all that is uploaded, checked, in dist/release
release: ; @$(PYTHON) scripts/release.py "$(REPOSITORY)" "$(VERSION)"
# make site, or make site REPOSITORY=URL VERSION=X: the documentation as pages for a browser, in dist/site
site: ; @$(PYTHON) scripts/documentation.py $(REPOSITORY) $(VERSION)
lock: ; @$(PYTHON) scripts/lock.py
