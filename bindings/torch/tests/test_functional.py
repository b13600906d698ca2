"""Functional collectives, those of several tensors at once, and what torch.compile makes of them. Of PyTorch 2."""

import unittest

import torch
import torch.distributed as dist

from data import all_of, reduced, tensor_of
from ranks import RankTest, kTorch, not_by_gloo, on_ranks, since

if kTorch >= (2, 1):
    import torch.distributed._functional_collectives as funcol

kTypes = (torch.float32, torch.bfloat16, torch.int64, torch.uint8)
kShapes = ((4, 3), (7,), (2, 5, 3), (0, 3))  # of the tensors of one call; one is empty
modern = since(2, 4, "functional collectives as they are today")


def group():
    return dist.distributed_c10d._get_default_group()


def types():
    """Gloo cannot move bfloat16 in all of these calls."""
    return [dtype for dtype in kTypes if dist.get_backend() != "gloo" or dtype != torch.bfloat16]


def block_for(world, rank, shape, dtype=torch.float32, salt=0):
    """What a reduce-scatter takes: a block for every rank, one after the other."""
    return tensor_of(rank, (world * shape[0], *shape[1:]), dtype, salt)


def own_part(test, shape, dtype=torch.float32, salt=0, name="SUM"):
    """What a reduce-scatter of such blocks gives this rank."""
    total = reduced([block_for(test.world, rank, shape, dtype, salt) for rank in range(test.world)], name)
    return total[test.rank * shape[0]:(test.rank + 1) * shape[0]]


@modern
class Functional(RankTest):
    @on_ranks(1, 2, 3)
    def test_all_reduce(self):
        for dtype in types():
            for name in ("SUM", "MAX"):
                with self.case(dtype, name):
                    mine = tensor_of(self.rank, (5, 3), dtype)
                    got = funcol.all_reduce(mine, name.lower(), group())
                    self.same(got + 0, reduced(all_of(self.world, (5, 3), dtype), name))
                    self.same(mine, tensor_of(self.rank, (5, 3), dtype))

    @not_by_gloo("has no averages")
    @on_ranks(2, 3)
    def test_averages(self):
        got = funcol.all_reduce(tensor_of(self.rank, 8), "avg", group())
        self.same(got + 0, reduced(all_of(self.world, 8), "AVG"))
        got = funcol.reduce_scatter_tensor(block_for(self.world, self.rank, (3, 2)), "avg", 0, group())
        self.same(got + 0, own_part(self, (3, 2), name="AVG"))

    @on_ranks(1, 2, 3)
    def test_all_gather_tensor(self):
        for salt, dtype in enumerate(types()):
            for shape in kShapes:
                for dim in range(len(shape)):
                    with self.case(dtype, shape, dim=dim):
                        got = funcol.all_gather_tensor(tensor_of(self.rank, shape, dtype, salt), dim, group())
                        self.same(got + 0, torch.cat(all_of(self.world, shape, dtype, salt), dim))

    @on_ranks(1, 2, 3)
    def test_reduce_scatter_tensor(self):
        for salt, dtype in enumerate(types()):
            for shape in kShapes:
                with self.case(dtype, shape):
                    got = funcol.reduce_scatter_tensor(block_for(self.world, self.rank, shape, dtype, salt), "sum", 0,
                                                       group())
                    self.same(got + 0, own_part(self, shape, dtype, salt))
        wide = tensor_of(self.rank, (3, 2 * self.world))
        total = reduced(all_of(self.world, (3, 2 * self.world)))
        got = funcol.reduce_scatter_tensor(wide, "sum", 1, group())
        self.same((got + 0).contiguous(), total[:, 2 * self.rank:2 * self.rank + 2].contiguous())

    @on_ranks(2, 3)
    def test_all_to_all_single_and_broadcast(self):
        counts = [1 + (self.rank + peer) % 3 for peer in range(self.world)]  # symmetric: both ways the same
        got = funcol.all_to_all_single(tensor_of(self.rank, (sum(counts), 2)), counts, counts, group())
        parts = []
        for rank in range(self.world):
            theirs = [1 + (rank + peer) % 3 for peer in range(self.world)]
            parts.append(tensor_of(rank, (sum(theirs), 2)).split(theirs)[self.rank])
        self.same(got + 0, torch.cat(parts))
        got = funcol.broadcast(tensor_of(self.rank, 9), 1, group())
        self.same(got + 0, tensor_of(1, 9))

    @on_ranks(1, 2, 3)
    def test_several_tensors_at_once(self):
        tensors = [tensor_of(self.rank, shape, salt=salt) for salt, shape in enumerate(kShapes)]
        for salt, got in enumerate(funcol.all_reduce_coalesced(tensors, "sum", group())):
            self.same(got + 0, reduced(all_of(self.world, kShapes[salt], salt=salt)))
        for salt, got in enumerate(funcol.all_gather_into_tensor_coalesced(tensors, group())):
            self.same(got + 0, torch.cat(all_of(self.world, kShapes[salt], salt=salt)))
        blocks = [block_for(self.world, self.rank, shape, salt=salt) for salt, shape in enumerate(kShapes)]
        gotten = funcol.reduce_scatter_tensor_coalesced(blocks, "sum", [0] * len(blocks), group())
        for salt, got in enumerate(gotten):
            self.same(got + 0, own_part(self, kShapes[salt], salt=salt))

    @on_ranks(2, 3)
    def test_gradients_flow_through(self):
        """The gradient of an allgather is a reduce-scatter, and the reverse; that of an all-to-all goes back."""
        mine = tensor_of(self.rank, (2, 3)).requires_grad_()
        weights = tensor_of(self.rank, (2 * self.world, 3), salt=1)
        (funcol.all_gather_tensor_autograd(mine, 0, group()) * weights).sum().backward()
        total = reduced(all_of(self.world, (2 * self.world, 3), salt=1))
        self.same(mine.grad, total[2 * self.rank:2 * self.rank + 2])

        block = tensor_of(self.rank, (2 * self.world, 3)).requires_grad_()
        weights = tensor_of(self.rank, (2, 3), salt=2)
        (funcol.reduce_scatter_tensor_autograd(block, "sum", 0, group()) * weights).sum().backward()
        self.same(block.grad, torch.cat(all_of(self.world, (2, 3), salt=2)))

        mine = tensor_of(self.rank, (self.world, 3)).requires_grad_()
        weights = tensor_of(self.rank, (self.world, 3), salt=3)
        (funcol.all_to_all_single_autograd(mine, None, None, group()) * weights).sum().backward()
        rows = [row[self.rank] for row in all_of(self.world, (self.world, 3), salt=3)]
        self.same(mine.grad, torch.stack(rows))

    @on_ranks(3)
    def test_in_groups_of_some(self):
        pair = dist.new_group([0, 2])
        if self.rank != 1:
            got = funcol.all_gather_tensor(tensor_of(self.rank, (2, 2)), 0, pair)
            self.same(got + 0, torch.cat([tensor_of(rank, (2, 2)) for rank in (0, 2)]))

    @on_ranks(2)
    def test_results_nobody_looks_at_do_no_harm(self):
        for salt in range(50):
            funcol.all_gather_tensor(tensor_of(self.rank, 100, salt=salt), 0, group())
        self.same(funcol.all_reduce(tensor_of(self.rank, 9), "sum", group()) + 0, reduced(all_of(self.world, 9)))


