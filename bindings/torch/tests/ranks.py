"""Runs functions on every rank of a job of processes, for tests.

A test is a method of a class derived from `RankTest`, decorated with the world sizes it is for:

    class AllReduce(RankTest):
        @on_ranks(2, 3)
        def test_sums(self):
            mine = torch.full((4,), float(self.rank))
            dist.all_reduce(mine)
            self.same(mine, torch.full((4,), sum(range(self.world))))

The body runs once on each rank of a world of 2 processes, then of 3, inside a default process group of the backend
under test, with `self.rank`, `self.world` and `self.store` (a store of the job's own, which does not depend on the
backend). The test fails with the texts of the ranks that raised. Tests that expect ranks to fail ask for outcomes:

    outcomes = run_on_ranks(2, die, limit=5)        # die(job) is a function of a module; job has rank, world, store

How it works: processes are forked from a server that has already imported torch, so a start takes milliseconds, and
are used again for the next job as long as all went well. Their rendezvous is a TCPStore of the test's own process,
which survives whichever rank is killed. A job ends in one of three ways: all ranks have reported; a rank has failed and
the others had `kPatience` seconds more; its limit is over. Whoever has not reported then is killed, and its stacks are
shown.

Environment: BANYAN_TEST_BACKEND (banyan or gloo), BANYAN_TEST_SEED, BANYAN_TEST_SLOW=1 (run what is marked slow),
BANYAN_TEST_CYCLES (lives of a group in test_groups).
"""

import atexit
import contextlib
import ctypes
import dataclasses
import datetime
import faulthandler
import functools
import gc
import importlib
import itertools
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import re
import signal
import socket
import sys
import tempfile
import time
import traceback
import unittest
import warnings

# Ranks share few cores; the threads of linear algebra would only be in each other's way. Read when torch is imported.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
os.environ.setdefault("USE_LIBUV", "0")  # of meetings by the environment or tcp://: see tcp_store()
os.environ.setdefault("BANYAN_TEST_SEED", str(int.from_bytes(os.urandom(3), "little")))

import torch  # noqa: E402  (after the environment that it reads)
import torch.distributed as dist  # noqa: E402

kFolder = pathlib.Path(__file__).resolve().parent
kTorch = tuple(int(number) for number in re.findall(r"\d+", torch.__version__)[:2])  # major and minor
kPatience = 5.0  # seconds that ranks have for ending after one of them has failed
kJobLimit = 40.0  # seconds that a job may take unless it says otherwise
kCallTimeout = 20.0  # seconds after which a call of the default group gives up unless the job says otherwise


def backend():
    """The backend under test."""
    return os.environ.get("BANYAN_TEST_BACKEND", "banyan")


def seed():
    """The seed that all data of this run depends on; the same in all processes."""
    return int(os.environ["BANYAN_TEST_SEED"])


