#!/usr/bin/env python3
"""What an order costs in CPU time at every part, and what that says about more machines: docs/scale.md is made with it.

    python3 bench/scale.py measure [embedded|202|201|refused]   one round of runs, added to target/scale.jsonl
    python3 bench/scale.py table                                medians, the fit, measured against predicted

Nodes of the real program share a private Redis (AOF, synced every second) and a private PostgreSQL; `tidegate rehearse` is
the crowd. CPU time comes from /proc/PID/stat. Costs are taken from the middle of a rush: from 15 % to 85 % of its attempts.

The model: N nodes that share C connections cost per order what one node with C / N connections costs, since what changes
is how many orders go together; and besides, a node that has not met a buyer looks them up. The first is fitted to one node
alone, the second to two; four are predicted. The second was added when the first had been found too low for more nodes.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import threading
import time
import urllib.request

import cluster
from cluster import KEY

PROGRAM = os.environ.get("PROGRAM", cluster.PROGRAM)
cluster.PROGRAM = PROGRAM
FOUND = pathlib.Path("target/scale.jsonl")
CORES = os.cpu_count()
TICK = os.sysconf("SC_CLK_TCK")
CONNECTIONS = 256
PARTS = ["nodes", "redis", "postgres", "crowd"]
# (nodes, connections): one node with fewer connections is what the model is fitted to, more nodes are what it is tried on.
RUNS = [(1, 256), (1, 128), (1, 64), (2, 256), (3, 256), (4, 256)]
PATHS = {
    "202": ({"TIDEGATE__SALES__ANSWER_WITHIN_MS": "0"}, ["--patience", "0"]),
    "201": ({}, []),
}


def stat(pid):
    """Parent, and seconds of CPU of a process and of its children that have ended."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return int(fields[1]), (int(fields[11]) + int(fields[12])) / TICK, (int(fields[13]) + int(fields[14])) / TICK


def seconds(pids):
    total = 0.0
    for pid in pids:
        try:
            total += stat(pid)[1]
        except OSError:
            pass
    return total


def family(parent):
    """CPU of a process and all its children, those that have ended, too."""
    _, own, ended = stat(parent)
    total = own + ended
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and stat(entry)[0] == parent:
                total += stat(entry)[1]
        except OSError:
            pass
    return total


def machine():
    """Busy seconds of all cores."""
    with open("/proc/stat") as file:
        user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, file.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICK


def counters(urls):
    """Attempts answered, commits of the ledger, and claims that wait to be recorded, over all nodes."""
    attempts = commits = unrecorded = 0.0
    for url in urls:
        for line in urllib.request.urlopen(f"{url}/metrics").read().decode().splitlines():
            if "orders_total{" in line:
                attempts += float(line.split()[-1])
            elif "unrecorded_claims" in line and line[0] != "#":
                unrecorded = max(unrecorded, float(line.split()[-1]))
            elif "ledger_commit_changes_count" in line:
                commits += float(line.split()[-1])
    return attempts, commits, unrecorded


