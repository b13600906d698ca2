"""What the other ranks see when one fails, is killed, is late or calls something else; forks; ends in the middle.

Gloo fails, too, but says neither who nor why; what only Banyan promises is skipped for it or asked of Banyan alone.
"""

import ctypes
import datetime
import gc
import os
import pickle
import signal
import tempfile
import threading
import time

import torch
import torch.distributed as dist

from data import all_of, reduced, tensor_of
from ranks import backend, on_ranks, not_by_gloo, RankTest, run_on_ranks, since

kBanyan = backend() == "banyan"
kNoticed = 1.0 if kBanyan else 4.0  # seconds until a death is known: Gloo's ranks wait for their timeout of 3 s


class FailureTest(RankTest):
    def expect(self, outcome, how, text=""):
        """Fails unless the rank ended like this, with `text` in its exception."""
        self.assertEqual(outcome.how, how, f"rank {outcome.rank}: {outcome.text}")
        if text:
            self.assertRegex(outcome.message, text)


# ---- ranks that end --------------------------------------------------------------------------------------------------


def raise_before_a_call(job, which):
    if job.rank == which:
        raise ValueError("meant to fail")
    for _ in range(1000):
        dist.all_reduce(tensor_of(job.rank, 10_000))
        time.sleep(0.001)


def die_inside(job, which, call):
    """Calls until a rank is killed; returns when, or the exception and how long after the death it came."""
    calls = {"all_reduce": lambda: dist.all_reduce(torch.ones(500_000)),
             "small all_reduce": lambda: dist.all_reduce(torch.ones(4)),
             "broadcast": lambda: dist.broadcast(torch.ones(500_000), 0),
             "all_gather": lambda: dist.all_gather([torch.zeros(90_000) for _ in range(job.world)], torch.ones(90_000)),
             "all_to_all_single": lambda: dist.all_to_all_single(torch.zeros(60_000), torch.ones(60_000)),
             "barrier": dist.barrier}

    def die():
        time.sleep(0.2)
        job.mark("death", time.monotonic())
        os.kill(os.getpid(), signal.SIGKILL)

    calls[call]()
    if job.rank == which:
        threading.Thread(target=die, daemon=True).start()
    try:
        while True:
            calls[call]()
    except RuntimeError as error:
        return str(error), time.monotonic() - float(job.await_mark("death"))


def die_outside(job, which, call):
    """A rank is killed while it does not communicate and the others wait for it; as die_inside."""
    dist.barrier()
    if job.rank == which:
        time.sleep(0.2)
        job.mark("death", time.monotonic())
        os.kill(os.getpid(), signal.SIGKILL)
    other = tensor_of(job.rank, 1000)
    calls = {"wait": lambda: dist.all_reduce(other, async_op=True).wait(),
             "future": lambda: dist.all_reduce(other, async_op=True).get_future().wait(),
             "recv": lambda: dist.recv(other, which),
             "barrier": dist.barrier}
    try:
        calls[call]()
    except RuntimeError as error:
        return str(error), time.monotonic() - float(job.await_mark("death"))
    return "nothing was raised", 0.0


class Deaths(FailureTest):
    def check_survivors(self, outcomes, which):
        """The dead rank has died by the signal; the others know soon, and from Banyan, who."""
        for outcome in outcomes:
            if outcome.rank == which:
                self.assertEqual((outcome.how, outcome.code), ("died", -signal.SIGKILL), outcome.text)
                continue
            self.expect(outcome, "returned")
            message, seconds = outcome.value
            self.assertNotEqual(message, "nothing was raised")
            self.assertLess(seconds, kNoticed, message)
            if kBanyan:
                self.assertRegex(message, rf"\brank {which}\b")

    def test_an_exception_on_one_rank_ends_the_job(self):
        outcomes = run_on_ranks(3, raise_before_a_call, 1, timeout=3)
        for outcome in outcomes:
            self.expect(outcome, "raised", "meant to fail" if outcome.rank == 1 else r"rank 1\b" if kBanyan else "")
            self.assertLess(outcome.seconds, kNoticed + 1)

    def test_a_rank_killed_inside_a_collective_is_noticed(self):
        for call in ("all_reduce", "small all_reduce", "broadcast", "all_gather", "all_to_all_single", "barrier"):
            with self.case(call):
                self.check_survivors(run_on_ranks(3, die_inside, 2, call, timeout=3), 2)

    def test_any_rank_may_be_the_one_that_is_killed(self):
        for which in range(3):
            with self.case(which):
                self.check_survivors(run_on_ranks(3, die_inside, which, "all_reduce", timeout=3), which)

    def test_those_who_wait_for_a_dead_rank_are_told(self):
        for call in ("wait", "future", "recv", "barrier"):
            with self.case(call):
                self.check_survivors(run_on_ranks(3, die_outside, 1, call, timeout=3), 1)

    def test_later_calls_fail_at_once(self):
        outcomes = run_on_ranks(2, call_after_a_death)
        self.expect(outcomes[0], "returned")
        first, second, seconds = outcomes[0].value
        self.assertLess(seconds, 1)
        if kBanyan:
            self.assertRegex(first, r"\brank 1\b")
            self.assertRegex(second, r"\brank 1\b")


