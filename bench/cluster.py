#!/usr/bin/env python3
"""What going to Redis together gains: orders taken through one Redis in batches, and one script call each, in one run.

Two nodes of the same program share a private Redis (AOF, synced every second) and a private PostgreSQL. One sends whatever
waits in one call, the other a call for every order, as many at a time as there are buyers. Both answer 202 as soon as the
gate has decided, and record meanwhile. Rounds are interleaved; prints the medians and their ratio, then how many rows a
second PostgreSQL takes in recorder's batches. Exits 1 below 1.5, or below 50,000 rows.
"""

import json
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

PROGRAM = "target/release/tidegate"
KEY = "the key of the operators"
CROWD = ["--stock", "40000", "--buyers", "10000", "--per-user-limit", "4", "--tries", "4", "--connections", "256"]
ROUNDS = 5


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def postgres_program(name):
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    if not found:
        sys.exit("PostgreSQL is needed: apt-get install postgresql")
    return (["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []) + [str(found[-1])]


class Servers:
    """A Redis, a PostgreSQL, and nodes; gone when this is."""

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="tidegate-bench")
        os.chmod(self.directory, 0o777)
        self.children = []
        self.redis = free_port()
        self.postgres = free_port()
        self.start(["redis-server", "--port", str(self.redis), "--dir", self.directory, "--save", "",
                    "--appendonly", "yes", "--appendfsync", "everysec"])
        data = f"{self.directory}/postgres"
        subprocess.run(postgres_program("initdb") + ["-D", data, "-A", "trust", "-U", "tidegate", "-E", "UTF8"],
                       check=True, stdout=subprocess.DEVNULL)
        options = f"-p {self.postgres} -k {self.directory} -c listen_addresses=127.0.0.1"
        self.stop_postgres = postgres_program("pg_ctl") + ["-D", data, "-m", "immediate", "stop"]
        subprocess.run(postgres_program("pg_ctl") + ["-D", data, "-l", f"{data}.log", "-w", "-o", options, "start"],
                       check=True, stdout=subprocess.DEVNULL)
        subprocess.run(postgres_program("createdb") + ["-h", "127.0.0.1", "-p", str(self.postgres), "-U", "tidegate", "bench"],
                       check=True)

    def start(self, command, **environment):
        self.children.append(subprocess.Popen(command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL,
                                              stderr=subprocess.DEVNULL))

    def node(self, **settings):
        """Starts a node; gives its address."""
        port = free_port()
        self.start([PROGRAM, "serve", "--listen", f"127.0.0.1:{port}"], TIDEGATE_ADMIN_KEY=KEY, TIDEGATE_TEST_TOKENS="true",
                   TIDEGATE_DATABASE_URL=f"postgres://tidegate@127.0.0.1:{self.postgres}/bench",
                   TIDEGATE_REDIS_URL=f"redis://127.0.0.1:{self.redis}", **settings)
        url = f"http://127.0.0.1:{port}"
        for _ in range(200):
            try:
                if urllib.request.urlopen(f"{url}/readyz").status == 200:
                    return url
            except OSError:
                time.sleep(0.1)
        sys.exit("a node did not become ready")

    def end(self):
        for child in self.children[::-1]:
            child.kill()
            child.wait()
        subprocess.run(self.stop_postgres, stdout=subprocess.DEVNULL)
        shutil.rmtree(self.directory, ignore_errors=True)


def rate(url, *more):
    command = [PROGRAM, "rehearse", "--url", url, "--admin-key", KEY, "--json", *CROWD, *more]
    report = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    assert report["verdict"] == "pass" and report["accepted"] == 40000, report
    return report["rps"]


def main():
    servers = Servers()
    try:
        at_once = {"TIDEGATE__SALES__ANSWER_WITHIN_MS": "0"}
        together = servers.node(**at_once)
        one_by_one = servers.node(**at_once, TIDEGATE__CLUSTER__BATCHES="false")
        recorded = servers.node()
        first = ["--patience", "0"]
        rounds = [(rate(together, *first), rate(one_by_one, *first), rate(recorded)) for _ in range(ROUNDS)]
    finally:
        servers.end()
    batched, single, durable = (statistics.median(figures) for figures in zip(*rounds))
    rows = subprocess.run(["cargo", "bench", "-q", "-p", "tidegate-store", "--bench", "postgres"], check=True,
                          capture_output=True).stdout
    rows = json.loads(rows)["rows_per_s"]
    print(f"202 after the gate, batches      {batched:9.0f}/s")
    print(f"202 after the gate, one by one   {single:9.0f}/s")
    print(f"201 after the ledger's commit    {durable:9.0f}/s")
    print(f"batches over one by one          {batched / single:9.2f}  (at least 1.5)")
    print(f"PostgreSQL, recorder's batches   {rows:9.0f} rows/s  (at least 50000)")
    sys.exit(0 if batched / single >= 1.5 and rows >= 50_000 else 1)


if __name__ == "__main__":
    main()
