"""Collectives that reduce: all_reduce, reduce, reduce_scatter, against a serial computation."""

import torch
import torch.distributed as dist

from data import all_of, kBitwise, kComplex, kFloats, operations, reduced, tensor_of, types
from ranks import RankTest, not_by_gloo, on_ranks

kRounding = {torch.float16: 1e-3, torch.bfloat16: 8e-3, torch.float32: 1e-6, torch.float64: 1e-15}
kBothWays = (False, True)  # async_op


class AllReduce(RankTest):
    @on_ranks(1, 2, 3, 4, 5)
    def test_every_type_and_operation_gives_the_serial_answer(self):
        for salt, dtype in enumerate(types()):
            for name, op in operations(dtype).items():
                for async_op in kBothWays:
                    with self.case(dtype, name, async_op=async_op):
                        mine = tensor_of(self.rank, 157, dtype, salt)
                        self.finish(dist.all_reduce(mine, op, async_op=async_op), async_op)
                        self.same(mine, reduced(all_of(self.world, 157, dtype, salt), name))

    @not_by_gloo("has no AVG")
    @on_ranks(1, 2, 3, 4, 5)
    def test_the_average_is_divided_once(self):
        for dtype in (*kFloats, torch.bfloat16, torch.int32, torch.int64, torch.uint8):
            with self.case(dtype):
                mine = tensor_of(self.rank, 131, dtype)
                dist.all_reduce(mine, dist.ReduceOp.AVG)
                self.same(mine, reduced(all_of(self.world, 131, dtype), "AVG"), kRounding.get(dtype, 0.0))

    @on_ranks(1, 2, 3)
    def test_complex_numbers_are_summed(self):
        for dtype in kComplex:
            with self.case(dtype):
                mine = tensor_of(self.rank, (7, 5), dtype)
                dist.all_reduce(mine)
                self.same(mine, reduced(all_of(self.world, (7, 5), dtype)))

    @not_by_gloo("knows no bool")
    @on_ranks(2, 3)
    def test_bools_stay_zero_or_one(self):
        for name, op in operations(torch.bool).items():
            with self.case(name):
                mine = torch.ones(9, dtype=torch.bool)
                dist.all_reduce(mine, op)
                self.assertLessEqual(int(mine.view(torch.uint8).max()), 1)

    @on_ranks(2, 3, 5)
    def test_rounding_sums_are_near_the_exact_one_and_the_same_bits_everywhere(self):
        for dtype in kFloats:
            with self.case(dtype):
                tensors = [torch.randn(10007, generator=torch.Generator().manual_seed(17 + rank)).to(dtype)
                           for rank in range(self.world)]
                mine = tensors[self.rank].clone()
                dist.all_reduce(mine)
                self.same(mine, reduced(tensors), 4 * kRounding[dtype])
                everyone = [torch.empty_like(mine) for _ in range(self.world)]
                dist.all_gather(everyone, mine)
                for other in everyone:
                    self.same(other, everyone[0])

    @on_ranks(2, 3)
    def test_infinities_and_nans_come_through(self):
        special = torch.tensor([float("inf"), float("-inf"), float("nan"), 1.0])
        mine = special.roll(self.rank)
        dist.all_reduce(mine)
        expected = torch.stack([special.roll(rank) for rank in range(self.world)]).sum(0)
        self.assertTrue(torch.equal(mine.isnan(), expected.isnan()))
        self.same(mine.nan_to_num(), expected.nan_to_num())

    @on_ranks(2, 4)
    def test_several_tensors_of_one_rank_are_all_reduced(self):
        """The list form that all_reduce_multigpu uses: every tensor ends as the sum of all tensors of all ranks."""
        mine = [tensor_of(self.rank, 33, salt=salt) for salt in range(3)]
        dist.distributed_c10d._get_default_group().allreduce(mine).wait()
        expected = reduced([tensor_of(rank, 33, salt=salt) for rank in range(self.world) for salt in range(3)])
        for tensor in mine:
            self.same(tensor, expected)

    @on_ranks(1, 2, 3, 4)
    def test_coalesced_tensors_keep_their_shapes(self):
        shapes = ((3, 5), (1,), (), (0,), (64,))
        for dtype in (torch.float32, torch.int64, torch.float16):
            for async_op in kBothWays:
                with self.case(dtype, async_op=async_op):
                    mine = [tensor_of(self.rank, shape, dtype, salt) for salt, shape in enumerate(shapes)]
                    self.finish(dist.all_reduce_coalesced(mine, async_op=async_op), async_op)
                    for salt, (tensor, shape) in enumerate(zip(mine, shapes)):
                        self.same(tensor, reduced(all_of(self.world, shape, dtype, salt)))

    @on_ranks(2, 3)
    def test_coalesced_tensors_take_every_operation(self):
        for name, op in operations(torch.int32).items():
            with self.case(name):
                mine = [tensor_of(self.rank, size, torch.int32) for size in (4, 9)]
                dist.all_reduce_coalesced(mine, op)
                for tensor in mine:
                    self.same(tensor, reduced(all_of(self.world, tensor.numel(), torch.int32), name))

    @on_ranks(2)
    def test_complex_tensors_can_be_coalesced(self):
        mine = [tensor_of(self.rank, size, torch.complex64) for size in (4, 9)]
        dist.all_reduce_coalesced(mine)
        for tensor in mine:
            self.same(tensor, reduced(all_of(self.world, tensor.numel(), torch.complex64)))


