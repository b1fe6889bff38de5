#!/usr/bin/env python3
"""Writes the figures of docs/bench.json into README.md (a short table) and docs/benchmarks.md (everything).

    make bench && cp target/bench.json docs/bench.json && python3 bench/table.py

Only the text between `<!-- bench -->` and `<!-- /bench -->` is replaced. Bounds are read from the benchmark's
source, so that they are stated once.
"""

import json
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
VERDICT = ROOT / "crates/tidegate-bench/src/verdict.rs"

SHORT = [
    ("durable orders, one process: `201` after fdatasync", "embedded"),
    ("the same, 64 connections instead of 256", "embedded_64"),
    ("sold-out answers", "refusal"),
    ("plays of a draw", "draw"),
    ("one cluster node, `202` after the gate", "cluster_202"),
    ("one cluster node, `201` after PostgreSQL's commit", "cluster_201"),
    ("*for comparison:* one Redis script per order, no session, no database", "classic"),
    ("*for comparison:* `UPDATE … WHERE left > 0` on PostgreSQL", "row_lock"),
]

MEANING = {
    "embedded_over_ceiling": "orders over the server's own ceiling (`/healthz`)",
    "embedded_over_classic": "orders over one Redis script per order",
    "embedded_p99_over_classic_p99": "p99 of orders over one script per order's, 64 connections",
    "refusal_over_ceiling": "sold-out answers over the ceiling",
    "cluster_202_over_classic": "one node, 202, over one script per order",
    "cluster_201_over_row_lock": "one node, 201, over a row lock",
    "overload_goodput": "answers within 1 s at three times the capacity, over capacity",
    "growth": "CPU per order after 10 million earlier orders, over 10 thousand",
    "bytes_per_buyer": "bytes of memory per buyer in a live sale",
    "restart_s": "seconds from start to ready with 10 million recorded orders",
}


def bounds():
    """Each figure's bound, as ("≥" or "≤", limit)."""
    found = re.findall(r'\("(\w+)", Bound::(AtLeast|AtMost)\(([\d.]+)\)\)', VERDICT.read_text())
    return {name: ("≥" if kind == "AtLeast" else "≤", float(limit)) for name, kind, limit in found}


def machine(bench):
    about = bench["machine"]
    return (f"{about['cores']} cores of an {about['cpu_model']} virtual machine, load generator included; "
            f"commit {bench['commit'][:7]}, medians of {bench['rounds']} rounds.\n")


def short(bench):
    yield machine(bench)
    yield "| what | per second | p99 |"
    yield "|---|---|---|"
    for what, name in SHORT:
        if figures := bench["candidates"].get(name):
            yield f"| {what} | {figures['rate']['median']:,.0f} | {figures['p99_ms']:.1f} ms |"


def full(bench):
    yield machine(bench)
    yield "| candidate | connections | per second (lowest to highest round) | p50 ms | p99 ms | CPU µs |"
    yield "|---|---|---|---|---|---|"
    for name, figures in bench["candidates"].items():
        rate = figures["rate"]
        span = f"{rate['median']:,.0f} ({rate['min']:,.0f} to {rate['max']:,.0f})"
        yield (f"| `{name}` | {figures['connections']} | {span} | {figures['p50_ms']:.2f} "
               f"| {figures['p99_ms']:.2f} | {figures['cpu_us']:.1f} |")
    yield "\n| figure | measured | bound | |"
    yield "|---|---|---|---|"
    found = {**bench["ratios"], **bench["figures"]}
    for name, (sign, limit) in bounds().items():
        value = found.get(name)
        if value is not None:
            reached = value >= limit if sign == "≥" else value <= limit
            verdict = "reached" if reached else "**not reached**"
            yield f"| `{name}`: {MEANING.get(name, name)} | {value:.2f} | {sign} {limit:g} | {verdict} |"
    instructions = bench["figures"].get("instructions") or {}
    if instructions:
        counts = ", ".join(f"{name} {count:,.0f}" for name, count in instructions.items())
        yield f"\nInstructions per request (callgrind, user space): {counts}."


def replace(path, lines):
    text = "<!-- bench -->\n" + "\n".join(lines) + "\n<!-- /bench -->"
    before = path.read_text()
    path.write_text(re.sub("<!-- bench -->.*<!-- /bench -->", lambda _: text, before, flags=re.S))


def main():
    bench = json.loads((ROOT / "docs/bench.json").read_text())
    replace(ROOT / "README.md", short(bench))
    replace(ROOT / "docs/benchmarks.md", full(bench))


if __name__ == "__main__":
    main()