class Bench:
    """The private servers, the nodes of one run, and what they have used."""

    def __init__(self, embedded=False):
        self.servers = None if embedded else cluster.Servers()
        self.nodes = []
        self.urls = []
        self.link = None
        if self.servers:
            self.redis = self.servers.children[0].pid
            self.postmaster = int(pathlib.Path(f"{self.servers.directory}/postgres/postmaster.pid").read_text().split()[0])
            self.link = cluster.socket.create_connection(("127.0.0.1", self.servers.redis))

    def start(self, nodes, settings):
        for _ in range(nodes):
            self.urls.append(self.servers.node(**settings))
            self.nodes.append(self.servers.children[-1])

    def stop(self):
        for node in self.nodes:
            node.kill()
            node.wait()
            self.servers.children.remove(node)
        self.nodes, self.urls = [], []

    def calls(self):
        """Script calls that Redis has answered."""
        if not self.link:
            return 0
        self.link.sendall(b"INFO commandstats\r\n")
        text = b""
        while not text.endswith(b"\r\n\r\n") and b"\r\n\r\n" not in text[-8:]:
            text += self.link.recv(65536)
            size = int(text[1:text.index(b"\r\n")])
            if len(text) >= size + text.index(b"\r\n") + 4:
                break
        for line in text.decode().splitlines():
            if line.startswith("cmdstat_evalsha:"):
                return int(line.split("calls=")[1].split(",")[0])
        return 0

    def sample(self, crowd):
        attempts, commits, unrecorded = counters(self.urls)
        used = {"nodes": seconds([node.pid for node in self.nodes]), "crowd": seconds([crowd])}
        if self.servers:
            used |= {"redis": seconds([self.redis]), "postgres": family(self.postmaster)}
        return {"at": time.monotonic(), "attempts": attempts, "commits": commits, "unrecorded": unrecorded,
                "calls": self.calls(), "busy": machine(), **used}

    def rush(self, stock, buyers, tries, connections, *more):
        """One rush; gives the report and the samples taken meanwhile."""
        command = [PROGRAM, "rehearse", "--url", ",".join(self.urls), "--admin-key", KEY, "--json", "--stock", str(stock),
                   "--buyers", str(buyers), "--per-user-limit", str(tries), "--tries", str(tries),
                   "--connections", str(connections), *more]
        crowd = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        said = []
        reader = threading.Thread(target=lambda: said.append(crowd.stdout.read()))
        reader.start()
        samples = []
        while reader.is_alive():
            samples.append(self.sample(crowd.pid))
            reader.join(0.05)
        crowd.wait()
        report = json.loads(said[0])
        # A node that has not heard of a sale published a moment ago answers not_ready; a crowd without patience leaves it at that.
        kept = not any(report[name] for name in ("oversold", "lost", "limit_broken", "violations", "errors"))
        assert kept and report["rejected"].get("not_ready", 0) < 0.01 * report["attempts"], report
        if report["verdict"] != "pass":
            print(f"  {len(self.urls)} nodes: {report['rejected']}", flush=True)
        return report, samples


def costs(samples, total):
    """Microseconds per attempt at every part, in the middle of the rush and, with what is recorded later, in all."""
    start = samples[0]["attempts"]
    def share(sample):
        return (sample["attempts"] - start) / total
    middle = [sample for sample in samples if 0.15 <= share(sample) <= 0.85]
    assert len(middle) >= 3, "the rush was over too soon to be looked at"
    first, last = middle[0], middle[-1]
    attempts = last["attempts"] - first["attempts"]
    spent = last["at"] - first["at"]
    found = {part: 1e6 * (last.get(part, 0) - first.get(part, 0)) / attempts for part in PARTS}
    found["machine"] = 1e6 * (last["busy"] - first["busy"]) / attempts
    found["used"] = (last["busy"] - first["busy"]) / spent / CORES
    found["rate"] = attempts / spent
    found["calls"] = (last["calls"] - first["calls"]) / attempts
    before = [sample for sample in samples if share(sample) <= 0][-1]
    settled = [sample for sample in samples if share(sample) >= 1 and sample["unrecorded"] == 0]
    end = settled[0] if settled else samples[-1]
    for part in PARTS[:3]:
        found[f"{part}_in_all"] = 1e6 * (end.get(part, 0) - before.get(part, 0)) / total
    commits = end["commits"] - before["commits"]
    found["batch"] = total / commits if commits else 0
    found["settled_after_s"] = end["at"] - last["at"]
    return found


def keep(**run):
    FOUND.parent.mkdir(exist_ok=True)
    with FOUND.open("a") as file:
        file.write(json.dumps(run) + "\n")
    print(json.dumps({name: round(value, 2) if isinstance(value, float) else value for name, value in run.items()}), flush=True)