def call_after_a_death(job):
    if job.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    with job.assertRaises(RuntimeError) as first:
        dist.all_reduce(torch.ones(4))
    start = time.monotonic()
    with job.assertRaises(RuntimeError) as second:
        dist.all_reduce(torch.ones(4), async_op=True).wait()
    return str(first.exception), str(second.exception), time.monotonic() - start


def train_with_a_dead_rank(job):
    """Returns the class and the code of what each way raises through which a death can reach a program."""
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
    if job.rank == 1:
        job.await_mark("made")
        os.kill(os.getpid(), signal.SIGKILL)
    job.mark("made")
    backward = lambda: model(torch.ones(2, 4)).sum().backward()  # noqa: E731
    ways = {"backward": backward,
            "call": lambda: dist.all_reduce(torch.ones(4)),
            "objects": lambda: dist.all_gather_object([None, None], "x"),
            "future": lambda: dist.all_reduce(torch.ones(4), async_op=True).get_future().wait()}
    raised = {}
    for name, way in ways.items():
        try:
            way()
        except Exception as error:
            raised[name] = (type(error).__name__, getattr(error, "code", None), str(error))
    return raised


@not_by_gloo("says neither who nor why")
class Errors(FailureTest):
    def test_a_death_has_one_class_whichever_way_it_comes(self):
        outcome = run_on_ranks(2, train_with_a_dead_rank)[0]
        self.expect(outcome, "returned")
        self.assertEqual(len(outcome.value), 4)
        for way, (kind, code, message) in outcome.value.items():
            with self.case(way):
                self.assertEqual((kind, code), ("PeerLostError", "peer_lost"))
                self.assertRegex(message, r"\brank 1 is dead")

    def test_each_code_has_a_class_and_errors_can_be_pickled(self):
        import banyan_torch

        self.assertEqual(banyan_torch.Error("x").code, "")
        self.assertTrue(issubclass(banyan_torch.Error, RuntimeError))
        codes = set()
        for name in banyan_torch.__all__:
            kind = getattr(banyan_torch, name)
            if isinstance(kind, type) and issubclass(kind, banyan_torch.Error):
                again = pickle.loads(pickle.dumps(kind("words")))
                self.assertIs(type(again), kind)
                self.assertEqual((str(again), again.code), ("words", kind.code))
                codes.add(kind.code)
        self.assertEqual(codes, {"", "peer_lost", "timed_out", "mismatch", "aborted", "io", "unsupported",
                                 "invalid_usage", "invalid_input", "not_found"})

    def test_errors_of_groups_name_global_ranks_too(self):
        for case in ("dead", "late", "differs"):
            with self.case(case):
                self.expect(run_on_ranks(3, fail_in_a_group, case)[1], "returned")

    def test_a_group_that_is_not_made_names_who_is_missing(self):
        outcomes = run_on_ranks(3, make_a_group_without, 1)
        for rank in (0, 2):
            self.expect(outcomes[rank], "returned")
            self.assertRegex(outcomes[rank].value, "rank 1 has not come to the group of all ranks within 1 s")

    def test_who_waits_for_rank_0_in_vain_says_so(self):
        with tempfile.TemporaryDirectory() as folder:
            outcome = run_on_ranks(2, join_without_rank_0, folder, init=False)[1]
        self.expect(outcome, "raised", "rank 0 has not come to the store of torch.distributed within 1 s")


