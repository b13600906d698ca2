"""What the comparisons share: launching peers, collecting their lines, medians, tables, files and plots.

A *launch* is one way to start one program; the lines that it prints belong to one or more *series*. A series is named
"family" or "family:variant" ("gloo:ring"); where a family stands for a library, its best variant counts.
"""

import csv
import dataclasses
import datetime
import json
import math
import os
import pathlib
import platform
import shutil
import signal
import statistics
import subprocess
import tempfile

COLLECTIVES = ["allreduce", "allgather", "broadcast", "alltoall", "reduce-scatter", "reduce", "gather", "scatter",
               "barrier"]
ROOTED = ["broadcast", "reduce", "gather", "scatter"]
CHANGING = "-roots"  # behind the name of one whose root changes at every call


@dataclasses.dataclass(frozen=True)
class Launch:
    """`command` is a function of (ranks, meet) that gives the words before the peer's own options. `meet` is an empty
    folder, fresh for every launch. Lines that begin with `printed` are named `name` instead."""

    name: str
    program: pathlib.Path
    command: object
    printed: str

    def series(self, word):
        return self.name + word[len(self.printed):] if word.startswith(self.printed) else word


@dataclasses.dataclass(frozen=True)
class Key:
    """What is compared: one row of a table."""

    ranks: int
    collective: str
    bytes: int


@dataclasses.dataclass
class Results:
    """times[key][series]: microseconds, one per round. wrong[key][series]: the worst count of wrong elements."""

    times: dict = dataclasses.field(default_factory=dict)
    wrong: dict = dataclasses.field(default_factory=dict)
    failures: list = dataclasses.field(default_factory=list)

    def add(self, key, series, microseconds, wrong):
        self.times.setdefault(key, {}).setdefault(series, []).append(microseconds)
        counts = self.wrong.setdefault(key, {})
        counts[series] = max(counts.get(series, 0), wrong)

    def median(self, key, series):
        times = self.times.get(key, {}).get(series)
        return statistics.median(times) if times else None

    def best(self, key, families):
        """(series, median) of the quickest series of these families, or (None, None)."""
        medians = [(self.median(key, series), series) for series in self.times.get(key, {})
                   if series.split(":")[0] in families]
        return min(medians)[::-1] if medians else (None, None)


def parse_line(line):
    """(word, collective, bytes, microseconds, wrong) of a peer's line, or None for any other output of a launcher."""
    fields = line.strip().split(",")
    if len(fields) != 5 or fields[1].removesuffix(CHANGING) not in COLLECTIVES:
        return None
    try:
        return fields[0], fields[1], int(fields[2]), float(fields[3]), int(fields[4])
    except ValueError:
        return None


def run_to_end(command, timeout, environment=None):
    """Runs a command in a process group of its own, which is ended whole when the time is over. Gives (exit status or
    None, output, errors)."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               start_new_session=True, env=environment)
    try:
        output, errors = process.communicate(timeout=timeout)
        return process.returncode, output, errors
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, errors = process.communicate()
        return None, output, errors
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        raise


def run_launch(launch, ranks, options, timeout, results):
    """One launch of one round; what it printed before it failed counts, and so does the failure."""
    with tempfile.TemporaryDirectory(prefix="banyan-compare-") as meet:
        status, output, errors = run_to_end([*launch.command(ranks, meet), *options], timeout)
    lines = 0
    for fields in filter(None, map(parse_line, output.splitlines())):
        word, collective, size, microseconds, wrong = fields
        results.add(Key(ranks, collective, size), launch.series(word), microseconds, wrong)
        lines += 1
    if status != 0 or lines == 0:
        why = f"took longer than {timeout:.0f} s" if status is None else f"ended with status {status}"
        tail = " | ".join(errors.strip().splitlines()[-3:])
        results.failures.append(f"{launch.name}, {ranks} ranks: {why} after {lines} lines: {tail}")
    return lines


def alternate(launches, rounds, run):
    """Calls run(launch, round) for every launch in every round, beginning each round with another launch, so that what
    drifts on the machine meets all alike."""
    for number in range(rounds):
        shift = number % len(launches)
        for launch in launches[shift:] + launches[:shift]:
            run(launch, number)


def geometric_mean(values):
    return math.exp(statistics.fmean(map(math.log, values))) if values else None


def size_text(size):
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor and size % factor == 0:
            return f"{size // factor} {unit}"
    return f"{size} B"


def time_text(microseconds):
    """Three significant digits, in microseconds throughout, so that rows can be compared by eye."""
    if microseconds is None:
        return "-"
    digits = max(0, 2 - math.floor(math.log10(microseconds))) if microseconds > 0 else 2
    return f"{microseconds:,.{min(digits, 3)}f}"


def ratio_text(ratio):
    return "-" if ratio is None else f"{ratio:.2f}"


def markdown_table(head, rows):
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |" for row in [head, *rows]]
    return "\n".join([lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]])


def first_line(command):
    """The first line that a command prints, or None where it is not there or fails."""
    if shutil.which(command[0]) is None:
        return None
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return next(iter(done.stdout.strip().splitlines()), None) if done.returncode == 0 else None


def describe_machine(source):
    """Where and on what a comparison was made; `source` is the folder of the sources, whose commit is told."""
    cpu = {}
    for line in subprocess.run(["lscpu"], capture_output=True, text=True, check=False).stdout.splitlines():
        name, _, value = line.partition(":")
        cpu[name.strip()] = value.strip()
    packages = ["libopenmpi3", "libmpich12", "libgloo0", "libucx0"]
    dirty = first_line(["git", "-C", str(source), "status", "--porcelain", "--untracked-files=no"])
    commit = first_line(["git", "-C", str(source), "rev-parse", "--short=12", "HEAD"])
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "commit": f"{commit or 'unknown'}{' with changes' if dirty else ''}",
        "processor": cpu.get("Model name"),
        "processor_numbers": f"family {cpu.get('CPU family')} model {cpu.get('Model')} stepping {cpu.get('Stepping')}",
        "hypervisor": cpu.get("Hypervisor vendor"),
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "kernel": platform.release(),
        "load_average_before": round(os.getloadavg()[0], 2),
        "peers": {package: first_line(["dpkg-query", "-W", "-f=${Version}", package]) for package in packages},
    }


def write_csv(path, results):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["ranks", "collective", "bytes", "series", "median_us", "least_us", "greatest_us", "rounds",
                         "wrong"])
        for key in sorted(results.times, key=dataclasses.astuple):
            for series, times in sorted(results.times[key].items()):
                writer.writerow([key.ranks, key.collective, key.bytes, series, f"{statistics.median(times):.4f}",
                                 min(times), max(times), len(times), results.wrong[key][series]])


def records_of(results):
    return [{**dataclasses.asdict(key), "series": series, "microseconds": times, "median": statistics.median(times),
             "wrong": results.wrong[key][series]}
            for key in sorted(results.times, key=dataclasses.astuple)
            for series, times in sorted(results.times[key].items())]


def write_json(path, document):
    """Whole or not at all."""
    beside = path.with_name(path.name + ".new")
    beside.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    os.replace(beside, path)


def write_results(path, topic, machine, how, rows):
    """Figures in the form of bench/results (its README.md), of a machine as describe_machine tells it."""
    text = (f"{machine['processor']} ({machine['processor_numbers']}), {machine['cores']} cores, kernel "
            f"{machine['kernel']}, load before {machine['load_average_before']}")
    head = {"banyan": "results/1", "topic": topic, "machine": text, "commit": machine["commit"],
            "date": machine["date"], "how": how}
    lines = ",\n".join("  " + json.dumps(row, ensure_ascii=False) for row in rows)
    start = json.dumps(head, indent=1, ensure_ascii=False).removesuffix("\n}")
    path.write_text(f'{start},\n "rows": [\n{lines}\n ]\n}}\n', encoding="utf-8")


def plot_script(title, curves):
    """A gnuplot program for an SVG of algbw by size; curves: {name: [(bytes, microseconds)]}."""
    lines = ["set terminal svg size 900,560 font 'sans-serif,13' background 'white'",
             f"set title {json.dumps(title)}", "set logscale xy", "set key outside right", "set grid",
             "set xlabel 'bytes'", "set ylabel 'algbw, GB/s'", "set format x '10^{%L}'", "set format y '%g'"]
    names = list(curves)
    for index, name in enumerate(names):
        points = "\n".join(f"{size} {size / us * 1e-3:.6g}" for size, us in sorted(curves[name]))
        lines.append(f"$data{index} << EOD\n{points}\nEOD")
    plots = ", ".join(f"$data{index} using 1:2 with linespoints linewidth {3 if name.startswith('banyan') else 1.5} "
                      f"title {json.dumps(name)} noenhanced" for index, name in enumerate(names))
    return "\n".join([*lines, f"plot {plots}"]) + "\n"


def write_plot(path, title, curves):
    """Writes an SVG where gnuplot is installed; tells whether it did."""
    if shutil.which("gnuplot") is None or not any(curves.values()):
        return False
    done = subprocess.run(["gnuplot"], input=plot_script(title, curves), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"gnuplot: {done.stderr.strip()}")
    path.write_text(done.stdout, encoding="utf-8")
    return True
