"""The units of deploy/systemd as systemd's own checks see them, and banyand under a stand-in for systemd.

Usage: systemd_test.py BANYAND ALLREDUCE [unittest's arguments]: the program, and the example allreduce.
"""
import contextlib
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

    def start(self, *options, within=(), patience=None, journal=False):
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
        if journal:  # standard error, and not standard output
            words += ["JOURNAL_STREAM=$(stat -Lc %d:%i /proc/self/fd/2)"]
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

    def hear_until(self, key, words=""):
        """The first message that says this, with these words in what it says."""
        while True:
            said = self.hear()
            if key in said and words in said[key]:
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
        systemd.start("--socket", systemd.path(), "--operators", systemd.path("operators"), "--rules", rules,
                      journal=True)
        systemd.hear_until("READY")
        for text, status in (('{"version": 2, "rules": []}', "new rules"), ('{"version": 0}', "old rules: "),
                             ('{"version": 3, "rules": []}', "new rules"), ('{"version": 0}', "old rules: ")):
            rules.write_text(text)
            before = time.monotonic_ns() // 1000
            systemd.daemon.send_signal(signal.SIGHUP)
            said = systemd.hear()
            self.assertEqual(said["RELOADING"], "1")
            self.assertLessEqual(before, int(said["MONOTONIC_USEC"]))
            self.assertLessEqual(int(said["MONOTONIC_USEC"]), time.monotonic_ns() // 1000)
            said = systemd.hear_until("READY")
            self.assertIn(status, said["STATUS"])
            refused = int("old" in status)
            _, metrics = self.ask_at(socket.AF_UNIX, str(systemd.path("operators")), "GET", "/metrics")
            self.assertRegex(metrics.decode(), rf'(?m)^banyan_service_rules_refused{{host="\S*"}} {refused}$')
            _, cluster = self.ask_at(socket.AF_UNIX, str(systemd.path("operators")), "GET", "/v1/cluster")
            words = [each["words"] for each in json.loads(cluster)["findings"]]
            self.assertEqual(len(words), refused, words)
            self.assertTrue(not refused or str(rules) in words[0], words)
        _, words = systemd.end()
        self.assertEqual(len(re.findall(r"(?m)^<4>the rules stay as they are, .*rules.json", words)), 2, words)

    def test_a_reload_by_its_unit_waits_and_fails_where_the_rules_are_refused(self):
        systemd = self.systemd()
        rules = self.folder / "rules.json"
        rules.write_text('{"version": 1, "rules": []}')
        systemd.start("--socket", systemd.path(), "--rules", rules)
        systemd.hear_until("READY")
        command = settings((UNITS / "banyand.service").read_text())["ExecReload"][0]
        self.assertEqual(command, "banyand --reload $MAINPID")

        def reload(process):
            return subprocess.run([BANYAND, "--reload", str(process)], capture_output=True, text=True, timeout=PATIENCE)

        for text, code, words in (('{"version": 2, "rules": []}', 0, r""), ("{", 2, r"banyand: .*rules\.json.*\n"),
                                  ('{"version": 3, "rules": []}', 0, r"")):
            rules.write_text(text)
            ended = reload(systemd.daemon.pid)
            self.assertEqual((ended.returncode, ended.stdout), (code, ""), ended.stderr)
            self.assertRegex(ended.stderr, rf"\A{words}\Z")
            self.assertIn("old" if code else "new", systemd.hear_until("READY")["STATUS"], "before it has returned")
        # Several at once: of signals that wait together a process hears one.
        systemd.daemon.send_signal(signal.SIGSTOP)
        at_once = [subprocess.Popen([BANYAND, "--reload", str(systemd.daemon.pid)]) for _ in range(8)]
        time.sleep(0.2)
        systemd.daemon.send_signal(signal.SIGCONT)
        systemd.heard.settimeout(0.1)
        while any(each.poll() is None for each in at_once):
            with contextlib.suppress(TimeoutError):
                systemd.hear()  # else its messages would wait, and so would it
        self.assertEqual([each.returncode for each in at_once], [0] * 8)
        self.assertEqual(systemd.end()[0], 0)
        self.assertEqual(reload(systemd.daemon.pid).returncode, 2, "there is no such process")

    # ---- What is wrong, and what may come ----

    def test_ends_for_good_where_what_it_was_told_is_wrong(self):
        rules = self.folder / "rules.json"
        rules.write_text("{")
        closed = self.folder / "closed"
        closed.mkdir()
        closed.chmod(0o777)
        for number, options in enumerate((["--rules", rules], ["--rules", self.folder / "missing"],
                                          ["--secret-file", self.folder / "missing"], ["--fabric", "ring:"],
                                          ["--world", "nowhere"], ["--world", f"file://{closed}"],
                                          ["--http", "127.0.0.1"], ["--address", "10.1.2"], ["--workers", "many"])):
            with self.subTest(options):
                systemd = self.systemd(f"wrong{number}")
                begun = time.monotonic()
                systemd.start("--socket", systemd.path(), *options, journal=True)
                code, words = systemd.end_by_itself()
                self.assertEqual(code, 2, words)
                self.assertRegex(words, r"\A<3>banyand: .*\n\Z")
                self.assertLess(time.monotonic() - begun, 5)

    def test_ends_in_a_while_to_be_started_again_where_something_is_missing_that_may_come(self):
        systemd = self.systemd()
        begun = time.monotonic()
        systemd.start("--socket", systemd.path(), within=("prlimit", "--nofile=12:12"), journal=True)
        said = systemd.hear_until("EXTEND_TIMEOUT_USEC")
        self.assertIn("waiting to be started again: ", said["STATUS"])
        code, words = systemd.end_by_itself()
        self.assertEqual(code, 1, words)
        self.assertRegex(words, r"(?m)^<3>banyand: .*Too many open files$")
        # So slowly that systemd never counts StartLimitBurst= of them.
        unit = {key: values[-1] for key, values in settings((UNITS / "banyand.service").read_text()).items()}
        of_all = (time.monotonic() - begun) * int(unit["StartLimitBurst"])
        self.assertGreater(of_all, int(unit["StartLimitIntervalSec"]))

    def test_ends_at_once_while_it_waits_to_be_started_again(self):
        systemd = self.systemd()
        systemd.start("--socket", systemd.path(), within=("prlimit", "--nofile=12:12"))
        systemd.hear_until("EXTEND_TIMEOUT_USEC")
        begun = time.monotonic()
        self.assertEqual(systemd.end()[0], 0)
        self.assertLess(time.monotonic() - begun, 4)

    def test_serves_while_the_folder_of_its_cluster_is_not_there_and_says_so(self):
        systemd = self.systemd()
        folder = self.folder / "not/mounted"
        systemd.start("--socket", systemd.path(), "--operators", systemd.path("operators"), "--world",
                      f"file://{folder}")
        systemd.hear_until("READY")
        self.assertIn(str(folder), systemd.hear_until("STATUS", "serving; ")["STATUS"])
        self.assertEqual(self.ask_at(socket.AF_UNIX, str(systemd.path("operators")), "GET", "/v1/host")[0], 200)
        folder.parent.mkdir()
        while systemd.hear_until("STATUS")["STATUS"] != "serving":
            pass
        self.assertEqual(len(list(folder.iterdir())), 1, "its card")
        self.assertEqual(systemd.end()[0], 0)

    def test_waits_for_an_address_whose_interface_is_not_up(self):
        alone = ("unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")
        if subprocess.run([*alone, "true"], capture_output=True).returncode != 0:
            self.skipTest("this user may have no network of its own")
        for option, place in (("--address", "10.1.2.3"), ("--http", "10.1.2.3:9420")):
            for comes in (True, False):
                with self.subTest(f"{option}, which {'comes' if comes else 'does not come'}"):
                    systemd = self.systemd(f"{option}{comes}")
                    systemd.start("--socket", systemd.path(), option, place, within=alone)
                    said = systemd.hear()
                    self.assertGreaterEqual(int(said["EXTEND_TIMEOUT_USEC"]), 5_000_000)
                    self.assertIn("10.1.2.3", said["STATUS"])
                    if comes:
                        subprocess.run(["nsenter", "--net", "--target", str(systemd.daemon.pid), "ip", "address", "add",
                                        "10.1.2.3/32", "dev", "lo"], check=True)
                        systemd.hear_until("READY")
                    self.assertEqual(systemd.end()[0], 0)

    def test_names_the_sockets_that_it_has(self):
        systemd = self.systemd()
        systemd.listen("tenants")
        systemd.listen("http", socket.AF_INET, socket.SOCK_STREAM)
        systemd.start("--operators", systemd.path("operators"))
        systemd.hear_until("READY")
        _, words = systemd.end()
        port = systemd.sockets[1][1].getsockname()[1]
        self.assertIn(f"banyand listens at unix:{systemd.path()}, to operators at unix:{systemd.path('operators')}, to "
                      f"everybody at http://127.0.0.1:{port}\n", words)

    # ---- Its sockets ----

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
            text = re.sub(r"(?m)^(Exec\w+)=banyand", rf"\1={BANYAND}", unit.read_text())
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
        unit = settings((UNITS / "banyand.service").read_text())
        used = set(re.findall(r"--[a-z][a-z-]*", " ".join(unit["ExecStart"] + unit["ExecReload"])))
        self.assertEqual(used, {"--reload"})
        # Every one of them, as it may be written there.
        offered = set(re.findall(r"--[a-z][a-z-]*", (UNITS / "banyand.default").read_text()))
        self.assertEqual(offered - known, set())
        self.assertGreaterEqual(offered, {"--world", "--secret-file", "--address", "--fabric", "--rules"})
        self.assertEqual(unit["EnvironmentFile"], ["-/etc/default/banyand"])

    def test_the_settings_are_as_systemd_reads_them_and_change_nothing_by_themselves(self):
        file = UNITS / "banyand.default"
        lines = [line for line in file.read_text().splitlines() if line.strip()]
        self.assertEqual([line for line in lines if not line.startswith("#")], [])
        examples = [line[1:] for line in lines if re.match(r"#[A-Z_]+=", line)]
        self.assertEqual({line.split("=", 1)[0] for line in examples},
                         {"BANYAND_OPTIONS", "BANYAN_LOG", "ETCDCTL_CACERT", "ETCDCTL_CERT", "ETCDCTL_KEY"})



if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
