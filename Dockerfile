# One image for both ways to run: embedded (a volume at /data), or a node of a cluster (TIDEGATE_DATABASE_URL and
# TIDEGATE_REDIS_URL; then nothing is written to /data).

FROM rust:1-bookworm AS build
WORKDIR /src
COPY . .
# The caches are not part of the layer, so the program is copied out of them.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --profile dist --locked && objcopy --only-keep-debug target/dist/tidegate /tidegate.debug \
    && strip -o /tidegate target/dist/tidegate && objcopy --add-gnu-debuglink=/tidegate.debug /tidegate

FROM debian:bookworm-slim
# curl is for the health check: the program has no command that asks a running server.
RUN apt-get update \
    && apt-get install -y --no-install-recommends curl \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin tidegate \
    && install -d -o tidegate -g tidegate -m 0700 /data
COPY --from=build /tidegate /tidegate.debug /usr/local/bin/

# Everybody can reach a published port: no demo buyers, whose tokens are public.
ENV TIDEGATE_LISTEN=0.0.0.0:8080 \
    TIDEGATE_DATA_DIR=/data \
    TIDEGATE_DEMO=off
USER tidegate
WORKDIR /data
VOLUME /data
EXPOSE 8080
STOPSIGNAL SIGTERM
# Alive, not ready: a node that waits for its database must not be restarted for it.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 \
    CMD ["curl", "--fail", "--silent", "--output", "/dev/null", "http://127.0.0.1:8080/healthz"]
ENTRYPOINT ["/usr/local/bin/tidegate"]
CMD ["serve"]
