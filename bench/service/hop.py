#!/usr/bin/env python3
"""What a call through banyand costs more than a direct one: an allreduce of two ranks over TCP, from 4 B to 64 MiB.

    bench/service/hop.py build                       # three runs of two seconds for each size, alternating
    bench/service/hop.py build --sizes 4,1048576 --rounds 5
    bench/service/hop.py build --sizes 4 --rounds 9 --beside ../before/build    # the hop of another commit, too
    bench/service/hop.py build --sealed     # each way also with a secret, so that lanes between hosts are sealed

The two ranks believe to be on two hosts. Each host has a core for its rank and its daemon, so this is the crowded case.
The tenants are bench/service/tenant.cc, which checks every sum; figures are medians over the calls of a run, then over
the runs, with the least and the largest. Needs nothing else running. Writes hop.json into BUILD/compare. Ends with
status 1 when a program fails or a sum is wrong.
"""

import argparse
import json
import os
import pathlib
import secrets
import statistics
import subprocess
import sys
import tempfile
import time

SIZES = [4, 65536, 1 << 20, 16 << 20, 64 << 20]
SECRET = secrets.token_hex(16)
CORES = sorted(os.sched_getaffinity(0))


def start(words, host, environment, out):
    core = str(CORES[0 if host == "a" else -1])
    variables = {**os.environ, "BANYAN_HOST_ID": host, **environment}
    return subprocess.Popen(["taskset", "-c", core, *map(str, words)], env=variables, stdout=open(out, "wb"),
                            stderr=open(f"{out}.err", "wb"))


def start_daemons(build, folder, is_sealed):
    (folder / "world").mkdir(mode=0o700, parents=True)
    (folder / "secret").touch(mode=0o600)
    (folder / "secret").write_text(SECRET)
    seals = ["--secret-file", folder / "secret", "--address", "127.0.0.1"] if is_sealed else []
    daemons = [start([build / "banyand", "--socket", folder / f"{host}.sock", "--world", f"file://{folder}/world",
                      "--crowded", *seals], host, {}, folder / f"daemon-{host}") for host in "ab"]
    while not all((folder / f"{host}.sock").exists() for host in "ab"):
        if any(each.poll() is not None for each in daemons):
            sys.exit("a daemon has ended: " + (folder / "daemon-a.err").read_text())
        time.sleep(0.02)
    return daemons


def seconds_of_a_call(build, folder, way, size, seconds):
    """The median of rank 0, without the first tenth. The folder is that of the way's daemons."""
    meeting = tempfile.mkdtemp(dir=folder)
    transport = {"BANYAN_TRANSPORT": "service" if way.startswith("service") else "tcp"}
    if way == "direct, sealed":
        transport["BANYAN_SECRET"] = SECRET
    library = str(build / "bindings/c")  # also where the build was copied from elsewhere
    ranks = []
    for rank, host in enumerate("ab"):
        environment = {"WORLD_SIZE": "2", "RANK": str(rank), "BANYAN_RENDEZVOUS": f"file://{meeting}",
                       "BANYAN_TIMEOUT": "60", "LD_LIBRARY_PATH": library, **transport}
        if way.startswith("service"):
            environment["BANYAN_SERVICE"] = f"unix:{folder}/{host}.sock"
        ranks.append(start([build / "service_tenant", "--bytes", size, "--begin", f"{time.time() + 1:f}", "--seconds",
                            seconds], host, environment, folder / f"rank-{rank}"))
    for rank, each in enumerate(ranks):
        if each.wait(timeout=120) != 0:
            sys.exit(f"{way}, {size} bytes: rank {rank} failed: " + (folder / f"rank-{rank}.err").read_text())
    took = [float(line.split()[1]) for line in (folder / "rank-0").read_text().splitlines()]
    return statistics.median(took[len(took) // 10:])


def in_words(times):
    unit, factor = ("us", 1e6) if max(times) < 1e-3 else ("ms", 1e3)
    median, least, most = (f"{factor * each:.3g}" for each in (statistics.median(times), min(times), max(times)))
    return f"{median} {unit} ({least} to {most})"


def print_row(title, series, one, other):
    before, after = statistics.median(series[one]), statistics.median(series[other])
    print(f"{title}  {one} {in_words(series[one])}, {other} {in_words(series[other])}: "
          f"{1e6 * (after - before):+.1f} us, {100 * before / after:.0f} % of {one}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, help="the build folder")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="bytes, comma-separated")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2, help="of a run")
    parser.add_argument("--sealed", action="store_true", help="each way also with a secret")
    parser.add_argument("--beside", type=pathlib.Path, metavar="BUILD", help="the build folder of another commit")
    chosen = parser.parse_args()
    build = chosen.build.resolve()
    builds = {"own": build} | ({"beside": chosen.beside.resolve()} if chosen.beside else {})
    pairs = [("direct", "service")]
    if chosen.sealed:
        pairs += [("direct", "direct, sealed"), ("service", "service, sealed")]
    ways = list(dict.fromkeys(way for pair in pairs for way in pair))
    rows = []
    with tempfile.TemporaryDirectory(prefix="banyan-hop-") as work:
        folders = {(name, way): pathlib.Path(work) / name / ("sealed" if way.endswith("sealed") else "plain")
                   for name in builds for way in ways}
        daemons = []
        try:
            for folder, name in {folder: name for (name, _), folder in folders.items()}.items():
                daemons += start_daemons(builds[name], folder, folder.name == "sealed")
            for size in (int(each) for each in chosen.sizes.split(",")):
                times = {name: {way: [] for way in ways} for name in builds}
                for _ in range(chosen.rounds):
                    for name, way in folders:
                        took = seconds_of_a_call(builds[name], folders[name, way], way, size, chosen.seconds)
                        times[name][way].append(took)
                for name, series in times.items():
                    for one, other in pairs:
                        print_row(f"{size:>9} B" + (f" {name:>6}" if len(builds) > 1 else ""), series, one, other)
                    rows.append({"bytes": size, "build": name, **series})
        finally:
            for each in daemons:
                each.kill()
                each.wait()
    out = build / "compare"
    out.mkdir(exist_ok=True)
    (out / "hop.json").write_text(json.dumps({"banyan": "hop/1", "seconds": chosen.seconds, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
