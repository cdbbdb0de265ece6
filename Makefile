# Every target makes the environment it needs; a fresh machine has Python 3.11 and nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PATHS := agentctl adapters registry tests bench tools

.PHONY: run test coverage test-real lint proto sync bench agents clean

# pip of this version knows dependency groups; the one that comes with Python 3.11 does not.
PIP := pip>=25.1

$(VENV)/run.stamp: pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "agentctl needs Python 3.11 or newer, this is " + sys.version.split()[0] + ": make PYTHON=python3.12 …")'
	@echo 'Installing agentctl and what it needs into $(VENV) (once, about half a minute) …'
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check '$(PIP)'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c requirements.lock -e .
	@touch $@

$(VENV)/dev.stamp: $(VENV)/run.stamp
	@echo 'Installing what the tests need into $(VENV) (once) …'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c requirements.lock -e '.[gateway]' --group dev
	@touch $@

# Starts the daemon, runs one prompt on the built-in demo agent, and says how to go on.
run: $(VENV)/run.stamp
	@$(BIN)/python tools/first_run.py

# All tests that need nothing but this machine; most of their time they wait for processes.
test: $(VENV)/dev.stamp
	$(BIN)/python -m pytest -n 3 --dist loadfile

# The same with branch coverage and its gate. Apart: on Python 3.11 a thread that starts while another
# one is traced may die of it, and then a good test fails.
coverage: $(VENV)/dev.stamp
	$(BIN)/python -m pytest -n 3 --dist loadfile --cov --cov-report=
	$(BIN)/python -m coverage report --format=total

# The real agents from npm against scripted models, cut off from every network.
test-real: $(VENV)/dev.stamp tests/real/node_modules/.stamp examples/node/node_modules/.stamp
	$(BIN)/python -m tests.real.netns -- $(abspath $(BIN))/python -m pytest -n 2 --dist loadfile -m real tests/real

tests/real/node_modules/.stamp: tests/real/package-lock.json
	cd tests/real && npm ci --no-fund --no-audit
	@touch $@

examples/node/node_modules/.stamp: examples/node/package-lock.json
	cd examples/node && npm ci --no-fund --no-audit
	@touch $@

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check $(PATHS)
	$(BIN)/ruff format --check $(PATHS)
	$(BIN)/lint-imports
	$(BIN)/python tools/limits.py
	$(BIN)/python tools/gen_proto.py --check
	$(BIN)/python tools/gen_sync.py --check
	$(BIN)/pyright

proto: $(VENV)/dev.stamp
	$(BIN)/python tools/gen_proto.py

sync: $(VENV)/dev.stamp
	$(BIN)/python tools/gen_sync.py

agents: $(VENV)/dev.stamp
	$(BIN)/python -m agentctl_registry

bench: $(VENV)/dev.stamp
	$(BIN)/python -m bench

clean:
	rm -rf $(VENV) tests/real/node_modules examples/node/node_modules build dist
