"""Collectives that move data without changing it: broadcast, gather, scatter, all_gather, all_to_all, barrier."""

import time

import torch
import torch.distributed as dist

from data import all_of, kComplex, random_bits, tensor_of, types
from ranks import RankTest, not_by_gloo, on_ranks

kBothWays = (False, True)  # async_op


def outputs(world, shape, dtype=torch.float32):
    """Tensors to be filled, none of whose values is right yet."""
    return [torch.full(shape if isinstance(shape, tuple) else (shape,), 1, dtype=dtype) for _ in range(world)]


class Broadcast(RankTest):
    @on_ranks(1, 2, 3, 4, 5)
    def test_every_rank_has_what_the_root_had(self):
        for salt, dtype in enumerate(types()):
            for root in range(self.world):
                for async_op in kBothWays:
                    with self.case(dtype, root=root, async_op=async_op):
                        mine = tensor_of(self.rank, 321, dtype, salt)
                        self.finish(dist.broadcast(mine, root, async_op=async_op), async_op)
                        self.same(mine, tensor_of(root, 321, dtype, salt))

    @not_by_gloo("knows no complex numbers here")
    @on_ranks(2, 3)
    def test_complex_numbers_are_broadcast(self):
        for dtype in kComplex:
            mine = tensor_of(self.rank, (3, 4), dtype)
            dist.broadcast(mine, 1)
            self.same(mine, tensor_of(1, (3, 4), dtype))

    @on_ranks(2, 3)
    def test_all_tensors_of_a_rank_get_the_roots_tensor(self):
        """The list form that broadcast_multigpu uses."""
        options = dist.BroadcastOptions()
        options.rootRank, options.rootTensor = 1, 1
        mine = [tensor_of(self.rank, 40, salt=salt) for salt in range(3)]
        dist.distributed_c10d._get_default_group().broadcast(mine, options).wait()
        for tensor in mine:
            self.same(tensor, tensor_of(1, 40, salt=1))


