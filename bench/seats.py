#!/usr/bin/env python3
"""How fast a draw's seats are played compared with a sale's units: rounds of both, one after the other, in one run.

Prints the median of each and their ratio; exits 1 if seats are more than a quarter slower.
"""

import json
import statistics
import subprocess
import sys

PROGRAM = "target/release/tidegate"
CROWD = ["--stock", "100000", "--buyers", "25000", "--per-user-limit", "4", "--tries", "4", "--connections", "256", "--json"]
ROUNDS = 5


def rate(*more):
    """Plays or orders per second; everybody gets what they ask for."""
    report = json.loads(subprocess.run([PROGRAM, "rehearse", *CROWD, *more], check=True, capture_output=True).stdout)
    assert report["verdict"] == "pass" and report["accepted"] == 100000, report
    return report["rps"]


def main():
    rounds = [(rate(), rate("--draw=whole")) for _ in range(ROUNDS)]
    sale, draw = (statistics.median(figures) for figures in zip(*rounds))
    print(f"sale units  {sale:9.0f}/s")
    print(f"draw seats  {draw:9.0f}/s")
    print(f"ratio       {draw / sale:9.2f}  (at least 0.75)")
    sys.exit(0 if draw / sale >= 0.75 else 1)


if __name__ == "__main__":
    main()
