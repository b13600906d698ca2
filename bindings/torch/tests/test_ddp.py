"""DistributedDataParallel against training in one process, in all its modes, and against Gloo."""

import contextlib
import copy

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

from data import tensor_of
from models import batch_of, Branches, loss_of, made, Mixed, Net, parallel, sgd, train, trained_serially, Words
from ranks import on_ranks, RankTest

kSteps = 6


class ModelTest(RankTest):
    def batches(self, steps=kSteps):
        return [batch_of(self.rank, step) for step in range(steps)]

    def same_parameters(self, actual, expected, tolerance=2e-5):
        for (name, left), right in zip(actual.named_parameters(), expected.parameters()):
            with self.case(name):
                self.same(left.detach(), right.detach(), tolerance)

    def expect_agreement(self, model):
        """All ranks have the same bits."""
        for tensor in model.parameters():
            everyone = [torch.empty_like(tensor) for _ in range(self.world)]
            dist.all_gather(everyone, tensor.detach())
            for other in everyone:
                self.same(other, everyone[0])

    def check(self, kind=Net, hook=None, tolerance=2e-5, **options):
        """Trains a model by DDP and serially, and compares."""
        model = made(kind)
        expected = trained_serially(model, self.world, kSteps)
        replica = parallel(model, **options)
        if hook is not None:
            replica.register_comm_hook(*hook)
        train(replica, sgd(replica.parameters()), self.batches())
        self.same_parameters(replica.module, expected, tolerance)
        self.expect_agreement(replica.module)


class Modes(ModelTest):
    @on_ranks(1, 2, 3, 4)
    def test_plain(self):
        self.check()

    @on_ranks(2, 3)
    def test_many_small_buckets(self):
        self.check(small_buckets=True)

    @on_ranks(2)
    def test_gradients_are_views_of_the_buckets(self):
        self.check(small_buckets=True, gradient_as_bucket_view=True)
        self.check(gradient_as_bucket_view=True)

    @on_ranks(2)
    def test_static_graph(self):
        self.check(static_graph=True, small_buckets=True)

    @on_ranks(2)
    def test_several_types(self):
        self.check(Mixed)
        self.check(Mixed, small_buckets=True)

    @on_ranks(2, 3)
    def test_sparse_gradients(self):
        model = made(Words)
        plain = lambda parameters: torch.optim.SGD(parameters, lr=0.05)  # noqa: E731 (momentum is for dense ones)
        expected = trained_serially(model, self.world, kSteps, plain)
        replica = parallel(model)
        train(replica, plain(replica.parameters()), self.batches())
        self.same_parameters(replica.module, expected)
        self.expect_agreement(replica.module)

    @on_ranks(2)
    def test_initial_parameters_come_from_rank_0(self):
        torch.manual_seed(self.rank)
        replica = parallel(Net())
        torch.manual_seed(0)
        for left, right in zip(replica.module.parameters(), Net().parameters()):
            self.same(left.detach(), right.detach())

    @on_ranks(2, 3)
    def test_parameters_that_no_loss_depends_on_are_found(self):
        model = made(Branches)
        replica = parallel(model, find_unused_parameters=True)
        serial = copy.deepcopy(model)
        optimizers = sgd(replica.parameters()), sgd(serial.parameters())
        for step in range(kSteps):
            for optimizer in optimizers:
                optimizer.zero_grad(set_to_none=True)
            # Ranks use different branches in every third step.
            uses = [(step + (rank if step % 3 == 0 else 0)) % 2 == 1 for rank in range(self.world)]
            replica.module.use_odd = uses[self.rank]
            loss_of(replica, batch_of(self.rank, step)).backward()
            for rank in range(self.world):
                serial.use_odd = uses[rank]
                (loss_of(serial, batch_of(rank, step)) / self.world).backward()
            for optimizer in optimizers:
                optimizer.step()
        self.same_parameters(replica.module, serial)
        self.expect_agreement(replica.module)

    @on_ranks(2)
    def test_gradients_are_accumulated_without_communication(self):
        model = made(Net)
        replica, serial = parallel(model), copy.deepcopy(model)
        optimizers = sgd(replica.parameters()), sgd(serial.parameters())
        for step in range(0, 12, 3):
            for optimizer in optimizers:
                optimizer.zero_grad()
            for part in range(3):
                with replica.no_sync() if part < 2 else contextlib.nullcontext():
                    loss_of(replica, batch_of(self.rank, step + part)).backward()
                for rank in range(self.world):
                    (loss_of(serial, batch_of(rank, step + part)) / self.world).backward()
            for optimizer in optimizers:
                optimizer.step()
        self.same_parameters(replica.module, serial)
        self.expect_agreement(replica.module)

    @on_ranks(2)
    def test_two_models_in_one_process(self):
        models = [made(Net), made(Mixed)]
        expected = [trained_serially(model, self.world, kSteps) for model in models]
        replicas = [parallel(model, small_buckets=True) for model in models]
        optimizers = [sgd(model.parameters()) for model in replicas]
        for step in range(kSteps):
            losses = [loss_of(model, batch_of(self.rank, step)) for model in replicas]
            for optimizer in optimizers:
                optimizer.zero_grad()
            sum(losses).backward()
            for optimizer in optimizers:
                optimizer.step()
        for model, serial in zip(replicas, expected):
            self.same_parameters(model.module, serial)

    @on_ranks(3)
    def test_a_model_on_a_part_of_the_ranks(self):
        group = dist.new_group([0, 1])
        if self.rank == 2:
            return
        model = made(Net)
        expected = trained_serially(model, 2, kSteps)
        replica = parallel(model, process_group=group)
        train(replica, sgd(replica.parameters()), self.batches())
        self.same_parameters(replica.module, expected)

    @on_ranks(2)
    def test_debugging_at_level_info(self):
        level = dist.get_debug_level()
        dist.set_debug_level(dist.DebugLevel.INFO)
        try:
            self.check()
            self.check(static_graph=True)
            self.check(find_unused_parameters=True)
        finally:
            dist.set_debug_level(level)

    @on_ranks(2, timeout=3)
    def test_parameters_that_differ_in_shape_are_refused(self):
        """Torch compares with rank 0, which goes on and may or may not notice that it is alone."""
        if self.rank == 0:
            with contextlib.suppress(RuntimeError):
                parallel(Net())
        else:
            with self.assertRaisesRegex(RuntimeError, "appears not to match sizes"):
                parallel(Net(width=18))


class Buffers(ModelTest):
    def normalising(self):
        torch.manual_seed(11)
        return nn.Sequential(nn.Linear(12, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 3))

    @on_ranks(2, 3)
    def test_running_statistics_come_from_rank_0_before_each_forward(self):
        model = self.normalising()
        replica = parallel(model)
        for step in range(4):
            loss_of(replica, batch_of(self.rank, step)).backward()
        serial = copy.deepcopy(model)
        for step in range(3):
            serial(batch_of(0, step)[0])
        serial(batch_of(self.rank, 3)[0])
        for (name, left), right in zip(replica.module.named_buffers(), serial.buffers()):
            with self.case(name):
                self.same(left, right, 1e-6)

    @on_ranks(2)
    def test_they_stay_apart_if_asked(self):
        model = self.normalising()
        replica = parallel(model, broadcast_buffers=False)
        serial = copy.deepcopy(model)
        for step in range(4):
            loss_of(replica, batch_of(self.rank, step)).backward()
            serial(batch_of(self.rank, step)[0])
        for left, right in zip(replica.module.buffers(), serial.buffers()):
            self.same(left, right, 1e-6)


class Counting:
    """State of a hook: how often it was called."""

    calls = 0


def averaging_hook(state, bucket):
    """A hook as users write them: starts a call, and goes on when it has ended."""
    state.calls += 1
    future = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
    return future.then(lambda f: f.value()[0] / dist.get_world_size())


def gathering_hook(state, bucket):
    """A hook that averages by another collective than all_reduce."""
    state.calls += 1
    everyone = [torch.empty_like(bucket.buffer()) for _ in range(dist.get_world_size())]
    future = dist.all_gather(everyone, bucket.buffer(), async_op=True).get_future()
    return future.then(lambda f: torch.stack(f.value()).mean(0))


def two_step_hook(state, bucket):
    """A hook that starts its second call when the first has ended, and waits for it there."""
    state.calls += 1

    def again(future):
        return dist.all_reduce(future.value()[0] / (2 * dist.get_world_size()), async_op=True).get_future().wait()[0]

    # The second call sums what is equal on all ranks already.
    return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(again).then(
        lambda f: f.value() * 2 / dist.get_world_size())


