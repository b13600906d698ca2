"""Tensors that are stored conjugated or negated: x.conj() and x.conj().imag only carry a mark, and their memory holds
other values. Every call reads and writes their values, not their memory; as input, as output, and as both."""

import itertools

import torch
import torch.distributed as dist

from data import all_of, reduced, tensor_of
from ranks import RankTest, not_by_gloo, on_ranks

kShape = (4, 6)


def conjugated(tensor):
    return tensor.conj().resolve_conj().conj()


def negated(tensor):
    return torch._neg_view(-tensor)


def conjugated_and_negated(tensor):
    return torch._neg_view((-tensor.conj()).resolve_conj()).conj()


def imaginary(tensor):
    """The imaginary parts of something stored conjugated: negated, and with gaps between the elements."""
    return torch.complex(torch.zeros_like(tensor), -tensor).conj().imag


def transposed(tensor):
    return tensor.t().conj().resolve_conj().contiguous().conj().t()


def part(tensor):
    """Every second row of something larger, stored conjugated."""
    base = torch.full((2 * tensor.shape[0], *tensor.shape[1:]), 7, dtype=tensor.dtype)
    base[::2] = tensor.conj()
    return base.conj()[::2]


def unmarked(tensor):
    return tensor.clone()


# By name: the type, and who makes the tensor of given values.
kKinds = {
    "conjugated": (torch.complex64, conjugated),
    "negated": (torch.float32, negated),
    "both": (torch.complex128, conjugated_and_negated),
    "imaginary": (torch.float64, imaginary),
    "transposed": (torch.complex64, transposed),
    "part": (torch.complex64, part),
}


class Calls:
    """All calls of a group, of tensors of one type: inputs are made by `given`, outputs by `taken`, and what is both by
    `changed`. The group is called itself, since torch.distributed takes complex numbers apart before some calls."""

    def __init__(self, test, dtype, given, taken, changed):
        self.test, self.rank, self.world, self.same = test, test.rank, test.world, test.same
        self.group = dist.distributed_c10d._get_default_group()
        self.dtype, self.given, self.taken, self.changed = dtype, given, taken, changed

    def value(self, rank, shape=kShape, salt=0):
        return tensor_of(rank, shape, self.dtype, salt)

    def values(self, salt=0, shape=kShape):
        return all_of(self.world, shape, self.dtype, salt)

    def nothing(self, shape=kShape):
        return self.taken(torch.full(shape, 9, dtype=self.dtype))

    def broadcast(self):
        options = dist.BroadcastOptions()
        options.rootRank = options.rootTensor = 1
        root = self.rank == 1
        tensors = [self.nothing(), self.changed(self.value(1)) if root else self.nothing()]
        self.group.broadcast(tensors, options).wait()
        for tensor in tensors:
            self.same(tensor, self.value(1))
        mine = self.changed(self.value(0)) if self.rank == 0 else self.nothing()
        dist.broadcast(mine, 0)
        self.same(mine, self.value(0))

    def all_reduce(self):
        mine = self.changed(self.value(self.rank))
        self.group.allreduce([mine]).wait()
        self.same(mine, reduced(self.values()))
        several = [self.changed(self.value(self.rank, salt=salt)) for salt in (1, 2)]
        self.group.allreduce(several).wait()
        for tensor in several:
            self.same(tensor, reduced(self.values(1) + self.values(2)))
        several = [self.changed(self.value(self.rank, salt=salt)) for salt in (1, 2)]
        self.group.allreduce_coalesced(several).wait()
        for tensor, salt in zip(several, (1, 2)):
            self.same(tensor, reduced(self.values(salt)))

    def reduce(self):
        mine = self.changed(self.value(self.rank))
        self.group.reduce([mine], dist.ReduceOptions()).wait()
        self.same(mine, reduced(self.values()) if self.rank == 0 else self.value(self.rank))

    def all_gather(self):
        outputs = [self.nothing() for _ in range(self.world)]
        self.group.allgather([outputs], [self.given(self.value(self.rank))]).wait()
        for tensor, value in zip(outputs, self.values()):
            self.same(tensor, value)
        output = self.nothing((self.world * kShape[0], *kShape[1:]))
        self.group._allgather_base(output, self.given(self.value(self.rank))).wait()
        self.same(output, torch.cat(self.values()))
        outputs = [[self.nothing(), self.nothing()] for _ in range(self.world)]
        inputs = [self.given(self.value(self.rank, salt=salt)) for salt in (1, 2)]
        self.group.allgather_coalesced(outputs, inputs).wait()
        for rank, salt in itertools.product(range(self.world), (1, 2)):
            self.same(outputs[rank][salt - 1], self.value(rank, salt=salt))

    def gather_and_scatter(self):
        root = self.rank == 0
        outputs = [self.nothing() for _ in range(self.world)]
        dist.gather(self.given(self.value(self.rank)), outputs if root else None, 0)
        for tensor, value in zip(outputs if root else [], self.values()):
            self.same(tensor, value)
        output = self.nothing()
        inputs = [self.given(self.value(0, salt=rank)) for rank in range(self.world)]
        options = dist.ScatterOptions()
        options.rootRank = 0
        self.group.scatter([output], [inputs] if root else [], options).wait()
        self.same(output, self.value(0, salt=self.rank))

    def reduce_scatter(self):
        output = self.nothing()
        inputs = [self.given(self.value(self.rank, salt=to)) for to in range(self.world)]
        self.group.reduce_scatter([output], [inputs]).wait()
        self.same(output, reduced(self.values(self.rank)))
        long = (self.world * kShape[0], *kShape[1:])
        output = self.nothing()
        self.group._reduce_scatter_base(output, self.given(self.value(self.rank, long))).wait()
        self.same(output, reduced(self.values(shape=long))[self.rank * kShape[0]:(self.rank + 1) * kShape[0]])

    def all_to_all(self):
        outputs = [self.nothing() for _ in range(self.world)]
        self.group.alltoall(outputs, [self.given(self.value(self.rank, salt=to)) for to in range(self.world)]).wait()
        for rank, tensor in enumerate(outputs):
            self.same(tensor, self.value(rank, salt=self.rank))
        long = (self.world * kShape[0], *kShape[1:])
        rows = slice(self.rank * kShape[0], (self.rank + 1) * kShape[0])
        for splits in ([], [kShape[0]] * self.world):
            output = self.nothing(long)
            self.group.alltoall_base(output, self.given(self.value(self.rank, long)), splits, splits).wait()
            self.same(output, torch.cat([value[rows] for value in self.values(shape=long)]))

    def messages(self):
        if self.rank == 0:
            dist.send(self.given(self.value(0)), 1)
            dist.isend(self.given(self.value(0, salt=1)), 1).wait()
            dist.send(self.given(self.value(0, salt=2)), 1)
            return
        for salt, receive in enumerate((lambda tensor: dist.recv(tensor, 0),
                                        lambda tensor: dist.irecv(tensor, 0).wait(),
                                        lambda tensor: dist.recv(tensor))):
            output = self.nothing()
            receive(output)
            self.same(output, self.value(0, salt=salt))