def fail_in_a_group(job, case):
    """Rank 1's group of the global ranks 1 and 2 fails because of 2."""
    group = dist.new_group([1, 2], timeout=datetime.timedelta(seconds=1))
    words = {"dead": r"rank 1 of the group \(global rank 2\) is dead",
             "late": r"rank 0 of the group \(global rank 1\) waited for rank 1 of the group \(global rank 2\)",
             "differs": r"called .*\(ranks of the group of global ranks 1, 2\)"}[case]
    if job.rank == 1:
        with job.assertRaisesRegex(RuntimeError, words):
            dist.all_reduce(torch.ones(4), group=group)
        job.mark("failed")
    elif case == "dead" and job.rank == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    elif case == "differs" and job.rank == 2:
        with job.assertRaises(RuntimeError):
            dist.all_reduce(torch.ones(5), group=group)
    else:
        job.await_mark("failed")


def make_a_group_without(job, missing):
    if job.rank == missing:
        for rank in range(job.world):
            if rank != missing:
                job.await_mark(f"failed {rank}")
        return None
    try:
        dist.new_group(timeout=datetime.timedelta(seconds=1))
    except RuntimeError as error:
        return str(error)
    finally:
        job.mark(f"failed {job.rank}")


def join_without_rank_0(job, folder):
    """In a store of its own. Rank 1 raises, so that no other test gets this process: PyTorch counts failed groups, too,
    and looks for the next one under another name than the other ranks."""
    if job.rank == 0:
        job.await_mark("failed")
        return
    try:
        dist.init_process_group(backend(), store=dist.FileStore(f"{folder}/store", job.world), rank=job.rank,
                                world_size=job.world, timeout=datetime.timedelta(seconds=1))
    finally:
        job.mark("failed")


# ---- ranks that do not come ------------------------------------------------------------------------------------------


class Timeouts(FailureTest):
    """Rank 1 never calls; the group's timeout is 1.5 s."""

    def check(self, call, names_rank=True):
        dist.barrier()
        if self.rank == 1:
            self.await_mark("gave up")
            return
        start = time.monotonic()
        with self.assertRaisesRegex(RuntimeError, r"(?i)time") as caught:
            call()
        seconds = time.monotonic() - start
        self.mark("gave up")
        self.assertTrue(1.2 < seconds < 4.5, f"after {seconds:.1f} s: {caught.exception}")
        if kBanyan and names_rank:
            self.assertRegex(str(caught.exception), r"\brank 1\b")

    @on_ranks(2, timeout=1.5)
    def test_all_reduce(self):
        self.check(lambda: dist.all_reduce(torch.ones(10)))

    @on_ranks(2, timeout=1.5)
    def test_a_large_all_reduce(self):
        self.check(lambda: dist.all_reduce(torch.ones(3_000_000)))

    @on_ranks(2, timeout=1.5)
    def test_waiting_for_a_handle(self):
        self.check(lambda: dist.all_reduce(torch.ones(10), async_op=True).wait())

    @on_ranks(2, timeout=1.5)
    def test_waiting_for_a_future(self):
        self.check(lambda: dist.all_reduce(torch.ones(10), async_op=True).get_future().wait())

    @on_ranks(2, timeout=1.5)
    def test_barrier(self):
        self.check(dist.barrier)

    @on_ranks(2, timeout=1.5)
    def test_recv(self):
        self.check(lambda: dist.recv(torch.ones(10), 1))

    @on_ranks(2, timeout=1.5)
    def test_recv_from_any_source(self):
        self.check(lambda: dist.recv(torch.ones(10)), names_rank=False)

    @on_ranks(2)
    def test_a_group_has_a_timeout_of_its_own(self):
        group = dist.new_group(timeout=datetime.timedelta(seconds=1.5))
        self.check(lambda: dist.all_reduce(torch.ones(10), group=group))

    @on_ranks(2, timeout=1.5)
    def test_time_that_passes_between_calls_does_not_count(self):
        for _ in range(2):
            dist.all_reduce(torch.ones(10))
            time.sleep(2)
        dist.barrier()

    @on_ranks(2, timeout=1.5)
    def test_a_wait_for_a_message_may_be_longer_than_the_groups_timeout(self):
        if self.rank == 1:
            time.sleep(2.5)
            dist.send(tensor_of(1, 10), 0)
        else:
            got = torch.zeros(10)
            dist.irecv(got, 1).wait(datetime.timedelta(seconds=10))
            self.same(got, tensor_of(1, 10))


# ---- calls that differ -----------------------------------------------------------------------------------------------


def call_differently(job, case):
    """Calls as `case` says on this rank; returns what was raised and after how long."""
    mine = kMismatches[case][min(job.rank, 1)]
    start = time.monotonic()
    try:
        mine()
        dist.barrier()  # who had done its part before it could know is told by its next call
    except (RuntimeError, ValueError) as error:
        return str(error), time.monotonic() - start
    return None


# Case: what rank 0 calls, what the others call, words that the messages must have.
kMismatches = {
    "lengths": (lambda: dist.all_reduce(torch.ones(100)), lambda: dist.all_reduce(torch.ones(300)),
                ("100|400", "300|1200")),
    "long lengths": (lambda: dist.all_reduce(torch.ones(1_000_000)), lambda: dist.all_reduce(torch.ones(3_000_000)),
                     ("1000000|4000000", "3000000|12000000")),
    "types": (lambda: dist.all_reduce(torch.ones(100)), lambda: dist.all_reduce(torch.ones(100, dtype=torch.int32)),
              ("float32", "int32")),
    "operations": (lambda: dist.all_reduce(torch.ones(100)),
                   lambda: dist.all_reduce(torch.ones(100), dist.ReduceOp.MAX),
                   ("(?i)sum", "(?i)max")),
    "calls": (lambda: dist.all_reduce(torch.ones(100)), lambda: dist.broadcast(torch.ones(100), 0),
              ("(?i)all_?reduce", "(?i)broadcast")),
    "roots": (lambda: dist.broadcast(torch.ones(100), 0), lambda: dist.broadcast(torch.ones(100), 1),
              ("(?i)root",)),
    "barrier and reduction": (dist.barrier, lambda: dist.all_reduce(torch.ones(100)),
                              ("(?i)barrier", "(?i)all_?reduce")),
}


@not_by_gloo("hangs, crashes or gives wrong results")
class Mismatches(FailureTest):
    def check(self, case, world):
        for outcome in run_on_ranks(world, call_differently, case):
            self.expect(outcome, "returned")
            self.assertIsNotNone(outcome.value, "nothing was raised")
            message, seconds = outcome.value
            self.assertLess(seconds, 6, message)
            for word in kMismatches[case][2]:
                self.assertRegex(message, word)

    def test_calls_that_differ_are_named(self):
        for case in kMismatches:
            for world in (2, 3):
                with self.case(case, world=world):
                    self.check(case, world)

    def test_messages_of_other_lengths_are_refused(self):
        outcomes = run_on_ranks(2, send_too_much)
        self.expect(outcomes[1], "returned")
        self.assertRegex(outcomes[1].value, "400|100")
        self.assertRegex(outcomes[1].value, "80|20")


def send_too_much(job):
    try:
        if job.rank == 0:
            dist.send(torch.ones(100), 1)
        else:
            dist.recv(torch.zeros(20), 0)
    except RuntimeError as error:
        return str(error)
    return "nothing was raised"


# ---- processes -------------------------------------------------------------------------------------------------------


@not_by_gloo("does not notice forks")
class Forks(FailureTest):
    @on_ranks(2)
    def test_a_forked_child_is_refused_and_its_parent_goes_on(self):
        dist.all_reduce(torch.ones(4))
        for call in (lambda: dist.all_reduce(torch.ones(4)), lambda: dist.send(torch.ones(4), 1 - self.rank),
                     dist.barrier):
            self.assertRegex(self.said_by_child(call), "(?i)fork")
        mine = tensor_of(self.rank, 100)
        dist.all_reduce(mine)
        self.same(mine, reduced(all_of(self.world, 100)))

    @on_ranks(2)
    def test_a_forked_child_makes_no_sums_of_sparse_tensors(self):
        def call():
            dist.all_reduce(torch.sparse_coo_tensor([[self.rank]], [1.0], (4,)))

        self.assertRegex(self.said_by_child(call), "(?i)fork")  # before there is a queue, and with one
        call()
        self.assertRegex(self.said_by_child(call), "(?i)fork")
        self.assertEqual(self.said_by_child(dist.destroy_process_group), "nothing was raised")
        call()

    @on_ranks(2)
    def test_a_child_that_only_ends_does_no_harm(self):
        child = os.fork()
        if child == 0:
            gc.collect()
            os._exit(0)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        dist.barrier()

    @on_ranks(2)
    def test_a_child_may_drop_the_group(self):
        self.assertEqual(self.said_by_child(dist.destroy_process_group), "nothing was raised")
        dist.barrier()

    def said_by_child(self, call):
        """The exception that `call` raises in a forked child."""
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                call()
                text = "nothing was raised"
            except BaseException as error:
                text = str(error) or repr(error)
            os.write(writer, text.encode())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as file:
            signal.signal(signal.SIGALRM, lambda *_: os.kill(child, signal.SIGKILL))
            signal.alarm(10)
            text = file.read()
            signal.alarm(0)
        self.assertEqual(os.waitpid(child, 0)[1], 0, f"the child did not end by itself; it said {text!r}")
        return text


