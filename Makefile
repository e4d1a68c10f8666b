PYTHON ?= python3
WORKERS ?= 2
VENV := .venv
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help demo test lint format clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(READY) ## train the default model on the built-in digits and leave a report to look at
	$(VENV)/bin/patchwords train

# One thread in each worker: two workers with all threads each would fight for the same cores.
test: lint ## lint, then the tests on WORKERS processes
	OMP_NUM_THREADS=1 $(VENV)/bin/pytest -n $(WORKERS) --dist worksteal

lint: $(READY) ## ruff and mypy, changing nothing
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

format: $(READY) ## let ruff mend and format the code
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

clean: ## remove the environment, caches and build outputs; runs/ is left alone
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache
	find patchwords tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "patchwords needs Python 3.11 or newer, and $(PYTHON) is not that: name another with make PYTHON=python3.12" >&2; \
		exit 1; }
	@echo 'building $(VENV), once; a few minutes'
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	@touch $@