@contextlib.contextmanager
def free_port():
    """A port to listen on. Until the end of the context no connection of the host takes it for its own end."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as listeners have it, who then may share it
        holder.bind(("", 0))
        yield holder.getsockname()[1]


def register_backend(name):
    """Makes `name` known to torch.distributed."""
    if name == "banyan":
        importlib.import_module("banyan_torch")


def not_by_gloo(reason):
    """Skips a test, or all of a class, where Gloo is the backend under test."""
    return unittest.skipIf(backend() == "gloo", f"Gloo: {reason}")


def since(major, minor, what):
    """Skips a test, or all of a class, on PyTorch before this version, which has no `what`."""
    return unittest.skipIf(kTorch < (major, minor), f"PyTorch {torch.__version__} has no {what}")


def tcp_store(host, port, is_master, **options):
    """A TCPStore that needs no libuv, which Debian builds PyTorch without."""
    if kTorch >= (2, 4):
        options["use_libuv"] = False
    return dist.TCPStore(host, port, is_master=is_master, **options)


slow = unittest.skipUnless(os.environ.get("BANYAN_TEST_SLOW") == "1", "slow (run.py --slow)")


# ---- what a test sees ------------------------------------------------------------------------------------------------


class RankTest(unittest.TestCase):
    """A test case whose bodies run on ranks. `limit`: seconds for a whole test, all of its worlds together."""

    limit = 120
    rank = None
    world = None
    store = None

    def setUp(self):
        signal.signal(signal.SIGALRM, self._give_up)
        signal.alarm(self.limit)
        self.addCleanup(signal.alarm, 0)

    def _give_up(self, *_):
        raise TimeoutError(f"the test took longer than {self.limit} s")

    @contextlib.contextmanager
    def case(self, *names, **values):
        """Says in a failure which of many cases it was."""
        try:
            yield
        except Exception as error:
            words = [str(name) for name in names] + [f"{key}={value}" for key, value in values.items()]
            error.add_note("case: " + ", ".join(words))
            raise

    def same(self, actual, expected, tolerance=0.0):
        """Fails unless both tensors have the same shape, type and values; with a tolerance, relative to the largest."""
        self.assertEqual(tuple(actual.shape), tuple(expected.shape), "shapes differ")
        self.assertEqual(actual.dtype, expected.dtype, "types differ")
        if torch.equal(actual, expected):
            return
        wide = torch.complex128 if actual.is_complex() else torch.float64 if actual.is_floating_point() else torch.int64
        left, right = actual.detach().to(wide).flatten(), expected.detach().to(wide).flatten()
        if tolerance:
            scale = float(right.abs().max()) or 1.0
            wrong = ~((left - right).abs() <= tolerance * scale)
        else:
            wrong = left != right
        if bool(wrong.any()):
            at = int(wrong.nonzero()[0])
            self.fail(f"{int(wrong.sum())} of {left.numel()} elements differ, the first at {at}: "
                      f"{left[at].item()} instead of {right[at].item()}")

    def finish(self, result, async_op=True):
        """Waits for what a call returned: a handle or a future if it was asynchronous, else nothing."""
        if async_op:
            self.assertIsNotNone(result, "an asynchronous call gave no handle")
            result.wait()
        else:
            self.assertIsNone(result)

    def mark(self, name, value="1"):
        """Tells the other ranks of the job something by its store."""
        self.store.set(f"mark/{name}", str(value))
        self.store.add(f"count/{name}", 1)

    def marked(self, name):
        """Whether some rank has made this mark."""
        return self.store.add(f"count/{name}", 0) > 0

    def await_mark(self, name, seconds=20.0):
        """Waits until some rank has made this mark, and returns its value."""
        self.store.wait([f"mark/{name}"], datetime.timedelta(seconds=seconds))
        return self.store.get(f"mark/{name}").decode()


def on_ranks(*worlds, limit=kJobLimit, timeout=kCallTimeout, init=True, leaves=True):
    """Makes a method run on every rank of each of these worlds.

    limit: seconds for one world. timeout: seconds, of the default process group. init: whether that is made. leaves:
    whether the ranks destroy their process groups afterwards, or are killed as they are.
    """

    def decorate(body):
        @functools.wraps(body)
        def test(self):
            module = type(self).__module__
            for world in worlds:
                outcomes = _pool().run(Job(module, f"{type(self).__name__}.{body.__name__}", world, (), limit, timeout,
                                           init, leaves))
                _raise_first(outcomes, world)

        return test

    return decorate


def run_on_ranks(world, function, *arguments, limit=kJobLimit, timeout=kCallTimeout, init=True):
    """Runs `function(job, *arguments)` on every rank and returns the outcomes by rank, whatever they are.

    `job` is a RankTest with rank, world and store. The function must be one of a module's own names.
    """
    job = Job(function.__module__, function.__qualname__, world, arguments, limit, timeout, init)
    return _pool().run(job)


@dataclasses.dataclass
class Outcome:
    """What became of one rank. `how`: returned, skipped, raised, died (by itself) or stuck (killed at the limit)."""

    rank: int
    how: str
    value: object = None  # what the function returned
    kind: str = ""  # name of the exception's class
    message: str = ""  # of the exception
    text: str = ""  # all that is known, for people
    code: int = 0  # exit code of a process that died; negative: the signal
    seconds: float = 0.0  # from the start of the job to this outcome


@dataclasses.dataclass
class Job:
    """What the ranks are to do. Goes through a pipe; the function is found by its name in the other process."""

    module: str
    name: str
    world: int
    arguments: tuple
    limit: float
    timeout: float
    init: bool
    leaves: bool = True
    rank: int = 0
    number: int = 0
    store_port: int = 0


def _raise_first(outcomes, world):
    """Raises for the job as unittest understands it. What failed by itself comes before what failed because of it."""
    if all(outcome.how == "returned" for outcome in outcomes):
        return
    skipped = [outcome for outcome in outcomes if outcome.how == "skipped"]
    if skipped and not any(outcome.how in ("raised", "died") for outcome in outcomes):
        raise unittest.SkipTest(skipped[0].message)
    failed = [outcome for outcome in outcomes if outcome.how not in ("returned", "skipped")]
    failed.sort(key=lambda outcome: (outcome.how == "stuck", outcome.seconds))
    texts = [f"--- rank {o.rank} of {world} {o.how} after {o.seconds:.2f} s\n{o.text.rstrip()}" for o in failed]
    raise AssertionError(f"{len(failed)} of {world} ranks failed (seed {seed()})\n" + "\n".join(texts))


# ---- the processes ---------------------------------------------------------------------------------------------------


class Pool:
    """Processes that carry out jobs, one job at a time. Belongs to one thread."""

    def __init__(self):
        self._context = multiprocessing.get_context("forkserver")
        # And the modules of the tests that run, whose imports take seconds; PyTorch 2 imports the last when it trains.
        preload = ["torch", "torch.distributed", "torch.nn.parallel", "torch.profiler"]
        preload += [name for name in sys.modules if name.startswith("test_")]
        preload += ["torch._dynamo"] if kTorch >= (2, 0) else []
        self._context.set_forkserver_preload(preload)
        self._workers = []
        self._store = tcp_store("127.0.0.1", 0, True, wait_for_workers=False)
        self._numbers = itertools.count()
        self._folder = tempfile.TemporaryDirectory(prefix="banyan-torch-tests-")

    def warm_up(self):
        """Starts a process, and before the first one the server, whose imports take seconds; more on a busy machine."""
        self._workers.append(Worker(self._context, self._folder.name))

    def run(self, job):
        """Carries out `job` and returns the outcomes by rank."""
        while len(self._workers) < job.world:
            self._workers.append(Worker(self._context, self._folder.name))
        workers = self._workers[: job.world]
        self._workers = self._workers[job.world:]
        number = next(self._numbers)
        start = time.monotonic()
        are_ready = False  # for another job; not if one failed, nor if the test's time ran out here
        try:
            for rank, worker in enumerate(workers):
                worker.connection.send(dataclasses.replace(job, rank=rank, number=number, store_port=self._store.port))
            outcomes = self._collect(job, workers, start)
            if job.leaves and all(outcome.how == "returned" for outcome in outcomes):
                self._part(workers, outcomes)
                are_ready = all(outcome.how == "returned" for outcome in outcomes)
        finally:
            if are_ready:
                self._workers = workers + self._workers
            else:
                for worker in workers:
                    worker.kill()
        return outcomes

    def close(self):
        for worker in self._workers:
            worker.kill()
        self._workers = []
        self._folder.cleanup()

    def _collect(self, job, workers, start):
        outcomes = [None] * job.world
        deadline = start + job.limit
        while any(outcome is None for outcome in outcomes):
            waiting = {w.connection: rank for rank, w in enumerate(workers) if outcomes[rank] is None}
            ready = multiprocessing.connection.wait(list(waiting), max(0.0, deadline - time.monotonic()))
            for connection in ready:
                rank = waiting[connection]
                outcome = workers[rank].outcome(rank)
                outcome.seconds = time.monotonic() - start
                outcomes[rank] = outcome
                if outcome.how != "returned":
                    deadline = min(deadline, time.monotonic() + kPatience)
            if not ready:
                for rank in waiting.values():
                    workers[rank].show_stacks()
                time.sleep(0.3)
                for rank in waiting.values():
                    outcomes[rank] = Outcome(rank, "stuck", text=workers[rank].log(), seconds=time.monotonic() - start)
        return outcomes

    def _part(self, workers, outcomes):
        """Lets all ranks leave their process group together. Who cannot gets another outcome."""
        for worker in workers:
            worker.connection.send("leave")
        for rank, worker in enumerate(workers):
            if worker.connection.poll(kPatience):
                left = worker.outcome(rank)
            else:
                worker.show_stacks()
                time.sleep(0.3)
                left = Outcome(rank, "stuck", text=worker.log())
            if left.how != "returned":
                left.text = f"when it left its process group:\n{left.text}"
                outcomes[rank] = left


class Worker:
    """One process of the pool, seen from the test."""

    def __init__(self, context, folder):
        self.connection, theirs = context.Pipe()
        self._log = os.path.join(folder, f"{time.monotonic_ns()}.log")
        self._process = context.Process(target=_serve, args=(theirs, self._log), daemon=True)
        self._process.start()
        theirs.close()

    def outcome(self, rank):
        """Reads the report that has arrived, or the end of the process."""
        try:
            return self.connection.recv()
        except (EOFError, ConnectionError):
            self._process.join(kPatience)
            code = self._process.exitcode
            return Outcome(rank, "died", code=code, text=f"exit code {code}\n{self.log()}")

    def show_stacks(self):
        """Has the process write the Python stacks of its threads into its log."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGUSR1)

    def log(self):
        """What the process wrote to its output, without the middle of much."""
        try:
            with open(self._log, encoding="utf-8", errors="replace") as file:
                lines = file.readlines()
            return "".join(lines if len(lines) <= 80 else [*lines[:40], "...\n", *lines[-40:]])
        except FileNotFoundError:
            return ""

    def kill(self):
        self._process.kill()
        self._process.join()
        self.connection.close()


