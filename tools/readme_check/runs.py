"""The commands of pages: run in a folder like a checkout, and judged by what they print."""
import concurrent.futures
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

from . import tree

MEASURED = re.compile(r"\bbanyan (run|bench|lab|doctor)\b|/|\bbanyan_torch\b")  # commands that tell of clocks and hosts
ISOLATED = ["unshare", "--fork", "--pid", "--mount-proc", "--kill-child", "--mount", "--net", "--ipc"]
CHANGES_MACHINE = re.compile(r"\b(sudo|apt|apt-get|dpkg -[ir]|debootstrap|docker|podman|kubectl|systemctl|modprobe)\b|"
                             r"\bmake (un)?install|\bcmake --install(?!.*--prefix)|\bpip3? install|"
                             r"(-B|-C|--build|--test-dir) ?build(?![\w-])")


def isolation(folder):
    """Shell words that give what follows processes, a network and a /run of its own, and all but a folder read-only."""
    return f"mount --bind {folder} {folder} && mount -o remount,bind,ro / && mount -t tmpfs none /run && " \
           "ip link set lo up"


def may_isolate():
    if os.geteuid() != 0 or not shutil.which("unshare") or not shutil.which("ip"):
        return False
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run([*ISOLATED, "sh", "-c", isolation(folder)], capture_output=True).returncode == 0


def comparable(text, measured):
    """The lines of an output, without what differs from run to run."""
    text = re.sub(r"[^\S\n]+\n", "\n", text.rstrip() + "\n")
    for pattern, word in (
            (r"(?m)^planned in .*$", "planned in <time>"),
            (r"\d{4}-\d\d-\d\d[ T][\d:.]+Z?", "<date>"),
            (r"\b[\w.-]+:\d+ rank", "<process> rank"),
            (r"Pid +\d+ on \S+", "Pid <process>"),
            (r"process \d+( \(\S+\))?( on \S+)?", "process <number>"),
            (r"banyan \d+\.\d+\.\d+(\.dev\d+)?", "banyan <version>"),
            (r"\(\S+:\d+\)", "(<process>)"),
            (r"/tmp/\S+", "<path>")):
        text = re.sub(pattern, word, text)
    if measured:
        for pattern, word in (
                (r"\d+(\.\d+)? ?(ns|us|ms|s|seconds)\b", "<time>"),
                (r"\d+(\.\d+)? ?[kMG]?(B|b)(/s)\b", "<rate>")):
            text = re.sub(pattern, word, text)
        text = re.sub(r"[^\S\n]+", " ", text)
    return text


def output_differs(expected, actual, measured):
    """The first line shown that was not printed, or None."""
    pattern, shown = "", comparable("\n".join(expected), measured).splitlines()
    actual = comparable(actual, measured)
    for line in shown:
        if line.strip() == "...":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += ".*".join(map(re.escape, line.split("..."))) + "\n"
            if not re.match(pattern, actual):
                return line
    return None if shown[-1].strip() == "..." or re.fullmatch(pattern, actual) else "(nothing more)"


