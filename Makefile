# lockwatch: `make demo` shows it, `make test` proves it. Both install what is missing first.

CARGO ?= cargo
# More for the program behind a target: make demo ARGS=--story
ARGS ?=

.PHONY: help demo check test libraries alerts simulate fuzz pager-bench page-bench bench sabotage hostile build dashboards lint fmt docs

help:
	@echo "make demo                a private Redis, two workers, three users' switches and the agent, until Ctrl-C"
	@echo "make demo ARGS=--story   the same as a story of 90 seconds"
	@echo "make check               format, clippy, unit tests, timelines: after each change (2 minutes)"
	@echo "make test                all tests, and which rules of docs/how-it-decides.md broke (10 minutes; ARGS=--long: all of each)"
	@echo "make libraries           real lock libraries of five languages under the agent, into docs/libraries.md (10 minutes)"
	@echo "make alerts              rules, their unit tests and examples with three versions of Prometheus' tools"
	@echo "make fuzz                inputs made up for everything that eats foreign bytes (ARGS=\"all 60\", ARGS=\"session 600\")"
	@echo "make simulate            1,000 seeds of 10 virtual hours under an oracle (hours; ARGS=\"--seeds 20\": less of it)"
	@echo "make pager-bench         faults through the whole chain to the pager: missed and false alerts (15 minutes; ARGS=--short: 3)"
	@echo "                         ARGS=\"--only random-faults --minutes 240\": faults at random; ARGS=\"--only churn\"; ARGS=\"--only soak\": an hour"
	@echo "make page-bench          the page in a real browser: how late, how heavy, what it costs (ARGS=--short: less of it)"
	@echo "make bench               what watching costs and how late it is, beside the peer, what the rules cost, and how fast guards take over, into lab/BENCHMARKS.md (30 minutes; ARGS=--short: 6; ARGS=rules or ARGS=guard: only these)"
	@echo "make sabotage            deliberate mistakes in the code, and which check catches each (ARGS='--patch FILE': yours)"
	@echo "make hostile             attackers of every kind while the agent is scraped (10 minutes; ARGS=\"--minutes 3\")"
	@echo "make build               target/release/lockwatch"
	@echo "make dashboards          dashboards/*.json from dashboards/source"
	@echo "make lint                format, clippy, dependencies (needs cargo-deny)"
	@echo "make fmt                 format the sources"
	@echo "make docs                target/doc: the documentation of the code"

demo:
	@scripts/setup demo
ifneq (,$(findstring --story,$(ARGS)))
	$(CARGO) build --package lockwatch --package lockwatch-lab --locked
	target/debug/lockwatch-lab demo $(ARGS)
else
	$(CARGO) run --locked -- demo $(ARGS)
endif

check:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) test --workspace --locked --quiet --lib --bins
	$(CARGO) test --workspace --exclude lockwatch --locked --quiet --test it timelines::

alerts:
	@scripts/setup pager-bench
	scripts/newer-prometheus target/newer-prometheus || test $$? -eq 3
	scripts/check-alerts target/newer-prometheus

test:
	@scripts/setup test
	@CARGO="$(CARGO)" scripts/test $(ARGS)

libraries:
	@scripts/setup libraries
	LOCKWATCH_LIBRARIES=1 $(CARGO) test --locked --test it -- --nocapture --exact libraries::all::all_are_shown_as_they_say
	BLESS=1 $(CARGO) test --quiet --locked --test it -- --exact docs::generated_sections_are_what_the_code_says

fuzz:
	@scripts/setup fuzz
	scripts/fuzz $(ARGS)

simulate:
	$(CARGO) run --package lockwatch-lab --release --locked -- simulate $(ARGS)

pager-bench:
	@scripts/setup pager-bench
	$(CARGO) build --workspace --locked
	target/debug/lockwatch-lab pager $(ARGS)

page-bench:
	@scripts/setup page-bench
	$(CARGO) build --workspace --release --locked
	$(CARGO) run --package lockwatch-lab --release --locked -- page $(ARGS)

bench:
	@scripts/setup bench
	$(CARGO) build --package lockwatch --package lockwatch-lab --release --locked
	$(CARGO) run --package lockwatch-lab --release --locked -- bench --out lab/BENCHMARKS.md $(ARGS)

sabotage:
	@scripts/setup test
	$(CARGO) build --workspace --locked
	target/debug/lockwatch-lab sabotage $(ARGS)

hostile:
	@scripts/setup demo
	$(CARGO) build --workspace --release --locked
	$(CARGO) run --package lockwatch-lab --release --locked -- $@ $(ARGS)

build:
	$(CARGO) build --release --locked

dashboards:
	@scripts/setup dashboards
	target/dashboards/bin/python -B dashboards/source/build.py dashboards

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) fetch --locked --manifest-path fuzz/engine/Cargo.toml
	$(CARGO) deny --locked check licenses bans sources

fmt:
	$(CARGO) fmt --all

docs:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked
