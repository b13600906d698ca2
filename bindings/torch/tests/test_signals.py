"""Python's signals while a rank waits for others: handlers run at once, and what they raise comes out of the wait."""

import datetime
import fcntl
import os
import shutil
import signal
import tempfile
import threading
import time

import torch
import torch.distributed as dist

import banyan_torch
from data import all_of, reduced, tensor_of
from ranks import RankTest, not_by_gloo, on_ranks

kMost = 2.0  # seconds until a handler runs: a quarter of one, and what a crowded machine takes


def send_soon(number):
    """This process gets the signal in a moment, when its main thread waits."""
    threading.Timer(0.3, os.kill, (os.getpid(), number)).start()


def calls_of(job):
    """Calls that wait for the other rank."""
    return {
        "all_reduce": lambda: dist.all_reduce(torch.ones(4)),
        "wait": lambda: dist.all_reduce(torch.ones(4), async_op=True).wait(),
        "wait for some time": lambda: dist.all_reduce(torch.ones(4), async_op=True).wait(datetime.timedelta(seconds=30)),
        "messages": lambda: dist.recv(torch.ones(4), 1) if job.rank == 0 else dist.send(torch.ones(4), 0),
        "barrier": dist.barrier,
        "monitored_barrier": lambda: dist.monitored_barrier(timeout=datetime.timedelta(seconds=30)),
    }


def join_two(job, name):
    """A group of two processes by a store of the test's own, as init_process_group makes one."""
    return banyan_torch._C.create(dist.PrefixStore(name, job.store), job.rank, 2, name, [], {})


class AskedStore(dist.Store):
    """A store in a folder, at which nobody can wait."""

    def __init__(self, folder):
        super().__init__()
        self.folder = folder

    def place(self, key):
        return os.path.join(self.folder, key.replace("/", "%"))

    def set(self, key, value):
        with tempfile.NamedTemporaryFile(dir=self.folder, delete=False) as file:
            file.write(value)
        os.rename(file.name, self.place(key))

    def get(self, key):
        with open(self.place(key), "rb") as file:
            return file.read()

    def check(self, keys):
        return all(os.path.exists(self.place(key)) for key in keys)

    def add(self, key, amount):
        with open(os.path.join(self.folder, "lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            sum_ = (int(self.get(key)) if self.check([key]) else 0) + amount
            self.set(key, str(sum_).encode())
            return sum_

    def wait(self, keys, timeout=None):
        raise AssertionError(f"somebody waits for {keys}")


@not_by_gloo("lets handlers wait until its call is over")
class Signals(RankTest):
    @on_ranks(2)
    def test_a_handler_runs_while_a_rank_waits_for_others_to_join(self):
        if self.rank == 0:
            sent = time.monotonic() + 0.3
            signal.signal(signal.SIGUSR1, lambda *_: self.mark("handled", time.monotonic() - sent))
            send_soon(signal.SIGUSR1)
        else:
            self.assertLess(float(self.await_mark("handled")), kMost)  # or rank 0 waits for ever
        join_two(self, "late")

    @on_ranks(2)
    def test_joining_asks_the_store_and_does_not_wait_at_it(self):
        """A TCPStore of PyTorch 1.13 hangs when what it waits for comes just after the wait has ended."""
        if self.rank == 0:
            self.mark("folder", tempfile.mkdtemp())
        folder = self.await_mark("folder")
        if self.rank == 0:
            time.sleep(0.7)
        group = banyan_torch._C.create(AskedStore(folder), self.rank, 2, "asked", [], {})
        self.assertEqual((group.rank(), group.size()), (self.rank, 2))
        dist.barrier()
        if self.rank == 0:
            shutil.rmtree(folder)

    @on_ranks(2)
    def test_ctrl_c_ends_joining_and_the_others_learn_who_gave_up(self):
        if self.rank == 0:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            send_soon(signal.SIGINT)
            with self.assertRaises(KeyboardInterrupt):
                join_two(self, "given up")
            self.mark("interrupted")
        else:
            self.await_mark("interrupted")
            with self.assertRaisesRegex(Exception, r"rank 0 \(process .* gave up joining"):
                join_two(self, "given up")

    @on_ranks(2)
    def test_a_handler_runs_while_a_call_waits_and_the_call_goes_on(self):
        for name, call in calls_of(self).items():
            with self.case(name):
                if self.rank == 0:
                    sent = time.monotonic() + 0.3
                    signal.signal(signal.SIGUSR1, lambda *_: self.mark(f"handled {name}", time.monotonic() - sent))
                    send_soon(signal.SIGUSR1)
                else:
                    self.assertLess(float(self.await_mark(f"handled {name}")), kMost)  # or rank 0 waits for ever
                call()
        mine = tensor_of(self.rank, 10)
        dist.all_reduce(mine)
        self.same(mine, reduced(all_of(2, 10)))

    @on_ranks(2)
    def test_ctrl_c_ends_the_wait_and_the_group_stays_in_step(self):
        mine = tensor_of(self.rank, 1000)
        if self.rank == 0:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            send_soon(signal.SIGINT)
            work = dist.all_reduce(mine, async_op=True)
            with self.assertRaises(KeyboardInterrupt):
                work.wait()
            self.assertFalse(work.is_completed())
            self.mark("interrupted")
            work.wait()  # once more
        else:
            self.await_mark("interrupted")
            dist.all_reduce(mine)
        self.same(mine, reduced(all_of(2, 1000)))

        blocked = tensor_of(self.rank, 1000, salt=1)
        if self.rank == 0:
            send_soon(signal.SIGINT)
            with self.assertRaises(KeyboardInterrupt):
                dist.all_reduce(blocked)
            self.mark("interrupted again")
        else:
            self.await_mark("interrupted again")
            dist.all_reduce(blocked)
        dist.barrier()  # behind the call that goes on in the background
        self.same(blocked, reduced(all_of(2, 1000, salt=1)))

    @on_ranks(2)
    def test_other_threads_wait_as_ever(self):
        mine = tensor_of(self.rank, 10)
        thread = threading.Thread(target=dist.all_reduce, args=(mine,))
        if self.rank == 1:
            self.await_mark("waits")
        thread.start()
        if self.rank == 0:
            time.sleep(0.6)  # more than two looks
            self.mark("waits")
        thread.join()
        self.same(mine, reduced(all_of(2, 10)))
