#!/usr/bin/env python3
"""Whether a tenant of banyand can disturb another: five victims, each beside each of twenty attackers.

    bench/service/isolation.py build                       # all, some 15 minutes
    bench/service/isolation.py build --only v1:2,v4:9      # some
    bench/service/isolation.py build --lab                 # links of a lab: v2 and v3, attacks 1, 14 and 19

Two daemons on this machine, each with a core for itself and for the ranks of its host: where the kernel moves four
processes between two cores, the victim alone is three times as slow at one moment as at the next. The victims belong to
root, the attacker (bench/service/attacker.cc) to nobody. A victim goes on for all of its cell; beside it there is in
turn nobody, the attacker, and a process that touches no daemon and takes as much of the cores as the attack did: the
attacker's process, and what the daemons took more than without it. `kept` is the part of its figure that the victim
keeps beside the attacker; `load` is what it keeps beside the other process, which no daemon can help: what is left of
the cores is the same. Medians of the rounds.

A cell passes when the victim keeps 0.95, or 0.95 of what it keeps beside the other process. 1, 2, 10, 14, 19 and 20
are calls that a tenant of equal weight may make: of what both want, half is the victim's part, so 0.95 of that is
enough (`part`). 16 and 17 are outside the daemons' hands and only reported. After each cell the daemons must live,
have as many descriptors as at the beginning (and one for a connection to each other), and the victim must have failed
in nothing. Needs root. Writes isolation.json and isolation.txt into BUILD/compare.

Ends with status 1 when a daemon dies, leaks descriptors, or a victim fails.
"""

import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

NOBODY = 65534
KEEP = 0.95
REPORTED = {16, 17}  # not in the daemons' hands
EQUALS = {1, 2, 10, 14, 19, 20}  # calls that anybody may make
START, SETTLE = 0.7, 0.25  # seconds
TICKS = os.sysconf("SC_CLK_TCK")
SECRET = "5a17c0de9b3e4f60" * 3
LAB_ATTACKS = [1, 14, 19]

VICTIMS = {
    1: "4 B allreduce, time of a call",
    2: "4 MiB allreduce, bytes per second",
    3: "training: 20 ms, then 4 MiB; time of a step",
    4: "attach, open, first call; time",
    5: "4 B allreduce on one host, time of a call",
}