@modern
class Coalescing(RankTest):
    """_coalescing_manager, as FSDP and others of PyTorch use it."""

    def three(self, call, async_op):
        """Three calls as one; all have ended when this returns."""
        with dist.distributed_c10d._coalescing_manager(async_ops=async_op) as manager:
            for salt in range(3):
                call(salt)
        if async_op:
            manager.wait()

    @on_ranks(2, 3)
    def test_calls_are_made_as_one(self):
        for async_op in (False, True):
            sums = [tensor_of(self.rank, 40 + salt, salt=salt) for salt in range(3)]
            self.three(lambda salt: dist.all_reduce(sums[salt]), async_op)
            outs = [torch.full((self.world * (salt + 2), 3), 9.0) for salt in range(3)]
            ins = [tensor_of(self.rank, (salt + 2, 3), salt=salt) for salt in range(3)]
            self.three(lambda salt: dist.all_gather_into_tensor(outs[salt], ins[salt]), async_op)
            parts = [torch.full((salt + 1, 2), 9.0) for salt in range(3)]
            blocks = [block_for(self.world, self.rank, (salt + 1, 2), salt=salt) for salt in range(3)]
            self.three(lambda salt: dist.reduce_scatter_tensor(parts[salt], blocks[salt]), async_op)
            for salt in range(3):
                with self.case(salt, async_op=async_op):
                    self.same(sums[salt], reduced(all_of(self.world, 40 + salt, salt=salt)))
                    self.same(outs[salt], torch.cat(all_of(self.world, (salt + 2, 3), salt=salt)))
                    self.same(parts[salt], own_part(self, (salt + 1, 2), salt=salt))

    @on_ranks(2, 3)
    def test_types_and_layouts_may_differ_within_a_call(self):
        """Not contiguous, and of several types: what there is of it is refused by Gloo in part."""
        if dist.get_backend() == "gloo":
            raise unittest.SkipTest("Gloo: only tensors of one type")
        made = [(torch.float32, (4, 2)), (torch.int64, (3, 2)), (torch.bfloat16, (5, 2))]
        outs = [torch.zeros((2, self.world * shape[0]), dtype=dtype).t() for dtype, shape in made]
        ins = [tensor_of(self.rank, shape, dtype) for dtype, shape in made]
        group().allgather_into_tensor_coalesced(outs, ins).wait()
        for out, (dtype, shape) in zip(outs, made):
            self.same(out.contiguous(), torch.cat(all_of(self.world, shape, dtype)))
        parts = [torch.zeros(shape, dtype=dtype) for dtype, shape in made]
        blocks = [block_for(self.world, self.rank, shape, dtype) for dtype, shape in made]
        work = group().reduce_scatter_tensor_coalesced(parts, blocks)
        work.wait()
        for part, (dtype, shape) in zip(parts, made):
            self.same(part, own_part(self, shape, dtype))

    @not_by_gloo("cannot do it")
    @on_ranks(2, 3)
    def test_calls_between_start_and_end_have_one_work(self):
        """The older way, with a device: messages and any collectives, each on its way at once."""
        to, source = (self.rank + 1) % self.world, (self.rank - 1) % self.world
        got, mine = torch.zeros(30), tensor_of(self.rank, 30)
        everyone = [torch.zeros(7) for _ in range(self.world)]
        with dist.distributed_c10d._coalescing_manager(device=torch.device("cpu"), async_ops=True) as manager:
            dist.isend(mine, to)
            dist.irecv(got, source)
            dist.all_gather(everyone, tensor_of(self.rank, 7, salt=1), async_op=True)
        self.assertEqual(len(manager.works), 1)
        manager.wait()
        self.same(got, tensor_of(source, 30))
        for rank, tensor in enumerate(everyone):
            self.same(tensor, tensor_of(rank, 7, salt=1))
        self.assertTrue(manager.works[0].is_completed())
        future = manager.works[0].get_future()
        future.wait()
        self.assertEqual(len(future.value()), 2 + self.world)

    @not_by_gloo("its own words")
    @on_ranks(2)
    def test_wrong_arguments_are_refused_before_anything_has_begun(self):
        one, good = torch.zeros(2), torch.zeros(4)
        for call, outputs, inputs in (("allgather_into_tensor_coalesced", [good, torch.zeros(5)], [one, one]),
                                      ("allgather_into_tensor_coalesced", [good], [one, one]),
                                      ("allgather_into_tensor_coalesced", [], []),
                                      ("allgather_into_tensor_coalesced", [good, good.double()], [one, one]),
                                      ("reduce_scatter_tensor_coalesced", [one, one], [good, torch.zeros(5)]),
                                      ("reduce_scatter_tensor_coalesced", [one, one.double()], [good, good])):
            with self.case(call, outputs, inputs), self.assertRaises((RuntimeError, ValueError)):
                if self.rank == 0:
                    getattr(group(), call)(outputs, inputs).wait()
                else:
                    raise ValueError("only rank 0 asks")
        mine = tensor_of(self.rank, 5)
        dist.all_reduce(mine)
        self.same(mine, reduced(all_of(self.world, 5)))

    @not_by_gloo("has no works of several calls")
    @on_ranks(2)
    def test_a_failed_part_fails_the_whole(self):
        import banyan_torch

        if self.rank == 1:
            self.await_mark("begun")
            banyan_torch.abort(why="enough")
            return
        work = group().allgather_into_tensor_coalesced([torch.zeros(6), torch.zeros(8)],
                                                       [torch.zeros(3), torch.zeros(4)])
        future = work.get_future()
        self.mark("begun")
        with self.assertRaisesRegex(banyan_torch.AbortedError, "enough"):
            work.wait()
        with self.assertRaisesRegex(RuntimeError, "enough"):
            future.wait()
        self.assertFalse(work.is_success())


@modern
class Compiled(RankTest):
    @on_ranks(2, limit=120)
    def test_functional_collectives(self):
        def step(x):
            gathered = funcol.all_gather_tensor(x * 2, 0, group())
            summed = funcol.all_reduce(gathered + 1, "sum", group())
            return funcol.reduce_scatter_tensor(summed, "sum", 0, group()) - x

        compiled = torch.compile(step, backend="aot_eager", fullgraph=True)
        for salt in range(2):
            mine = tensor_of(self.rank, (3, 2), salt=salt)
            self.same(compiled(mine), step(mine) + 0)

    @on_ranks(2, limit=120)
    def test_collectives_of_torch_distributed(self):
        """Dynamo writes these as functional ones."""

        def step(x):
            out = torch.empty((2 * x.shape[0], x.shape[1]))
            dist.all_gather_into_tensor(out, x, group=group())
            dist.all_reduce(out, group=group())
            return out

        compiled = torch.compile(step, backend="aot_eager", fullgraph=True)
        mine = tensor_of(self.rank, (3, 2))
        self.same(compiled(mine), torch.cat(all_of(self.world, (3, 2))) * self.world)
