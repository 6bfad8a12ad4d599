# Every target sets up what it needs. `make` alone lists them.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
PYTEST := $(BIN)/python -m pytest
RUNS   ?= 20000
SEEDS  ?= 1000
SERVE  ?=
PEERS  ?=
SOAK   ?= 120
REUSE  ?= $(VENV)
SCHEDULES := $(wildcard tests/cluster/test_schedules_*.py) tests/cluster/test_coordinator_failover.py
HAS_DEBIAN := { command -v kcat && command -v chromium && command -v promtool && command -v krb5kdc && command -v javac && ls -d /usr/lib/postgresql && ls /usr/lib/*/sasl2/libgssapiv2.so; } >/dev/null 2>&1
INSTALL := DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends
DEBIAN := kcat chromium postgresql prometheus krb5-kdc krb5-admin-server krb5-user libkrb5-dev libsasl2-modules-gssapi-mit gcc default-jdk-headless

# Some machines set it. Then every process compiles Ottla's 1,000 sources again: twice the CPU of a broker's start.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup serve test test-all test-again test-cluster coverage month simulate check fetch interop test-console oracle transcript fuzz bench bench-peers dist release-check site docs picture clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## create .venv with the broker and the test tools

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Ottla needs Python 3.11 or newer; say which with: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

serve: $(READY) ## run a broker on 127.0.0.1:9092, a registry and the console on 127.0.0.1:8080; data in ./ottla-data
	@exec $(BIN)/ottla up $(SERVE)

test: $(READY) ## run the test suite in under ten minutes; `make test-all` adds the slow tests
	OTTLA_FUZZ_INPUTS=20000 $(PYTEST) tests --ignore tests/interop -n 3 --dist loadfile -m "not cluster and not slow"

test-all: $(READY) ## run every test but those of `make test-cluster` and `make interop`
	$(PYTEST) tests --ignore tests/interop $(addprefix --ignore ,$(SCHEDULES)) -n 3 --dist loadfile --durations 40 --durations-min 5

test-again: $(READY) ## run once more, one at a time, what failed in the last run; more than three fail at once
	$(BIN)/python tools/retry_failed.py

coverage: $(READY) ## run the unit tests and show which lines of src/ they cover
	$(PYTEST) tests/unit -q -n 2 --dist loadfile --cov ottla --cov-report term:skip-covered --cov-report html:build/coverage

test-cluster: $(READY) ## run every live schedule: kills, pauses, cut links, lost ZooKeepers, full disks, on three brokers
	$(PYTEST) $(SCHEDULES) -n 2 --maxschedchunk 1 --durations 10

month: $(READY) ## operate a simulated cluster for a month
	$(BIN)/python -m ottla.testing.month

simulate: $(READY) ## run SEEDS simulated clusters under faults; a seed that breaks a promise is printed
	$(BIN)/python -m ottla.testing.simulate --seeds $(SEEDS)

check: $(READY) ## lint, format, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

fuzz: $(READY) ## coverage-guided fuzzing of the request path, beside the 200,000 frames of `make test-all`
	@mkdir -p build/fuzz-found
	$(BIN)/python tests/fuzz/atheris_frames.py -runs=$(RUNS) -verbosity=0 build/fuzz-found tests/fuzz/corpus

fetch: $(READY) ## download what `make interop` needs, and install nothing
	$(BIN)/python tests/interop/fetch_jars.py
	$(BIN)/python tests/interop/fetch_npm.py
	@$(HAS_DEBIAN) || { apt-get update -qq && $(INSTALL) --download-only $(DEBIAN) >/dev/null; } || echo "some of $(DEBIAN) could not be downloaded"

interop: $(READY) ## fetch Kafka's jars (Maven), npm clients, kcat, Chromium, PostgreSQL, Prometheus, a JDK and a KDC (Debian), then run the tests that need them
	$(BIN)/python tests/interop/fetch_jars.py
	$(BIN)/python tests/interop/fetch_npm.py
	@$(HAS_DEBIAN) || $(INSTALL) $(DEBIAN) >/dev/null 2>&1 || { apt-get update -qq && $(INSTALL) $(DEBIAN) >/dev/null; } || echo "some of $(DEBIAN) are missing: their tests will be skipped"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[kerberos]' || echo "no gssapi: its tests will be skipped"
	$(PYTEST) tests/interop -n 3 --dist loadfile --durations 25 --durations-min 5

test-console: $(READY) ## run the console in Debian's Chromium: every page, by clicking; skipped without it
	@command -v chromium >/dev/null || { apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium; } || echo "no chromium: these tests will be skipped"
	$(PYTEST) tests/interop/console

transcript: $(READY) ## paste the README into a real terminal, in a clean clone; REUSE= installs everything anew
	OTTLA_TRANSCRIPT=1 OTTLA_TRANSCRIPT_VENV=$(REUSE) $(PYTEST) tests/transcript -s

oracle: $(READY) ## run the client tests against Apache Kafka itself: they show what Kafka does
	$(BIN)/python tests/interop/fetch_jars.py
	$(BIN)/python tests/interop/fetch_npm.py
	$(BIN)/python tests/interop/apache_kafka.py tests/integration/test_clients.py tests/integration/test_clients_and_topics.py tests/interop

bench: $(READY) ## produce, consume, requests, start-up in under 3 minutes, and CPU beside the stored baseline
	$(BIN)/python -m benchmarks

bench-peers: $(READY) ## the same load for Ottla, Apache Kafka, NATS, Redis and RabbitMQ, in turns: hours; PEERS=--quick for a look
	$(BIN)/python -m benchmarks.peers --fetch
	@{ command -v nats-server && command -v redis-server && command -v rabbitmq-server; } >/dev/null || { apt-get update -qq && apt-get install -qq -y --no-install-recommends nats-server redis-server rabbitmq-server; } || echo "the report names the peers that could not be had"
	$(BIN)/python -m benchmarks.peers $(PEERS)
	$(BIN)/python -m benchmarks.peers.soak --minutes $(SOAK)
	$(BIN)/python -m benchmarks.peers --report
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[bench]'
	$(BIN)/python -m benchmarks.peers.plots

dist: $(READY) ## build sdist and wheels into dist/, with their metadata checked
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[release]'
	$(BIN)/python tools/release.py build

release-check: dist ## install the wheels into fresh environments, then serve, produce and consume; EXTRAS=spark,... chooses
	$(BIN)/python tools/release.py check $(if $(EXTRAS),--extras $(EXTRAS))

site: $(READY) ## build the documentation as searchable pages in build/site; broken links fail
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[site]'
	$(BIN)/python tools/build_site.py

docs: $(READY) ## write the pages of docs/ that are made from the code
	$(BIN)/python tools/write_docs.py

picture: $(READY) ## draw the README's terminal from a real run
	$(BIN)/python tools/record_terminal.py

clean: ## remove what set-up and runs left behind
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis dist build
	find src -name '*.so' -delete
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
