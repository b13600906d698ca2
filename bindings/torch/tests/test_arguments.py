"""Arguments that are refused: as Gloo refuses them, at once, on the rank that gave them, and without harm to the group.

The messages are those of Gloo in torch 1.13 without the name of its class. What Gloo cannot do at all has messages of
our own, of which only the subject is checked.
"""

import os
import pathlib
import re
import tempfile
import unittest

import torch
import torch.distributed as dist

from ranks import RankTest, kTorch, not_by_gloo, on_ranks

kDouble = torch.float64
kWrong = (RuntimeError, ValueError, TypeError, IndexError)  # what wrong arguments raise: PyTorch changes its mind


def options(kind, **values):
    result = kind()
    for name, value in values.items():
        setattr(result, name, value)
    return result


def broadcast_from(rank, tensor=0):
    return options(dist.BroadcastOptions, rootRank=rank, rootTensor=tensor)


def reduce_to(rank, tensor=0):
    return options(dist.ReduceOptions, rootRank=rank, rootTensor=tensor)


def gather_to(rank):
    return options(dist.GatherOptions, rootRank=rank)


def scatter_from(rank):
    return options(dist.ScatterOptions, rootRank=rank)


def sparse():
    return torch.sparse_coo_tensor([[0]], [1.0], (2,))


@not_by_gloo("takes no options")
class Options(RankTest):
    @on_ranks(1, 2)
    def test_files_are_read_on_one_host_too(self):
        import banyan_torch

        for field in ("fabric", "plan", "routes"):
            for name, text in (("missing.json", None), ("broken.json", "{")):
                with self.case(field, name), tempfile.TemporaryDirectory() as folder:
                    path = pathlib.Path(folder) / name
                    if text is not None:
                        path.write_text(text, encoding="utf-8")
                    wrong = banyan_torch.Options(**{field: str(path)}, transport="shm")
                    if field == "routes":
                        wrong.fabric = "ring:2"
                    with self.assertRaisesRegex(RuntimeError, name):
                        dist.new_group(pg_options=wrong)
        good = banyan_torch.Options(fabric="ring:2", timeout=30)
        dist.barrier(dist.new_group(pg_options=good))

    @on_ranks(1)
    def test_so_are_those_of_the_environment(self):
        os.environ["BANYAN_FABRIC"] = "missing.json"
        with self.assertRaisesRegex(RuntimeError, "missing.json"):
            dist.new_group()


class Refusals(RankTest):
    """Refused calls, all on a group of two or three."""

    def refused(self, text, call, kind=RuntimeError):
        """Fails unless `call` raises an exception of this kind, in which `text` stands, or one of several texts: those
        of PyTorch change."""
        with self.case(text):
            with self.assertRaises(kWrong if kTorch >= (2, 0) else kind) as caught:
                result = call()
                if hasattr(result, "wait"):
                    result.wait()
            texts = (text,) if isinstance(text, str) else text
            self.assertTrue(any(each in str(caught.exception) for each in texts),
                            f"none of {texts} in {caught.exception}")

    def refused_about(self, pattern, call):
        """The same for a message of our own, of which `pattern` is found."""
        with self.case(pattern):
            with self.assertRaises((RuntimeError, ValueError)) as caught:
                call()
            self.assertTrue(re.search(pattern, str(caught.exception)), f"no {pattern!r} in {caught.exception}")

    def tensors(self, count, size=2, dtype=torch.float32):
        return [torch.zeros(size, dtype=dtype) for _ in range(count)]

    @property
    def group(self):
        """What the default group calls; since PyTorch 2 its dispatcher stands before that, with refusals of its own."""
        group = dist.distributed_c10d._get_default_group()
        return group if kTorch < (2, 0) else group._get_backend(torch.device("cpu"))

    @property
    def other(self):
        return (self.rank + 1) % self.world

    def expect_usable(self):
        """The group goes on as if nothing had been asked."""
        mine = torch.tensor([float(self.rank + 1)])
        dist.all_reduce(mine)
        self.assertEqual(mine.item(), sum(range(1, self.world + 1)))


class Roots(Refusals):
    @on_ranks(1, 2, 3)
    def test_a_root_must_be_a_rank(self):
        one = torch.zeros(2)
        for root in (-1, self.world, 1000):
            text = f"invalid root rank: {root}"
            self.refused(text, lambda: dist.broadcast(one, root))
            self.refused(text, lambda: dist.reduce(one, root))
            self.refused(text, lambda: dist.gather(one, None, root))
            self.refused(text, lambda: dist.scatter(one, None, root))
            self.refused(text, lambda: self.group.broadcast([one], broadcast_from(root)))
            self.refused(text, lambda: self.group.reduce([one], reduce_to(root)))
            self.refused(text, lambda: self.group.gather([], [one], gather_to(root)))
            self.refused(text, lambda: self.group.scatter([one], [], scatter_from(root)))
        self.expect_usable()

    @on_ranks(1, 2)
    def test_a_root_tensor_must_be_in_the_list(self):
        one = torch.zeros(2)
        for tensor in (-1, 1):
            text = f"invalid root tensor: {tensor}"
            self.refused(text, lambda: self.group.broadcast([one], broadcast_from(0, tensor)))
            self.refused(text, lambda: self.group.reduce([one], reduce_to(0, tensor)))
        self.expect_usable()

    @on_ranks(2)
    def test_a_peer_must_be_a_rank(self):
        one = torch.zeros(2)
        for peer in (-1, self.world):
            for call in (dist.send, dist.isend, dist.recv, dist.irecv):
                self.refused("", lambda: call(one, peer), IndexError)
        self.expect_usable()

    @on_ranks(3)
    def test_a_root_must_be_in_the_group(self):
        group = dist.new_group([0, 1])
        if self.rank != 2:
            text = "Global rank 2 is not part of group"
            self.refused(text, lambda: dist.broadcast(torch.zeros(2), 2, group=group))
            self.refused(text, lambda: dist.reduce(torch.zeros(2), 2, group=group))
            self.refused(text, lambda: dist.send(torch.zeros(2), 2, group=group))
        self.expect_usable()


class Reductions(Refusals):
    @on_ranks(2)
    def test_lists_must_have_tensors_of_one_kind(self):
        one = torch.zeros(2)
        for call, text in ((lambda t: self.group.broadcast(t, broadcast_from(0)), "invalid root tensor: 0"),
                           (lambda t: self.group.allreduce(t), "requires non-empty tensor list"),
                           (lambda t: self.group.allreduce_coalesced(t), "requires non-empty tensor list"),
                           (lambda t: self.group.reduce(t, reduce_to(0)), "invalid root tensor: 0")):
            self.refused(text, lambda: call([]))
        for call in (lambda t: self.group.broadcast(t, broadcast_from(0)), self.group.allreduce):
            self.refused("invalid tensor type at index 0 (expected", lambda: call([one, torch.zeros(2, dtype=kDouble)]))
            self.refused("invalid tensor size at index 0 (expected (2), got (3))", lambda: call([one, torch.zeros(3)]))
        self.refused("tensors must all have the same type",
                     lambda: self.group.allreduce_coalesced([one, torch.zeros(2, dtype=kDouble)]))
        self.refused("requires a single-element tensor list", lambda: self.group.reduce([one, one], reduce_to(0)))
        self.refused(("requires non-empty tensor list", "no tensor arguments"), lambda: dist.all_reduce_coalesced([]))
        self.expect_usable()

    @on_ranks(2)
    def test_bits_of_floats_are_not_combined(self):
        for name in ("BAND", "BOR", "BXOR"):
            op = getattr(dist.ReduceOp, name)
            for dtype in (torch.float16, torch.float32, torch.float64):
                text = f"Cannot use ReduceOp.{name} with non-integral dtype"
                self.refused(text, lambda: dist.all_reduce(torch.zeros(2, dtype=dtype), op))
                self.refused(text, lambda: dist.reduce(torch.zeros(2, dtype=dtype), 0, op))
                self.refused(text, lambda: dist.all_reduce_coalesced([torch.zeros(2, dtype=dtype)], op))
        self.expect_usable()

    @on_ranks(2)
    def test_complex_numbers_have_only_sums(self):
        for name in ("MAX", "MIN", "PRODUCT", "BAND", "BOR", "BXOR"):
            op = getattr(dist.ReduceOp, name)
            self.refused("on complex tensors", lambda: dist.all_reduce(torch.zeros(2, dtype=torch.complex64), op))
        self.expect_usable()

    @on_ranks(2)
    def test_sparse_tensors_are_taken_only_where_they_can_be(self):
        only_sum = "unsupported reduction operation (allreduce of sparse tensors only works with ReduceOp.SUM)"
        self.refused(only_sum, lambda: dist.all_reduce(sparse(), dist.ReduceOp.MAX))
        self.refused("invalid tensor layout at index 1 (expected Strided, got Sparse)",
                     lambda: self.group.allreduce([torch.zeros(2), sparse()]))
        self.refused("unsupported layout", lambda: self.group.allreduce_coalesced([sparse()]))
        self.refused("invalid tensor layout at index 1 (expected Strided, got Sparse)",
                     lambda: self.group.allreduce_coalesced([torch.ones(2), sparse()]))
        dense = ("only supports dense tensors", "SparseCPU")  # the latter are words of PyTorch 2
        self.refused(dense, lambda: dist.broadcast(sparse(), 0))
        self.refused(dense, lambda: dist.reduce(sparse(), 0))
        self.refused(dense, lambda: self.group.allgather([[sparse()] * self.world], [sparse()]))
        self.refused(dense, lambda: self.group.allgather_coalesced([[sparse()]] * self.world, [sparse()]))
        self.refused(dense, lambda: self.group.gather([], [sparse()], gather_to(self.other)))
        self.refused(dense, lambda: self.group.scatter([sparse()], [], scatter_from(self.other)))
        self.refused(("has to be dense", "SparseCPU"), lambda: dist.send(sparse(), self.other))
        self.refused(("has to be dense", "SparseCPU"), lambda: dist.recv(sparse(), self.other))
        self.refused(("has to be dense", "SparseCPU"), lambda: dist.recv(sparse()))
        self.expect_usable()

    @not_by_gloo("has no reduce_scatter")
    @on_ranks(2, 3)
    def test_what_is_scattered_must_fit(self):
        one, count = torch.zeros(2), self.world
        sizes, kinds = r"(?i)siz|length|element", r"(?i)type"
        self.refused_about(sizes, lambda: dist.reduce_scatter(one, self.tensors(count - 1)))
        self.refused_about(sizes, lambda: dist.reduce_scatter(one, self.tensors(count + 1)))
        self.refused_about(sizes, lambda: dist.reduce_scatter(one, self.tensors(count, size=3)))
        self.refused_about(kinds, lambda: self.group.reduce_scatter([one], [self.tensors(count, dtype=kDouble)]))
        self.refused_about(sizes, lambda: dist.reduce_scatter_tensor(one, torch.zeros(2 * count + 1)))
        self.refused_about(kinds, lambda: dist.reduce_scatter_tensor(one, torch.zeros(2 * count, dtype=kDouble)))
        self.refused_about("non-integral", lambda: dist.reduce_scatter_tensor(one, torch.zeros(2 * count),
                                                                              dist.ReduceOp.BOR))
        self.expect_usable()


class Gathers(Refusals):
    @on_ranks(2, 3)
    def test_all_gather_needs_one_output_per_rank(self):
        one, count = torch.zeros(2), self.world
        lists = "requires input/output tensor lists to have the same length"
        self.refused("requires non-empty input tensor list", lambda: self.group.allgather([self.tensors(count)], []))
        self.refused(lists, lambda: self.group.allgather([], [one]))
        self.refused(lists, lambda: self.group.allgather([self.tensors(count)] * 2, [one]))
        for number in (0, count - 1, count + 1):
            text = f"invalid output tensor list at index 0 (expected length {count}, got {number})"
            self.refused(text, lambda: self.group.allgather([self.tensors(number)], [one]))
            self.refused(text, lambda: dist.all_gather(self.tensors(number), one))
        self.expect_usable()

    @on_ranks(2, 3)
    def test_all_gather_needs_outputs_like_the_input(self):
        one, count = torch.zeros(2), self.world
        both = [self.tensors(2 * count), self.tensors(2 * count)]
        self.refused("invalid tensor type at index 1",
                     lambda: self.group.allgather(both, [one, torch.zeros(2, dtype=kDouble)]))
        self.refused("invalid tensor size at index 1 (expected (2), got (3))",
                     lambda: self.group.allgather(both, [one, torch.zeros(3)]))
        self.refused("invalid tensor type at index 0",
                     lambda: self.group.allgather([self.tensors(count, dtype=kDouble)], [one]))
        self.refused("invalid tensor size at index 0 (expected (2), got (3))",
                     lambda: dist.all_gather(self.tensors(count, size=3), one))
        self.refused(f"invalid tensor size at index {count - 1} (expected (2), got (3))",
                     lambda: dist.all_gather([*self.tensors(count - 1), torch.zeros(3)], one))
        self.refused("Invalid usage of tensors with different dtypes",
                     lambda: dist.all_gather(self.tensors(count, dtype=kDouble), one))
        self.expect_usable()

    @on_ranks(2, 3)
    def test_all_gather_coalesced_needs_lists_like_the_input(self):
        one, count = torch.zeros(2), self.world
        gather = self.group.allgather_coalesced
        self.refused("requires non-empty input tensor list", lambda: gather([self.tensors(count)], []))
        for number in (count - 1, count + 1):
            self.refused("output lists should be equal to world size",
                         lambda: gather([self.tensors(1) for _ in range(number)], [one]))
        self.refused("invalid output size: (expected length 1, got 0)", lambda: gather([[]] * count, [one]))
        self.refused("invalid size of output tensor at index 0 (expected length (2), got (3))",
                     lambda: gather([self.tensors(1, size=3) for _ in range(count)], [one]))
        self.refused("invalid tensor type at index 0",
                     lambda: gather([self.tensors(1, dtype=kDouble) for _ in range(count)], [one]))
        self.expect_usable()

    @not_by_gloo("has no all_gather_into_tensor")
    @on_ranks(2, 3)
    def test_the_one_output_must_hold_all_inputs(self):
        one = torch.zeros(2)
        self.refused_about(r"(?i)siz|element",
                           lambda: dist.all_gather_into_tensor(torch.zeros(2 * self.world + 1), one))
        self.refused_about(r"(?i)type",
                           lambda: dist.all_gather_into_tensor(torch.zeros(2 * self.world, dtype=kDouble), one))
        self.expect_usable()

    @on_ranks(2, 3)
    def test_gather_needs_outputs_on_the_root_alone(self):
        one, count, me = torch.zeros(2), self.world, gather_to(self.rank)
        gather = self.group.gather
        self.refused("requires a single-element input tensor list", lambda: gather([], [], gather_to(0)))
        self.refused("requires a single-element input tensor list", lambda: gather([], [one, one], gather_to(0)))
        single = f"requires a single-element output list containing a list with {count} tensors"
        self.refused(single, lambda: gather([], [one], me))
        self.refused(single, lambda: gather([self.tensors(count)] * 2, [one], me))
        for number in (count - 1, count + 1):
            text = f"Incorrect output list size {number}. Output list size should be {count}"
            self.refused(text, lambda: gather([self.tensors(number)], [one], me))
            self.refused(text, lambda: dist.gather(one, self.tensors(number), self.rank))
        self.refused("invalid tensor type at index 0", lambda: gather([self.tensors(count, dtype=kDouble)], [one], me))
        self.refused("invalid tensor size at index 0 (expected (2), got (3))",
                     lambda: gather([self.tensors(count, size=3)], [one], me))
        self.refused("requires empty output on non-root",
                     lambda: gather([self.tensors(count)], [one], gather_to(self.other)))
        self.refused("must be specified on destination rank", lambda: dist.gather(one, None, self.rank), ValueError)
        self.refused("must NOT be specified on non-destination ranks",
                     lambda: dist.gather(one, self.tensors(count), self.other), ValueError)
        self.expect_usable()

    @on_ranks(2, 3)
    def test_scatter_needs_inputs_on_the_root_alone(self):
        one, count, me = torch.zeros(2), self.world, scatter_from(self.rank)
        scatter = self.group.scatter
        self.refused("requires a single-element output tensor list", lambda: scatter([], [self.tensors(count)], me))
        self.refused("requires a single-element output tensor list",
                     lambda: scatter([one, one], [self.tensors(count)], me))
        single = f"requires a single-element input list containing a list with {count} tensors"
        self.refused(single, lambda: scatter([one], [], me))
        self.refused(single, lambda: scatter([one], [self.tensors(count)] * 2, me))
        for number in (count - 1, count + 1):
            text = f"Incorrect input list size {number}. Input list size should be {count}"
            self.refused(text, lambda: scatter([one], [self.tensors(number)], me))
            self.refused(text, lambda: dist.scatter(one, self.tensors(number), self.rank))
        self.refused("invalid tensor type at index 0", lambda: scatter([one], [self.tensors(count, dtype=kDouble)], me))
        self.refused("invalid tensor size at index 0 (expected (2), got (3))",
                     lambda: scatter([one], [self.tensors(count, size=3)], me))
        self.refused("requires empty input on non-root",
                     lambda: scatter([one], [self.tensors(count)], scatter_from(self.other)))
        self.refused("must be specified on source rank", lambda: dist.scatter(one, None, self.rank), ValueError)
        self.refused("must NOT be specified on non-source ranks",
                     lambda: dist.scatter(one, self.tensors(count), self.other), ValueError)
        self.expect_usable()


