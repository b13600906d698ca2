"""Gradients of DistributedDataParallel in codes: banyan_torch.compress().

Over TCP, since ranks of one host send float32 as it is through shared memory.
"""

import contextlib
import copy
import gc
import io
import math
import os
import time
import warnings

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_wrapper

import banyan_torch
from data import tensor_of
from models import batch_of, Branches, loss_of, made, Mixed, Net, parallel, sgd, train, trained_serially
from ranks import backend, not_by_gloo, on_ranks
from test_ddp import ModelTest

kCodecs = ("bfloat16", "float16", "fp8", "mxfp8", "int8", "int4", "mxfp4", "sign", "int8:stochastic",
           "mxfp4:stochastic", "topk:10%", "topk:10%+int8", "topk:10%+sign")


def is_eventfd(place):
    try:
        return os.readlink(place) == "anon_inode:[eventfd]"
    except FileNotFoundError:  # another thread has closed it just now
        return False


@not_by_gloo("has no codes")
class CompressTest(ModelTest):
    def tcp(self):
        group = dist.new_group(pg_options=banyan_torch.Options(transport="tcp"))
        self.assertFalse(banyan_torch.is_on_one_host(group))
        return group

    @contextlib.contextmanager
    def on_hosts(self, host_of):
        """The default group, of ranks that take themselves for those of several hosts: host_of[rank]. For init=False."""
        os.environ["BANYAN_HOST_ID"] = f"host{host_of[self.rank]}"
        try:
            dist.init_process_group(backend(), store=dist.PrefixStore(f"hosts {host_of}", self.store), rank=self.rank,
                                    world_size=self.world)
            yield
            dist.destroy_process_group()
        finally:
            del os.environ["BANYAN_HOST_ID"]

    def compressed(self, model, codec="int8", residual=True, scheme={}, **options):
        """The model in DDP over TCP, and its Compression."""
        replica = parallel(model, process_group=self.tcp(), **options)
        return replica, banyan_torch.compress(replica, codec, residual=residual, **scheme)

    def summed(self, tensors):
        """Of each of these tensors by name, the sum over all ranks, in float64."""
        sums = {}
        for name, tensor in tensors.items():
            sums[name] = tensor.detach().double()
            dist.all_reduce(sums[name])
        return sums

    def residuals(self, compression, model):
        """Of all parameters: zero where none was kept yet."""
        found = compression.state_dict()["residuals"]
        return {name: found.get(name, torch.zeros_like(p)).clone() for name, p in model.named_parameters()}

    def own_gradients(self, model, batch, use=loss_of):
        """What this rank contributes: zero for parameters that the loss does not depend on."""
        alone = copy.deepcopy(model)
        alone.zero_grad(set_to_none=True)
        use(alone, batch).backward()
        return {name: torch.zeros_like(p) if p.grad is None else p.grad for name, p in alone.named_parameters()}

    def expect_nothing_lost(self, gradients, before, averages, after):
        """Sums over ranks: gradients and residuals before are the results and the residuals after."""
        sent, kept, lost = self.summed(gradients), self.summed(before), self.summed(after)
        for name, average in averages.items():
            total = average.detach().double() * self.world
            terms = (sent[name], kept[name], lost[name], total)
            largest = max(float(term.abs().max()) for term in terms)
            off = float((sent[name] + kept[name] - total - lost[name]).abs().max())
            self.assertLessEqual(off, 1e-6 * (largest + 1e-30), name)

    def step(self, replica, compression, optimizer, batch):
        """One step of training in which nothing may be lost. Returns the residuals before and after it."""
        module = replica.module
        before, gradients = self.residuals(compression, module), self.own_gradients(module, batch)
        optimizer.zero_grad()
        loss_of(replica, batch).backward()
        after = self.residuals(compression, module)
        averages = {name: p.grad for name, p in module.named_parameters() if p.grad is not None}
        self.expect_nothing_lost(gradients, before, averages, after)
        optimizer.step()
        return before, after

    def expect_sent_once(self, replica, compression):
        """Gradients of three batches, of which two are under no_sync()."""
        module = replica.module
        before = self.residuals(compression, module)
        gradients = [self.own_gradients(module, batch_of(self.rank, step)) for step in range(3)]
        replica.zero_grad()
        for step in range(3):
            with replica.no_sync() if step < 2 else contextlib.nullcontext():
                loss_of(replica, batch_of(self.rank, step)).backward()
            unchanged = self.residuals(compression, module)
            if step < 2:
                self.assertTrue(all(torch.equal(before[name], unchanged[name]) for name in before))
        self.expect_nothing_lost({name: sum(g[name] for g in gradients) for name in before}, before,
                                 {name: p.grad for name, p in module.named_parameters()},
                                 self.residuals(compression, module))

    def expect_no_leaks(self, replica, compression):
        """Of Branches: all ranks use the one branch or the other; in every third step rank 0 alone uses the second."""
        module = replica.module
        for step in range(6):
            module.use_odd = step % 2 == 1 if step % 3 else self.rank == 0
            is_used = {name: step % 3 == 0 or name.split(".")[0] in ("start", "odd" if step % 2 else "even")
                       for name, _ in module.named_parameters()}
            before = self.residuals(compression, module)
            gradients = self.own_gradients(module, batch_of(self.rank, step))
            module.zero_grad(set_to_none=True)
            loss_of(replica, batch_of(self.rank, step)).backward()
            after = self.residuals(compression, module)
            averages = {name: p.grad for name, p in module.named_parameters() if p.grad is not None}
            self.assertEqual(set(averages), {name for name in is_used if is_used[name]})
            self.expect_nothing_lost(gradients, before, averages, after)
            for name in set(before) - set(averages):
                self.same(after[name], before[name])

    def expect_no_disturbance(self, replicas, states):
        """Models that are trained by one loss: each loses nothing."""
        for step in range(5):
            before = [self.residuals(state, replica.module) for state, replica in zip(states, replicas)]
            gradients = [self.own_gradients(replica.module, batch_of(self.rank, step)) for replica in replicas]
            for replica in replicas:
                replica.zero_grad()
            sum(loss_of(replica, batch_of(self.rank, step)) for replica in replicas).backward()
            for i, replica in enumerate(replicas):
                self.expect_nothing_lost(gradients[i], before[i],
                                         {name: p.grad for name, p in replica.module.named_parameters()},
                                         self.residuals(states[i], replica.module))

    def event_descriptors(self, expected=None):
        """Descriptors of eventfd(), of which each group over TCP has some; now, or once they are as many as expected,
        since a thread that ended a call may hold a group for a moment longer."""
        end = time.monotonic() + 10
        while True:
            gc.collect()
            count = sum(is_eventfd(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd"))
            if expected in (None, count) or time.monotonic() > end:
                return count
            time.sleep(0.01)

    def expect_no_bucket_to_wait(self, codec, **scheme):
        """Rank 0 begins all of its buckets before another rank begins any."""
        steps = []

        def hook(state, bucket):
            if self.rank != 0 and len(steps) == 3:
                self.await_mark("begun")
            future = banyan_torch.compress_hook(state, bucket)
            if self.rank == 0 and len(steps) == 3 and bucket.is_last():
                self.mark("begun")
            return future

        replica = parallel(made(Net, width=33), process_group=self.tcp(), small_buckets=True)
        replica.register_comm_hook(banyan_torch.Compression(replica, codec, **scheme), hook)
        for step in range(5):
            steps.append(step)
            loss_of(replica, batch_of(self.rank, step)).backward()

    def expect_residuals_after_a_failed_call(self, codec, **scheme):
        """They are those from before it. Of two ranks; breaks their group."""
        def hook(state, bucket):
            future = banyan_torch.compress_hook(state, bucket)
            with self.assertRaisesRegex(banyan_torch.InvalidUsageError, "a call under way uses the residual"):
                state.state_dict()
            banyan_torch.abort(replica.process_group, "the test says so")
            return future

        replica = parallel(made(Net, width=33), process_group=self.tcp())
        compression = banyan_torch.Compression(replica, codec, **scheme)
        replica.register_comm_hook(compression, lambda state, bucket: (
            hook if step == 2 else banyan_torch.compress_hook)(state, bucket))
        for step in range(3):
            if step == 2:
                before = copy.deepcopy(compression.state_dict())
                self.assertGreater(sum(compression.residual_norms().values()), 0)
                if self.rank == 1:
                    self.await_mark("failed")
                    return
            with self.assertRaisesRegex(RuntimeError, "the test says so") if step == 2 else contextlib.nullcontext():
                loss_of(replica, batch_of(self.rank, step)).backward()
        after = compression.state_dict()
        for kind in {"residuals", "momenta"} & set(before):
            for name, values in before[kind].items():
                self.same(after[kind][name], values)
        self.mark("failed")


class Law(CompressTest):
    @on_ranks(2, 3)
    def test_nothing_is_lost(self):
        model = made(Net, width=65)
        for codec in kCodecs:
            with self.case(codec):
                replica, compression = self.compressed(model, codec)
                optimizer = sgd(replica.parameters())
                for step in range(4):
                    self.step(replica, compression, optimizer, batch_of(self.rank, step))
                self.assertGreater(sum(compression.residual_norms().values()), 0, "nothing was coded")
                self.expect_agreement(replica.module)

    @on_ranks(2, 4)
    def test_nothing_is_lost_in_many_buckets_nor_when_they_change(self):
        """The first step has other buckets than the rest, as this hook sees."""
        buckets = [[]]

        def hook(state, bucket):
            buckets[-1].append([names[id(parameter)] for parameter in bucket.parameters()])
            return banyan_torch.compress_hook(state, bucket)

        for views in (False, True):
            replica = parallel(made(Net, width=31), small_buckets=True, process_group=self.tcp(),
                               gradient_as_bucket_view=views)
            names = {id(parameter): name for name, parameter in replica.module.named_parameters()}
            compression = banyan_torch.Compression(replica, "int4")
            replica.register_comm_hook(compression, hook)
            optimizer = sgd(replica.parameters())
            for step in range(4):
                buckets.append([])
                before, after = self.step(replica, compression, optimizer, batch_of(self.rank, step))
                self.assertEqual(all(float(values.abs().max()) > 0 for values in before.values()), step > 0)
            self.assertGreater(len(buckets[-1]), 1)
            self.assertNotEqual(buckets[-4], buckets[-3], "the buckets have not changed: this tests nothing")
            self.assertEqual(buckets[-3], buckets[-1])

    @on_ranks(1)
    def test_one_rank_has_its_own_gradients(self):
        replica, compression = self.compressed(made(Net))
        self.step(replica, compression, sgd(replica.parameters()), batch_of(0, 0))

    @on_ranks(2)
    def test_through_shared_memory_nothing_is_coded(self):
        replica, expected = parallel(made(Net)), parallel(made(Net))
        compression = banyan_torch.compress(replica, "sign")
        for model in (replica, expected):
            train(model, sgd(model.parameters()), self.batches())
        self.same_parameters(replica.module, expected.module)
        self.assertEqual(sum(compression.residual_norms().values()), 0)


def teacher_batch(rank, step, size=24):
    """A task that can be learnt up to its noise. Ranks disagree: their gradients do not vanish where the mean does."""
    x = tensor_of(rank, (size, 12), salt=2 * step) / 2
    y = torch.sin(x[:, :3] + x[:, 3:6] * x[:, 6:9] / 2) + tensor_of(rank, (size, 3), salt=2 * step + 1) / 6
    return x, y + rank * (x[:, 9:12] + x[:, :3] * x[:, 3:6]) * 2 / 3


class Training(CompressTest):
    limit = 200

    @on_ranks(2, 3, 4)
    def test_all_ranks_have_the_same_bits(self):
        for codec in ("int8", "int4:stochastic", "sign", "topk:5%+int4"):
            with self.case(codec):
                replica, _ = self.compressed(made(Net, width=33), codec, small_buckets=True)
                train(replica, sgd(replica.parameters()), self.batches(30))
                self.expect_agreement(replica.module)

    def loss_after(self, salt, steps, make):
        """Of all ranks, on data that was not trained with."""
        replica = make(made(Net, width=33))
        train(replica, torch.optim.SGD(replica.parameters(), lr=0.3),
              [teacher_batch(self.rank, salt + step) for step in range(steps)])
        with torch.no_grad():
            losses = [loss_of(replica.module, teacher_batch(rank, salt + steps, 2000)) for rank in range(self.world)]
        return sum(losses).item()

    @on_ranks(2, limit=190)
    def test_the_loss_is_that_of_float32(self):
        steps, ratios = 300, {"int8": [], "int4": [], "sign": [], "sign, forgotten": []}
        for salt in (0, 1000, 2000):
            dense = self.loss_after(salt, steps, lambda model: parallel(model, process_group=self.tcp()))
            self.assertLess(dense, self.loss_after(salt, 0, parallel) / 2, "nothing was learnt")
            for name in ratios:
                codec, keeps = name.split(",")[0], "forgotten" not in name
                coded = self.loss_after(salt, steps, lambda model: self.compressed(model, codec, residual=keeps)[0])
                ratios[name].append(coded / dense)
        words = str(ratios)
        self.assertTrue(all(abs(ratio - 1) < 0.01 for name in ("int8", "int4") for ratio in ratios[name]), words)
        self.assertTrue(all(ratio < 1.1 for ratio in ratios["sign"]), words)
        self.expect_that_it_tells(ratios["sign"], ratios["sign, forgotten"], 1.15)

    def expect_that_it_tells(self, kept, forgotten, least):
        """That residuals which are forgotten show: in the mean, and on each data beside those that are kept there."""
        words = f"this task does not tell: {kept} {forgotten}"
        self.assertGreater(sum(forgotten) / len(forgotten), least, words)
        self.assertTrue(all(lost / told > (1 + least) / 2 for told, lost in zip(kept, forgotten)), words)

    @on_ranks(2, limit=190)
    def test_the_loss_of_the_largest_values_is_that_of_float32(self):
        steps, kept, forgotten = 300, [], []
        for salt in (0, 1000):
            dense = self.loss_after(salt, steps, lambda model: parallel(model, process_group=self.tcp()))
            for ratios, keeps in ((kept, True), (forgotten, False)):
                loss = self.loss_after(salt, steps,
                                       lambda model: self.compressed(model, "topk:10%+int8", residual=keeps)[0])
                ratios.append(loss / dense)
        self.assertTrue(all(ratio < 1.02 for ratio in kept), f"{kept} {forgotten}")
        self.expect_that_it_tells(kept, forgotten, 1.05)


class Modes(CompressTest):
    @on_ranks(2)
    def test_accumulated_gradients_are_sent_once(self):
        replica, compression = self.compressed(made(Net))
        self.step(replica, compression, sgd(replica.parameters()), batch_of(self.rank, 0))
        self.expect_sent_once(replica, compression)

    @on_ranks(2, 3)
    def test_the_residual_of_a_rank_that_has_finished_waits(self):
        """It is made so large that nobody could miss it in the gradients of the others."""
        model = made(Net)
        replica, compression = self.compressed(model)
        batches = 3 + 2 * self.rank
        with replica.join():
            train(replica, sgd(replica.parameters()), [batch_of(self.rank, step) for step in range(batches)])
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

    @on_ranks(2, 3)
    def test_nothing_leaks_into_parameters_that_no_rank_uses(self):
        for codec in ("int8", "int4", "sign", "topk:20%", "topk:20%+int8"):
            with self.case(codec):
                replica, compression = self.compressed(made(Branches), codec, find_unused_parameters=True)
                self.expect_no_leaks(replica, compression)
                norms = compression.residual_norms().values()  # of the largest values, all of a bias may have been sent
                self.assertTrue((any if "topk" in codec else all)(norm > 0 for norm in norms))

    @on_ranks(2)
    def test_types_that_no_code_takes_are_told_once_with_their_share(self):
        said = []
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.compressed(made(Net, dtype=torch.bfloat16), "int8")
            self.compressed(made(Net), "int8")
            self.compressed(made(Net, dtype=torch.bfloat16), "none")
            said = [str(each.message) for each in caught if "banyan_torch" in str(each.message)]
        self.assertEqual(said, [] if self.rank else [
            "banyan_torch.compress: gradients of torch.bfloat16 (100 % of the values that are trained) go as they are: "
            "codes are of float32"])

    @on_ranks(2)
    def test_between_two_steps(self):
        """compress() after backward passes: from the next one on, as if the model began there."""
        model = made(Net, width=33)
        replica = parallel(model, process_group=self.tcp())
        optimizer = sgd(replica.parameters())
        train(replica, optimizer, [batch_of(self.rank, step) for step in range(3)])
        begun = copy.deepcopy(replica.module)
        compression = banyan_torch.compress(replica, "int8")
        for step in range(3, 6):
            self.step(replica, compression, optimizer, batch_of(self.rank, step))
        self.expect_agreement(replica.module)
        self.assertGreater(sum(compression.residual_norms().values()), 0)
        self.assertFalse(torch.equal(begun.layers[0].weight, replica.module.layers[0].weight))

    @on_ranks(2)
    def test_other_types_than_float32_are_as_without_a_hook(self):
        replica, compression = self.compressed(made(Mixed), small_buckets=True)
        plain = parallel(made(Mixed), process_group=self.tcp(), small_buckets=True)
        for either in (replica, plain):
            loss_of(either, batch_of(self.rank, 0)).backward()
        self.same(replica.module.second.weight.grad, plain.module.second.weight.grad)
        self.assertEqual({name.split(".")[0] for name in compression.residual_norms()}, {"first", "third"})

    @on_ranks(2, 3)
    def test_none_is_as_without_a_hook(self):
        replica, compression = self.compressed(made(Net), "none")
        plain = parallel(made(Net), process_group=self.tcp())
        for either in (replica, plain):
            train(either, sgd(either.parameters()), self.batches())
        self.same_parameters(replica.module, plain.module, 0.0)
        self.assertEqual(compression.state_dict(), {"codec": "none", "residuals": {}})

    @on_ranks(2)
    def test_a_static_graph(self):
        replica, compression = self.compressed(made(Net, width=31), static_graph=True, small_buckets=True)
        optimizer = sgd(replica.parameters())
        for step in range(4):
            self.step(replica, compression, optimizer, batch_of(self.rank, step))

    @on_ranks(2)
    def test_two_models_on_one_group(self):
        group = self.tcp()
        replicas = [parallel(made(kind), process_group=group, small_buckets=True) for kind in (Net, Mixed)]
        states = [banyan_torch.compress(replicas[0], "int8"), banyan_torch.compress(replicas[1], "int4")]
        self.expect_no_disturbance(replicas, states)

    @on_ranks(2)
    def test_gradients_in_another_order_of_memory(self):
        torch.manual_seed(11)
        model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(8 * 16, 3))
        model = model.to(memory_format=torch.channels_last)
        replica, compression = self.compressed(model)
        batch = (tensor_of(self.rank, (2, 3, 6, 6)), tensor_of(self.rank, (2, 3), salt=1))
        for _ in range(3):
            self.step(replica, compression, sgd(replica.parameters()), batch)

    @on_ranks(2, 3)
    def test_what_is_not_finite_comes_out_everywhere_and_does_not_stay(self):
        for codec in ("int8", "mxfp4", "sign"):
            with self.case(codec):
                replica, compression = self.compressed(made(Net), codec)
                optimizer = sgd(replica.parameters())
                self.step(replica, compression, optimizer, batch_of(self.rank, 0))
                before = self.residuals(compression, replica.module)
                optimizer.zero_grad()
                wrong = (math.nan, math.inf)[self.rank % 2] if self.rank == self.world - 1 else 1.0
                (loss_of(replica, batch_of(self.rank, 1)) * wrong).backward()
                for name, parameter in replica.module.named_parameters():
                    self.assertTrue(bool(parameter.grad.isnan().all()), name)
                after = self.residuals(compression, replica.module)
                for name in before:
                    self.same(after[name], before[name])
                self.step(replica, compression, optimizer, batch_of(self.rank, 2))

    @on_ranks(2)
    def test_a_hook_composed_in_python(self):
        replica = parallel(made(Net), process_group=self.tcp())
        replica.register_comm_hook(banyan_torch.Compression(replica, "int8"),
                                   fp16_compress_wrapper(banyan_torch.compress_hook))
        train(replica, sgd(replica.parameters()), self.batches())
        self.same_parameters(replica.module, trained_serially(made(Net), self.world, 6), 5e-3)

    @on_ranks(2)
    def test_both_hooks_give_the_same_bits(self):
        inside, _ = self.compressed(made(Net), "int4", small_buckets=True)
        outside = parallel(made(Net), process_group=self.tcp(), small_buckets=True)
        outside.register_comm_hook(banyan_torch.Compression(outside, "int4"), banyan_torch.compress_hook)
        for either in (inside, outside):
            train(either, sgd(either.parameters()), self.batches())
        self.same_parameters(inside.module, outside.module, 0.0)


class State(CompressTest):
    def reloaded(self, state):
        """As from a file."""
        file = io.BytesIO()
        torch.save(state, file)
        file.seek(0)
        return torch.load(file)

    @on_ranks(2, 3)
    def test_training_goes_on_with_the_same_bits(self):
        replica, compression = self.compressed(made(Net), "int4")
        optimizer = sgd(replica.parameters())
        train(replica, optimizer, self.batches(4))
        saved = self.reloaded([replica.state_dict(), optimizer.state_dict(), compression.state_dict()])
        ends = []
        for is_loaded in (True, True, False):
            replica.load_state_dict(saved[0])
            optimizer.load_state_dict(copy.deepcopy(saved[1]))
            if is_loaded:
                compression.load_state_dict(saved[2])
            else:
                compression.scale_(0)
            train(replica, optimizer, self.batches(4))
            ends.append(torch.cat([p.detach().flatten().clone() for p in replica.parameters()]))
        self.same(ends[0], ends[1])
        self.assertFalse(torch.equal(ends[0], ends[2]), "residuals make no difference: this tests nothing")

    @on_ranks(2)
    def test_another_process_takes_over(self):
        """Of a model with one parameter, whose buckets are always the same: bits depend on what shares a block."""
        torch.manual_seed(11)
        first, compression = self.compressed(nn.Linear(12, 3, bias=False))
        train(first, torch.optim.SGD(first.parameters(), lr=0.1), self.batches(4))
        second, restored = self.compressed(copy.deepcopy(first.module))
        restored.load_state_dict(self.reloaded(compression.state_dict()))
        for replica in (first, second):
            train(replica, torch.optim.SGD(replica.parameters(), lr=0.1), self.batches(4))
        self.same(second.module.weight.detach(), first.module.weight.detach())
        self.same(restored.state_dict()["residuals"]["weight"], compression.state_dict()["residuals"]["weight"])

    @on_ranks(2)
    def test_residuals_are_scaled_with_the_loss(self):
        replica, compression = self.compressed(made(Net))
        self.step(replica, compression, sgd(replica.parameters()), batch_of(self.rank, 0))
        before, norms = self.residuals(compression, replica.module), compression.residual_norms()
        compression.scale_(0.5)
        for name, values in self.residuals(compression, replica.module).items():
            self.same(values, before[name] / 2)
            self.assertAlmostEqual(compression.residual_norms()[name], norms[name] / 2)
            self.assertAlmostEqual(norms[name], float(before[name].norm()), places=5)

    @on_ranks(2)
    def test_a_loss_scale_that_changes_changes_nothing_else(self):
        """By powers of two, so that the bits of all codes stay."""
        gradients = []
        for second in (1024, 256):
            replica, compression = self.compressed(made(Net), "int4")
            (loss_of(replica, batch_of(self.rank, 0)) * 1024).backward()
            compression.scale_(second / 1024)
            replica.zero_grad()
            (loss_of(replica, batch_of(self.rank, 1)) * second).backward()
            gradients.append([parameter.grad / second for parameter in replica.parameters()])
        for left, right in zip(*gradients):
            self.same(left, right)

    @on_ranks(2)
    def test_residuals_of_a_bucket_under_way_are_not_to_be_had(self):
        def hook(state, bucket):
            if self.rank == 1:
                self.await_mark("refused")
            future = banyan_torch.compress_hook(state, bucket)
            if self.rank == 0:
                with self.assertRaisesRegex(banyan_torch.InvalidUsageError, "a call under way uses the residual"):
                    state.state_dict()
                self.mark("refused")
            return future

        replica = parallel(made(Net), process_group=self.tcp())
        replica.register_comm_hook(banyan_torch.Compression(replica, "int8"), hook)
        loss_of(replica, batch_of(self.rank, 0)).backward()

    @on_ranks(1)
    def test_states_that_do_not_fit_are_refused(self):
        replica, compression = self.compressed(made(Net))
        loss_of(replica, batch_of(0, 0)).backward()
        before = compression.state_dict()

        def other(name, change):
            values = before["residuals"][name].clone()
            changed = change(values)
            return {"codec": "int8", "residuals": {**before["residuals"], name: changed}}

        for wrong, words in (({"codec": "int4", "residuals": {}}, "the state is of codec int4, and this is of int8"),
                             ({"codec": "int8", "residuals": {"x": torch.zeros(1)}}, "'x', which is no parameter"),
                             ({"codec": "int8", "residuals": {"layers.0.bias": torch.zeros(1)}}, r"\(1,\) instead of"),
                             ({"codec": "int8"}, "has no 'residuals'"), ({}, "has no 'codec'"), ([], "has no 'codec'"),
                             ({"codec": "int8", "residuals": [1]}, "are a list instead of tensors"),
                             ({"codec": "int8", "residuals": {"layers.0.bias": 3}}, "'layers.0.bias' is a int instead"),
                             ({**before, "directions": {"layers.0.bias": 3}}, "'directions' are not tensors by name"),
                             (other("layers.0.bias", lambda values: values.double()), "bias' is torch.float64"),
                             (other("layers.0.bias", lambda values: values.fill_(math.nan)),
                              "'layers.0.bias' has values that are not finite"),
                             (other("layers.2.weight", lambda values: values.view(-1)[-1:].fill_(math.inf) and values),
                              "'layers.2.weight' has values that are not finite")):
            with self.assertRaisesRegex(ValueError, words):
                compression.load_state_dict(wrong)
        forgetful = banyan_torch.Compression(replica, "int8", residual=False)
        with self.assertRaisesRegex(ValueError, "this keeps none"):
            forgetful.load_state_dict(before)
        for factor in (-1, math.nan):
            with self.assertRaisesRegex(ValueError, "0 or more"):
                compression.scale_(factor)
        for name, values in compression.state_dict()["residuals"].items():
            self.same(values, before["residuals"][name])
