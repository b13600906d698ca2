"""Tensors of unusual shapes, strides, offsets and sizes in all collectives."""

import torch
import torch.distributed as dist

from data import all_of, kBlock, large_of, reduced, repeated, tensor_of
from ranks import RankTest, not_by_gloo, on_ranks, slow


def transposed(tensor):
    """The same values, their memory transposed."""
    return tensor.t().contiguous().t()


def strided(tensor):
    """The same values in every second row and every third column of a larger tensor of sevens."""
    rows, columns = tensor.shape
    base = torch.full((2 * rows + 1, 3 * columns + 2), 7, dtype=tensor.dtype)
    base[1:2 * rows + 1:2, :3 * columns:3] = tensor
    return base[1:2 * rows + 1:2, :3 * columns:3]


def contiguous(tensor):
    return tensor.clone()


kLayouts = (transposed, strided)
kShape = (6, 10)


class Plain(RankTest):
    @on_ranks(1, 2, 3)
    def test_tensors_without_elements_can_be_reduced_and_broadcast(self):
        for shape in ((0,), (3, 0), (0, 4)):
            with self.case(shape):
                nothing = torch.zeros(shape)
                dist.all_reduce(nothing)
                dist.broadcast(nothing, 0)
                dist.reduce(nothing, 0)
                self.assertEqual(tuple(nothing.shape), shape)

    @not_by_gloo("crashes on tensors without elements")
    @on_ranks(1, 2, 3)
    def test_tensors_without_elements_pass_through_every_collective(self):
        nothing = torch.zeros(0, 4)
        several = [torch.zeros(0, 4) for _ in range(self.world)]
        dist.all_gather(several, nothing)
        dist.all_gather_into_tensor(torch.zeros(0, 4), nothing)
        dist.all_gather_coalesced([[tensor] for tensor in several], [nothing])
        dist.all_reduce_coalesced([nothing])
        dist.gather(nothing, several if self.rank == 0 else None)
        dist.scatter(nothing, several if self.rank == 0 else None)
        dist.reduce_scatter(nothing, several)
        dist.reduce_scatter_tensor(nothing, torch.zeros(0, 4))
        dist.all_to_all(several, several)
        dist.all_to_all_single(torch.zeros(0, 4), nothing)
        if self.world > 1:
            receiving = dist.irecv(nothing, (self.rank - 1) % self.world)
            dist.send(torch.zeros(0, 4), (self.rank + 1) % self.world)
            receiving.wait()

    @on_ranks(1, 2, 3)
    def test_single_numbers_keep_having_no_dimension(self):
        mine = tensor_of(self.rank, ())
        dist.all_reduce(mine)
        self.same(mine, reduced(all_of(self.world, ())))
        mine = tensor_of(self.rank, (), torch.int64)
        everyone = [torch.zeros((), dtype=torch.int64) for _ in range(self.world)]
        dist.all_gather(everyone, mine)
        for rank, tensor in enumerate(everyone):
            self.same(tensor, tensor_of(rank, (), torch.int64))
        dist.broadcast(mine, self.world - 1)
        self.same(mine, tensor_of(self.world - 1, (), torch.int64))

    @on_ranks(2, 3)
    def test_parts_of_larger_tensors_leave_the_rest_alone(self):
        for dtype in (torch.uint8, torch.float16, torch.float32, torch.int64):
            for first in (1, 3):
                with self.case(dtype, first=first):
                    base = tensor_of(self.rank, 1000, dtype)
                    dist.all_reduce(base[first:first + 77])
                    self.same(base[first:first + 77], reduced(all_of(self.world, 1000, dtype))[first:first + 77])
                    self.same(base[:first], tensor_of(self.rank, 1000, dtype)[:first])
                    self.same(base[first + 77:], tensor_of(self.rank, 1000, dtype)[first + 77:])

    @on_ranks(2)
    def test_tensors_that_need_gradients_can_be_reduced(self):
        mine = tensor_of(self.rank, 10).requires_grad_()
        with torch.no_grad():
            dist.all_reduce(mine)
        self.same(mine.detach(), reduced(all_of(self.world, 10)))
        self.assertTrue(mine.requires_grad)