kCalls = [name for name in vars(Calls) if not name.startswith("_") and name not in ("value", "values", "nothing")]


@not_by_gloo("reads and writes the memory of such tensors")
class Marks(RankTest):
    def check(self, call):
        for name, (dtype, marked) in kKinds.items():
            for makers in ((marked, unmarked, marked), (unmarked, marked, unmarked), (marked, marked, marked)):
                with self.case(call, name, *(maker.__name__ for maker in makers)):
                    getattr(Calls(self, dtype, *makers), call)()

    @on_ranks(2)
    def test_the_tensors_of_these_tests_are_marked_and_have_the_values(self):
        for name, (dtype, marked) in kKinds.items():
            with self.case(name):
                value = tensor_of(0, kShape, dtype)
                tensor = marked(value)
                self.assertTrue(tensor.is_conj() or tensor.is_neg())
                self.assertEqual(name == "both", tensor.is_conj() and tensor.is_neg())
                self.same(tensor, value)

    @on_ranks(2)
    def test_sums_of_sparse_tensors(self):
        for name, (dtype, marked) in kKinds.items():
            for shape in ((30,), (5, 6)):
                with self.case(name, shape):
                    mine, theirs = [], []
                    for rank in range(self.world):
                        places = torch.stack([torch.arange(kShape[0]) * (rank + 1) % size for size in shape])
                        values = tensor_of(rank, kShape, dtype)
                        mine.append(torch.sparse_coo_tensor(places, marked(values), (*shape, kShape[1])))
                        theirs.append(torch.sparse_coo_tensor(places, values, (*shape, kShape[1])))
                    dist.distributed_c10d._get_default_group().allreduce([mine[self.rank]]).wait()
                    self.same(mine[self.rank].to_dense(), sum(tensor.to_dense() for tensor in theirs))

    @on_ranks(2)
    def test_what_is_late_is_copied_back_too(self):
        mine = conjugated(tensor_of(self.rank, (300, 200), torch.complex64))
        work = dist.distributed_c10d._get_default_group().allreduce([mine])
        future = work.get_future()
        work.wait()
        self.same(mine, reduced(all_of(2, (300, 200), torch.complex64)))
        self.same(future.value()[0], mine)


def _test_of(call):
    def test(self):
        self.check(call)

    test.__name__ = test.__qualname__ = f"test_{call}"
    return on_ranks(2)(test)


for _call in kCalls:
    setattr(Marks, f"test_{_call}", _test_of(_call))
