# lockwatch: `make demo` shows it, `make test` proves it. Both install what is missing first.

CARGO ?= cargo
# More for the program behind a target: make demo ARGS=--story
ARGS ?=

.PHONY: help demo test pager-bench page-bench bench build dashboards lint fmt docs

help:
	@echo "make demo                a private Redis, two workers, three users' switches and the agent, until Ctrl-C"
	@echo "make demo ARGS=--story   the same as a story of 90 seconds"
	@echo "make test                all tests"
	@echo "make pager-bench         faults through the whole chain to the pager: missed and false pages (15 minutes; ARGS=--short: 3)"
	@echo "make page-bench          the page in a real browser: how late, how heavy, what it costs (ARGS=--short: less of it)"
	@echo "make bench               what watching costs and how late it is, beside the peer, into docs/benchmarks.md (12 minutes; ARGS=--short: 3)"
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

pager-bench:
	@scripts/setup pager-bench
	$(CARGO) build --workspace --locked
	$(CARGO) run --package lockwatch-lab --locked -- pager $(ARGS)

page-bench:
	@scripts/setup page-bench
	$(CARGO) build --workspace --release --locked
	$(CARGO) run --package lockwatch-lab --release --locked -- page $(ARGS)

bench:
	@scripts/setup bench
	$(CARGO) build --workspace --release --locked
	$(CARGO) run --package lockwatch-lab --release --locked -- bench --out docs/benchmarks.md $(ARGS)

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