@not_by_gloo("takes memory for contiguous that is not")
class Strided(RankTest):
    @on_ranks(2, 3)
    def test_all_reduce(self):
        expected = reduced(all_of(self.world, kShape))
        for layout in kLayouts:
            for reduce in (dist.all_reduce, lambda tensor: dist.all_reduce_coalesced([tensor])):
                with self.case(layout.__name__):
                    mine = layout(tensor_of(self.rank, kShape))
                    reduce(mine)
                    self.same(mine, expected)

    @on_ranks(2)
    def test_what_lies_between_the_elements_stays(self):
        mine = strided(tensor_of(self.rank, kShape))
        dist.all_reduce(mine)
        whole = torch.full_like(mine._base, 7)
        whole[1:2 * kShape[0] + 1:2, :3 * kShape[1]:3] = reduced(all_of(self.world, kShape))
        self.same(mine._base, whole)

    @on_ranks(3)
    def test_ranks_may_differ_in_their_strides(self):
        layout = (contiguous, transposed, strided)[self.rank]
        mine = layout(tensor_of(self.rank, kShape))
        dist.all_reduce(mine)
        self.same(mine, reduced(all_of(self.world, kShape)))
        mine = layout(tensor_of(self.rank, kShape))
        dist.broadcast(mine, 1)
        self.same(mine, tensor_of(1, kShape))

    @on_ranks(2)
    def test_dense_tensors_in_another_order_of_dimensions(self):
        mine = tensor_of(self.rank, (2, 3, 4, 5)).to(memory_format=torch.channels_last)
        dist.all_reduce(mine)
        self.same(mine, reduced(all_of(self.world, (2, 3, 4, 5))))
        self.assertTrue(mine.is_contiguous(memory_format=torch.channels_last))

    @on_ranks(2, 3)
    def test_reduce_and_broadcast(self):
        for layout in kLayouts:
            with self.case(layout.__name__):
                mine = layout(tensor_of(self.rank, kShape))
                dist.reduce(mine, 1)
                if self.rank == 1:
                    self.same(mine, reduced(all_of(self.world, kShape)))
                mine = layout(tensor_of(self.rank, kShape))
                dist.broadcast(mine, 1)
                self.same(mine, tensor_of(1, kShape))

    @on_ranks(2, 3)
    def test_gathers_and_scatters(self):
        for layout in kLayouts:
            with self.case(layout.__name__):
                mine = layout(tensor_of(self.rank, kShape))
                everyone = [layout(torch.zeros(kShape)) for _ in range(self.world)]
                dist.all_gather(everyone, mine)
                for rank, tensor in enumerate(everyone):
                    self.same(tensor, tensor_of(rank, kShape))
                everyone = [layout(torch.zeros(kShape)) for _ in range(self.world)]
                dist.gather(mine, everyone if self.rank == 0 else None)
                for rank, tensor in enumerate(everyone if self.rank == 0 else []):
                    self.same(tensor, tensor_of(rank, kShape))
                got = layout(torch.zeros(kShape))
                dist.scatter(got, everyone if self.rank == 0 else None)
                self.same(got, tensor_of(self.rank, kShape))

    @on_ranks(2, 3)
    def test_one_tensor_for_all_ranks(self):
        long = (6 * self.world, 10)
        for layout in kLayouts:
            with self.case(layout.__name__):
                joined = layout(torch.zeros(long))
                dist.all_gather_into_tensor(joined, layout(tensor_of(self.rank, kShape)))
                self.same(joined, torch.cat(all_of(self.world, kShape)))
                block = layout(torch.zeros(kShape))
                dist.reduce_scatter_tensor(block, layout(tensor_of(self.rank, long)))
                self.same(block, reduced(all_of(self.world, long))[6 * self.rank: 6 * self.rank + 6])
                swapped = layout(torch.zeros(long))
                dist.all_to_all_single(swapped, layout(tensor_of(self.rank, long)))
                theirs = all_of(self.world, long)
                self.same(swapped, torch.cat([tensor[6 * self.rank: 6 * self.rank + 6] for tensor in theirs]))

    @on_ranks(2, 3)
    def test_lists_for_all_ranks(self):
        for layout in kLayouts:
            with self.case(layout.__name__):
                block = layout(torch.zeros(kShape))
                dist.reduce_scatter(block, [layout(tensor_of(self.rank, kShape, salt=to)) for to in range(self.world)])
                self.same(block, reduced(all_of(self.world, kShape, salt=self.rank)))
                got = [layout(torch.zeros(kShape)) for _ in range(self.world)]
                dist.all_to_all(got, [layout(tensor_of(self.rank, kShape, salt=to)) for to in range(self.world)])
                for rank, tensor in enumerate(got):
                    self.same(tensor, tensor_of(rank, kShape, salt=self.rank))

    @on_ranks(2)
    def test_messages(self):
        for layout in kLayouts:
            with self.case(layout.__name__):
                mine = layout(tensor_of(self.rank, kShape))
                if self.rank == 0:
                    dist.send(mine, 1)
                    dist.isend(mine, 1).wait()
                else:
                    dist.recv(mine, 0)
                    self.same(mine, tensor_of(0, kShape))
                    mine = layout(torch.zeros(kShape))
                    dist.irecv(mine).wait()
                    self.same(mine, tensor_of(0, kShape))

    @on_ranks(2)
    def test_inputs_may_repeat_one_row(self):
        row = tensor_of(self.rank, (1, 10)).expand(6, 10)
        everyone = [torch.zeros(kShape) for _ in range(self.world)]
        dist.all_gather(everyone, row)
        for rank, tensor in enumerate(everyone):
            self.same(tensor, tensor_of(rank, (1, 10)).expand(6, 10))

    @on_ranks(2)
    def test_asynchronous_results_are_in_place_when_the_wait_is_over(self):
        mine = [layout(tensor_of(self.rank, (300, 200), salt=at)) for at, layout in enumerate(kLayouts)]
        works = [dist.all_reduce(tensor, async_op=True) for tensor in mine]
        futures = [work.get_future() for work in works]
        for work in works:
            work.wait()
        for at, tensor in enumerate(mine):
            self.same(tensor, reduced(all_of(self.world, (300, 200), salt=at)))
            self.same(futures[at].value()[0], tensor)


