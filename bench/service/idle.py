#!/usr/bin/env python3
"""What communicators cost banyand that are open and idle: two daemons, two ranks, a thousand communicators.

    bench/service/idle.py build [--communicators 1000] [--watch 5]

Each communicator is used once. Then nobody calls for --watch seconds, in which it says what more memory (resident) and
descriptors the daemons and the programs have than with a single communicator, divided by the others; and which part of
a core they take. Writes idle.json into BUILD/compare. Ends with status 1 when a program fails.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

TICKS = os.sysconf("SC_CLK_TCK")


def resident(process):
    lines = pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) * 1024


def descriptors(process):
    return len(os.listdir(f"/proc/{process.pid}/fd"))


def core_seconds(process):
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(int(field) for field in fields[11:13]) / TICKS


def start(words, environment, errors):
    return subprocess.Popen([str(word) for word in words], env={**os.environ, **environment},
                            stdout=open(f"{errors}.out", "wb"), stderr=open(errors, "wb"))


def state(processes):
    return [{"bytes": resident(each), "descriptors": descriptors(each)} for each in processes]


def measure(build, communicators, watch):
    """Of daemons and programs, while nobody calls, and which part of a core each took then."""
    with tempfile.TemporaryDirectory(prefix="banyan-idle-") as work:
        folder = pathlib.Path(work)
        (folder / "world").mkdir(mode=0o700)
        (folder / "meeting").mkdir()
        running = []
        try:
            for host in "ab":
                running.append(start([build / "banyand", "--socket", folder / f"{host}.sock", "--world",
                                      f"file://{folder}/world"],
                                     {"BANYAN_HOST_ID": host}, folder / f"daemon-{host}"))
            while not all((folder / f"{host}.sock").exists() for host in "ab"):
                if any(each.poll() is not None for each in running):
                    sys.exit("a daemon has ended: " + (folder / "daemon-a").read_text())
                time.sleep(0.05)
            for rank, host in enumerate("ab"):
                running.append(start([build / "service_tenant", "--bytes", 4 * communicators, "--communicators",
                                      communicators, "--begin", f"{time.time() - watch - 60:f}", "--steps", 2,
                                      "--compute", watch + 60],
                                     {"WORLD_SIZE": "2", "RANK": str(rank), "BANYAN_HOST_ID": host,
                                      "BANYAN_RENDEZVOUS": f"file://{folder}/meeting", "BANYAN_TRANSPORT": "service",
                                      "BANYAN_SERVICE": f"unix:{folder}/{host}.sock", "BANYAN_TIMEOUT": "300",
                                      "BANYAN_JOIN_TIMEOUT": "300"},
                                     folder / f"rank-{rank}"))
            while not (folder / "rank-0.out").read_text().endswith("\n"):  # the first step is over
                for rank in (0, 1):
                    if running[2 + rank].poll() is not None:
                        sys.exit(f"rank {rank} has ended: " + (folder / f"rank-{rank}").read_text())
                time.sleep(0.1)
            time.sleep(1)
            before = [core_seconds(each) for each in running]
            time.sleep(watch)
            cores = [(core_seconds(each) - then) / watch for each, then in zip(running, before)]
            return state(running), cores
        finally:
            for each in running:
                each.kill()
                each.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, help="the build folder")
    parser.add_argument("--communicators", type=int, default=1000)
    parser.add_argument("--watch", type=float, default=5, help="seconds without calls")
    chosen = parser.parse_args()
    build = chosen.build.resolve()
    one, _ = measure(build, 1, 1)
    many, cores = measure(build, chosen.communicators, chosen.watch)
    others = max(1, chosen.communicators - 1)
    figures = {}
    for name, places in (("daemon", (0, 1)), ("program", (2, 3))):
        each = {what: statistics.mean((many[i][what] - one[i][what]) / others for i in places)
                for what in ("bytes", "descriptors")}
        each["cores"] = statistics.mean(cores[i] for i in places)
        figures[name] = each
        print(f"{name}: {each['bytes'] / 1024:.1f} KiB and {each['descriptors']:.2f} descriptors for each of "
              f"{chosen.communicators} idle communicators, {100 * each['cores']:.2f} % of a core in all")
    out = build / "compare"
    out.mkdir(exist_ok=True)
    (out / "idle.json").write_text(json.dumps(
        {"banyan": "idle/1", "communicators": chosen.communicators, "seconds": chosen.watch, **figures}, indent=1))


if __name__ == "__main__":
    main()
