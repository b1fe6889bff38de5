# The commands everybody uses. `make test` on a fresh Debian machine with Rust does all the set-up it needs.

.PHONY: run test lint dist bench deny micro prove screens setup

# Debian packages the build and the tests need, as package:command.
NEEDS := build-essential:cc curl:curl python3:python3 redis-server:redis-server redis-tools:redis-cli \
	postgresql:pg_ctlcluster chromium:chromium chromium-driver:chromedriver nodejs:node npm:npm \
	valgrind:valgrind iproute2:ip fuse3:fusermount3

# What checks in a browser whether everybody can use the pages: a tool of the tests, no part of the program.
AXE := 4.14.0

run:
	cargo run --release

# Everything that must hold before a change lands.
test: setup lint
	cargo test --workspace
	TIDEGATE_TEST_ON=cluster cargo test -p tidegate --test it -- --skip embedded_only::

# The pictures in docs/screens, taken by the browser's stories.
screens: setup
	TIDEGATE_SCREENS=1 cargo test -p tidegate --test browser

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --features tidegate/prove -- -D warnings

# The program as it is shipped: target/shipped/tidegate, with its debug information in tidegate.debug beside it.
# Cargo's own output stays as it is: stripped in place, it would lose its debug information for the next run.
dist:
	cargo build --profile dist -p tidegate
	mkdir -p target/shipped
	objcopy --only-keep-debug target/dist/tidegate target/shipped/tidegate.debug
	strip -o target/shipped/tidegate target/dist/tidegate
	cd target/shipped && objcopy --add-gnu-debuglink=tidegate.debug tidegate

# Throughput and latency of the shipped program against its own ceiling and the usual ways to build one; fails if a
# figure misses its bound. Seven to eight minutes after the build.
bench: NEEDS += nginx-light:/usr/sbin/nginx
bench: setup dist
	cargo build --profile dist -p tidegate-bench
	target/dist/tidegate-bench --server target/shipped/tidegate

# Licences, bans and sources of dependencies. `make test` does not run this: `make setup` does not install cargo-deny.
deny:
	command -v cargo-deny >/dev/null || cargo install cargo-deny --locked
	cargo deny --offline check licenses bans sources

# What the small parts cost: a claim, an id, a token, a sync of the journal, a call to Redis.
micro: setup
	cargo bench -p tidegate-core -p tidegate-admission -p tidegate --bench micro

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
