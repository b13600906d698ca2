"""Gradients in codes between boxes of ranks: banyan_torch.compress(ddp, "int8", box_ranks=2).

Boxes are of 2 or 3 ranks. Over TCP, mostly also in the boxes: ranks of one host code nothing.
"""

import contextlib
import math
import os
import signal
import time

import torch
import torch.distributed as dist
from torch import nn

import banyan_torch
from data import tensor_of
from models import batch_of, Branches, loss_of, made, Mixed, Net, parallel, sgd, train, trained_serially
from ranks import not_by_gloo, on_ranks, run_on_ranks
from test_compress import CompressTest

kBoxes = {4: (2,), 6: (3, 2)}
kCodes = ("bfloat16", "float16", "fp8", "mxfp8", "int8", "int4", "mxfp4", "sign", "int8:stochastic")
kNoticed = 10.0  # seconds in which all ranks have to learn of a death; the timeout of calls is longer


class Vector(nn.Module):
    """Its parameters have these sizes."""

    def __init__(self, *sizes):
        super().__init__()
        self.parts = nn.ParameterList([nn.Parameter(torch.zeros(size)) for size in sizes])


def shares_of(values, box_ranks):
    """(begin, end) of each rank of a box."""
    each = -(-values // box_ranks)
    return [(min(values, i * each), min(values, (i + 1) * each)) for i in range(box_ranks)]


@not_by_gloo("has no codes")
class BoxesTest(CompressTest):
    def boxed(self, model, box_ranks, codec="int8", residual=True, **options):
        return self.compressed(model, codec, residual, scheme={"box_ranks": box_ranks}, **options)

    def averaged(self, compression, parameter, gradient):
        """As a bucket of this parameter alone."""
        buffer = gradient.clone()
        return compression._inside.average_of(buffer, [parameter]).wait()

    def expect_equal_everywhere(self, tensor):
        found = [torch.empty_like(tensor) for _ in range(self.world)]
        dist.all_gather(found, tensor)
        for other in found:
            self.assertEqual(other.numpy().tobytes(), tensor.numpy().tobytes())


class Law(BoxesTest):
    @on_ranks(4, 6, limit=110)
    def test_nothing_is_lost(self):
        for box_ranks in kBoxes[self.world]:
            for codec in kCodes:
                with self.case(codec, box_ranks=box_ranks):
                    replica, compression = self.boxed(made(Net, width=65), box_ranks, codec)
                    self.assertEqual(compression.codec, codec)
                    optimizer = sgd(replica.parameters())
                    for step in range(4):
                        self.step(replica, compression, optimizer, batch_of(self.rank, step))
                    norms = self.summed({"all": torch.tensor(sum(compression.residual_norms().values()))})
                    self.assertGreater(float(norms["all"]), 0, "nothing was coded")
                    self.expect_agreement(replica.module)

    def sums_of_boxes(self, size, salt, box_ranks):
        """Exactly, of the gradients of all ranks."""
        ranks = [tensor_of(rank, (size,), salt=salt).double() for rank in range(self.world)]
        return [sum(ranks[first:first + box_ranks]) for first in range(0, self.world, box_ranks)]

    def most_error(self, sums):
        """Of what int4 makes of the sum of these. Each box encodes once, at most all of them with the errors so far, in
        steps of at most 2/7 of the largest value."""
        largest = sum(float(one.abs().max()) for one in sums)
        return len(sums) * largest / 7 * (1 + 1 / 7) ** (len(sums) - 1)

    @on_ranks(4, 6)
    def test_shares_of_all_sizes(self):
        """Fewer values than ranks, borders of blocks and of shares. What a rank keeps is of its own share."""
        for box_ranks in kBoxes[self.world]:
            sizes = [1, box_ranks - 1, box_ranks, box_ranks + 1, 255, 256 * box_ranks - 1, 256 * box_ranks,
                     256 * box_ranks + 1, 1000, 4099]
            model = Vector(*sizes)
            compression = banyan_torch.Compression(model, "int4", group=self.tcp(), box_ranks=box_ranks)
            for step in range(3):
                before = self.residuals(compression, model)
                gradients = {f"parts.{i}": tensor_of(self.rank, (size,), salt=10 * step + i)
                             for i, size in enumerate(sizes)}
                averages = {f"parts.{i}": self.averaged(compression, p, gradients[f"parts.{i}"])
                            for i, p in enumerate(model.parts)}
                after = self.residuals(compression, model)
                self.expect_nothing_lost(gradients, before, averages, after)
                for i, size in enumerate(sizes):
                    name = f"parts.{i}"
                    self.expect_equal_everywhere(averages[name])
                    begin, end = shares_of(size, box_ranks)[self.rank % box_ranks]
                    self.assertEqual(int(after[name][:begin].count_nonzero() + after[name][end:].count_nonzero()), 0)
                    if step == 0:
                        sums = self.sums_of_boxes(size, i, box_ranks)
                        error = averages[name].double() - sum(sums) / self.world
                        self.assertLessEqual(float(error.abs().max()), self.most_error(sums) / self.world)
            self.assertGreater(sum(compression.residual_norms().values()), 0, "nothing was coded")

    @on_ranks(4, 6)
    def test_values_are_rounded_in_the_sums_of_boxes_only(self):
        """Boxes whose ranks cancel each other out send zeros, which every code holds, and lose nothing."""
        for box_ranks in kBoxes[self.world]:
            model = Vector(5000)
            compression = banyan_torch.Compression(model, "int4", group=self.tcp(), box_ranks=box_ranks)
            place, box = self.rank % box_ranks, self.rank // box_ranks
            own = tensor_of(box, (5000,)).round() * (1 - box_ranks if place == 0 else 1)
            self.same(self.averaged(compression, model.parts[0], own), torch.zeros(5000))
            self.assertEqual(sum(compression.residual_norms().values()), 0)

    @on_ranks(4, 6, limit=80)
    def test_nothing_is_lost_in_many_buckets_nor_when_they_change(self):
        """The first step has other buckets than the rest, and so other shares."""
        for box_ranks in kBoxes[self.world]:
            buckets = [[]]

            def hook(state, bucket):
                buckets[-1].append(len(bucket.parameters()))
                return banyan_torch.compress_hook(state, bucket)

            replica = parallel(made(Net, width=31), small_buckets=True, process_group=self.tcp())
            compression = banyan_torch.Compression(replica, "int4", box_ranks=box_ranks)
            replica.register_comm_hook(compression, hook)
            optimizer = sgd(replica.parameters())
            for step in range(4):
                buckets.append([])
                self.step(replica, compression, optimizer, batch_of(self.rank, step))
            self.assertGreater(len(buckets[-1]), 1)
            self.assertNotEqual(buckets[-4], buckets[-3], "the buckets have not changed: this tests nothing")
            self.expect_agreement(replica.module)

    @on_ranks(4)
    def test_through_shared_memory_nothing_is_coded(self):
        replica, expected = parallel(made(Net)), parallel(made(Net))
        compression = banyan_torch.compress(replica, "int4", box_ranks=2)
        for model in (replica, expected):
            train(model, sgd(model.parameters()), self.batches())
        self.same_parameters(replica.module, expected.module)
        self.assertEqual(sum(compression.residual_norms().values()), 0)

    @on_ranks(4, 6, init=False)
    def test_boxes_that_are_hosts_share_memory(self):
        box_ranks = self.world // 2
        with self.on_hosts([rank // box_ranks for rank in range(self.world)]):
            self.assertFalse(banyan_torch.is_on_one_host(dist.group.WORLD))
            for codec in ("int4", "sign"):
                with self.case(codec):
                    replica = parallel(made(Net, width=65), small_buckets=True)
                    compression = banyan_torch.compress(replica, codec, box_ranks=box_ranks)
                    optimizer = sgd(replica.parameters())
                    for step in range(4):
                        self.step(replica, compression, optimizer, batch_of(self.rank, step))
                    self.assertGreater(sum(compression.residual_norms().values()), 0, "nothing was coded")
                    self.expect_agreement(replica.module)


class Training(BoxesTest):
    @on_ranks(4, 6, limit=80)
    def test_all_ranks_have_the_same_bits(self):
        for box_ranks in kBoxes[self.world]:
            for codec, keeps in (("int8", True), ("int4:stochastic", True), ("sign", True), ("int4", False)):
                with self.case(codec, keeps, box_ranks=box_ranks):
                    replica, _ = self.boxed(made(Net, width=33), box_ranks, codec, keeps, small_buckets=True)
                    train(replica, sgd(replica.parameters()), self.batches(12))
                    self.expect_agreement(replica.module)

    @on_ranks(4, 6)
    def test_training_is_that_of_one_process(self):
        for box_ranks in kBoxes[self.world]:
            replica, _ = self.boxed(made(Net), box_ranks, "bfloat16", small_buckets=True)
            train(replica, sgd(replica.parameters()), self.batches(6))
            self.same_parameters(replica.module, trained_serially(made(Net), self.world, 6), 5e-3)


class Modes(BoxesTest):
    @on_ranks(4)
    def test_accumulated_gradients_are_sent_once(self):
        replica, compression = self.boxed(made(Net), 2)
        self.step(replica, compression, sgd(replica.parameters()), batch_of(self.rank, 0))
        self.expect_sent_once(replica, compression)

    @on_ranks(4, 6)
    def test_the_residual_of_a_rank_that_has_finished_waits(self):
        """It is made so large that nobody could miss it in the gradients of the others."""
        for box_ranks in kBoxes[self.world]:
            model = made(Net)
            replica, compression = self.boxed(model, box_ranks)
            with replica.join():
                train(replica, sgd(replica.parameters()),
                      [batch_of(self.rank, step) for step in range(3 + 2 * self.rank)])
                if self.rank == 0:
                    compression.load_state_dict({"codec": "int8", "residuals": {
                        name: torch.full(p.shape, 1000.0) for name, p in model.named_parameters()}})
            expected = trained_serially(model, self.world, 3 + 2 * (self.world - 1),
                                        ranks_of_step=lambda step: [r for r in range(self.world) if step < 3 + 2 * r])
            self.same_parameters(replica.module, expected, 0.05)
            self.expect_agreement(replica.module)
            if self.rank == 0:
                for name, values in self.residuals(compression, model).items():
                    self.same(values, torch.full_like(values, 1000.0), 1e-3)

    @on_ranks(4, 6, limit=80)
    def test_nothing_leaks_into_parameters_that_no_rank_uses(self):
        for box_ranks in kBoxes[self.world]:
            for codec in ("int8", "int4", "sign"):
                with self.case(codec, box_ranks=box_ranks):
                    self.expect_no_leaks(*self.boxed(made(Branches), box_ranks, codec, find_unused_parameters=True))

    @on_ranks(4)
    def test_two_models_on_one_group(self):
        group = self.tcp()
        replicas = [parallel(made(kind), process_group=group, small_buckets=True) for kind in (Net, Mixed)]
        states = [banyan_torch.compress(replicas[0], "int8", box_ranks=2),
                  banyan_torch.compress(replicas[1], "int4", box_ranks=2)]
        self.expect_no_disturbance(replicas, states)

    @on_ranks(4, 6)
    def test_what_is_not_finite_comes_out_everywhere_and_does_not_stay(self):
        for box_ranks in kBoxes[self.world]:
            for codec in ("int8", "mxfp4", "sign"):
                with self.case(codec, box_ranks=box_ranks):
                    model = Vector(2000)
                    compression = banyan_torch.Compression(model, codec, group=self.tcp(), box_ranks=box_ranks)
                    self.averaged(compression, model.parts[0], tensor_of(self.rank, (2000,)))
                    before = self.residuals(compression, model)
                    gradients = {"parts.0": tensor_of(self.rank, (2000,), salt=1)}
                    wrong = gradients["parts.0"].clone()
                    if self.rank == self.world - 1:
                        wrong[300], wrong[1900] = math.nan, -math.inf
                    average = self.averaged(compression, model.parts[0], wrong)
                    after = self.residuals(compression, model)
                    self.expect_equal_everywhere(average)
                    lost = average.isnan()
                    self.assertTrue(bool(lost[300]) and bool(lost[1900]) and not bool(average.isinf().any()))
                    self.assertLess(int(lost.sum()), 2 * 256 + 1)
                    self.same(after["parts.0"][lost], before["parts.0"][lost])
                    there = lambda tensors: {name: tensor[~lost] for name, tensor in tensors.items()}
                    self.expect_nothing_lost(there(gradients), there(before), there({"parts.0": average}), there(after))


class Groups(BoxesTest):
    @on_ranks(4)
    def test_those_of_a_compression_go_with_it(self):
        """Of boxes, and of the second calls of PowerSGD; not with the group that they were made of."""
        replica = parallel(nn.Linear(30, 20), process_group=self.tcp())
        weight = next(replica.module.parameters())

        for codec, options in (("int8", {"box_ranks": 2}), ("powersgd:1", {"dense_steps": 0})):
            with self.case(codec):
                before = self.event_descriptors()
                for life in range(4):
                    compression = banyan_torch.Compression(replica, codec, **options)
                    self.averaged(compression, weight, torch.ones(600))
                    self.assertGreater(self.event_descriptors(), before)
                    del compression
                    self.assertEqual(self.event_descriptors(expected=before), before)


class State(BoxesTest):
    @on_ranks(4, 6)
    def test_training_goes_on_from_other_boxes_and_from_none(self):
        """What is kept is by parameter, so that it goes along wherever it is loaded."""
        ways = [{"box_ranks": box_ranks} for box_ranks in kBoxes[self.world]] + [{}]
        model, saved = made(Net, width=31), None
        for step in range(2 * len(ways)):
            replica, compression = self.compressed(model, "int4", scheme=ways[step % len(ways)], small_buckets=True)
            if saved is not None:
                compression.load_state_dict(saved)
            for number in (2 * step, 2 * step + 1):
                self.step(replica, compression, sgd(replica.parameters()), batch_of(self.rank, number))
            model, saved = replica.module, compression.state_dict()
        self.assertGreater(sum(compression.residual_norms().values()), 0)

    @on_ranks(4)
    def test_the_same_state_gives_the_same_bits(self):
        replica, compression = self.boxed(made(Net), 2, "int4")
        optimizer = torch.optim.SGD(replica.parameters(), lr=0.05)
        train(replica, optimizer, self.batches(4))
        model, state = {name: p.clone() for name, p in replica.state_dict().items()}, compression.state_dict()
        ends = []
        for is_loaded in (True, True, False):
            replica.load_state_dict(model)
            compression.load_state_dict(state if is_loaded else {"codec": "int4", "residuals": {}})
            train(replica, optimizer, self.batches(4))
            ends.append(torch.cat([p.detach().flatten().clone() for p in replica.parameters()]))
        self.same(ends[0], ends[1])
        self.assertFalse(torch.equal(ends[0], ends[2]), "residuals make no difference: this tests nothing")

    @on_ranks(4)
    def test_residuals_are_scaled_with_the_loss(self):
        """By powers of two, so that the bits of all codes stay."""
        gradients = []
        for second in (1024, 256):
            replica, compression = self.boxed(made(Net), 2, "int4")
            (loss_of(replica, batch_of(self.rank, 0)) * 1024).backward()
            compression.scale_(second / 1024)
            replica.zero_grad()
            (loss_of(replica, batch_of(self.rank, 1)) * second).backward()
            gradients.append([parameter.grad / second for parameter in replica.parameters()])
        for left, right in zip(*gradients):
            self.same(left, right)


def lose_a_rank(job, which):
    """What became of a step in which a rank is killed: (words, seconds since the death, whether residuals stayed)."""
    group = dist.new_group(pg_options=banyan_torch.Options(transport="tcp"))
    model = Vector(100_000)
    compression = banyan_torch.Compression(model, "int4", group=group, box_ranks=2)
    gradient = tensor_of(job.rank, (100_000,))
    compression._inside.average_of(gradient.clone(), [model.parts[0]]).wait()
    before = compression.state_dict()["residuals"]["parts.0"]
    dist.barrier()
    if job.rank == which:
        job.mark("death", time.monotonic())
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        compression._inside.average_of(gradient.clone(), [model.parts[0]]).wait()
    except RuntimeError as error:
        after = compression.state_dict()["residuals"]["parts.0"]
        return str(error), time.monotonic() - float(job.await_mark("death")), bool(torch.equal(before, after))


class Failures(BoxesTest):
    def test_all_ranks_learn_of_a_death_be_it_in_another_box(self):
        for which in (0, 3):
            outcomes = run_on_ranks(4, lose_a_rank, which)
            self.assertEqual(outcomes[which].how, "died", outcomes[which].text)
            for outcome in outcomes:
                if outcome.rank == which:
                    continue
                self.assertEqual(outcome.how, "returned", outcome.text)
                words, seconds, have_stayed = outcome.value
                self.assertRegex(words, f"rank {which}")
                self.assertLess(seconds, kNoticed)
                self.assertTrue(have_stayed, f"residuals of rank {outcome.rank}")

    @on_ranks(4, leaves=False)
    def test_an_aborted_group_ends_the_calls_of_its_boxes(self):
        model = Vector(100_000)
        group = self.tcp()
        compression = banyan_torch.Compression(model, "int4", group=group, box_ranks=2)
        self.averaged(compression, model.parts[0], tensor_of(self.rank, (100_000,)))
        before = self.residuals(compression, model)
        if self.rank == 3:
            for rank in range(3):
                self.await_mark(f"failed {rank}")
            return
        future = compression._inside.average_of(tensor_of(self.rank, (100_000,)), [model.parts[0]])
        with self.assertRaisesRegex(banyan_torch.InvalidUsageError, "a call under way uses the residual"):
            compression.state_dict()
        self.mark(f"begun {self.rank}")
        for rank in range(3):
            self.await_mark(f"begun {rank}")
        banyan_torch.abort(group, "the test says so")
        with self.assertRaisesRegex(RuntimeError, "the test says so"):
            future.wait()
        self.same(self.residuals(compression, model)["parts.0"], before["parts.0"])
        self.mark(f"failed {self.rank}")


class Arguments(BoxesTest):
    @on_ranks(4)
    def test_wrong_ones_are_refused_in_one_line(self):
        replica = parallel(made(Net), process_group=self.tcp())
        for wrong in (0, 1, 3, 4, 8):
            with self.assertRaisesRegex(ValueError, f"^box_ranks is {wrong} in a group of 4: [^\n]*more than 1[^\n]*$"):
                banyan_torch.compress(replica, "int8", box_ranks=wrong)
        with self.assertRaisesRegex(ValueError, "^box_ranks is to be a whole number[^\n]*$"):
            banyan_torch.compress(replica, "int8", box_ranks=2.5)
        for codec in ("none", "topk:1%", "powersgd:4"):
            with self.assertRaisesRegex(ValueError, f"^{codec} has no option 'box_ranks'$"):
                banyan_torch.compress(replica, codec, box_ranks=2)
        with self.assertRaisesRegex(ValueError, "^int8 has no option 'momentum'$"):
            banyan_torch.compress(replica, "int8", box_ranks=2, momentum=0.9)
        banyan_torch.compress(replica, "int8", box_ranks=2)
        train(replica, sgd(replica.parameters()), self.batches(1))