class Exchanges(Refusals):
    @on_ranks(2, 3)
    def test_splits_must_add_up(self):
        swap, count = dist.all_to_all_single, self.world

        def both():
            return torch.zeros(count), torch.zeros(count)

        number = "Number of tensor splits not equal to group size"
        total = "Split sizes doesn't match total dim 0 size"
        self.refused(number, lambda: swap(*both(), None, [1] * (count - 1)))
        self.refused(number, lambda: swap(*both(), [1] * (count - 1), None))
        self.refused(number, lambda: swap(*both(), None, [1] * (count + 1)))
        self.refused(total, lambda: swap(*both(), None, [2] * count))
        self.refused(total, lambda: swap(*both(), [2] * count, None))
        self.refused("Invalid usage of tensors with different dtypes",
                     lambda: swap(torch.zeros(count), torch.zeros(count, dtype=kDouble)))
        self.expect_usable()

    @not_by_gloo("does not look at these, or crashes")
    @on_ranks(2, 3)
    def test_exchanges_that_gloo_does_not_check_are_refused(self):
        count = self.world
        sizes, kinds = r"(?i)siz|length|element|divide|number", r"(?i)type"
        odd = torch.zeros(count + 1)
        self.refused("Tensor's dim 0 does not divide equally across group size",
                     lambda: dist.all_to_all_single(odd, torch.zeros(count)))
        self.refused("Tensor's dim 0 does not divide equally across group size",
                     lambda: dist.all_to_all_single(torch.zeros(count), odd))
        negative = [-1, count + 1] + [0] * (count - 2)
        self.refused_about(r"(?i)negative|split", lambda: dist.all_to_all_single(torch.zeros(count), torch.zeros(count),
                                                                                [1] * count, negative))
        doubles = torch.zeros(count, dtype=kDouble)
        self.refused_about(kinds, lambda: self.group.alltoall_base(torch.zeros(count), doubles, [], []))
        self.refused_about(r"(?i)dense", lambda: self.group.alltoall_base(sparse(), sparse(), [], []))
        self.refused_about(sizes, lambda: dist.all_to_all(self.tensors(count - 1), self.tensors(count)))
        self.refused_about(sizes, lambda: dist.all_to_all(self.tensors(count), self.tensors(count + 1)))
        self.refused_about(kinds, lambda: self.group.alltoall(self.tensors(count), self.tensors(count, dtype=kDouble)))
        self.expect_usable()

    @on_ranks(2)
    def test_messages_are_single_tensors_with_tags(self):
        one = torch.zeros(2)
        for call in (lambda t, tag: self.group.send(t, self.other, tag),
                     lambda t, tag: self.group.recv(t, self.other, tag),
                     lambda t, tag: self.group.recv_anysource(t, tag)):
            self.refused("takes a single tensor", lambda: call([], 0))
            self.refused("takes a single tensor", lambda: call([one, one], 0))
            self.refused("Tag must be nonnegative", lambda: call([one], -1))
        self.refused("", lambda: dist.batch_isend_irecv([]), IndexError)
        self.expect_usable()


class Others(Refusals):
    @on_ranks(2)
    def test_what_is_no_tensor_is_refused(self):
        self.refused("of type torch.Tensor", lambda: dist.all_reduce(None))
        self.refused("of type List[torch.Tensor]", lambda: dist.all_gather(torch.zeros(2), torch.zeros(2)))
        self.expect_usable()

    @unittest.skipIf(kTorch >= (2, 0), "PyTorch 2 takes them")
    @on_ranks(2)
    def test_barriers_take_no_devices(self):
        self.refused("Function argument device_ids not supported", lambda: dist.barrier(device_ids=[0]))
        self.expect_usable()

    @on_ranks(2)
    def test_groups_must_consist_of_ranks(self):
        self.refused(("rank should be within", "out of range"), lambda: dist.new_group([0, self.world]))
        self.refused("world size should be less or equal", lambda: dist.new_group(list(range(self.world + 1))))
        self.expect_usable()

    @on_ranks(2)
    def test_a_group_cannot_be_made_twice(self):
        self.refused("trying to initialize the default process group twice",
                     lambda: dist.init_process_group(dist.get_backend(), store=self.store, rank=0, world_size=1))
        self.expect_usable()

    @on_ranks(1, init=False)
    def test_nothing_works_before_the_group_is_made(self):
        self.refused("Default process group has not been initialized", lambda: dist.all_reduce(torch.zeros(2)))
        self.refused("Default process group has not been initialized", dist.get_rank)
