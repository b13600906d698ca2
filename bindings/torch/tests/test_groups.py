"""Process groups: how they are made, nested, used side by side, and left; objects; monitored barriers."""

import contextlib
import datetime
import gc
import itertools
import os
import re
import subprocess
import sys
import tempfile
import threading
import time

import torch
import torch.distributed as dist

from data import reduced, tensor_of
from ranks import (backend, free_port, kFolder, kTorch, not_by_gloo, on_ranks, RankTest, run_on_ranks, since,
                   tcp_store)

kCycles = int(os.environ.get("BANYAN_TEST_CYCLES", "500"))


def sum_in(test, group=None, salt=0):
    """Sums in a group and compares with the serial answer for the ranks that are in it."""
    members = dist.get_process_group_ranks(group) if group is not None else range(test.world)
    mine = tensor_of(test.rank, 100, salt=salt)
    dist.all_reduce(mine, group=group)
    test.same(mine, reduced([tensor_of(rank, 100, salt=salt) for rank in members]))


def is_member(group):
    return group is not dist.distributed_c10d.GroupMember.NON_GROUP_MEMBER


class Subgroups(RankTest):
    @on_ranks(4)
    def test_all_subsets_are_groups(self):
        subsets = [ranks for size in (1, 2, 3, 4) for ranks in itertools.combinations(range(4), size)]
        groups = [dist.new_group(list(ranks)) for ranks in subsets]
        for salt, (ranks, group) in enumerate(zip(subsets, groups)):
            with self.case(ranks):
                self.assertEqual(is_member(group), self.rank in ranks)
                if is_member(group):
                    self.assertEqual(dist.get_rank(group), ranks.index(self.rank))
                    self.assertEqual(dist.get_world_size(group), len(ranks))
                    sum_in(self, group, salt)
        sum_in(self)

    @on_ranks(4)
    def test_overlapping_groups_are_used_in_turn(self):
        groups = {ranks: dist.new_group(list(ranks)) for ranks in ((0, 1, 2), (1, 2, 3), (0, 3))}
        for salt in range(20):
            for ranks, group in groups.items():
                if self.rank in ranks:
                    sum_in(self, group, salt)
            sum_in(self, salt=salt)

    @on_ranks(3, 4)
    def test_roots_and_peers_are_global_ranks(self):
        members = list(range(1, self.world))
        group = dist.new_group(members)
        if not is_member(group):
            return
        for root in members:
            mine = tensor_of(self.rank, 10)
            dist.broadcast(mine, root, group=group)
            self.same(mine, tensor_of(root, 10))
            mine = tensor_of(self.rank, 10)
            dist.reduce(mine, root, group=group)
            if self.rank == root:
                self.same(mine, reduced([tensor_of(rank, 10) for rank in members]))
            everyone = [torch.zeros(10) for _ in members] if self.rank == root else None
            dist.gather(tensor_of(self.rank, 10), everyone, root, group=group)
            for rank, tensor in zip(members, everyone or []):
                self.same(tensor, tensor_of(rank, 10))
            got = torch.zeros(10)
            parts = [tensor_of(rank, 10, salt=5) for rank in members] if self.rank == root else None
            dist.scatter(got, parts, root, group=group)
            self.same(got, tensor_of(self.rank, 10, salt=5))
        if self.rank == 1:
            dist.send(tensor_of(1, 10), 2, group=group)
        elif self.rank == 2:
            got = torch.zeros(10)
            dist.recv(got, 1, group=group)
            self.same(got, tensor_of(1, 10))

    @on_ranks(1, 3)
    def test_a_group_may_have_one_member(self):
        groups = [dist.new_group([rank]) for rank in range(self.world)]
        mine = groups[self.rank]
        self.assertEqual(dist.get_world_size(mine), 1)
        sum_in(self, mine)
        got = [torch.zeros(100)]
        dist.all_gather(got, tensor_of(self.rank, 100), group=mine)
        self.same(got[0], tensor_of(self.rank, 100))
        dist.barrier(mine)

    @on_ranks(3)
    def test_who_is_not_in_a_group_gets_nothing_from_it(self):
        group = dist.new_group([0, 1])
        mine = tensor_of(self.rank, 10)
        if self.rank == 2:
            self.assertIsNone(dist.all_reduce(mine, group=group, async_op=True))
            self.same(mine, tensor_of(2, 10))
            self.assertEqual(dist.get_rank(group), -1)
        else:
            dist.all_reduce(mine, group=group)
            self.same(mine, reduced([tensor_of(rank, 10) for rank in (0, 1)]))

    # Nobody leaves: on PyTorch 2.6 the destruction of the groups has hung, about once in 13 runs. A program with two
    # Gloo groups and without Banyan hangs in the same place; that Gloo is the cause here, too, is likely, not proven.
    @on_ranks(2, leaves=False)
    def test_groups_of_two_backends_live_side_by_side(self):
        gloo = dist.new_group(backend="gloo")
        for salt in range(10):
            sum_in(self, salt=salt)
            sum_in(self, gloo, salt)
        self.assertEqual(dist.get_backend(gloo), "gloo")
        self.assertEqual(dist.get_backend(), backend())

    @on_ranks(3)
    def test_two_threads_use_overlapping_groups_at_once(self):
        groups = [dist.new_group([0, 1, 2]), dist.new_group([1, 2])]
        problems = []

        def use(group):
            try:
                for salt in range(100):
                    sum_in(self, group, salt)
            except BaseException as error:
                problems.append(error)

        threads = [threading.Thread(target=use, args=(group,)) for group in groups if is_member(group)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for problem in problems:
            raise problem

    @on_ranks(2, 3)
    def test_groups_have_names_sizes_and_backends(self):
        group = dist.distributed_c10d._get_default_group()
        name = backend() if kTorch < (2, 0) or backend() == "gloo" else "custom"  # to PyTorch 2 all strangers are
        self.assertEqual((group.rank(), group.size(), group.name()), (self.rank, self.world, name))
        self.assertEqual(dist.get_backend(), backend())
        self.assertEqual((dist.get_rank(), dist.get_world_size()), (self.rank, self.world))


@since(2, 14, "groups that are split and merged")
class Splits(RankTest):
    """torch.distributed does not know these groups, whose own methods are called here."""

    def sum_of(self, group, values):
        mine = torch.full((1000,), float(values[group.rank()]))
        group.allreduce([mine]).wait()
        self.same(mine, torch.full((1000,), float(sum(values))))

    @on_ranks(2, 4)
    def test_a_group_is_split_in_two(self):
        half = self.world // 2
        ranks = list(range(half)) if self.rank < half else list(range(half, self.world))
        group = dist.group.WORLD.split_group(ranks)
        self.assertEqual((group.rank(), group.size()), (ranks.index(self.rank), half))
        for _ in range(3):
            self.sum_of(group, ranks)
        sum_in(self)

    @on_ranks(4)
    def test_ranks_come_in_the_order_that_is_asked_for(self):
        group = dist.group.WORLD.split_group([3, 1, 0])
        if self.rank == 2:
            self.assertIsNone(group)
        else:
            self.assertEqual(group.rank(), [3, 1, 0].index(self.rank))
            mine = torch.full((10,), float(self.rank))
            group.broadcast(mine, root=0).wait()
            self.same(mine, torch.full((10,), 3.0))
        sum_in(self)

    @on_ranks(4)
    def test_what_was_split_can_be_split_again(self):
        first = dist.group.WORLD.split_group([3, 2, 1])
        if first is not None:
            second = first.split_group([2, 0])  # the ranks 1 and 3 of all
            self.assertEqual(second is None, self.rank == 2)
            if second is not None:
                self.assertEqual(second.rank(), [1, 3].index(self.rank))
                self.sum_of(second, [1, 3])
            self.sum_of(first, [3, 2, 1])
        sum_in(self)

    @on_ranks(3)
    def test_it_has_the_name_and_the_timeout_that_are_asked_for(self):
        group = dist.group.WORLD.split_group([0, 1], timeout=datetime.timedelta(seconds=77), group_name="a name",
                                             group_desc="a description")
        if group is not None:
            self.assertEqual((group.group_name, group.group_desc), ("a name", "a description"))
            options = group._get_backend(torch.device("cpu")).options
            self.assertEqual(options._timeout, datetime.timedelta(seconds=77))
        again = dist.group.WORLD.split_group([0, 1], group_name="a name")  # the same name anew
        if again is not None:
            self.sum_of(again, [0, 1])
            self.sum_of(group, [0, 1])

    @on_ranks(2)
    def test_the_timeout_counts(self):
        group = dist.group.WORLD.split_group([0, 1], timeout=datetime.timedelta(milliseconds=300))
        if self.rank == 0:
            with self.assertRaisesRegex(RuntimeError, r"(?i)timed out|nothing has moved for 300 ms"):
                group.allreduce([torch.ones(10)]).wait()
        dist.barrier()

    @on_ranks(2, 4)
    def test_groups_merge(self):
        """Who comes first is the first rank. Without a name of its own, the new group has a different one on each side,
        which only its splits mind."""
        half = self.world // 2
        part = dist.group.WORLD.split_group(list(range(half)) if self.rank < half else list(range(half, self.world)))
        for name in (None, "merged"):
            merged = part.merge_remote_group(dist.PrefixStore(f"store of {name}", self.store), self.world,
                                             datetime.timedelta(seconds=60), group_name=name)
            self.assertEqual(merged.size(), self.world)
            mine = torch.full((1000,), 2.0 ** self.rank)
            merged.allreduce([mine]).wait()
            self.same(mine, torch.full((1000,), 2.0 ** self.world - 1))
        pair = merged.split_group([1, 0])
        if pair is not None:
            self.assertEqual(pair.rank(), 1 - merged.rank())
            mine = torch.full((10,), float(merged.rank()))
            pair.broadcast(mine, root=0).wait()
            self.same(mine, torch.ones(10))
        sum_in(self)


class Lives(RankTest):
    limit = 240

    @on_ranks(2, 3)
    def test_a_group_is_destroyed_and_another_made(self):
        for salt in range(5):
            group = dist.new_group([0, 1])
            if is_member(group):
                sum_in(self, group, salt)
                dist.destroy_process_group(group)
                del group
                gc.collect()
            sum_in(self, salt=salt)

    @on_ranks(2, 3, init=False)
    def test_the_world_is_destroyed_and_made_again(self):
        for life in range(5):
            dist.init_process_group(backend(), store=dist.PrefixStore(f"life {life}", self.store), rank=self.rank,
                                    world_size=self.world)
            sum_in(self, salt=life)
            dist.destroy_process_group()
            self.assertFalse(dist.is_initialized())

    @on_ranks(2, init=False, limit=200)
    def test_many_lives_leave_nothing_behind(self):
        """Neither descriptors nor memory nor threads grow, once the first lives have warmed everything up."""

        def holdings():
            gc.collect()
            with open("/proc/self/statm", encoding="ascii") as file:
                resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            return len(os.listdir("/proc/self/fd")), resident, len(os.listdir("/proc/self/task"))

        def live(life):
            dist.init_process_group(backend(), store=dist.PrefixStore(f"life {life}", self.store), rank=self.rank,
                                    world_size=self.world)
            sum_in(self, salt=life)
            dist.destroy_process_group()

        warm = min(50, kCycles // 2)
        for life in range(warm):
            live(life)
        before = holdings()
        for life in range(warm, kCycles):
            live(life)
        after = holdings()
        self.assertLessEqual(after[0], before[0], "open descriptors grew")
        self.assertLess(after[1] - before[1], 20e6, "memory grew")
        self.assertLessEqual(after[2], before[2], "threads grew")


class Meetings(RankTest):
    """The ways by which ranks meet."""

    def meet(self, how, world):
        with tempfile.TemporaryDirectory() as folder, free_port() as port:
            outcomes = run_on_ranks(world, meet_and_sum, how, port, folder, init=False)
        for outcome in outcomes:
            self.assertEqual(outcome.how, "returned", outcome.text)

    def test_by_the_environment(self):
        for world in (1, 3):
            self.meet("env", world)

    def test_by_a_file(self):
        for world in (1, 3):
            self.meet("file", world)

    def test_by_tcp(self):
        for world in (1, 3):
            self.meet("tcp", world)

    def test_by_stores_of_ones_own(self):
        for how in ("file store", "tcp store"):
            self.meet(how, 3)

    def run_program(self, *command, environment=None):
        """torchrun finds a free port and lets go of it before rank 0 listens there, so others may come between."""
        for _ in range(3):
            result = subprocess.run([sys.executable, *command], env={**os.environ, **(environment or {})}, timeout=110,
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            if result.returncode == 0 or "Address already in use" not in result.stdout:
                break
        self.assertEqual(result.returncode, 0, result.stdout)
        return sorted(re.findall(r"rank \d of \d: sum \d+", result.stdout))

    def test_by_torchrun(self):
        """Redirects of a rank that does not exist: torch 1.13 cannot parse "none" under Python 3.11."""
        with tempfile.TemporaryDirectory() as folder, free_port() as port:
            torchrun = "banyan_torch.run" if backend() == "banyan" else "torch.distributed.run"
            lines = self.run_program("-m", torchrun, "--nproc_per_node=2", "--monitor_interval=1",
                                     f"--master_port={port}", f"--log_dir={folder}", "--redirects=9:1",
                                     "--tee=9:1", str(kFolder / "programs" / "sums.py"))
        self.assertEqual(lines, ["rank 0 of 2: sum 3", "rank 1 of 2: sum 3"])

    def test_by_spawn(self):
        with free_port() as port:
            lines = self.run_program(str(kFolder / "programs" / "sums.py"), "2", str(port))
        self.assertEqual(lines, ["rank 0 of 2: sum 3", "rank 1 of 2: sum 3"])


def meet_and_sum(job, how, port, folder):
    """Body of Meetings: meets as `how` says, and sums."""
    numbers = {"rank": job.rank, "world_size": job.world}
    if how == "env":
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(job.rank),
                          WORLD_SIZE=str(job.world))
        arguments = {}
    elif how == "file":
        arguments = {"init_method": f"file://{folder}/meeting", **numbers}
    elif how == "tcp":
        arguments = {"init_method": f"tcp://127.0.0.1:{port}", **numbers}
    elif how == "file store":
        arguments = {"store": dist.FileStore(f"{folder}/store", job.world), **numbers}
    else:
        arguments = {"store": tcp_store("127.0.0.1", port, job.rank == 0, world_size=job.world), **numbers}
    dist.init_process_group(backend(), **arguments)
    sum_in(job)
    sum_in(job, dist.new_group())
    dist.barrier()
    job.mark(f"left {job.rank}")
    for rank in range(job.world):  # rank 0 may hold the store by which the others are still leaving
        job.await_mark(f"left {rank}")
    dist.destroy_process_group()


class Objects(RankTest):
    def thing(self, rank):
        return {"rank": rank, "text": "x" * (rank * 1000), "list": [rank, None, (1.5, "y")]}

    @on_ranks(1, 2, 3, 4)
    def test_all_ranks_gather_objects(self):
        everyone = [None] * self.world
        dist.all_gather_object(everyone, self.thing(self.rank))
        self.assertEqual(everyone, [self.thing(rank) for rank in range(self.world)])

    @on_ranks(1, 2, 3)
    def test_one_rank_gathers_objects(self):
        for root in range(self.world):
            everyone = [None] * self.world if self.rank == root else None
            dist.gather_object(self.thing(self.rank), everyone, root)
            if self.rank == root:
                self.assertEqual(everyone, [self.thing(rank) for rank in range(self.world)])

    @on_ranks(1, 2, 3)
    def test_one_rank_broadcasts_objects(self):
        for root in range(self.world):
            things = [self.thing(root), "text", 7] if self.rank == root else [None] * 3
            dist.broadcast_object_list(things, root)
            self.assertEqual(things, [self.thing(root), "text", 7])

    @on_ranks(1, 2, 3)
    def test_one_rank_scatters_objects(self):
        for root in range(self.world):
            got = [None]
            parts = [self.thing(rank) for rank in range(self.world)] if self.rank == root else None
            dist.scatter_object_list(got, parts, root)
            self.assertEqual(got, [self.thing(self.rank)])

    @on_ranks(3)
    def test_subgroups_exchange_objects(self):
        group = dist.new_group([1, 2])
        if is_member(group):
            everyone = [None, None]
            dist.all_gather_object(everyone, self.thing(self.rank), group=group)
            self.assertEqual(everyone, [self.thing(1), self.thing(2)])
            things = [self.thing(2)] if self.rank == 2 else [None]
            dist.broadcast_object_list(things, 2, group=group)
            self.assertEqual(things, [self.thing(2)])


class MonitoredBarriers(RankTest):
    @on_ranks(1, 2, 3, 4)
    def test_all_pass_when_all_come(self):
        for _ in range(3):
            dist.monitored_barrier(timeout=datetime.timedelta(seconds=10))
            dist.monitored_barrier(wait_all_ranks=True)
        if self.world > 2:
            group = dist.new_group([1, 2])
            if is_member(group):
                dist.monitored_barrier(group)
        sum_in(self)

    @on_ranks(3)
    def test_nobody_passes_before_the_last_has_come(self):
        if self.rank == 1:
            time.sleep(0.2)
            self.mark("came")
        dist.monitored_barrier(timeout=datetime.timedelta(seconds=10))
        self.assertTrue(self.marked("came"))

    @on_ranks(4)
    def test_it_names_the_first_rank_that_is_missing(self):
        if self.rank in (1, 2):
            self.await_mark("missed")
            return
        with contextlib.ExitStack() as done:
            done.callback(self.mark, "missed")
            start = time.monotonic()
            with self.assertRaises(RuntimeError) as caught:
                dist.monitored_barrier(timeout=datetime.timedelta(seconds=1))
            self.assertIn("Rank 1 failed to pass monitoredBarrier in 1000 ms" if self.rank == 0 else
                          "Rank 3 successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0",
                          str(caught.exception))
            self.assertLess(time.monotonic() - start, 4)

    @on_ranks(4)
    def test_it_names_all_ranks_that_are_missing_if_asked(self):
        if self.rank in (1, 3):
            self.await_mark("missed")
            return
        with self.assertRaises(RuntimeError) as caught:
            dist.monitored_barrier(timeout=datetime.timedelta(seconds=1), wait_all_ranks=True)
        if self.rank == 0:
            self.mark("missed")
            self.assertIn("Ranks 1, 3 failed to pass monitoredBarrier in 1000 ms", str(caught.exception))

    @not_by_gloo("repeats nothing of what rank 0 has found")
    @on_ranks(3)
    def test_all_repeat_the_verdict_of_rank_0_even_if_it_comes_late_itself(self):
        """Only rank 0 knows who is missing, and its time begins when it comes."""
        for wait_all_ranks in (False, True):
            with self.case(wait_all_ranks=wait_all_ranks):
                name = f"judged {wait_all_ranks}"
                if self.rank == 0:
                    time.sleep(0.7)
                if self.rank == 2:
                    self.await_mark(name)
                with self.assertRaises(RuntimeError) as caught:
                    dist.monitored_barrier(timeout=datetime.timedelta(seconds=0.6), wait_all_ranks=wait_all_ranks)
                message = str(caught.exception)
                self.assertRegex(message, "Ranks? 2 failed to pass monitoredBarrier in 600 ms")
                self.assertNotIn("Rank 0 failed", message)
                self.assertEqual(caught.exception.code, "timed_out")
                if self.rank == 0:
                    self.mark(name)  # rank 2, which comes only now, finds the verdict waiting
        sum_in(self)

    @on_ranks(2)
    def test_without_time_it_is_over_at_once(self):
        for seconds in (0, 0.0005):
            start = time.monotonic()
            if self.rank == 0:
                with self.assertRaises(RuntimeError) as caught:
                    dist.monitored_barrier(timeout=datetime.timedelta(seconds=seconds))
                self.assertIn("Rank 0 timed out in monitoredBarrier", str(caught.exception))
                if backend() == "banyan":
                    self.assertIn("Rank 1 failed to pass monitoredBarrier", str(caught.exception))
            self.assertLess(time.monotonic() - start, 2)

    @not_by_gloo("knows the ranks of the group only")
    @on_ranks(3)
    def test_in_a_group_it_names_global_ranks_too(self):
        group = dist.new_group([1, 2])
        if self.rank == 1:
            with self.assertRaisesRegex(RuntimeError, r"Rank 1 failed to pass .* in 100 ms \(global rank 2\)"):
                dist.monitored_barrier(group, timeout=datetime.timedelta(seconds=0.1))

    @not_by_gloo("goes by the name of its backend")
    @on_ranks(2)
    def test_it_knows_a_group_with_several_backends(self):
        """As PyTorch 2 has them: its backend's name says nothing of what serves CPU tensors."""
        if kTorch >= (2, 0):
            several = dist.new_group(backend=f"cpu:{backend()},cuda:gloo")
            self.assertNotEqual(dist.get_backend(several), backend())
            dist.monitored_barrier(several, timeout=datetime.timedelta(seconds=10))
            return

        class Several:
            def _get_backend(self, device):
                assert device == torch.device("cpu")
                return dist.group.WORLD

        several = Several()
        names = dist.distributed_c10d._pg_map
        names[several] = ("undefined", None)
        dist.distributed_c10d._pg_group_ranks[several] = {0: 0, 1: 1}
        try:
            dist.monitored_barrier(several, timeout=datetime.timedelta(seconds=10))
        finally:
            del names[several], dist.distributed_c10d._pg_group_ranks[several]