class Runner:
    def __init__(self, build, options):
        self.build, self.options = build, options
        self.isolated = may_isolate()
        self.torch = any((build / "python/banyan_torch").glob("_C*.so"))
        self.print_lock = threading.Lock()
        self.counts = {"run": 0, "skipped": 0, "slow": 0}
        self.findings = []

    def say(self, text):
        with self.print_lock:
            print(text, flush=True)

    def reason_to_skip(self, command):
        reason = command.skip
        if reason == "needs root":
            return None if self.isolated else "needs root and network namespaces"
        if reason == "needs PyTorch":
            return None if self.torch else "needs banyan_torch, which was not built"
        if reason and reason.startswith("needs program "):
            return None if shutil.which(reason.split()[-1]) else reason
        return reason

    def chosen(self, command):
        """Whether it is this run's: quick, slow, or either."""
        return self.options.all or command.slow == self.options.slow

    def folder_for(self, page, base):
        """A folder in which the tree looks as it does in a checkout."""
        folder = base / page.name.replace("/", "-")
        (folder / "tmp").mkdir(parents=True)
        (folder / "home").mkdir()
        for name in ("include", "bindings", "bench", "tools", "docs"):
            (folder / name).symlink_to(tree.ROOT / name)
        shutil.copytree(tree.ROOT / "examples", folder / "examples")
        (folder / "build").symlink_to(self.build)
        return folder

    def environment(self, folder):
        kept = {name: value for name, value in os.environ.items()
                if not re.match(r"BANYAN_|RANK$|WORLD_SIZE$|LOCAL_|MASTER_|OMPI_|PMI|SLURM_|PYTHONPATH$", name)}
        prefix = self.prefix or pathlib.Path("/nothing-is-installed")
        packages = [str(path) for path in prefix.glob("**/pkgconfig")]
        libraries = [str(path.parent) for path in prefix.glob("**/libbanyan.so")]
        return kept | {
            "PATH": f"{self.build}:/usr/sbin:{os.environ['PATH']}", "TMPDIR": str(folder / "tmp"),
            "HOME": str(folder / "home"), "BANYAN_RECORDER_DIR": str(folder / "tmp/records"), "LC_ALL": "C.UTF-8",
            "NO_COLOR": "1", "COLUMNS": "80", "PREFIX": str(prefix), "CMAKE_PREFIX_PATH": str(prefix),
            "PKG_CONFIG_PATH": ":".join(packages), "LD_LIBRARY_PATH": ":".join(libraries)}

    def script(self, block, chosen, logs, folder):
        lines = [f"{isolation(self.base)} || exit", f"cd {folder}"] if self.isolated else []
        for setup in dict.fromkeys(setup for command in chosen for setup in command.setup):
            lines.append(f"{{ {setup}\n}} >{logs}/setup 2>&1 || {{ echo $? >{logs}/setup.exit; exit; }}")
        for i, command in enumerate(block.commands):
            if command in chosen:
                lines.append(f"{{\n{command.text}\n}} >{logs}/{i} 2>&1 </dev/null\necho $? >{logs}/{i}.exit")
        return "\n".join(lines) + "\n"

    def run_block(self, page, block, folder):
        chosen = []
        for command in block.commands:
            skip = self.reason_to_skip(command)
            if not skip and CHANGES_MACHINE.search(command.text):
                self.findings.append(f"{page.name}:{command.line}: '{command.text.splitlines()[0]}' changes the "
                                     "machine; say so in a comment before the block, as in "
                                     "<!-- readme-check: changes the machine -->")
                continue
            if skip:
                self.counts["skipped"] += 1
                if not self.options.slow:
                    self.say(f"{page.name}:{command.line}: skipped, {skip}: {command.text.splitlines()[0]}")
            elif not self.chosen(command):
                self.counts["slow"] += 1
            else:
                chosen.append(command)
        if not chosen:
            return
        logs = pathlib.Path(tempfile.mkdtemp(dir=folder / "tmp"))
        (logs / "script").write_text(self.script(block, chosen, logs, folder))
        arguments = [*(ISOLATED if self.isolated else []), "bash", str(logs / "script")]
        began = time.monotonic()
        child = subprocess.Popen(arguments, cwd=folder, env=self.environment(folder), start_new_session=True,
                                 stdin=subprocess.DEVNULL)
        try:
            child.wait(timeout=block.seconds)
            late = False
        except subprocess.TimeoutExpired:
            late = True
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        child.wait()
        if self.options.verbose:
            self.say(f"{page.name}:{block.line}: {time.monotonic() - began:.1f} s")
        if (logs / "setup.exit").exists():
            self.findings.append(f"{page.name}:{block.line}: the setup failed: {self.tail(logs / 'setup')}")
            return
        for i, command in enumerate(block.commands):
            if command in chosen:
                self.judge(page, block, command, logs / str(i), late)

    @staticmethod
    def tail(file):
        lines = file.read_text(errors="replace").splitlines() if file.exists() else []
        return "".join("\n    | " + line for line in lines[-8:])

    def judge(self, page, block, command, log, late):
        place = f"{page.name}:{command.line}: '{command.text.splitlines()[0]}'"
        done = log.with_name(log.name + ".exit")
        self.counts["run"] += 1
        if not done.exists():
            why = f"had not ended {block.seconds} s after its block began" if late else "ended the shell"
            self.findings.append(f"{place} {why}{self.tail(log)}")
            return
        status = int(done.read_text())
        if status != command.exit:
            self.findings.append(f"{place} ended with exit code {status}, not {command.exit}{self.tail(log)}")
        if command.output:
            differs = output_differs(command.output, log.read_text(errors="replace"),
                                     bool(MEASURED.search(command.text)))
            if differs is not None:
                self.findings.append(f"{place} did not print what the page shows: {differs}{self.tail(log)}")

    def run_page(self, page, base):
        if page.blocks:
            folder = self.folder_for(page, base)
            for block in page.blocks:
                self.run_block(page, block, folder)

    def run(self, pages):
        with tempfile.TemporaryDirectory(prefix="banyan-pages-") as base:
            self.base = base
            self.prefix = self.install(pathlib.Path(base))
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                for done in [pool.submit(self.run_page, page, pathlib.Path(base)) for page in pages]:
                    done.result()
        self.say(f"tools/readme-check: {self.counts['run']} commands run, {self.counts['skipped']} skipped, "
                 f"{self.counts['slow']} left to the {'quick' if self.options.slow else 'slow'} run")
        return self.findings

    def install(self, base):
        """What `make install` puts into a prefix, for the commands that use $PREFIX; None where no page does."""
        script = self.build / "cmake_install.cmake"
        if not self.options.install or not script.exists():
            return None
        told = subprocess.run(["cmake", "--install", str(self.build), "--prefix", str(base / "prefix")],
                              capture_output=True, text=True)
        if told.returncode != 0:
            self.findings.append(f"cmake --install {self.build}: {told.stderr.strip()[-500:]}")
        return base / "prefix"
