# What people and machines type. Everything is installed into .venv, and nowhere else.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Flags of `manage.py runmq`, for example: make run FLAGS="--port 9000 --data /srv/mqweb"
FLAGS ?=
# What pytest is given, for example: make test TESTS=tests/web
TESTS ?= tests $(wildcard sdk/tests)
# Many tests wait for processes, so a few more than there are processors.
WORKERS ?= 4
# Empty is unset: dozens of processes start, and each would compile every module anew.
export PYTHONDONTWRITEBYTECODE :=
SOURCES := apps mqweb manage.py $(wildcard sdk/src benchmarks tools)
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: run messages test test-spark test-browser test-rocketmq check crash fuzz spark pictures rocketmq bench spark-bundle clean
.DELETE_ON_ERROR:

run: $(VENV)/.installed
	$(BIN)/python manage.py runmq $(FLAGS)

test: check
	$(BIN)/python -m pytest -q -m "not crash and not spark and not browser and not pictures and not rocketmq" --timeout 300 -n $(WORKERS) --dist worksteal $(TESTS)
	@# Beside each other: each has one process, so that one JVM, one product and one browser start.
	@$(MAKE) --no-print-directory -j2 test-spark test-browser $(if $(filter tests,$(TESTS)),test-rocketmq)

# Of these and the next, 5 says that there is none among TESTS.
test-spark: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -q -rs -m "spark and not crash" --timeout 600 $(TESTS) || [ $$? -eq 5 ]

test-browser: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -q -rs -m "browser and not crash" --timeout 600 $(TESTS) || [ $$? -eq 5 ]

# A slice of `make rocketmq` with the one client that is installed within seconds.
test-rocketmq: $(VENV)/.installed-dev
	$(BIN)/python -m tests.conformance python --workers 2 --only test_sending

check: $(VENV)/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy $(SOURCES)
	$(BIN)/lint-imports --no-cache
	$(BIN)/python manage.py check --deploy --fail-level WARNING
	$(BIN)/python -W ignore::RuntimeWarning manage.py makemigrations --check --dry-run

# Texts of the sources into the Chinese catalog, and compile it (docs/adr/0032).
messages: $(VENV)/.installed-dev
	$(BIN)/python -m tools.messages

# MQWEB_TEST_ROUNDS=5 runs five times as many seeds, kills and faults.
crash: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -q -m "crash and not spark_products and not fuzz and not browser" --timeout 0 -n $(WORKERS) --dist worksteal $(TESTS)
	@# In a process of its own: a browser keeps a loop running in it, where no other can be started.
	$(BIN)/python -m pytest -q -rs -m "browser and crash" --timeout 0 $(TESTS) || [ $$? -eq 5 ]

# Requests made from the OpenAPI document to all addresses as each role. MQWEB_TEST_SEED runs a seed
# again, and MQWEB_TEST_ROUNDS multiplies the requests.
fuzz: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -q -m fuzz --timeout 0 tests/fuzz

# One after the other: each has a product and Spark processes of its own.
spark: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -q -rs -m spark_products --timeout 0 $(TESTS)

# The pictures of README and docs, taken anew: of the journeys' pages and of the demo.
pictures: $(VENV)/.installed-dev
	MQWEB_TEST_PICTURES=docs/images $(BIN)/python -m pytest -q -rs -m "pictures or browser" -p no:randomly --timeout 900 tests/browser/test_journeys.py tests/browser/test_pictures.py

# RocketMQ's own clients against the product (docs/ROCKETMQ.md); FLAGS="python --only filters" for
# some of it, FLAGS=--keep to write the table.
rocketmq: $(VENV)/.installed-dev
	$(BIN)/python -m tests.conformance $(FLAGS)

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