class Process:
    def __init__(self, words, folder, name, environment=None, user=None, core=None):
        if core is not None:
            words = ["taskset", "-c", core, *words]
        self.out, self.errors = folder / f"{name}.out", folder / f"{name}.err"
        extra = {"user": user, "group": user, "extra_groups": []} if user is not None else {}
        with open(self.out, "wb") as out, open(self.errors, "wb") as errors:
            self.process = subprocess.Popen([str(word) for word in words], stdout=out, stderr=errors, cwd="/",
                                            env={**os.environ, **(environment or {})}, start_new_session=True, **extra)

    def end(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()

    def cpu(self):
        """Seconds, with those of its children that have ended."""
        return cpu_of(self.process.pid)

    def is_alive(self):
        return self.process.poll() is None


def cpu_of(process):
    try:
        fields = pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return sum(int(field) for field in fields[11:15]) / TICKS


def descriptors(process):
    return len(os.listdir(f"/proc/{process}/fd"))


def resident(process):
    for line in pathlib.Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


class Bench:
    """Two daemons, and what runs beside them."""

    def __init__(self, build, folder):
        self.build, self.folder = build, folder
        cores = sorted(os.sched_getaffinity(0))
        self.cores = [str(cores[0]), str(cores[-1])]
        (folder / "world").mkdir(mode=0o700)
        self.sockets = [folder / "a.sock", folder / "b.sock"]
        self.daemons = [self.start_daemon(i) for i in range(2)]
        # So that the daemons know each other.
        for visitor in self.start_victim(4, time.time(), 0.2):
            visitor.process.wait(timeout=30)
        attacker = self.start_attacker(["--attack", 13])
        time.sleep(2)
        attacker.end()
        time.sleep(1)
        # The daemons may have to connect to each other yet.
        self.most_descriptors = [count + 1 for count, _ in self.state()]

    def start_daemon(self, i):
        daemon = Process([self.build / "banyand", "--socket", self.sockets[i], "--world", f"file://{self.folder}/world",
                          "--crowded"], self.folder, f"daemon{i}", {"BANYAN_HOST_ID": "ab"[i]}, core=self.cores[i])
        while not self.sockets[i].exists():
            if not daemon.is_alive():
                sys.exit(f"a daemon does not start: {daemon.errors.read_text()}")
            time.sleep(0.01)
        return daemon

    def end(self):
        for daemon in self.daemons:
            daemon.end()

    def start_victim(self, victim, begin, seconds):
        where = ["--begin", f"{begin:f}", "--seconds", f"{seconds:f}"]
        if victim == 4:
            words = [self.build / "service_visitor", "--first", self.sockets[0], "--second", self.sockets[1], *where]
            return [Process(words, self.folder, "victim0")]
        work = {1: ["--bytes", 4], 2: ["--bytes", 4 << 20], 3: ["--bytes", 4 << 20, "--compute", 0.02],
                5: ["--bytes", 4]}[victim]
        meeting = tempfile.mkdtemp(dir=self.folder)
        processes = []
        for rank in range(2):
            host = 0 if victim == 5 else rank
            environment = {"WORLD_SIZE": "2", "RANK": str(rank), "BANYAN_RENDEZVOUS": f"file://{meeting}",
                           "BANYAN_HOST_ID": "ab"[host], "BANYAN_SERVICE": f"unix:{self.sockets[host]}",
                           "BANYAN_TRANSPORT": "service", "BANYAN_TIMEOUT": "60", "BANYAN_TENANT": "victim"}
            processes.append(Process([self.build / "service_tenant", *work, *where], self.folder, f"victim{rank}",
                                     environment, core=self.cores[host]))
        return processes

    def start_attacker(self, options, name="attacker"):
        words = [self.build / "service_attacker", "--first", self.sockets[0], "--second", self.sockets[1],
                 "--seconds", 600, *options]
        return Process(words, self.folder, name, user=NOBODY)

    def state(self):
        return [(descriptors(each.process.pid), resident(each.process.pid)) if each.is_alive() else None
                for each in self.daemons]


def read_steps(victim):
    """(end, seconds) of each step; the last line may be half written."""
    steps = []
    for line in victim[0].out.read_text().split("\n")[:-1]:
        end, took = line.split()
        steps.append((float(end), float(took)))
    return steps


def figures(victim, steps, window):
    """Larger is better; nothing where nothing was done."""
    inside = [(end, took) for end, took in steps if window[0] <= end <= window[1]]
    if len(inside) < 2:
        return {"median": 0.0}
    took = sorted(each for _, each in inside)
    if victim == 2:
        return {"median": len(took) / sum(took)}
    if victim == 3:
        gaps = [later[0] - earlier[0] for earlier, later in zip(inside, inside[1:])]
        return {"median": 1 / statistics.median(gaps)}
    result = {"median": 1 / statistics.median(took)}
    if victim in (1, 5):
        result["p99"] = 1 / took[min(len(took) - 1, int(len(took) * 0.99))]
    return result


def wait_until(moment):
    time.sleep(max(0.0, moment - time.time()))


def wait_for_begin(attacker, at_most):
    """What it prepares, such as memory, is no attack. Returns what is left of the time."""
    end = time.time() + at_most
    while time.time() < end and attacker.is_alive() and not attacker.out.read_text().startswith("begun"):
        time.sleep(0.01)
    return max(0.0, end - time.time())


def run_windows(start_attacker, number, rounds, length, begin, cpu_of_daemons=lambda: 0.0):
    """What was beside the victim, by time: (round, what, window). And cores that the attack took."""
    windows, cores, spare = [], [], time_to_prepare(number, rounds)
    now = begin + 0.1
    for each in range(rounds):
        wait_until(now)
        windows.append((each, "alone", (now, now + length)))
        alone = cpu_of_daemons()
        wait_until(now + length)
        alone = cpu_of_daemons() - alone
        attacker = start_attacker(["--attack", number, "--seed", each + 1])
        spare = wait_for_begin(attacker, spare)
        time.sleep(SETTLE)
        used, daemons, began = attacker.cpu(), cpu_of_daemons(), time.time()
        wait_until(began + length)
        windows.append((each, "attacked", (began, began + length)))
        took = attacker.cpu() - used + max(0.0, cpu_of_daemons() - daemons - alone)
        cores.append(took / (time.time() - began))
        attacker.end()
        time.sleep(0.1)
        other = start_attacker(["--burn", f"{cores[-1]:.3f}"])
        began = time.time() + 0.1
        wait_until(began + length)
        other.end()
        windows.append((each, "load", (began, began + length)))
        now = time.time() + 0.1
    return windows, cores


def kept(victim, steps, windows, rounds):
    """By figure: medians over rounds of what is kept beside the attacker and beside the other load."""
    values = {(each, what): figures(victim, steps, window) for each, what, window in windows}
    result = {}
    for name in values[(0, "alone")]:
        for what in ("attacked", "load"):
            ratios = [values[(each, what)].get(name, 0.0) / values[(each, "alone")][name]
                      for each in range(rounds) if values[(each, "alone")].get(name)]
            result[f"{name} {what}"] = round(statistics.median(ratios), 3) if ratios else None
    result["alone"] = statistics.median(values[(each, "alone")]["median"] for each in range(rounds))
    return result


def time_to_prepare(number, rounds):
    """Of all rounds: attack 1 fills gigabytes of memory first."""
    return rounds * (4.0 if number == 1 else 0.3)


def duration_of(number, rounds, length):
    return 0.1 + rounds * (3 * length + SETTLE + 0.9) + time_to_prepare(number, rounds)


def run_cell(bench, victim, number, rounds, length):
    before = bench.state()
    begin = time.time() + START
    processes = bench.start_victim(victim, begin, duration_of(number, rounds, length))
    time.sleep(0.2)
    windows, cores = run_windows(bench.start_attacker, number, rounds, length, begin,
                                 lambda: sum(cpu_of(each.process.pid) for each in bench.daemons))
    troubles = []
    for process in processes:
        try:
            process.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            troubles.append("the victim hangs")
        if process.process.returncode != 0:
            troubles.append(f"the victim: {process.errors.read_text().strip()[-300:]}")
        process.end()
    cell = kept(victim, read_steps(processes), windows, rounds)
    cell["cores"] = round(statistics.median(cores), 2)
    for tries in range(60):
        after = bench.state()
        if None in after or all(most >= now[0] for most, now in zip(bench.most_descriptors, after)):
            break
        time.sleep(0.1)
    for i, (then, now) in enumerate(zip(before, after)):
        if now is None:
            troubles.append(f"daemon {i} has ended ({bench.daemons[i].process.returncode}): "
                            + bench.daemons[i].errors.read_text()[-600:])
            bench.sockets[i].unlink(missing_ok=True)
            bench.daemons[i] = bench.start_daemon(i)
            continue
        cell[f"MiB {i}"] = round(now[1] - then[1], 1)
        if now[0] > bench.most_descriptors[i]:
            troubles.append(f"daemon {i} has {now[0]} descriptors, {bench.most_descriptors[i]} at the beginning")
    cell["troubles"] = troubles
    verdicts = [verdict_of(cell, name, number) for name in ("median", "p99")]
    cell["verdict"] = "FAILS" if troubles or "FAILS" in verdicts else "part" if "part" in verdicts else "passes"
    return cell


def verdict_of(cell, name, number):
    mine, load = cell.get(f"{name} attacked"), cell.get(f"{name} load")
    if mine is None or mine >= KEEP or (load is not None and mine >= KEEP * load):
        return "passes"
    return "part" if number in EQUALS and mine >= KEEP * 0.5 else "FAILS"


def text_of(number, name, cell, victim):
    figures_text = f"kept {cell['median attacked']} (load {cell['median load']})"
    if "p99 attacked" in cell:
        figures_text += f", p99 {cell['p99 attacked']} (load {cell['p99 load']})"
    verdict = "reported" if number in REPORTED else cell["verdict"]
    lines = [f"v{victim} beside {number:2} {name:40} {figures_text}, {cell['cores']} cores: {verdict}"]
    return "\n    ".join(lines + cell["troubles"])


def lab_scripts(folder, build, begin, seconds, compute):
    (folder / "world").mkdir()
    (folder / "secret").write_text(SECRET)
    (folder / "secret").chmod(0o600)
    (folder / "rank.sh").write_text("\n".join([
        "unset BANYAN_RENDEZVOUS LOCAL_RANK LOCAL_WORLD_SIZE BANYAN_FABRIC BANYAN_ROUTES",
        f"export BANYAN_TRANSPORT=service BANYAN_SERVICE=unix:{folder}/$BANYAN_LAB_HOST.sock BANYAN_TENANT=victim",
        "export BANYAN_TIMEOUT=60 BANYAN_JOIN_TIMEOUT=60 MASTER_PORT=29500",
        f"until test -S {folder}/$BANYAN_LAB_HOST.sock; do sleep 0.05; done",
        f"exec {build}/service_tenant --begin {begin:f} --seconds {seconds} --bytes 1048576 --compute {compute} "
        f">{folder}/victim$RANK.out 2>{folder}/victim$RANK.err"]) + "\n")
    return (f"exec {build}/banyand --socket {folder}/$BANYAN_LAB_HOST.sock --world file://{folder}/world --secret-file "
            f"{folder}/secret --address $BANYAN_ADDRESS --crowded --fabric 'star:2@200Mb/s' --node $BANYAN_LAB_HOST "
            f">{folder}/$BANYAN_LAB_HOST.log 2>&1")


def run_lab_cell(build, victim, number, rounds, length):
    """On a link of 200 Mb/s. The victim's weight is that of the attacker's user: it is to keep half, or what it asks."""
    name = f"isolation{os.getpid()}"
    with tempfile.TemporaryDirectory(prefix="banyan-isolation-") as work:
        folder = pathlib.Path(work)
        folder.chmod(0o755)
        subprocess.run([build / "banyan", "lab", "up", "star:2@200Mb/s", "--name", name], check=True,
                       stdout=subprocess.DEVNULL)
        try:
            begin = time.time() + 4
            daemon = lab_scripts(folder, build, begin, duration_of(number, rounds, length), 0.06 if victim == 3 else 0)
            run = Process([build / "banyan", "lab", "run", "--name", name, "--no-prefix", "--per-host", daemon, "--",
                           "sh", folder / "rank.sh"], folder, "lab")
            hosts = sorted(folder.glob("*.sock"))
            while len(hosts) < 2:
                time.sleep(0.05)
                hosts = sorted(folder.glob("*.sock"))

            def start_attacker(options):
                return Process([build / "service_attacker", "--first", hosts[0], "--second", hosts[1], "--seconds", 600,
                                *options], folder, "attacker", user=NOBODY)
            windows, cores = run_windows(start_attacker, number, rounds, length, begin)
            run.process.wait(timeout=60)
            troubles = []
            if run.process.returncode != 0:
                troubles.append("".join(each.read_text() for each in folder.glob("victim*.err"))[-300:])
            run.end()
            steps = [tuple(map(float, line.split()))
                     for line in (folder / "victim0.out").read_text().split("\n")[:-1]]
            cell = kept(victim, steps, windows, rounds)
        finally:
            subprocess.run([build / "banyan", "lab", "down", "--name", name], check=False, stdout=subprocess.DEVNULL)
    cell.update(cores=round(statistics.median(cores), 2), troubles=troubles)
    cell["verdict"] = "FAILS" if troubles else verdict_of(cell, "median", number)
    return cell


def chosen_cells(text, lab):
    if not text:
        pairs = [(victim, number) for number in range(1, 21) for victim in VICTIMS]
        return [(victim, number) for number in LAB_ATTACKS for victim in (2, 3)] if lab else pairs
    cells = []
    for part in text.split(","):
        victim, number = part.removeprefix("v").split(":")
        victims = VICTIMS if victim == "*" else [int(victim)]
        numbers = range(1, 21) if number == "*" else [int(number)]
        cells += [(each, one) for one in numbers for each in victims]
    return cells


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, help="the build folder")
    parser.add_argument("--only", help="cells, such as v1:2,v4:9; * stands for all")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--window", type=float, default=0.6, help="seconds")
    parser.add_argument("--lab", action="store_true", help="in an emulated cluster")
    chosen = parser.parse_args()
    build = chosen.build.resolve()
    names = subprocess.run([build / "service_attacker", "--list"], check=True, capture_output=True,
                           text=True).stdout.splitlines()
    cells, lines = {}, []
    with tempfile.TemporaryDirectory(prefix="banyan-isolation-") as work:
        folder = pathlib.Path(work)
        folder.chmod(0o755)
        bench = None if chosen.lab else Bench(build, folder)
        try:
            for victim, number in chosen_cells(chosen.only, chosen.lab):
                if chosen.lab:
                    cell = run_lab_cell(build, victim, number, chosen.rounds, chosen.window)
                else:
                    cell = run_cell(bench, victim, number, chosen.rounds, chosen.window)
                cells[f"v{victim}:{number}"] = cell
                lines.append(text_of(number, names[number - 1], cell, victim))
                print(lines[-1], flush=True)
        finally:
            if bench is not None:
                bench.end()
    counted = [cell for name, cell in cells.items() if int(name.split(":")[1]) not in REPORTED]
    count = {each: sum(cell["verdict"] == each for cell in counted) for each in ("passes", "part", "FAILS")}
    lines.append(f"of {len(counted)} cells {count['passes']} pass, {count['part']} give the victim its part of what"
                 f" both want, {count['FAILS']} fail")
    print(lines[-1])
    out = build / "compare"
    out.mkdir(exist_ok=True)
    kind = "isolation-lab" if chosen.lab else "isolation"
    (out / f"{kind}.txt").write_text("\n".join(lines) + "\n")
    (out / f"{kind}.json").write_text(json.dumps(
        {"banyan": "isolation/1", "load": os.getloadavg(), "cores": os.cpu_count(), "rounds": chosen.rounds,
         "seconds": chosen.window, "victims": VICTIMS, "attacks": names, "cells": cells}, indent=1))
    sys.exit(1 if any(cell["troubles"] for cell in cells.values()) else 0)


if __name__ == "__main__":
    main()