def end_in_the_middle(job, how):
    """Ends this process as the interpreter ends at the end of a program, with its clean-up."""
    if how == "sparse":  # all make the queue
        dist.all_reduce(torch.sparse_coo_tensor([[0]], [1.0], (4,)))
    dist.barrier()
    works = []
    if how == "open":
        works = [dist.all_reduce(torch.ones(10_000), async_op=True) for _ in range(50)]
    elif how == "alone" and job.rank == 0:
        works = [dist.all_reduce(torch.ones(10_000), async_op=True)]
    elif how == "sparse" and job.rank == 0:
        works = [dist.all_reduce(torch.sparse_coo_tensor([[0]], [1.0], (4,)), async_op=True) for _ in range(3)]
    elif how == "receive" and job.rank == 0:
        works = [dist.irecv(torch.ones(10_000), 1)]
    elif how == "callback":
        works = [dist.all_reduce(torch.ones(10_000), async_op=True).get_future().then(lambda f: f.value()[0] + 1)]
    elif how == "profiled":
        with torch.autograd.profiler.profile():
            works = [dist.all_reduce(torch.ones(10_000), async_op=True)]
    ctypes.pythonapi.Py_Exit(7 if works is not None else 0)


class Ends(FailureTest):
    """A program that ends with calls open ends with its own exit code, soon; the group's timeout is 3 s."""

    def check(self, how):
        for outcome in run_on_ranks(2, end_in_the_middle, how, timeout=3, limit=15):
            self.assertEqual((outcome.how, outcome.code), ("died", 7), f"rank {outcome.rank}: {outcome.text}")
            self.assertLess(outcome.seconds, 8)

    def test_with_nothing_open(self):
        self.check("kept")

    def test_with_calls_open_that_all_have_made(self):
        self.check("open")

    def test_with_a_call_open_that_nobody_else_makes(self):
        self.check("alone")

    def test_with_sums_of_sparse_tensors_open_that_nobody_else_makes(self):
        self.check("sparse")

    def test_with_a_receive_open_that_nobody_answers(self):
        self.check("receive")

    @not_by_gloo("aborts: its thread waits for the interpreter that is no more")
    def test_with_a_callback_to_come(self):
        self.check("callback")

    def test_with_a_call_open_that_is_profiled(self):
        self.check("profiled")


# ---- by the functions of torch.distributed ---------------------------------------------------------------------------


@not_by_gloo("its own words")
@since(2, 14, "set_timeout, and backends that can be aborted")
class Ended(RankTest):
    @on_ranks(2)
    def test_a_groups_timeout_can_be_changed(self):
        import banyan_torch

        dist.set_timeout(datetime.timedelta(seconds=1))
        if self.rank == 1:
            self.await_mark("gave up")
            return
        before = time.monotonic()
        with self.assertRaises(banyan_torch.TimedOutError):
            dist.all_reduce(torch.ones(3))
        self.assertLess(time.monotonic() - before, 10)  # that of the group is 20
        self.mark("gave up")

    @on_ranks(2)
    def test_a_group_can_be_aborted(self):
        import banyan_torch

        if self.rank == 0:
            self.await_mark("waits")
            dist.distributed_c10d._abort_process_group()
            return
        work = dist.all_reduce(torch.ones(3), async_op=True)
        self.mark("waits")
        with self.assertRaisesRegex(banyan_torch.AbortedError, "rank 0 aborted"):
            work.wait()
