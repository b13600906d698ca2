"""all_reduce of sparse COO tensors: the sum, coalesced, whatever each rank has; in the background."""

import datetime
import os
import signal

import torch
import torch.distributed as dist

from data import all_of, random_bits, reduced, tensor_of
from models import Words, batch_of, loss_of, made, parallel
from ranks import RankTest, not_by_gloo, on_ranks, run_on_ranks


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


def sum_of(world, shape, nonzeros):
    return sum(sparse_of(rank, shape, nonzeros).to_dense() for rank in range(world))


def die_before_a_sum(job, is_first):
    """What the others' work of a sum says when rank 1 is killed, and its kind."""
    if not is_first:
        dist.all_reduce(sparse_of(job.rank, (30, 4), 20))
    if job.rank == 1:
        job.await_mark("waits")
        os.kill(os.getpid(), signal.SIGKILL)
    job.mark("waits")
    try:
        dist.all_reduce(sparse_of(job.rank, (30, 4), 20), async_op=True).wait()
    except RuntimeError as error:
        return type(error).__name__, str(error)
    return None


@not_by_gloo("no sums in the background, nor errors that say who")
class InTheBackground(RankTest):
    def start(self, shape=(40, 3), nonzeros=25, group=None):
        mine = sparse_of(self.rank, shape, nonzeros)
        return mine, dist.all_reduce(mine, async_op=True, group=group)

    @on_ranks(2, 3)
    def test_who_comes_late_blocks_neither_the_callers_nor_their_other_calls(self):
        dist.all_reduce(sparse_of(self.rank, (40, 3), 25))  # all make the queue
        is_late = self.rank == self.world - 1
        if not is_late:
            mine, work = self.start()
            future = work.get_future()
        for step in range(3):
            dense = tensor_of(self.rank, 1000 + step)
            dist.all_reduce(dense)
            self.same(dense, reduced(all_of(self.world, 1000 + step)))
        if is_late:
            for rank in range(self.world - 1):
                self.await_mark(f"did not wait {rank}")
            mine, work = self.start()
            future = work.get_future()
        else:
            self.assertFalse(work.is_completed())
            self.assertFalse(future.done())
            self.mark(f"did not wait {self.rank}")
        future.wait()
        work.wait()
        self.assertTrue(work.is_completed() and work.is_success())
        self.same(mine.to_dense(), sum_of(self.world, (40, 3), 25))

    @on_ranks(2, 3)
    def test_several_tables_in_the_order_of_the_calls(self):
        over, shapes = [], [(10 + i % 4, 1 + i % 3) for i in range(24)]
        started = [self.start(shape, 3 + i) for i, shape in enumerate(shapes)]
        for i, (_, work) in enumerate(started):
            work.get_future().then(lambda future, i=i: over.append(i))
        for i, (mine, work) in reversed(list(enumerate(started))):
            work.wait()
            self.same(mine.to_dense(), sum_of(self.world, shapes[i], 3 + i))
        self.finish(self.start()[1])  # nobody is called back for those before it later than that
        self.assertEqual(sorted(over), list(range(len(shapes))))

    @on_ranks(2)
    def test_other_types_go_there_too(self):
        dist.all_reduce(sparse_of(self.rank, (5,), 2))
        mine = sparse_of(self.rank, (12, 5), 30, torch.int64)
        if self.rank == 0:
            work = dist.all_reduce(mine, async_op=True)
        dist.all_reduce(torch.ones(3))
        if self.rank == 1:
            work = dist.all_reduce(mine, async_op=True)
        work.wait()
        self.same(mine.to_dense(), sum(sparse_of(rank, (12, 5), 30, torch.int64).to_dense() for rank in range(2)))

    def test_a_dead_rank_is_named(self):
        for is_first in (True, False):
            with self.case(is_first=is_first):
                outcomes = run_on_ranks(3, die_before_a_sum, is_first)
                for rank in (0, 2):
                    self.assertEqual(outcomes[rank].how, "returned", outcomes[rank].text)
                    kind, message = outcomes[rank].value
                    self.assertEqual(kind, "PeerLostError", message)
                    self.assertRegex(message, r"\brank 1\b")

    @on_ranks(2, 3)
    def test_an_abort_ends_what_is_under_way_and_what_waits_behind_it(self):
        import banyan_torch

        dist.all_reduce(sparse_of(self.rank, (5,), 2))
        if self.rank == 0:
            for rank in range(1, self.world):
                self.await_mark(f"waits {rank}")
            banyan_torch.abort(why="enough of it")
            works = []
        else:
            works = [self.start()[1] for _ in range(3)]
            self.mark(f"waits {self.rank}")
        for work in works:
            with self.assertRaisesRegex(banyan_torch.AbortedError, "rank 0 aborted: enough of it"):
                work.wait()
            self.assertFalse(work.is_success())
        with self.assertRaises(banyan_torch.AbortedError):
            dist.all_reduce(sparse_of(self.rank, (5,), 2))

    @on_ranks(2, timeout=1.5)
    def test_a_rank_that_does_not_come_is_waited_for_as_long_as_in_other_calls(self):
        import banyan_torch

        dist.all_reduce(sparse_of(self.rank, (5,), 2))
        if self.rank == 1:
            self.await_mark("gave up")
            return
        work = self.start()[1]
        with self.assertRaisesRegex(banyan_torch.TimedOutError, "not done within 100 ms"):
            work.wait(datetime.timedelta(milliseconds=100))
        with self.assertRaisesRegex(banyan_torch.TimedOutError, r"waited for rank 1"):
            work.wait()
        self.mark("gave up")

    @on_ranks(2)
    def test_a_group_that_is_dropped_waits_for_its_sums(self):
        group = dist.new_group()
        dist.all_reduce(sparse_of(self.rank, (5,), 2), group=group)
        started = [self.start(group=group) for _ in range(5)]
        dist.destroy_process_group(group)
        del group
        for mine, work in started:
            work.wait()
            self.same(mine.to_dense(), sum_of(2, (40, 3), 25))

    @on_ranks(2, 3)
    def test_ddp_adds_up_in_the_order_of_the_ranks(self):
        replica = parallel(made(Words))
        for step in range(3):
            total = 0
            for rank in range(self.world):
                model = made(Words)
                loss_of(model, batch_of(rank, step)).backward()
                own = model.table.weight.grad  # some rows occur several times, and are added up in their order
                total += torch.zeros(own.shape).index_add_(0, own._indices()[0], own._values() / self.world)
            replica.zero_grad()
            loss_of(replica, batch_of(self.rank, step)).backward()
            self.same(replica.module.table.weight.grad.to_dense(), total)
