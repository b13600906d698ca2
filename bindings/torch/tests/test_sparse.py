"""all_reduce of sparse COO tensors: the sum, coalesced, whatever each rank has."""

import torch
import torch.distributed as dist

from data import random_bits, tensor_of
from ranks import RankTest, on_ranks


def sparse_of(rank, shape, nonzeros, dtype=torch.float32, dense=0):
    """An uncoalesced tensor: some places occur several times. The last `dense` dimensions are those of its values."""
    sparse_shape = shape[:len(shape) - dense]
    places = torch.stack([random_bits(rank, nonzeros, salt=dim) % size for dim, size in enumerate(sparse_shape)])
    values = tensor_of(rank, (nonzeros, *shape[len(shape) - dense:]), dtype)
    return torch.sparse_coo_tensor(places, values, shape)


class Sparse(RankTest):
    def check(self, shape, nonzeros, dtype=torch.float32, dense=0):
        """`nonzeros(rank)`: how many places a rank names."""
        theirs = [sparse_of(rank, shape, nonzeros(rank), dtype, dense) for rank in range(self.world)]
        for async_op in (False, True):
            mine = theirs[self.rank].clone()
            self.finish(dist.all_reduce(mine, async_op=async_op), async_op)
            self.assertTrue(mine.is_sparse)
            self.same(mine.to_dense(), sum(tensor.to_dense() for tensor in theirs))

    @on_ranks(1, 2, 3, 4)
    def test_ranks_with_different_numbers_of_places_are_summed(self):
        self.check((50,), lambda rank: 3 + 7 * rank)
        self.check((20, 30), lambda rank: 60 - 11 * rank)

    @on_ranks(2, 3)
    def test_every_type_is_summed(self):
        for dtype in (torch.float32, torch.float64, torch.int32, torch.int64, torch.uint8, torch.int8):
            with self.case(dtype):
                self.check((40,), lambda rank: 10 + rank, dtype)

    @on_ranks(2, 3)
    def test_values_with_dimensions_of_their_own_are_summed(self):
        self.check((16, 4, 3), lambda rank: 5 + rank, dense=2)
        self.check((5, 6, 7), lambda rank: 9, dense=1)

    @on_ranks(2, 3)
    def test_ranks_may_have_nothing(self):
        self.check((10, 10), lambda rank: 8 * rank)
        self.check((10, 10), lambda rank: 0)

    @on_ranks(2)
    def test_many_places_are_summed(self):
        self.check((300, 1000), lambda rank: 100_000 + 1000 * rank)

    @on_ranks(2, 3)
    def test_the_result_is_coalesced_and_the_future_has_it(self):
        mine = sparse_of(self.rank, (12,), 20)
        work = dist.all_reduce(mine, async_op=True)
        work.wait()
        total = sum(sparse_of(rank, (12,), 20).to_dense() for rank in range(self.world))
        result = work.get_future().value()[0]
        self.assertTrue(result.is_coalesced())
        self.same(result.to_dense(), total)
        self.same(mine.to_dense(), total)

    @on_ranks(2, 3)
    def test_indices_of_several_dimensions_keep_their_places(self):
        places = torch.tensor([[0, 4, 4, 2], [0, 5, 5, 1], [0, 6, 6, 3]])
        mine = torch.sparse_coo_tensor(places, torch.ones(4) * (self.rank + 1), (5, 6, 7))
        dist.all_reduce(mine)
        total = float(sum(range(1, self.world + 1)))
        self.same(mine.indices(), torch.tensor([[0, 2, 4], [0, 1, 5], [0, 3, 6]]))
        self.same(mine.values(), torch.tensor([total, total, 2 * total]))

    @on_ranks(3)
    def test_a_tensor_of_another_shape_is_named(self):
        for dtype in (torch.float32, torch.int32):
            shape = (6, 5) if self.rank == 1 else (5, 6)
            with self.assertRaisesRegex(RuntimeError, "rank 0" if self.rank == 1 else "rank 1"):
                dist.all_reduce(sparse_of(self.rank, shape, 3, dtype))