def measure_embedded():
    bench = Bench(embedded=True)
    with cluster.tempfile.TemporaryDirectory(prefix="tidegate-scale") as directory:
        port = cluster.free_port()
        environment = {**os.environ, "TIDEGATE_ADMIN_KEY": KEY, "TIDEGATE_TEST_TOKENS": "true"}
        node = subprocess.Popen([PROGRAM, "serve", "--listen", f"127.0.0.1:{port}", "--data-dir", directory, "--no-demo"],
                                env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            bench.nodes, bench.urls = [node], [f"http://127.0.0.1:{port}"]
            wait(bench.urls[0])
            report, samples = bench.rush(160_000, 40_000, 4, CONNECTIONS)
            keep(path="embedded", nodes_run=1, connections=CONNECTIONS, rps=report["rps"], **costs(samples, report["attempts"]))
            report, samples = bench.rush(100, 200_000, 1, CONNECTIONS)
            keep(path="refused, embedded", nodes_run=1, connections=CONNECTIONS, rps=report["rps"],
                 **costs(samples, report["attempts"]))
        finally:
            node.terminate()
            node.wait()


def wait(url):
    for _ in range(100):
        try:
            urllib.request.urlopen(f"{url}/readyz")
            return
        except OSError:
            time.sleep(0.1)
    sys.exit("the node did not become ready")


def measure(path):
    bench = Bench()
    try:
        settings, more = PATHS.get(path, PATHS["202"])
        for nodes, connections in RUNS:
            if path == "refused" and connections < CONNECTIONS:
                continue
            bench.start(nodes, settings)
            crowd = (100, 200_000, 1) if path == "refused" else (40_000, 10_000, 4)
            report, samples = bench.rush(*crowd, connections, *more)
            found = costs(samples, report["attempts"])
            keep(path=path, nodes_run=nodes, connections=connections, rps=report["rps"], **found)
            bench.stop()
    finally:
        bench.servers.end()


def line(points):
    """Least squares: what a thing costs whatever is in it, and what it costs for every x."""
    xs, ys = zip(*points)
    middle_x, middle_y = statistics.fmean(xs), statistics.fmean(ys)
    spread = sum((x - middle_x) ** 2 for x in xs)
    slope = sum((x - middle_x) * (y - middle_y) for x, y in points) / spread if spread else 0.0
    return middle_y - slope * middle_x, slope


def medians():
    groups = {}
    for text in FOUND.read_text().splitlines():
        run = json.loads(text)
        groups.setdefault((run["path"], run["nodes_run"], run["connections"]), []).append(run)
    def middle(runs, name):
        return statistics.median(run[name] for run in runs)
    return {key: {name: middle(runs, name) for name in runs[0] if name not in ("path", "nodes_run", "connections")}
            | {"rounds": len(runs)} for key, runs in groups.items()}


def first_seen(path, nodes):
    """How often, per attempt, a node meets a buyer whom another node has signed in."""
    tries = 1 if path == "refused" else 4
    return (nodes - 1) * (1 - (1 - 1 / nodes) ** tries) / tries


def show_runs(found):
    print("path              nodes conn rounds   rate/s |  node redis postgres crowd, µs | busy calls/order batch | with recording: node postgres")
    for (path, nodes, connections), run in sorted(found.items()):
        print(f"{path:17} {nodes:5} {connections:4} {run['rounds']:6} {run['rate']:8.0f} | {run['nodes']:5.1f} {run['redis']:5.1f} "
              f"{run['postgres']:8.1f} {run['crowd']:5.1f}     | {run['used']:4.0%} {run['calls']:11.3f} {run['batch']:5.0f} | "
              f"{run['nodes_in_all']:20.1f} {run['postgres_in_all']:8.1f}")


def show_fits(found):
    """What a batch costs and what each order in it does, from one node alone."""
    alone = [run for (path, nodes, _), run in found.items() if path in PATHS and nodes == 1]
    each, call = line([(run["calls"], run["redis"]) for run in alone])
    print(f"\nRedis       {each:6.1f} µs per order + {call:5.0f} µs per script call")
    row, commit = line([(1 / run["batch"], run["postgres_in_all"]) for run in alone])
    print(f"PostgreSQL  {row:6.1f} µs per order + {commit:5.0f} µs per commit")


def predictor(path, found):
    """What an attempt costs at so many nodes, all parts together: batches by one node, strangers by two."""
    def cost(run):
        return sum(run[part] for part in PARTS)
    points = [(1 / connections, cost(run)) for (of, nodes, connections), run in found.items() if of == path and nodes == 1]
    each, alone = line(points)
    def batches(nodes):
        return each + alone * nodes / CONNECTIONS
    stranger = (cost(found[path, 2, CONNECTIONS]) - batches(2)) / first_seen(path, 2)
    return stranger, lambda nodes: batches(nodes) + stranger * first_seen(path, nodes)


def show_predictions(found):
    """One node says what batches cost, two what a stranger costs; three and four are predicted by both."""
    print("\npath     nodes   µs per attempt, predicted measured error   rate/s, predicted measured error  busy")
    for path in [*PATHS, "refused"]:
        stranger, predict = predictor(path, found)
        for nodes in (1, 2, 3, 4):
            predicted = predict(nodes)
            rate = CORES * 1e6 / predicted
            text = f"{path:8} {nodes:5} {predicted:26.1f}"
            run = found.get((path, nodes, CONNECTIONS))
            if run:
                measured = sum(run[part] for part in PARTS)
                text += (f" {measured:8.1f} {predicted / measured - 1:+6.1%} {rate:19.0f} {run['rate']:8.0f} "
                         f"{rate / run['rate'] - 1:+6.1%}  {run['used']:4.0%}{'' if nodes > 2 else '  (fitted to it)'}")
            else:
                text += f" {'–':>8} {'–':>6} {rate:19.0f}"
            print(text)
        print(f"         a buyer whom a node has not met costs {stranger:.0f} µs more, all parts together")


def show_plan(found):
    """Never tried: what a million attempts a second need, each part at 70 % of what it can do."""
    order, refused = found["202", 1, CONNECTIONS], found["refused", 1, CONNECTIONS]
    def stranger(path, part):
        alone = refused if path == "refused" else found[path, 1, CONNECTIONS // 2]
        return (found[path, 2, CONNECTIONS][part] - alone[part]) / first_seen(path, 2)
    room = 0.7 * 1e6
    print("\n1,000,000 attempts/s, 202, keys, every buyer new to the node; each part at 70 %")
    for stock, orders in ((100_000, 100_000), (10_000_000, 1_000_000)):
        refusals = 1_000_000 - orders
        nodes = (orders * (order["nodes"] + stranger("202", "nodes"))
                 + refusals * (refused["nodes"] + stranger("refused", "nodes"))) / room
        asks = refusals * refused["redis"] / room
        shards = orders * order["redis"] / room
        looks = (orders * stranger("202", "postgres") + refusals * stranger("refused", "postgres")) / room
        rows = stock * order["postgres_in_all"] / 1e6
        print(f"  {stock:>10,} units, {orders:,} orders/s, {refusals:,} refusals/s: {nodes:.0f} cores of nodes; Redis threads: {shards:.1f} "
              f"for orders, {asks:.1f} for refusals with a key; PostgreSQL: {looks:.0f} cores for looking buyers up, {4 * stock:,} rows in "
              f"{stock / order['batch']:,.0f} batches, {rows:,.0f} core seconds")


def table():
    found = medians()
    for show in (show_runs, show_fits, show_predictions, show_plan):
        show(found)


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        for path in sys.argv[2:] or ["embedded", "202", "201", "refused"]:
            measure_embedded() if path == "embedded" else measure(path)
    elif sys.argv[1:] == ["table"]:
        table()
    else:
        sys.exit(__doc__)
