"""Tensors in shared memory: banyan_torch.use_shared_memory()."""

import gc
import os
import time

import torch
import torch.distributed as dist

from data import reduced, tensor_of
from ranks import RankTest, not_by_gloo, on_ranks

kLarge = 1 << 16  # elements of float32: 256 KiB


@not_by_gloo("has no shared memory")
class SharedMemory(RankTest):
    def setUp_memory(self):
        import banyan_torch

        gc.collect()
        banyan_torch.trim_shared_memory()
        banyan_torch.use_shared_memory()
        self.addCleanup(self.tear_down_memory)
        return banyan_torch

    def tear_down_memory(self):
        import banyan_torch

        banyan_torch.use_shared_memory(False)
        gc.collect()
        banyan_torch.trim_shared_memory()

    def used(self):
        import banyan_torch

        return banyan_torch.shared_memory_usage()[0]

    @on_ranks(1)
    def test_only_large_tensors_are_made_there_and_only_while_it_is_asked_for(self):
        module = self.setUp_memory()
        before = self.used()
        small, large = torch.ones(100), torch.ones(kLarge)
        self.assertGreaterEqual(self.used() - before, 4 * kLarge)
        self.assertLess(self.used() - before, 8 * kLarge)
        module.use_shared_memory(False)
        other = torch.ones(kLarge)
        self.assertLess(self.used() - before, 8 * kLarge)
        self.same(large + other, torch.full((kLarge,), 2.0))
        self.same(small, torch.ones(100))
        del large
        self.assertEqual(self.used(), before)

    @on_ranks(1)
    def test_memory_of_dropped_tensors_serves_the_next_and_can_be_given_back(self):
        module = self.setUp_memory()
        for turn in range(50):
            tensor = torch.full((kLarge,), float(turn))
        used, kept = module.shared_memory_usage()
        self.assertLessEqual(used + kept, 64 * kLarge)  # 4 MiB at least are taken at once
        del tensor
        module.trim_shared_memory()
        self.assertEqual(module.shared_memory_usage()[1], 0)

    @on_ranks(1)
    def test_tensors_keep_what_is_written_to_them(self):
        self.setUp_memory()
        tensors = [torch.full((kLarge + 977 * i,), float(i)) for i in range(100)]
        del tensors[::3]
        tensors += [torch.full((kLarge,), -1.0) for _ in range(30)]
        for tensor in tensors:
            self.assertTrue(bool((tensor == tensor[0]).all()))
        grown = torch.ones(kLarge)
        grown.resize_(4 * kLarge)
        self.same(grown[:kLarge], torch.ones(kLarge))

    @on_ranks(2, 3)
    def test_collectives_read_them_and_parts_of_them(self):
        self.setUp_memory()
        whole = tensor_of(self.rank, 3 * kLarge)
        for part in (whole, whole[5:-7], whole[kLarge:2 * kLarge]):
            total = part.clone()
            dist.all_reduce(total)
            begin = part.storage_offset()
            expected = sum(tensor_of(rank, 3 * kLarge)[begin:begin + len(part)] for rank in range(self.world))
            self.same(total, expected)
        lists = [torch.zeros(kLarge) for _ in range(self.world)]
        dist.all_gather(lists, whole[:kLarge].contiguous())
        for rank, got in enumerate(lists):
            self.same(got, tensor_of(rank, 3 * kLarge)[:kLarge])

    @on_ranks(2)
    def test_some_ranks_may_have_them_and_others_not(self):
        if self.rank == 1:
            self.setUp_memory()
        for size in (kLarge, 20 * kLarge):
            total = tensor_of(self.rank, size)
            dist.all_reduce(total)
            self.same(total, tensor_of(0, size) + tensor_of(1, size))

    @on_ranks(2)
    def test_peers_follow_when_memory_comes_and_goes(self):
        module = self.setUp_memory()
        for turn in range(30):
            total = tensor_of(self.rank, kLarge * (1 + turn % 5), salt=turn)
            dist.all_reduce(total)
            self.same(total, sum(tensor_of(rank, len(total), salt=turn) for rank in range(2)))
            del total
            if turn % 3 == 0:
                module.trim_shared_memory()

    @on_ranks(1)
    def test_what_a_forked_child_makes_is_its_own(self):
        self.setUp_memory()
        free = torch.zeros(kLarge)
        del free  # memory that the parent will use again
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            mine = [torch.full((kLarge,), 7.0) for _ in range(20)]
            os.write(writer, b"made")
            os._exit(0 if all(bool((each == 7).all()) for each in mine) else 1)
        parents = [torch.full((kLarge,), 5.0) for _ in range(20)]
        os.read(reader, 4)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        os.close(reader)
        os.close(writer)
        for each in parents:
            self.assertTrue(bool((each == 5).all()))


@not_by_gloo("measures Banyan alone")
class Groups(RankTest):
    """Groups that were used for a little and are kept, as programs of many dimensions make them."""

    def holdings(self):
        """Bytes of shared memory, other bytes, and descriptors of this process."""
        gc.collect()
        with open("/proc/self/status", encoding="ascii") as file:
            sizes = {line.split(":")[0]: 1024 * int(line.split()[1]) for line in file if line.startswith("Rss")}
        return sizes["RssShmem"], sizes["RssAnon"], len(os.listdir("/proc/self/fd"))

    def wait_for_agents(self):
        """Until they have connected with each other over every address, which they do in the background."""
        end, seen = time.monotonic() + 5, None
        while time.monotonic() < end:
            now = len(os.listdir("/proc/self/fd"))
            if now == seen:
                break
            seen = now
            time.sleep(0.3)
        dist.barrier()

    def check(self, shared_bytes, descriptors):
        count = 20
        warm = dist.new_group()
        dist.all_reduce(torch.ones(100), group=warm)
        self.wait_for_agents()
        before = self.holdings()
        groups = [dist.new_group() for _ in range(count)]
        for group in groups:
            dist.all_reduce(torch.ones(100), group=group)
            dist.barrier(group)
        after = self.holdings()
        dist.barrier()
        shared, own, open_files = (b - a for a, b in zip(before, after))
        self.assertLess(shared / count, shared_bytes, "bytes of shared memory of a group")
        self.assertLess(own / count, 150_000, "other bytes of a group")
        self.assertLessEqual(open_files / count, descriptors)

    @on_ranks(3, 8)
    def test_an_idle_group_holds_little_memory_and_no_descriptor(self):
        self.check(150_000, 0)

    @on_ranks(3)
    def test_over_tcp_it_holds_its_connections(self):
        os.environ["BANYAN_TRANSPORT"] = "tcp"
        self.check(100_000, 2 + 2)  # and two to be woken by

    @on_ranks(2)
    def test_a_group_takes_memory_as_it_is_used_and_works_with_all_of_it(self):
        group = dist.new_group()
        for count in (10, 1000, 5000, 100_000, 1_000_000, 3):
            mine = tensor_of(self.rank, count)
            dist.all_reduce(mine, group=group)
            self.same(mine, reduced([tensor_of(rank, count) for rank in range(2)]))
