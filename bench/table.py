#!/usr/bin/env python3
"""Puts the figures of a benchmark into the README: the part between its two marks is made from docs/bench.json.

python3 bench/table.py            # after: make bench && cp target/bench.json docs/bench.json
"""

import json
import pathlib
import re

BOUNDS = [
    ("embedded_over_ceiling", "orders over the server's own ceiling (`/healthz`)", "≥ 0.80"),
    ("embedded_over_classic", "orders over the classic way (one Redis script per order)", "≥ 1.5"),
    ("embedded_p99_over_classic_p99", "their p99 over the classic way's, 64 connections", "≤ 1.0"),
    ("refusal_over_ceiling", "sold-out answers over the ceiling", "≥ 0.93"),
    ("cluster_202_over_classic", "one node, 202 after the gate, over the classic way", "≥ 1.3"),
    ("cluster_201_over_row_lock", "one node, 201 after PostgreSQL's commit, over a row lock", "≥ 5"),
    ("overload_goodput", "orders answered within a second when three times as many arrive as can be taken, over what can be taken (`capacity`)", "≥ 0.9"),
    ("growth", "cost of an order with 10 million earlier ones, over that with 10 thousand", "≤ 1.15"),
    ("bytes_per_buyer", "memory per buyer in a live sale, bytes", "≤ 160"),
    ("restart_s", "from start to ready with 10 million recorded orders, seconds", "≤ 5"),
]


def reached(value, bound):
    sign, limit = bound.split()
    return value >= float(limit) if sign == "≥" else value <= float(limit)


def table(bench):
    machine = bench["machine"]
    yield f"{machine['cores']} cores, {machine['cpu_model']}; commit {bench['commit'][:7]}, {bench['rounds']} rounds, medians.\n"
    yield "| candidate | connections | per second | p50 ms | p99 ms | CPU µs of the server |"
    yield "|---|---|---|---|---|---|"
    for name, figures in bench["candidates"].items():
        rate = f"{figures['rate']['median']:,.0f} ({figures['rate']['min']:,.0f} to {figures['rate']['max']:,.0f})"
        yield (f"| `{name}` | {figures['connections']} | {rate} | {figures['p50_ms']:.2f} | {figures['p99_ms']:.2f} "
               f"| {figures['cpu_us']:.1f} |")
    yield "\n| figure | measured | wanted | |\n|---|---|---|---|"
    found = {**bench["ratios"], **bench["figures"]}
    for name, what, bound in BOUNDS:
        if found.get(name) is not None:
            mark = "reached" if reached(found[name], bound) else "**not reached**"
            yield f"| {what} (`{name}`) | {found[name]:.2f} | {bound} | {mark} |"
    instructions = bench["figures"].get("instructions") or {}
    if instructions:
        counts = ", ".join(f"{name} {count:,.0f}" for name, count in instructions.items())
        yield f"\nInstructions per request (callgrind, user space): {counts}."


def main():
    bench = json.loads(pathlib.Path("docs/bench.json").read_text())
    readme = pathlib.Path("README.md")
    made = "<!-- bench -->\n" + "\n".join(table(bench)) + "\n<!-- /bench -->"
    readme.write_text(re.sub("<!-- bench -->.*<!-- /bench -->", lambda _: made, readme.read_text(), flags=re.S))


if __name__ == "__main__":
    main()