def _serve(connection, log):
    """The life of a worker: jobs, until the pipe closes."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: a rank that hangs does not outlive the tests
    output = open(log, "w", encoding="utf-8", buffering=1)
    os.dup2(output.fileno(), 1)
    os.dup2(output.fileno(), 2)
    sys.stdout = sys.stderr = output
    faulthandler.enable(output)
    faulthandler.register(signal.SIGUSR1, output, all_threads=True)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()  # what was imported need not be looked through after every job
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    register_backend(backend())
    while True:
        try:
            job = connection.recv()
        except (EOFError, ConnectionError):
            return
        output.seek(0)
        output.truncate()
        outcome = _carry_out(job)
        connection.send(outcome)
        if outcome.how != "returned":
            return  # ends this process at once, as an exception ends a program
        if connection.recv() == "leave":
            connection.send(_leave(job.rank))


def _leave(rank):
    """Destroys the process group, also that of a test that has kept it to itself."""
    try:
        if dist.is_initialized():
            dist.destroy_process_group()
        gc.collect()
        return Outcome(rank, "returned")
    except BaseException as error:
        return Outcome(rank, "raised", kind=type(error).__name__, message=str(error), text=traceback.format_exc())


def _carry_out(job):
    """Runs the function of the job and says what came of it. Its changes of the environment are undone."""
    before = dict(os.environ)
    try:
        return Outcome(job.rank, "returned", value=_call(job))
    except unittest.SkipTest as skip:
        return Outcome(job.rank, "skipped", message=str(skip))
    except BaseException as error:
        inner = error.__traceback__.tb_next.tb_next  # without the frames of this module
        text = "".join(traceback.format_exception(type(error), error, inner))
        return Outcome(job.rank, "raised", kind=type(error).__name__, message=str(error), text=text)
    finally:
        os.environ.clear()
        os.environ.update(before)


def _call(job):
    store = dist.PrefixStore(f"job{job.number}", tcp_store("127.0.0.1", job.store_port, False, wait_for_workers=False))
    owner = importlib.import_module(job.module)
    *classes, name = job.name.split(".")
    for part in classes:
        owner = getattr(owner, part)
    test = owner(name) if classes else RankTest()
    test.rank, test.world, test.store = job.rank, job.world, dist.PrefixStore("test", store)
    if job.init:
        dist.init_process_group(backend(), store=dist.PrefixStore("group", store), rank=job.rank, world_size=job.world,
                                timeout=datetime.timedelta(seconds=job.timeout))
    function = getattr(owner, name)
    return getattr(function, "__wrapped__", function)(test, *job.arguments)


def warm_up():
    """Does once what the time of no test should contain."""
    _pool().warm_up()


@functools.lru_cache(maxsize=None)
def _pool():
    pool = Pool()
    atexit.register(pool.close)
    return pool