class Hooks(ModelTest):
    @on_ranks(1, 2, 3)
    def test_all_reduce(self):
        self.check(hook=(None, default_hooks.allreduce_hook), small_buckets=True)

    @on_ranks(2, 3)
    def test_compression_to_16_bits(self):
        self.check(hook=(None, default_hooks.fp16_compress_hook), tolerance=5e-3)
        self.check(hook=(None, default_hooks.fp16_compress_hook), tolerance=5e-3, gradient_as_bucket_view=True)

    @on_ranks(2, 3)
    def test_hooks_of_users(self):
        for hook in (averaging_hook, gathering_hook):
            with self.case(hook.__name__):
                state = Counting()
                self.check(hook=(state, hook), small_buckets=True)
                self.assertGreater(state.calls, kSteps, "several buckets per step")

    @on_ranks(2)
    def test_a_hook_may_wait_for_a_call_that_it_starts_in_a_callback(self):
        state = Counting()
        self.check(hook=(state, two_step_hook))
        self.assertGreaterEqual(state.calls, kSteps)

    @on_ranks(2, 3)
    def test_power_sgd(self):
        """With full rank nothing is lost, up to rounding."""
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=32, start_powerSGD_iter=2,
                                            min_compression_rate=0.1, use_error_feedback=True, warm_start=True)
        self.check(hook=(state, powerSGD_hook.powerSGD_hook), tolerance=1e-3)
        self.assertGreater(state.total_numel_after_compression, 0, "nothing was compressed")

    @on_ranks(2)
    def test_the_built_in_hooks_of_cpp(self):
        for kind, tolerance in ((dist.BuiltinCommHookType.ALLREDUCE, 2e-5),
                                (dist.BuiltinCommHookType.FP16_COMPRESS, 5e-3)):
            with self.case(kind):
                model = made(Net)
                expected = trained_serially(model, self.world, kSteps)
                replica = parallel(model)
                replica._register_builtin_comm_hook(kind)
                train(replica, sgd(replica.parameters()), self.batches())
                self.same_parameters(replica.module, expected, tolerance)


class Losses(ModelTest):
    def train_in(self, group, steps=30):
        """Losses of a training with this group, and the parameters after it as one tensor."""
        replica = parallel(made(Net, width=33), process_group=group, small_buckets=True)
        losses = train(replica, torch.optim.Adam(replica.parameters(), lr=0.01), self.batches(3) * (steps // 3))
        return losses, torch.cat([tensor.detach().flatten() for tensor in replica.parameters()])

    @on_ranks(2, 3, 4)
    def test_they_are_those_of_gloo(self):
        losses, parameters = self.train_in(None)
        losses_of_gloo, parameters_of_gloo = self.train_in(dist.new_group(backend="gloo"))
        self.same(torch.tensor(losses), torch.tensor(losses_of_gloo), 1e-4)
        self.same(parameters, parameters_of_gloo, 1e-3)
        total = torch.tensor(losses)
        dist.all_reduce(total)
        self.assertLess(total[-3:].sum(), total[:3].sum(), "nothing was learnt")

    @on_ranks(2, 3, 4)
    def test_they_are_the_same_bits_in_every_run(self):
        first, second = self.train_in(None), self.train_in(dist.new_group())
        self.assertEqual(first[0], second[0])
        self.same(first[1], second[1])


class Models(ModelTest):
    @on_ranks(2)
    def test_a_convolution_in_channels_last(self):
        """Gradients whose memory has another order than their dimensions."""
        torch.manual_seed(11)
        model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 3), nn.Flatten(),
                              nn.Linear(4 * 4 * 4, 2)).to(memory_format=torch.channels_last)
        serial, replica = copy.deepcopy(model), parallel(model, small_buckets=True)
        inputs = [tensor_of(rank, (2, 3, 6, 6)).to(memory_format=torch.channels_last) for rank in range(self.world)]
        replica(inputs[self.rank]).square().mean().backward()
        for x in inputs:
            (serial(x).square().mean() / self.world).backward()
        for left, right in zip(replica.parameters(), serial.parameters()):
            self.same(left.grad, right.grad, 1e-5)

    @on_ranks(2)
    def test_a_transformer(self):
        torch.manual_seed(11)
        model = nn.Sequential(nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True), nn.Linear(16, 5))
        serial, replica = copy.deepcopy(model), parallel(model, small_buckets=True)
        inputs = [tensor_of(rank, (3, 7, 16)) for rank in range(self.world)]
        replica(inputs[self.rank]).square().mean().backward()
        for x in inputs:
            (serial(x).square().mean() / self.world).backward()
        for left, right in zip(replica.parameters(), serial.parameters()):
            self.same(left.grad, right.grad, 1e-4)