class AllGather(RankTest):
    @on_ranks(1, 2, 3, 4, 5)
    def test_every_rank_has_what_all_ranks_had_in_their_order(self):
        for salt, dtype in enumerate((*types(), *kComplex)):
            for async_op in kBothWays:
                with self.case(dtype, async_op=async_op):
                    mine = tensor_of(self.rank, (5, 13), dtype, salt)
                    everyone = outputs(self.world, (5, 13), dtype)
                    self.finish(dist.all_gather(everyone, mine, async_op=async_op), async_op)
                    for rank, tensor in enumerate(everyone):
                        self.same(tensor, tensor_of(rank, (5, 13), dtype, salt))
                    self.same(mine, tensor_of(self.rank, (5, 13), dtype, salt))

    @on_ranks(2, 3)
    def test_several_inputs_of_a_rank_stand_side_by_side(self):
        """The list form that all_gather_multigpu uses: input i of rank r becomes output r * inputs + i of each list."""
        mine = [tensor_of(self.rank, 9, salt=salt) for salt in range(2)]
        lists = [outputs(2 * self.world, 9) for _ in mine]
        dist.distributed_c10d._get_default_group().allgather(lists, mine).wait()
        for tensors in lists:
            for at, tensor in enumerate(tensors):
                self.same(tensor, tensor_of(at // 2, 9, salt=at % 2))

    @on_ranks(2, 3)
    def test_outputs_may_be_views_of_one_tensor_and_the_input_one_of_them(self):
        everyone = torch.zeros(self.world, 6)
        everyone[self.rank] = tensor_of(self.rank, 6)
        dist.all_gather(list(everyone), everyone[self.rank])
        self.same(everyone, torch.stack(all_of(self.world, 6)))

    @not_by_gloo("has no all_gather_into_tensor")
    @on_ranks(1, 2, 3, 4, 5)
    def test_one_tensor_takes_all_of_them_joined_or_stacked(self):
        for salt, dtype in enumerate((*types(), *kComplex)):
            for gather in (dist.all_gather_into_tensor, dist._all_gather_base):
                for async_op in kBothWays:
                    with self.case(dtype, gather.__name__, async_op=async_op):
                        mine = tensor_of(self.rank, (3, 7), dtype, salt)
                        joined = torch.zeros(3 * self.world, 7, dtype=dtype)
                        stacked = torch.zeros(self.world, 3, 7, dtype=dtype)
                        self.finish(gather(joined, mine, async_op=async_op), async_op)
                        self.finish(gather(stacked, mine, async_op=async_op), async_op)
                        self.same(joined, torch.cat(all_of(self.world, (3, 7), dtype, salt)))
                        self.same(stacked, torch.stack(all_of(self.world, (3, 7), dtype, salt)))
                        self.same(mine, tensor_of(self.rank, (3, 7), dtype, salt))

    @not_by_gloo("has no all_gather_into_tensor")
    @on_ranks(2, 3)
    def test_the_input_may_be_a_part_of_the_one_output(self):
        joined = torch.zeros(10 * self.world)
        joined[10 * self.rank: 10 * self.rank + 10] = tensor_of(self.rank, 10)
        dist.all_gather_into_tensor(joined, joined[10 * self.rank: 10 * self.rank + 10])
        self.same(joined, torch.cat(all_of(self.world, 10)))

    @on_ranks(1, 2, 3, 4)
    def test_lists_of_tensors_are_gathered_together(self):
        shapes = ((2, 3), (1,), (), (40,))
        for dtype in (torch.float32, torch.int64, torch.complex64):
            for async_op in kBothWays:
                with self.case(dtype, async_op=async_op):
                    mine = [tensor_of(self.rank, shape, dtype, salt) for salt, shape in enumerate(shapes)]
                    everyone = [[torch.ones(shape, dtype=dtype) for shape in shapes] for _ in range(self.world)]
                    self.finish(dist.all_gather_coalesced(everyone, mine, async_op=async_op), async_op)
                    for rank, tensors in enumerate(everyone):
                        for salt, tensor in enumerate(tensors):
                            self.same(tensor, tensor_of(rank, shapes[salt], dtype, salt))


class GatherAndScatter(RankTest):
    @on_ranks(1, 2, 3, 4, 5)
    def test_the_root_gathers_what_all_ranks_had(self):
        for salt, dtype in enumerate(types()):
            for root in range(self.world):
                async_op = bool((salt + root) % 2)
                with self.case(dtype, root=root, async_op=async_op):
                    mine = tensor_of(self.rank, (4, 9), dtype, salt)
                    everyone = outputs(self.world, (4, 9), dtype) if self.rank == root else None
                    self.finish(dist.gather(mine, everyone, root, async_op=async_op), async_op)
                    for rank, tensor in enumerate(everyone or []):
                        self.same(tensor, tensor_of(rank, (4, 9), dtype, salt))
                    self.same(mine, tensor_of(self.rank, (4, 9), dtype, salt))

    @on_ranks(1, 2, 3, 4, 5)
    def test_each_rank_has_its_part_of_what_the_root_scattered(self):
        for salt, dtype in enumerate((*types(), *kComplex)):
            for root in range(self.world):
                async_op = bool((salt + root) % 2)
                with self.case(dtype, root=root, async_op=async_op):
                    mine = torch.zeros(4, 9, dtype=dtype)
                    parts = all_of(self.world, (4, 9), dtype, salt) if self.rank == root else None
                    self.finish(dist.scatter(mine, parts, root, async_op=async_op), async_op)
                    self.same(mine, tensor_of(self.rank, (4, 9), dtype, salt))
                    for rank, tensor in enumerate(parts or []):
                        self.same(tensor, tensor_of(rank, (4, 9), dtype, salt))


class AllToAll(RankTest):
    @on_ranks(1, 2, 3, 4, 5)
    def test_equal_splits_transpose_blocks_and_ranks(self):
        for dtype in (*types(), *kComplex):
            for async_op in kBothWays:
                with self.case(dtype, async_op=async_op):
                    mine = tensor_of(self.rank, (3 * self.world, 2), dtype)
                    result = torch.zeros_like(mine)
                    self.finish(dist.all_to_all_single(result, mine, async_op=async_op), async_op)
                    theirs = all_of(self.world, (3 * self.world, 2), dtype)
                    self.same(result, torch.cat([tensor[3 * self.rank: 3 * self.rank + 3] for tensor in theirs]))
                    self.same(mine, theirs[self.rank])

    def splits(self, salt):
        """splits()[from][to]: rows that one rank sends to another; some none, and some ranks send nothing at all."""
        table = (random_bits(0, self.world * self.world, salt) % 4).reshape(self.world, self.world)
        table[salt % self.world] = 0
        table[:, (salt + 1) % self.world] *= salt % 2
        return table

    @on_ranks(1, 2, 3, 4, 5)
    def test_uneven_splits_send_each_rank_its_rows(self):
        for salt in range(6):
            rows = self.splits(salt)
            for dtype in (torch.float32, torch.int64, torch.uint8):
                with self.case(dtype, rows=rows.tolist()):
                    theirs = [tensor_of(rank, (int(rows[rank].sum()), 3), dtype) for rank in range(self.world)]
                    mine = theirs[self.rank].clone()
                    result = torch.zeros(int(rows[:, self.rank].sum()), 3, dtype=dtype)
                    async_op = bool(salt % 2)
                    self.finish(dist.all_to_all_single(result, mine, rows[:, self.rank].tolist(),
                                                       rows[self.rank].tolist(), async_op=async_op), async_op)
                    parts = [tensor.split(rows[rank].tolist())[self.rank] for rank, tensor in enumerate(theirs)]
                    self.same(result, torch.cat(parts))
                    self.same(mine, theirs[self.rank])

    @on_ranks(2, 3)
    def test_one_side_may_give_its_splits_alone(self):
        mine = tensor_of(self.rank, (2 * self.world, 2))
        result = torch.zeros_like(mine)
        dist.all_to_all_single(result, mine, [2] * self.world, None)
        theirs = all_of(self.world, (2 * self.world, 2))
        self.same(result, torch.cat([tensor[2 * self.rank: 2 * self.rank + 2] for tensor in theirs]))

    @on_ranks(2, 3)
    def test_nothing_at_all_can_be_exchanged(self):
        nothing = torch.zeros(0, 5)
        dist.all_to_all_single(torch.zeros(0, 5), nothing, [0] * self.world, [0] * self.world)

    @not_by_gloo("has no all_to_all of lists")
    @on_ranks(1, 2, 3, 4, 5)
    def test_lists_of_any_sizes_are_exchanged(self):
        for salt in range(4):
            rows = self.splits(salt)
            for dtype in (torch.float32, torch.bfloat16, torch.complex64):
                with self.case(dtype, rows=rows.tolist()):
                    mine = [tensor_of(self.rank, (int(n), 2), dtype, to) for to, n in enumerate(rows[self.rank])]
                    result = [torch.zeros(int(n), 2, dtype=dtype) for n in rows[:, self.rank]]
                    async_op = bool(salt % 2)
                    self.finish(dist.all_to_all(result, mine, async_op=async_op), async_op)
                    for rank, tensor in enumerate(result):
                        self.same(tensor, tensor_of(rank, (int(rows[rank, self.rank]), 2), dtype, self.rank))
                    for to, tensor in enumerate(mine):
                        self.same(tensor, tensor_of(self.rank, (int(rows[self.rank, to]), 2), dtype, to))


class Barrier(RankTest):
    @on_ranks(1, 2, 3, 4, 5)
    def test_nobody_leaves_before_the_last_has_come(self):
        for last in range(self.world):
            for async_op in kBothWays:
                key = f"{last}-{async_op}"
                if self.rank == last:
                    time.sleep(0.02)
                    self.mark(key)
                self.finish(dist.barrier(async_op=async_op), async_op)
                self.assertTrue(self.marked(key), "a rank left the barrier before another had come")

    @on_ranks(3)
    def test_many_barriers_in_a_row(self):
        for _ in range(200):
            dist.barrier()