class Reduce(RankTest):
    @on_ranks(1, 2, 3, 4, 5)
    def test_the_root_has_the_serial_answer_for_every_type_and_operation(self):
        for salt, dtype in enumerate(types()):
            for name, op in operations(dtype).items():
                root = salt % self.world
                with self.case(dtype, name, root=root):
                    mine = tensor_of(self.rank, 77, dtype, salt)
                    async_op = bool(salt % 2)
                    self.finish(dist.reduce(mine, root, op, async_op=async_op), async_op)
                    if self.rank == root:
                        self.same(mine, reduced(all_of(self.world, 77, dtype, salt), name))

    @on_ranks(2, 3, 4)
    def test_every_rank_can_be_the_root(self):
        for root in range(self.world):
            mine = tensor_of(self.rank, 1000, salt=root)
            dist.reduce(mine, root)
            if self.rank == root:
                self.same(mine, reduced(all_of(self.world, 1000, salt=root)))

    @not_by_gloo("leaves partial sums in the tensors of other ranks")
    @on_ranks(2, 3, 4)
    def test_ranks_other_than_the_root_keep_their_tensors(self):
        for size in (10, 100_000):
            mine = tensor_of(self.rank, size)
            dist.reduce(mine, self.world - 1)
            if self.rank != self.world - 1:
                self.same(mine, tensor_of(self.rank, size))


@not_by_gloo("has no reduce_scatter")
class ReduceScatter(RankTest):
    @on_ranks(1, 2, 3, 4, 5)
    def test_each_rank_has_its_block_of_the_sum(self):
        for salt, dtype in enumerate(types()):
            for name, op in operations(dtype).items():
                for async_op in kBothWays:
                    with self.case(dtype, name, async_op=async_op):
                        result = torch.zeros(19, dtype=dtype)
                        blocks = [tensor_of(self.rank, 19, dtype, block) for block in range(self.world)]
                        self.finish(dist.reduce_scatter(result, blocks, op, async_op=async_op), async_op)
                        self.same(result, reduced(all_of(self.world, 19, dtype, self.rank), name))
                        for block, tensor in enumerate(blocks):
                            self.same(tensor, tensor_of(self.rank, 19, dtype, block))

    @on_ranks(1, 2, 3, 4)
    def test_one_tensor_is_cut_along_its_first_dimension(self):
        for dtype in types():
            for scatter in (dist.reduce_scatter_tensor, dist._reduce_scatter_base):
                with self.case(dtype, scatter.__name__):
                    result = torch.zeros(3, 4, dtype=dtype)
                    mine = tensor_of(self.rank, (3 * self.world, 4), dtype)
                    scatter(result, mine)
                    total = reduced(all_of(self.world, (3 * self.world, 4), dtype))
                    self.same(result, total[3 * self.rank: 3 * self.rank + 3])
                    self.same(mine, tensor_of(self.rank, (3 * self.world, 4), dtype))

    @on_ranks(2, 3)
    def test_the_result_may_be_a_part_of_the_input(self):
        mine = tensor_of(self.rank, 8 * self.world)
        dist.reduce_scatter_tensor(mine[8 * self.rank: 8 * self.rank + 8], mine)
        total = reduced(all_of(self.world, 8 * self.world))
        self.same(mine[8 * self.rank: 8 * self.rank + 8], total[8 * self.rank: 8 * self.rank + 8])

    @on_ranks(2, 3)
    def test_averages_are_scattered(self):
        result = torch.zeros(5)
        dist.reduce_scatter_tensor(result, tensor_of(self.rank, 5 * self.world), dist.ReduceOp.AVG)
        total = reduced(all_of(self.world, 5 * self.world), "AVG")
        self.same(result, total[5 * self.rank: 5 * self.rank + 5], 1e-6)

    @on_ranks(2, 3)
    def test_blocks_of_a_list_may_differ_in_size(self):
        """Sizes differ between the blocks, not between the ranks: a tensor's own rank decides."""
        sizes = [5 + 3 * rank for rank in range(self.world)]
        result = torch.zeros(sizes[self.rank])
        dist.reduce_scatter(result, [tensor_of(self.rank, size, salt=size) for size in sizes])
        self.same(result, reduced(all_of(self.world, sizes[self.rank], salt=sizes[self.rank])))


class Bitwise(RankTest):
    @on_ranks(2, 3)
    def test_each_bit_is_combined_on_its_own(self):
        for dtype in (torch.uint8, torch.int64):
            for name, op in kBitwise.items():
                with self.case(dtype, name):
                    mine = torch.tensor([1 << self.rank, 0x55, 0x0F, 0], dtype=dtype)
                    everyone = [torch.tensor([1 << rank, 0x55, 0x0F, 0], dtype=dtype) for rank in range(self.world)]
                    dist.all_reduce(mine, op)
                    self.same(mine, reduced(everyone, name))
