# The commands everybody uses. `make test` on a fresh Debian machine with Rust does all the set-up it needs.

.PHONY: run test lint bench micro prove screens setup

# Debian packages the build and the tests need, as package:command.
NEEDS := build-essential:cc curl:curl python3:python3 redis-server:redis-server redis-tools:redis-cli postgresql:pg_ctlcluster \
	chromium:chromium chromium-driver:chromedriver nodejs:node npm:npm valgrind:valgrind

# What checks in a browser whether everybody can use the pages: a tool of the tests, no part of the program.
AXE := 4.14.0

# The stories that a node of a cluster tells like a process of its own. The one that is skipped damages SQLite's file.
ON_CLUSTER := accounts:: bad_input:: deliveries:: draws:: expiry:: idempotency:: lifecycle:: limits:: live:: operators:: orders:: pages:: passes:: \
	payments:: stream:: waiting_room:: webhooks:: --skip a_poisoned_or_unknown_prize

run:
	cargo run --release

# Everything that must hold before a change lands.
test: setup lint
	cargo test --workspace
	TIDEGATE_TEST_ON=cluster cargo test -p tidegate --test it -- $(ON_CLUSTER)

# The pictures in docs/screens, taken by the browser's stories.
screens: setup
	TIDEGATE_SCREENS=1 cargo test -p tidegate --test browser

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --features tidegate/prove -- -D warnings

# How fast it is here, against its own ceiling and the usual ways to build one; fails if a figure is not reached. Seven to eight minutes after the build.
bench: setup
	cargo build --release -p tidegate -p tidegate-bench
	target/release/tidegate-bench

# What the small parts cost: a claim, an id, a token, a sync of the journal, a call to Redis.
micro: setup
	cargo bench -p tidegate-core -p tidegate-store -p tidegate --bench micro

# Long campaigns: 300 kills under load, a restart with a million orders, a flood, the rehearsals of the README.
# One at a time: they measure.
prove: setup
	cargo test --release -p tidegate --features prove --test prove -- --nocapture --test-threads 1
	cargo build --release
	target/release/tidegate rehearse --stock 1000 --buyers 20000 --connections 256 --json
	target/release/tidegate rehearse --stock 1000 --buyers 20000 --connections 256 --per-user-limit 2 --json
	target/release/tidegate rehearse --stock 20000 --buyers 60000 --rate 20000 --json
	target/release/tidegate rehearse --stock 1000 --buyers 20000 --bots 0.9 --json
	target/release/tidegate rehearse --stock 1000 --buyers 5000 --connections 64 --waiting-room --json
	target/release/tidegate rehearse --draw=single --json
	target/release/tidegate rehearse --draw=whole --json
	target/release/tidegate rehearse --draw=deck --json

# Installs what is missing, and only that. The font is for pictures of Chinese pages.
setup:
	@missing=""; \
	for need in $(NEEDS); do \
		command -v "$${need#*:}" >/dev/null 2>&1 || missing="$$missing $${need%%:*}"; \
	done; \
	fc-list :lang=zh 2>/dev/null | grep -q . || missing="$$missing fonts-wqy-microhei"; \
	if [ -n "$$missing" ]; then \
		sudo=""; [ "$$(id -u)" = 0 ] || sudo=sudo; \
		echo "installing:$$missing"; \
		$$sudo apt-get update -qq && $$sudo apt-get install -y -qq $$missing; \
	fi
	@grep -qs '"version": "$(AXE)"' target/axe/node_modules/axe-core/package.json || \
		npm install --prefix target/axe --no-save --no-audit --no-fund --loglevel=error axe-core@$(AXE)
