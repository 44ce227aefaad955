# Entry points. All targets use .venv, which the first of them sets up. Paths are relative, so the tree
# can be at any path and `make -C` works.

PY := .venv/bin/python -P
ONLY ?=
MINUTES ?=
SEED ?=
SCENARIO ?=
ARGS ?=
DEMO_ARGS ?=

export ONLY MINUTES

# Targets share .venv and two cores, so running them in parallel gains nothing.
.NOTPARALLEL:
.DEFAULT_GOAL := help
.PHONY: help venv demo-venv wheel demo test spark-test check format sim bench soak docs clean

help:  ## this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' Makefile

venv:  ## set up .venv with all tools (the targets below do so, too)
	@python=$$(tools/find_python.sh) && "$$python" tools/bootstrap.py all

demo-venv:
	@python=$$(tools/find_python.sh) && "$$python" tools/bootstrap.py demo

demo: demo-venv  ## a guided tour; .venv with what it needs [DEMO_ARGS=...]
	@.venv/bin/skerry demo --keep build/demo $(DEMO_ARGS)

wheel:  ## a wheel of the package in build/dist, to install elsewhere
	@python=$$(tools/find_python.sh) && "$$python" tools/bootstrap.py wheel

test: venv  ## all tests except tidy, compiled and uncompiled [ARGS="pytest arguments"]
	@$(PY) tools/run_tests.py $(ARGS)

spark-test: venv  ## the tests of the pipeline alone
	@$(PY) tools/run_tests.py tests/spark tests/unit/spark tests/apps/test_spark_cluster.py

check: venv  ## format, lint, types, imports, tidiness
	@$(PY) tools/run_checks.py

format: venv  ## format the code with ruff
	@$(PY) -m ruff format --quiet . && $(PY) -m ruff check --quiet --fix .

sim: venv  ## run a simulated system [SEED=n] [SCENARIO=name]
	@.venv/bin/skerry sim run $(if $(SCENARIO),--scenario $(SCENARIO)) $(if $(SEED),--seed $(SEED))

bench: venv  ## run the benchmarks, compiled and uncompiled [ONLY=name]
	@$(PY) benchmarks/run.py

soak: venv  ## long runs with fresh seeds [ONLY=name] [MINUTES=n]
	@$(PY) tests/soak/run.py

# From the source: compiled functions have no annotations to show.
docs: venv  ## documentation as web pages in build/docs
	@PYTHONPATH=src $(PY) -m sphinx --fail-on-warning --keep-going --quiet -b html docs build/docs
	@echo "built build/docs/index.html"

clean:  ## remove all generated files, including .venv
	rm -rf .venv .venv.lock build .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	rm -rf benchmarks/results tests/soak/latest.json
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
