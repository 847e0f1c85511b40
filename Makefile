# `make demo` and `make test` need Python 3.11 or later and its package index, nothing else.

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
READY = $(VENV)/.ready
EXTRAS = $(if $(filter Linux,$(shell uname -s)),cpu,)

.PHONY: venv demo test lint docs clean

COG = $(BIN)/python -m cogapp -I .

venv: $(READY)

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo 'Python 3.11 or later is needed; name one: make PYTHON=/path/to/python3' >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
		{ echo '$(PYTHON) cannot make a virtual environment; install its venv package (Debian: python3-venv)' >&2; exit 1; }
	$(BIN)/python -m pip install -qq --disable-pip-version-check --editable '.[report,test$(EXTRAS:%=,%)]'
	@touch $@

demo: $(READY)
	@PATH="$(abspath $(BIN)):$$PATH" fixtures/demo.sh

test: lint
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(COG) --check --check-fail-msg="run: make docs" --verbosity=0 docs/*.md

docs: $(READY)
	$(COG) -r docs/*.md

clean:
	rm -rf $(VENV) .demo build dist .mypy_cache .pytest_cache .ruff_cache
