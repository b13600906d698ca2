#!/usr/bin/env python3
"""Calls that go over to other plans, again and again, while ranks of another job are killed.

    bench/service/replan.py build                             # ten minutes, a replan every 100 ms, a kill every 5 s
    bench/service/replan.py build --seconds 60 --kills 0
    bench/service/replan.py build --at-once 600               # each wish as soon as the one before is answered

Two daemons on this machine that believe to be on two hosts, joined by two switches. Job `steady` (2 ranks) sums a
buffer again and again and checks every sum (bench/service/tenant.cc). An operator asks, by turns, to avoid a link and
to use it again. Job `killed` does the same, and one of its ranks is killed now and then, by chance, from a seed that is
printed; the job then has to end within the time that is allowed, and begins anew. Prints how long the calls of `steady`
took, and writes replan.json into BUILD/compare. Ends with status 1 when a sum is wrong, a call of `steady` fails, a
replan is refused, or anything hangs. With --at-once no job is killed, and after each answer the plans have to be those
that were asked for: bytes go over the link after a restore, and none after an avoid; a wish that is lost shows so.
"""

import argparse
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import common

HOSTS = ["a", "b"]
LINKS = [("h0", "s0"), ("h0", "s1"), ("h1", "s0"), ("h1", "s1")]
MOST_SECONDS_TO_END = 10.0  # of a job of which a rank was killed


def fabric():
    nodes = [{"name": name, "kind": "rank" if name[0] == "h" else "switch"} for name in ("h0", "h1", "s0", "s1")]
    links = [{"from": a, "to": b, "bandwidth": "10 GB/s"} for pair in LINKS for a, b in (pair, pair[::-1])]
    return json.dumps({"banyan": "fabric/1", "nodes": nodes, "links": links})


