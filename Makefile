# Everything starts from a bare checkout: `make demo` and `make test` make the environment first.

VENV := .venv
STAMP := $(VENV)/.installed
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

# An interpreter to use instead of looking for one: make setup PYTHON=/path/to/python3.11
PYTHON ?=
PYENV_ROOT ?= $(HOME)/.pyenv

# A candidate must run (pyenv's shims exist for versions that are not active) and be able to make an environment.
CHECK_PYTHON := import sys, platform, venv, ensurepip; \
  sys.exit(not (sys.implementation.name == "cpython" and (3, 10) <= sys.version_info[:2] <= (3, 11) \
  and sys.platform == "linux" and platform.machine() == "x86_64"))

.PHONY: setup demo test lint clean

setup: $(STAMP)

$(BIN)/python:
	@for candidate in "$(PYTHON)" python3.11 "$(PYENV_ROOT)"/versions/3.11*/bin/python \
	    "$$(uv python find 3.11 2>/dev/null)" python3.10 "$(PYENV_ROOT)"/versions/3.10*/bin/python python3; do \
	  if [ -n "$$candidate" ] && "$$candidate" -c '$(CHECK_PYTHON)' >/dev/null 2>&1; then \
	    found="$$candidate"; break; \
	  fi; \
	  if [ -n "$(PYTHON)" ]; then break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "No usable Python found." >&2; \
	  echo "numba-dpex has wheels for CPython up to 3.11 on x86-64 Linux only, and this project needs 3.10 or 3.11," >&2; \
	  echo "with the venv and ensurepip modules. Install one, for example by one of:" >&2; \
	  echo "    apt install python3.11 python3.11-venv" >&2; \
	  echo "    pyenv install 3.11" >&2; \
	  echo "    uv python install 3.11" >&2; \
	  echo "or name one: make setup PYTHON=/path/to/python3.11" >&2; \
	  exit 1; \
	fi; \
	echo "Making $(VENV) with $$found ($$("$$found" --version))"; \
	"$$found" -m venv $(VENV)

# torch goes in first and alone, so that whichever index or folder of wheels pip is set up with chooses the build
# (a CPU build is enough, and much smaller).
$(STAMP): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install -c constraints.txt torch==2.13.0
	$(PIP) install -c constraints.txt -e '.[dev,models]'
	@touch $@

demo: $(STAMP)
	$(BIN)/python examples/demo.py

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/mypy

test: lint
	$(BIN)/python -m pytest --durations=15

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
