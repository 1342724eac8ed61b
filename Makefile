# What people and machines type. Everything is installed into .venv, and nowhere else.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Flags of `manage.py runmq`, for example: make run FLAGS="--port 9000 --data /srv/mqweb"
FLAGS ?=
# What pytest is given, for example: make test TESTS=tests/web
TESTS ?= tests $(wildcard sdk/tests)
# Many tests wait for processes, so a few more than there are processors.
WORKERS ?= 3
# Empty is unset: dozens of processes start, and each would compile every module anew.
export PYTHONDONTWRITEBYTECODE :=
SOURCES := apps mqweb manage.py $(wildcard sdk/src benchmarks)
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: run test test-spark test-browser check crash spark bench spark-bundle clean
.DELETE_ON_ERROR:

run: $(VENV)/.installed
	$(BIN)/python manage.py runmq $(FLAGS)

test: check
	$(BIN)/python -m pytest -q -m "not crash and not spark and not browser" --timeout 300 -n $(WORKERS) --dist worksteal $(TESTS)
	@# Beside each other: each has one process, so that one JVM, one product and one browser start.
	@$(MAKE) --no-print-directory -j2 test-spark test-browser

# Of these and the next, 5 says that there is none among TESTS.
test-spark: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -q -rs -m "spark and not crash" --timeout 600 $(TESTS) || [ $$? -eq 5 ]

test-browser: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -q -rs -m "browser and not crash" --timeout 600 $(TESTS) || [ $$? -eq 5 ]

check: $(VENV)/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy $(SOURCES)
	$(BIN)/lint-imports --no-cache
	$(BIN)/python manage.py check --deploy --fail-level WARNING
	$(BIN)/python -W ignore::RuntimeWarning manage.py makemigrations --check --dry-run

# MQWEB_TEST_ROUNDS=5 runs five times as many seeds, kills and faults.
crash: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -q -m "crash and not spark_products" --timeout 0 -n $(WORKERS) --dist worksteal $(TESTS)

# One after the other: each has a product and Spark processes of its own.
spark: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -q -rs -m spark_products --timeout 0 $(TESTS)

bench: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks $(FLAGS)

# What `spark-submit --py-files` is given (docs/PIPELINE.md).
spark-bundle: $(VENV)/.installed
	mkdir -p data
	PYTHONPATH=. $(BIN)/python -m pyspark_mqweb.bundle data/mqweb-spark.zip

# Keeps the data directory and the virtual environment.
clean:
	rm -rf .mypy_cache .ruff_cache .hypothesis .import_linter_cache benchmarks/out
	find apps mqweb tests sdk benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'mqweb needs Python 3.11 or newer: make PYTHON=...')"
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: requirements.txt sdk/pyproject.toml | $(BIN)/python
	$(PIP) install -r requirements.txt
	touch $@

$(VENV)/.installed-bench: requirements-bench.txt $(VENV)/.installed
	$(PIP) install -r requirements-bench.txt
	touch $@

$(VENV)/.installed-dev: requirements-dev.txt $(VENV)/.installed
	$(PIP) install -r requirements-dev.txt
	touch $@