class Service:
    """Two daemons, for as long as a `with` lasts."""

    def __init__(self, build):
        self.build = build

    def __enter__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="banyan-replan-")
        self.folder = pathlib.Path(self._folder.name)
        (self.folder / "world").mkdir()
        (self.folder / "fabric.json").write_text(fabric())
        self.daemons = [self._start(number) for number in range(len(HOSTS))]
        return self

    def __exit__(self, *_):
        for daemon in self.daemons:
            daemon.terminate()
        for daemon in self.daemons:
            daemon.wait()
        self._folder.cleanup()

    def socket(self, number):
        return self.folder / f"{HOSTS[number]}.sock"

    def operators(self):
        return f"unix:{self.folder}/operators0"

    def _start(self, number):
        command = [self.build / "banyand", "--socket", self.socket(number), "--operators",
                   f"{self.folder}/operators{number}", "--obey", "*", "--world", f"file://{self.folder}/world",
                   "--fabric", self.folder / "fabric.json", "--node", f"h{number}", "--crowded"]
        log = (self.folder / f"{HOSTS[number]}.log").open("w")
        daemon = subprocess.Popen(command, env=os.environ | {"BANYAN_HOST_ID": HOSTS[number]}, stdout=log, stderr=log)
        while not self.socket(number).exists():
            if daemon.poll() is not None:
                sys.exit(f"banyand {HOSTS[number]} has ended:\n" + (self.folder / f"{HOSTS[number]}.log").read_text())
            time.sleep(0.02)
        return daemon

    def job(self, name, *options):
        """Its two ranks; the steps of rank 0 are in <folder>/<name>."""
        meeting, ranks = tempfile.mkdtemp(dir=self.folder), []
        for rank in range(2):
            environment = os.environ | {
                "RANK": str(rank), "WORLD_SIZE": "2", "BANYAN_RENDEZVOUS": f"file://{meeting}",
                "BANYAN_HOST_ID": HOSTS[rank], "BANYAN_SERVICE": f"unix:{self.socket(rank)}", "BANYAN_TENANT": name,
                "BANYAN_TRANSPORT": "service", "BANYAN_TIMEOUT": "30", "BANYAN_JOIN_TIMEOUT": "30"}
            steps = (self.folder / f"{name}.{rank}").open("w")
            errors = (self.folder / f"{name}.{rank}.errors").open("w")
            ranks.append(subprocess.Popen([self.build / "service_tenant", *options], env=environment, stdout=steps,
                                          stderr=errors))
        return ranks

    def errors(self, name):
        """What the ranks of a job have said."""
        return " ".join((self.folder / f"{name}.{rank}.errors").read_text() for rank in range(2))

    def replan(self, communicator, restores):
        """What an operator's wish for communicators of this name came to; an empty text: all well."""
        command = [self.build / "banyan", "service", "replan", communicator, "--at", self.operators(), "--json",
                   "--restore" if restores else "--avoid", "h0-s1"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        if done.returncode != 0:
            return done.stdout + done.stderr
        rows = [row for host in json.loads(done.stdout)["hosts"] for row in host.get("communicators", [])]
        refusals = [row["refusal"] for row in rows if row["refusal"]]
        return "" if rows and not refusals else f"replans came to {rows}"


    def wish(self, communicator, restores):
        """The same by the socket, which is quicker than the command."""
        body = {"communicator": communicator, "restore" if restores else "avoid": ["h0-s1"]}
        answer = common.ask(self.folder / "operators0", "POST", "/v1/replan", body)
        rows = [row for host in answer["hosts"] for row in host.get("communicators", [])]
        refusals = [row["refusal"] for row in rows if row["refusal"]]
        return "" if rows and not refusals else f"wishes came to {answer}"

    def carried_after(self, calls, seconds=30):
        """Bytes that calls have sent over the link by their plans, once so many more calls are over."""
        first, until = None, time.monotonic() + seconds
        while True:
            host = common.ask(self.folder / "operators0", "GET", "/v1/host")
            over = sum(rank["calls_over"] for each in host["communicators"] for rank in each["ranks"])
            first = over if first is None else first
            if over >= first + calls:
                return sum(sum(link["bytes_by_tenant"].values()) for link in host["links"] if link["name"] == "h0->s1")
            if time.monotonic() > until:
                sys.exit(f"{over - first} calls end in {seconds} s, and not {calls}")
            time.sleep(0.005)


class Killed:
    """The job of which ranks are killed."""

    def __init__(self, service, pause, chance):
        self._service, self._pause, self._chance = service, pause, chance
        self.kills, self.longest = 0, 0.0
        self._ranks, self._next = None, time.monotonic()

    def _begin(self):
        self._ranks = self._service.job("killed", "--bytes", "65536", "--begin", str(time.time()), "--seconds", "3600")
        self._next = time.monotonic() + self._pause * self._chance.uniform(0.5, 1.5)

    def look(self):
        """Why things are not as they should be; an empty text: they are."""
        if self._pause <= 0:
            return ""
        if self._ranks is None:
            self._begin()
        if time.monotonic() < self._next:
            return ""
        victim = self._chance.randrange(2)
        self._ranks[victim].send_signal(signal.SIGKILL)
        begin = time.monotonic()
        try:
            for rank in self._ranks:
                rank.wait(timeout=MOST_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            return (f"the survivor of kill {self.kills} has not ended after {MOST_SECONDS_TO_END} s: "
                    + self._service.errors("killed"))
        self.kills += 1
        self.longest = max(self.longest, time.monotonic() - begin)
        self._begin()
        return ""

    def end(self):
        for rank in self._ranks or []:
            rank.kill()
            rank.wait()


def run(service, seconds, pause, kill_pause, chance):
    size = 262144
    begin = time.time() + 1
    steady = service.job("steady", "--bytes", str(size), "--begin", str(begin), "--seconds", str(seconds))
    killed = Killed(service, kill_pause, chance)
    replans, trouble, until, due = 0, "", time.monotonic() + seconds - 1, time.monotonic() + 1.5
    while time.monotonic() < until and not trouble:
        trouble = killed.look()
        if time.monotonic() >= due and not trouble:
            due += pause
            trouble = service.replan("world", restores=replans % 2 == 1)
            replans += 1
        time.sleep(0.005)
    killed.end()
    for rank in steady:
        try:
            rank.wait(timeout=60)
        except subprocess.TimeoutExpired:
            trouble = trouble or "job steady hangs"
            rank.kill()
    if any(rank.returncode != 0 for rank in steady):
        trouble = trouble or "job steady: " + service.errors("steady")
    took = sorted(float(line.split()[1]) for line in (service.folder / "steady.0").read_text().splitlines())
    return {"replans": replans, "kills": killed.kills, "longest_end_of_killed": killed.longest, "calls": len(took),
            "median": statistics.median(took), "p99": took[int(len(took) * 0.99)], "p999": took[int(len(took) * 0.999)],
            "worst": took[-1], "trouble": trouble}


def run_at_once(service, wishes, looks):
    """So many wishes, each as soon as the one before is answered; after every `looks`-th the link is looked at."""
    begin = time.time() + 1
    steady = service.job("steady", "--bytes", "262144", "--begin", str(begin), "--seconds", "3600")
    time.sleep(1.5)
    took, trouble = [], ""
    for number in range(wishes):
        restores = number % 2 == 1
        asked = time.monotonic()
        trouble = service.wish("world", restores)
        took.append(time.monotonic() - asked)
        if not trouble and number % (2 * looks) in (0, 1):
            before = service.carried_after(10)  # those that had begun by other plans are over
            if (service.carried_after(3) > before) != restores:
                trouble = f"the wish {number} is lost: {'restore' if restores else 'avoid'}"
        if trouble:
            break
    for rank in steady:
        if rank.poll() is not None:
            trouble = trouble or "job steady: " + service.errors("steady")
        rank.kill()
        rank.wait()
    took.sort()
    print(f"{len(took)} wishes at once: median {statistics.median(took) * 1e3:.2f} ms, worst {took[-1] * 1e3:.2f} ms")
    return {"wishes": len(took), "median": statistics.median(took), "worst": took[-1], "trouble": trouble}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--pause", type=float, default=0.1, help="seconds between replans; 0: none")
    parser.add_argument("--kills", type=float, default=5, help="seconds between kills, on average; 0: none")
    parser.add_argument("--at-once", type=int, default=0, metavar="WISHES", help="ask without pauses, so often")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    options = parser.parse_args()
    build = options.build.resolve()
    print(f"seed {options.seed}")
    if options.at_once > 0:
        with Service(build) as service:
            sys.exit(run_at_once(service, options.at_once, 10)["trouble"] or 0)
    with Service(build) as service:
        pause = options.pause if options.pause > 0 else float("inf")
        result = run(service, options.seconds, pause, options.kills, random.Random(options.seed))
    milliseconds = {key: f"{result[key] * 1e3:.2f} ms" for key in ("median", "p99", "p999", "worst")}
    print(f"{result['calls']} calls, {result['replans']} replans, {result['kills']} kills: " +
          ", ".join(f"{key} {value}" for key, value in milliseconds.items()) +
          f"; killed jobs ended after {result['longest_end_of_killed']:.2f} s at most")
    folder = build / "compare"
    folder.mkdir(exist_ok=True)
    (folder / "replan.json").write_text(json.dumps(result | {"seed": options.seed, "pause": options.pause}, indent=2))
    if result["trouble"]:
        sys.exit(result["trouble"])


if __name__ == "__main__":
    main()
