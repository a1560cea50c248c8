# lockwatch: `make demo` shows it, `make test` proves it. Both install what is missing first.

CARGO ?= cargo
# More for the program behind a target: make demo ARGS=--story
ARGS ?=

.PHONY: help demo test simulate pager-bench page-bench build dashboards lint fmt docs

help:
	@echo "make demo                a private Redis, two workers, three users' switches and the agent, until Ctrl-C"
	@echo "make demo ARGS=--story   the same as a story of 90 seconds"
	@echo "make test                all tests"
	@echo "make simulate            1,000 seeds of 10 virtual hours under an oracle (hours; ARGS=\"--seeds 20\": less of it)"
	@echo "make pager-bench         faults through the whole chain to the pager: missed and false pages (15 minutes; ARGS=--short: 3)"
	@echo "make page-bench          the page in a real browser: how late, how heavy, what it costs (ARGS=--short: less of it)"
	@echo "make build               target/release/lockwatch"
	@echo "make dashboards          dashboards/*.json from dashboards/source"
	@echo "make lint                format, clippy, dependencies (needs cargo-deny)"
	@echo "make fmt                 format the sources"
	@echo "make docs                target/doc: the documentation of the code"

demo:
	@scripts/setup demo
	$(CARGO) run --locked -- demo $(ARGS)

test:
	@scripts/setup test
	$(CARGO) test --workspace --locked $(ARGS)

simulate:
	$(CARGO) run --package lockwatch-lab --release --locked -- simulate $(ARGS)

pager-bench:
	@scripts/setup pager-bench
	$(CARGO) build --workspace --locked
	$(CARGO) run --package lockwatch-lab --locked -- pager $(ARGS)

page-bench:
	@scripts/setup page-bench
	$(CARGO) build --workspace --release --locked
	$(CARGO) run --package lockwatch-lab --release --locked -- page $(ARGS)

build:
	$(CARGO) build --release --locked

dashboards:
	@scripts/setup dashboards
	target/dashboards/bin/python -B dashboards/source/build.py dashboards

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) deny --locked check licenses bans sources

fmt:
	$(CARGO) fmt --all

docs:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked
