"""What the benchmarks of the service have in common: a lab with a daemon on each host, tenants in it, and figures."""

import http.client
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile

SECRET = "5a17c0de9b3e4f60" * 3
START = 4.0  # seconds that everything has to come up


class Lab:
    """A lab (`banyan lab`) and a folder for its programs' files, for as long as a `with` lasts.

    `tenants`: how many there are; each writes its steps into steps<tenant>.<rank>, as bench/service/tenant.cc does.
    """

    def __init__(self, build, fabric, ranks_per_host, tenants):
        self.build, self.fabric, self.tenants = build, fabric, tenants
        self.name = f"bench{os.getpid()}"
        self._banyan = str(build / "banyan")
        self._up = [self._banyan, "lab", "up", fabric, "--ranks-per-host", str(ranks_per_host), "--name", self.name]

    def __enter__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="banyan-bench-")
        self.folder = pathlib.Path(self._folder.name)
        (self.folder / "world").mkdir()
        (self.folder / "secret").write_text(SECRET)
        (self.folder / "secret").chmod(0o600)
        try:
            subprocess.run(self._up, check=True, stdout=subprocess.DEVNULL)
        except BaseException:
            self._folder.cleanup()
            raise
        self.files = pathlib.Path("/run/banyan/labs") / self.name
        return self

    def __exit__(self, *_):
        subprocess.run([self._banyan, "lab", "down", "--name", self.name], check=False, stdout=subprocess.DEVNULL)
        self._folder.cleanup()

    def daemon(self, *options):
        """The command of the daemon of a host; its socket is <folder>/<host>.sock."""
        words = [str(self.build / "banyand"), "--socket", f"{self.folder}/$BANYAN_LAB_HOST.sock", "--world",
                 f"file://{self.folder}/world", "--secret-file", f"{self.folder}/secret", "--address",
                 "$BANYAN_ADDRESS", "--crowded", *options]
        return "exec " + " ".join(words) + f" >{self.folder}/$BANYAN_LAB_HOST.log 2>&1"

    def run(self, script, daemon, label):
        """Runs a shell script at every rank, beside a daemon on each host if there is a command for it.

        The steps of rank 0 of each tenant, as (begin, end). Ends this program when a program fails.
        """
        (self.folder / "rank.sh").write_text(script)
        command = [self._banyan, "lab", "run", "--name", self.name, "--no-prefix"]
        if daemon:
            command += ["--per-host", daemon]
        done = subprocess.run([*command, "--", "sh", f"{self.folder}/rank.sh"], check=False)
        if done.returncode != 0:
            said = [each.read_text().splitlines() for end in ("errors*", "*.log")
                    for each in sorted(self.folder.glob(end))]
            sys.exit("\n".join([f"{label}: status {done.returncode}"] + [line for each in said for line in each[-5:]]))
        steps = []
        for tenant in range(self.tenants):
            lines = (self.folder / f"steps{tenant}.0").read_text().split("\n")
            pairs = [tuple(map(float, line.split())) for line in lines if line]
            steps.append([(end - took, end) for end, took in pairs])
        return steps

    def write_rules(self, grants):
        """Grants by tenant t0, t1, ..., as the "then" of a rule."""
        rules = [{"name": f"t{i}", "match": {"tenant": f"{os.getuid()}/t{i}"}, "then": grant}
                 for i, grant in enumerate(grants)]
        (self.folder / "rules.json").write_text(json.dumps({"version": 1, "rules": rules}))


def environment(lab, by_daemons):
    """Lines of a rank's script that hold for every tenant; they follow those that set RANK, WORLD_SIZE and T."""
    lines = [
        "export BANYAN_TENANT=t$T MASTER_PORT=$((29500 + T)) BANYAN_TIMEOUT=60 BANYAN_JOIN_TIMEOUT=60",
        "unset BANYAN_RENDEZVOUS LOCAL_RANK LOCAL_WORLD_SIZE BANYAN_FABRIC BANYAN_ROUTES",
    ]
    if not by_daemons:
        return lines + ["export BANYAN_TRANSPORT=tcp"]
    return lines + [f"export BANYAN_TRANSPORT=service BANYAN_SERVICE=unix:{lab.folder}/$BANYAN_LAB_HOST.sock",
                    f"until test -S {lab.folder}/$BANYAN_LAB_HOST.sock; do sleep 0.05; done"]


def host_routes(lab):
    """The routes between hosts, from those between the ranks of the lab."""
    seen = {}
    for route in json.loads((lab.files / "routes.json").read_text())["routes"]:
        path = route["path"][1:-1]
        seen.setdefault(tuple(path), {"path": path, "addresses": route["addresses"]})
    (lab.folder / "routes.json").write_text(json.dumps({"banyan": "routes/1", "routes": list(seen.values())}))
    return lab.folder / "routes.json"


class Operator(http.client.HTTPConnection):
    """Asks a daemon at its operator's socket."""

    def __init__(self, path, seconds):
        super().__init__("localhost", timeout=seconds)
        self._path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def ask(path, method, target, body=None, seconds=20):
    """The answer of a daemon to an operator; `body` is an object of JSON."""
    connection = Operator(path, seconds)
    try:
        connection.request(method, target, None if body is None else json.dumps(body))
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


def moved(steps, size, window):
    """Bytes in a window; of a call that is partly in it, that part."""
    low, high = window
    return sum(size * max(0.0, min(end, high) - max(begin, low)) / (end - begin) for begin, end in steps)


def jain(rates):
    """Jain's index of fairness: 1 where all are equal."""
    return sum(rates) ** 2 / (len(rates) * sum(rate * rate for rate in rates))
