"""The units of deploy/systemd as systemd's own checks see them, and banyand under a stand-in for systemd.

Usage: systemd_test.py BANYAND ALLREDUCE [unittest's arguments]: the program, and the example allreduce.
"""
import ctypes
import errno
import fcntl
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

UNITS = pathlib.Path(__file__).resolve().parent / "systemd"
BANYAND, ALLREDUCE = map(os.path.abspath, sys.argv[1:3])
PATIENCE = 30  # seconds, for whatever has to come
EXPOSURE = 16  # tenths, as `systemd-analyze security` counts it: the most that the service may have; 1 by setpriority


class Systemd:
    """What systemd does for a service: it hands over sockets, listens to what it is told, and keeps sockets for it."""

    def __init__(self, folder, name):
        self.folder, self.name = pathlib.Path(folder), name
        self.heard = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.heard.bind(str(self.folder / f"{name}.notify"))
        self.heard.settimeout(PATIENCE)
        self.sockets, self.daemon = [], None
        self.store = {}  # descriptors by name

    def path(self, name="tenants"):
        return self.folder / f"{self.name}.{name}"

    def listen(self, name, family=socket.AF_UNIX, kind=socket.SOCK_SEQPACKET):
        listening = socket.socket(family, kind)
        listening.bind(str(self.path(name)) if family == socket.AF_UNIX else ("127.0.0.1", 0))
        listening.listen()
        self.sockets.append((name, listening))

    def start(self, *options, within=(), patience=None):
        # The shell's process becomes the daemon, and so it knows the number that the variables have to name.
        given = self.sockets + list(self.store.items())
        high = [fcntl.fcntl(each, fcntl.F_DUPFD, 100) for _, each in given]
        places = " ".join(f"{3 + place}<&{number}" for place, number in enumerate(high))
        words = []
        if high:
            words += ["LISTEN_PID=$$", f"LISTEN_FDS={len(high)}",
                      "LISTEN_FDNAMES=" + ":".join(name for name, _ in given)]
        if patience:
            words += ["WATCHDOG_PID=$$", f"WATCHDOG_USEC={int(patience * 1e6)}"]
        self.daemon = subprocess.Popen(
            ["bash", "-c", f"exec {places}; {' '.join(words)} exec \"$@\"", "bash", *within, BANYAND,
             *map(str, options)],
            env={**os.environ, "NOTIFY_SOCKET": str(self.path("notify")), "BANYAN_HOST_ID": self.name,
                 "BANYAN_RECORDER_DIR": str(self.folder)},
            pass_fds=high, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for number in high:
            os.close(number)

    def hear(self):
        """What is said next, but for what the store is told."""
        while True:
            bytes_said, descriptors, _, _ = socket.recv_fds(self.heard, 4096, 8)
            said = dict(line.split("=", 1) for line in bytes_said.decode().splitlines())
            if "FDSTORE" not in said and "FDSTOREREMOVE" not in said:
                return said
            if said["FDNAME"] in self.store:
                os.close(self.store.pop(said["FDNAME"]))
            if "FDSTORE" in said:
                (self.store[said["FDNAME"]],) = descriptors

    def hear_until(self, key):
        """The first message that says this."""
        while True:
            said = self.hear()
            if key in said:
                return said

    def end(self):
        self.daemon.terminate()
        return self.end_by_itself()

    def end_by_itself(self):
        """Exit code and what it said."""
        out, err = self.daemon.communicate(timeout=PATIENCE)
        return self.daemon.returncode, out + err

    def end_by_a_crash(self):
        self.daemon.kill()
        self.daemon.communicate(timeout=PATIENCE)

    def close(self):
        if self.daemon:
            if self.daemon.poll() is None:
                self.daemon.kill()
            self.daemon.communicate()
        self.heard.close()
        for _, each in self.sockets:
            each.close()
        for descriptor in self.store.values():
            os.close(descriptor)


class Held:
    """One thread of a child does nothing while a `with` lasts, as if it hung; the others go on."""

    SEIZE, INTERRUPT, DETACH, ALL = 0x4206, 0x4207, 17, 0x40000000

    def __init__(self, process, name):
        until = time.monotonic() + PATIENCE
        threads = []
        while not threads:  # a thread that has just begun names itself
            if time.monotonic() > until:
                raise AssertionError(f"no thread is called {name}")
            threads = [task.name for task in pathlib.Path(f"/proc/{process}/task").iterdir()
                       if (task / "comm").read_text().strip() == name]
        self.thread = int(threads[0])

    def trace(self, request):
        library = ctypes.CDLL(None, use_errno=True)
        library.ptrace.restype = ctypes.c_long
        if library.ptrace(ctypes.c_long(request), ctypes.c_long(self.thread), None, None) != 0:
            error = ctypes.get_errno()
            if request == self.SEIZE and error == errno.EPERM:
                raise unittest.SkipTest("this process may not trace its children")
            raise OSError(error, os.strerror(error))

    def __enter__(self):
        self.trace(self.SEIZE)
        self.trace(self.INTERRUPT)
        os.waitpid(self.thread, self.ALL)

    def __exit__(self, *_):
        self.trace(self.DETACH)


class UnderSystemd(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="banyan-systemd-")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        (self.folder / "world").mkdir()

    def systemd(self, name="host"):
        systemd = Systemd(self.folder, name)
        self.addCleanup(systemd.close)
        return systemd

    def test_is_ready_when_programs_can_attach(self):
        systemd = self.systemd()
        systemd.start("--socket", systemd.path())
        self.assertEqual(systemd.hear()["READY"], "1")
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as program:
            program.connect(str(systemd.path()))

    def sum_on(self, hosts):
        """An allreduce of a rank on each of these hosts."""
        for host in hosts:
            self.assertEqual(host.hear()["READY"], "1")
        meet = tempfile.mkdtemp(dir=self.folder)  # a port that is free now may be somebody else's soon
        ranks = [subprocess.Popen(
            [ALLREDUCE], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "WORLD_SIZE": str(len(hosts)), "BANYAN_RENDEZVOUS": f"file://{meet}",
                 "RANK": str(rank), "BANYAN_TRANSPORT": "service", "BANYAN_HOST_ID": host.name,
                 "BANYAN_SERVICE": f"unix:{host.path()}"}) for rank, host in enumerate(hosts)]
        said = [rank.communicate(timeout=PATIENCE)[0] for rank in ranks]
        self.assertEqual([rank.returncode for rank in ranks], [0] * len(hosts), said)
        self.assertIn(f"{len(hosts)} ranks agree", said[0])

    def test_programs_attach_by_the_socket_that_was_handed_over(self):
        hosts = [self.systemd("a"), self.systemd("b")]
        for host in hosts:
            host.listen("tenants")
            host.start("--world", f"file://{self.folder}/world")
        self.sum_on(hosts)
        for host in hosts:
            code, words = host.end()
            self.assertEqual(code, 0, words)
            self.assertTrue(host.path().exists(), "the socket is systemd's")

    def test_operators_and_whoever_looks_ask_by_the_sockets_that_were_handed_over(self):
        systemd = self.systemd()
        systemd.listen("tenants")
        systemd.listen("operators", kind=socket.SOCK_STREAM)
        systemd.listen("http", family=socket.AF_INET, kind=socket.SOCK_STREAM)
        systemd.start("--http-host", "login,.cluster")
        self.assertEqual(systemd.hear()["READY"], "1")
        drain = json.dumps({"drain": False})
        for name, listening in systemd.sockets[1:]:
            with self.subTest(name):
                status, view = self.ask(listening, "GET", "/v1/host")
                self.assertEqual((status, json.loads(view)["clients"]), (200, 0))
                # Only operators may change anything.
                answer = self.ask(listening, "POST", "/v1/drain", drain)
                self.assertEqual(answer[0], 200 if name == "operators" else 403)
                # A browser that was told that a stranger's name stands for this host says that name.
                own = socket.gethostname()
                for host, is_known in (("evil.example", False), ("node3.cluster:9420", True), (own, True)):
                    answer = self.ask(listening, "GET", "/v1/host", None, {"Host": host})
                    self.assertEqual(answer[0], 200 if is_known or name == "operators" else 421, answer)
        self.assertEqual(systemd.end()[0], 0)
        self.assertTrue(systemd.path("operators").exists(), "the socket is systemd's")

    @staticmethod
    def ask(listening, *request):
        return UnderSystemd.ask_at(listening.family, listening.getsockname(), *request)

    @staticmethod
    def ask_at(family, address, *request):
        connection = http.client.HTTPConnection("localhost", timeout=PATIENCE)
        connection.sock = socket.socket(family, socket.SOCK_STREAM)
        connection.sock.settimeout(PATIENCE)
        connection.sock.connect(address)
        connection.request(*request)
        answer = connection.getresponse()
        said = answer.status, answer.read()
        connection.close()
        return said

    @unittest.skipUnless(shutil.which("strace") and shutil.which("systemd-analyze"), "strace or systemd is missing")
    def test_makes_no_system_call_that_its_unit_forbids(self):
        hosts = [self.systemd("a"), self.systemd("b")]
        for host in hosts:
            # Detached, so that the daemon is the process which was started.
            host.start("--socket", host.path(), "--world", f"file://{self.folder}/world",
                       within=["strace", "-D", "-f", "-qq", "-o", self.folder / f"{host.name}.calls"])
        self.sum_on(hosts)
        made = set()
        for host in hosts:
            self.assertEqual(host.end()[0], 0)
            made |= set(re.findall(r"(?m)^\d+ +(\w+)\(", (self.folder / f"{host.name}.calls").read_text()))
        self.assertLessEqual({"epoll_wait", "sendmsg", "mmap"}, made)
        allowed = set()
        for line in settings((UNITS / "banyand.service").read_text())["SystemCallFilter"]:
            listed = set().union(*(calls_of(word) for word in line.removeprefix("~").split()))
            allowed = allowed - listed if line.startswith("~") else allowed | listed
        # What starts the program is done before the filter is in force, or by the filter's own rule.
        self.assertEqual(made - allowed - {"execve"}, set())

    def test_says_that_it_lives_twice_in_the_time_that_it_is_given(self):
        systemd = self.systemd()
        systemd.start("--socket", systemd.path(), patience=0.4)
        began = time.monotonic()
        for _ in range(6):
            systemd.hear_until("WATCHDOG")
        self.assertGreater(time.monotonic() - began, 5 * 0.2 * 0.9)
        # One that hangs is silent: what is heard afterwards was said before.
        systemd.daemon.send_signal(signal.SIGSTOP)
        systemd.heard.settimeout(1)
        with self.assertRaises(TimeoutError):
            for _ in range(3):
                systemd.hear()
        systemd.heard.settimeout(PATIENCE)
        systemd.daemon.send_signal(signal.SIGCONT)
        systemd.hear_until("WATCHDOG")

    def test_says_no_more_that_it_lives_while_its_worker_hangs(self):
        systemd = self.systemd()
        systemd.start("--socket", systemd.path(), "--operators", systemd.path("operators"), patience=0.6)
        systemd.hear_until("WATCHDOG")
        with Held(systemd.daemon.pid, "banyan-worker"):
            # All other threads go on, and one that answers operators says twice at most what it was about to say.
            systemd.heard.settimeout(1.5)
            with self.assertRaises(TimeoutError):
                for _ in range(4):
                    systemd.hear()
            status, _ = self.ask_at(socket.AF_UNIX, str(systemd.path("operators")), "GET", "/")
            self.assertEqual(status, 200)
        systemd.heard.settimeout(PATIENCE)
        for _ in range(3):
            systemd.hear_until("WATCHDOG")
        code, words = systemd.end()
        self.assertEqual(code, 0, words)
        self.assertRegex(words, r"has not come round for [\d.]+ ms\n")
        self.assertRegex(words, r"has not come round for [\d.]+ m?s; nobody is told any more that this daemon lives")
        self.assertIn("goes on, after up to", words)

    def test_says_nothing_of_its_life_unless_it_is_asked(self):
        systemd = self.systemd()
        systemd.start("--socket", systemd.path())
        self.assertEqual(systemd.hear()["READY"], "1")
        systemd.heard.settimeout(0.5)
        with self.assertRaises(TimeoutError):
            systemd.hear()

    def test_tells_that_it_reads_the_rules_again_and_whether_they_are_in_force(self):
        systemd = self.systemd()
        rules = self.folder / "rules.json"
        rules.write_text('{"version": 1, "rules": []}')
        systemd.start("--socket", systemd.path(), "--rules", rules)
        systemd.hear_until("READY")
        for text, status in (('{"version": 2, "rules": []}', "new rules"), ('{"version": 0}', "old rules: ")):
            rules.write_text(text)
            before = time.monotonic_ns() // 1000
            systemd.daemon.send_signal(signal.SIGHUP)
            said = systemd.hear()
            self.assertEqual(said["RELOADING"], "1")
            self.assertLessEqual(before, int(said["MONOTONIC_USEC"]))
            self.assertLessEqual(int(said["MONOTONIC_USEC"]), time.monotonic_ns() // 1000)
            said = systemd.hear()
            self.assertEqual(said["READY"], "1")
            self.assertIn(status, said["STATUS"])

    def test_says_that_it_ends(self):
        systemd = self.systemd()
        systemd.start("--socket", systemd.path())
        systemd.hear_until("READY")
        systemd.daemon.terminate()
        self.assertEqual(systemd.hear()["STOPPING"], "1")
        self.assertEqual(systemd.end()[0], 0)
        self.assertFalse(systemd.path().exists())

    def test_refuses_no_program_while_it_starts_again_after_a_crash(self):
        systemd = self.systemd()
        options = ["--socket", systemd.path(), "--operators", systemd.path("operators")]
        systemd.start(*options)
        self.assertEqual(systemd.hear()["READY"], "1")
        self.assertEqual(len(systemd.store), 2)
        for _ in range(2):
            systemd.end_by_a_crash()
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as program:
                program.settimeout(PATIENCE)
                program.connect(str(systemd.path()))
                systemd.start(*options)
                self.assertEqual(systemd.hear()["READY"], "1")
                program.send(b"no hello")
                self.assertEqual(program.recv(100), b"", "the next process has heard it")
            self.assertEqual(self.ask_at(socket.AF_UNIX, str(systemd.path("operators")), "GET", "/v1/host")[0], 200)
            self.assertEqual(len(systemd.store), 2)
        systemd.daemon.terminate()
        self.assertEqual(systemd.hear()["STOPPING"], "1")
        self.assertEqual(systemd.store, {})
        self.assertEqual(systemd.end()[0], 0)
        self.assertFalse(systemd.path().exists())

    def test_has_no_socket_kept_that_systemd_handed_over(self):
        systemd = self.systemd()
        systemd.listen("tenants")
        systemd.start()
        self.assertEqual(systemd.hear()["READY"], "1")
        self.assertEqual(systemd.store, {})

    def test_takes_up_no_socket_whose_path_is_that_of_another_one(self):
        systemd = self.systemd()
        systemd.start("--socket", systemd.path(), "--operators", "")
        self.assertEqual(systemd.hear()["READY"], "1")
        before = set(systemd.store)
        systemd.end_by_a_crash()
        systemd.path().unlink()
        systemd.start("--socket", systemd.path(), "--operators", "")
        self.assertEqual(systemd.hear()["READY"], "1")
        self.assertEqual((len(systemd.store), before & set(systemd.store)), (1, set()))
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as program:
            program.connect(str(systemd.path()))

    def test_refuses_sockets_that_it_would_not_use_and_says_what_the_unit_needs(self):
        for name, kind, mend in (("banyand.socket", socket.SOCK_SEQPACKET, "FileDescriptorName="),
                                 ("tenants", socket.SOCK_STREAM, "ListenSequentialPacket="),
                                 ("operators", socket.SOCK_SEQPACKET, "ListenStream="),
                                 ("http", socket.SOCK_STREAM, "ListenStream=ADDRESS:PORT")):
            with self.subTest(name):
                systemd = self.systemd(f"wrong-{name}")
                systemd.listen(name, kind=kind)
                systemd.start()
                code, words = systemd.end_by_itself()
                self.assertEqual(code, 2)
                self.assertIn(mend, words)

    def test_refuses_a_second_socket_and_a_path_beside_a_socket(self):
        systemd = self.systemd("twice")
        systemd.listen("tenants")
        systemd.sockets.append(systemd.sockets[0])
        systemd.start()
        code, words = systemd.end_by_itself()
        self.assertEqual((code, "comes twice" in words), (2, True), words)
        for name, kind, option in (("tenants", socket.SOCK_SEQPACKET, "--socket"),
                                   ("operators", socket.SOCK_STREAM, "--operators")):
            systemd = self.systemd(f"both-{name}")
            systemd.listen(name, kind=kind)
            systemd.start(option, self.folder / "other")
            code, words = systemd.end_by_itself()
            self.assertEqual((code, f"{option} is not taken" in words), (2, True), words)


def settings(text):
    """The settings of a unit, each with its values in order."""
    found = {}
    for line in text.replace("\\\n", " ").splitlines():
        if "=" in line and not line.startswith(("#", ";")):
            key, value = line.split("=", 1)
            found.setdefault(key.strip(), []).append(value.strip())
    return found


def calls_of(group):
    """The system calls that a word of SystemCallFilter= stands for."""
    if not group.startswith("@"):
        return {group}
    listed = subprocess.run(["systemd-analyze", "--no-pager", "syscall-filter", group], capture_output=True, text=True,
                            check=True)
    words = [line.strip() for line in listed.stdout.splitlines()[1:]]
    return set().union(*(calls_of(word) for word in words if word and not word.startswith("#")))


@unittest.skipUnless(shutil.which("systemd-analyze"), "systemd is not installed")
class Units(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="banyan-units-")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        for unit in [*UNITS.glob("*.service"), *UNITS.glob("*.socket")]:
            # Where the program is found, which is not installed.
            text = re.sub(r"(?m)^ExecStart=banyand", f"ExecStart={BANYAND}", unit.read_text())
            (self.folder / unit.name).write_text(text)

    def analyze(self, *words):
        ended = subprocess.run(["systemd-analyze", *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, timeout=PATIENCE)
        return ended.returncode, ended.stdout

    def expect_no_complaint(self):
        units = sorted(self.folder.glob("banyand*.s*t")) + sorted(self.folder.glob("banyand.service"))
        self.assertEqual(len(units), 4)
        code, said = self.analyze("verify", "--man=no", *units)
        self.assertEqual((code, [line for line in said.splitlines() if "banyan" in line]), (0, []), said)

    def test_are_units_as_systemd_wants_them(self):
        self.expect_no_complaint()

    def test_are_so_with_the_settings_of_a_cluster(self):
        with_cluster = self.folder / "banyand.service.d"
        with_cluster.mkdir()
        text = (UNITS / "banyand.service.d/cluster.conf").read_text()
        text = text.replace("ExecStart=banyand", f"ExecStart={BANYAND}")
        (with_cluster / "cluster.conf").write_text(text)
        self.expect_no_complaint()
        (with_cluster / "cluster.conf").write_text(text.replace("LoadCredential", "LoadCredentials"))
        with self.assertRaisesRegex(AssertionError, "LoadCredentials"):
            self.expect_no_complaint()

    def test_give_the_service_no_more_than_it_needs(self):
        code, said = self.analyze("security", "--offline=true", f"--threshold={EXPOSURE}", "--no-pager",
                                  self.folder / "banyand.service")
        score = re.search(r"Overall exposure level for banyand.service: ([\d.]+)", said)
        self.assertTrue(score, said)
        self.assertLessEqual(float(score[1]) * 10, EXPOSURE, said)
        self.assertEqual(code, 0)

    def test_a_setting_less_is_noticed(self):
        unit = self.folder / "banyand.service"
        unit.write_text(unit.read_text().replace("\nCapabilityBoundingSet=\n", "\n"))
        code, _ = self.analyze("security", "--offline=true", f"--threshold={EXPOSURE}", "--no-pager", unit)
        self.assertNotEqual(code, 0)

    def test_name_sockets_and_options_that_banyand_knows(self):
        named = {unit.name: settings(unit.read_text())["FileDescriptorName"] for unit in UNITS.glob("*.socket")}
        self.assertEqual(named, {"banyand.socket": ["tenants"], "banyand-operators.socket": ["operators"],
                                 "banyand-http.socket": ["http"]})
        told = subprocess.run([BANYAND, "--help"], capture_output=True, text=True, check=True).stdout
        known = set(re.findall(r"--[a-z][a-z-]*", told))
        for file in (UNITS / "banyand.service", UNITS / "banyand.service.d/cluster.conf"):
            used = set(re.findall(r"--[a-z][a-z-]*", " ".join(settings(file.read_text())["ExecStart"])))
            self.assertEqual(used - known, set(), file)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