class Large(RankTest):
    limit = 400
    kOdd = 16 * 1024 * 1024 + 13

    @on_ranks(2, 4)
    def test_an_odd_number_of_bytes_beyond_all_buffers_is_reduced(self):
        mine = large_of(self.rank, self.kOdd, torch.uint8)
        dist.all_reduce(mine, dist.ReduceOp.MAX)
        self.same(mine, repeated(reduced(all_of(self.world, kBlock, torch.uint8), "MAX"), self.kOdd))

    @on_ranks(2, 3)
    def test_an_odd_number_of_floats_at_an_odd_place_is_reduced(self):
        count = self.kOdd // 4
        mine = large_of(self.rank, count)[1:]
        dist.all_reduce(mine, async_op=True).wait()
        self.same(mine, repeated(reduced(all_of(self.world, kBlock)), count)[1:])

    @on_ranks(2, 3)
    def test_an_odd_number_of_bytes_is_moved(self):
        theirs = [large_of(rank, self.kOdd, torch.uint8) for rank in range(self.world)]
        mine = theirs[self.rank].clone()
        everyone = [torch.zeros(self.kOdd, dtype=torch.uint8) for _ in range(self.world)]
        dist.all_gather(everyone, mine)
        for rank, tensor in enumerate(everyone):
            self.same(tensor, theirs[rank])
        dist.broadcast(mine, 1)
        self.same(mine, theirs[1])
        if self.rank == 0:
            dist.send(theirs[0], 1)
        elif self.rank == 1:
            dist.recv(mine, 0)
            self.same(mine, theirs[0])

    @slow
    @on_ranks(2, limit=300, timeout=250)
    def test_more_bytes_than_fit_in_31_bits(self):
        count = 2**31 + 8
        mine = large_of(self.rank, count, torch.uint8)
        dist.all_reduce(mine, dist.ReduceOp.MAX)
        self.expect_blocks(mine, reduced(all_of(2, kBlock, torch.uint8), "MAX"))
        mine = large_of(self.rank, count, torch.uint8)
        dist.broadcast(mine, 1)
        self.expect_blocks(mine, tensor_of(1, kBlock, torch.uint8))
        if self.rank == 0:
            dist.send(large_of(0, count, torch.uint8), 1)
        else:
            dist.recv(mine, 0)
            self.expect_blocks(mine, tensor_of(0, kBlock, torch.uint8))

    def expect_blocks(self, tensor, block):
        """Fails unless `tensor` is `block` over and over; needs no second tensor of that size."""
        for at in range(0, tensor.numel(), block.numel()):
            part = tensor[at:at + block.numel()]
            self.assertTrue(torch.equal(part, block[:part.numel()]), f"wrong after byte {at}")
