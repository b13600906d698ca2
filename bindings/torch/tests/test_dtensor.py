"""Device meshes, distributed tensors, tensor parallelism and pipelines. Of PyTorch 2."""

import copy

import torch
import torch.distributed as dist
from torch import nn

from data import all_of, reduced, tensor_of
from models import Net, batch_of, loss_of, made
from ranks import RankTest, kTorch, on_ranks, since

if kTorch >= (2, 5):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

modern = since(2, 5, "public distributed tensors")


def whole(shape, salt=0):
    """A tensor that is the same on all ranks."""
    return tensor_of(7, shape, salt=salt)


@modern
class Meshes(RankTest):
    @on_ranks(2, 3)
    def test_a_mesh_of_one_dimension_is_the_world(self):
        mesh = init_device_mesh("cpu", (self.world,))
        self.assertEqual((mesh.size(), mesh.get_local_rank()), (self.world, self.rank))
        mine = tensor_of(self.rank, 10)
        dist.all_reduce(mine, group=mesh.get_group())
        self.same(mine, reduced(all_of(self.world, 10)))

    @on_ranks(4)
    def test_rows_and_columns_are_groups(self):
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("row", "column"))
        row, column = divmod(self.rank, 2)
        for name, members in (("row", [column, column + 2]), ("column", [2 * row, 2 * row + 1])):
            mine = tensor_of(self.rank, 10)
            dist.all_reduce(mine, group=mesh[name].get_group())
            self.same(mine, reduced([tensor_of(rank, 10) for rank in members]))


@modern
class Tensors(RankTest):
    @on_ranks(2, 3)
    def test_shards_become_whole_again(self):
        """Also where the ranks' shares differ, and some are empty."""
        mesh = init_device_mesh("cpu", (self.world,))
        for rows in (2 * self.world, 2 * self.world + 1, 1):
            for dim in (0, 1):
                with self.case(rows=rows, dim=dim):
                    shape = (rows, 5) if dim == 0 else (5, rows)
                    sharded = distribute_tensor(whole(shape), mesh, [Shard(dim)])
                    self.same(sharded.full_tensor().contiguous(), whole(shape))
                    self.same(sharded.redistribute(mesh, [Replicate()]).to_local().contiguous(), whole(shape))

    @on_ranks(2, 3)
    def test_every_placement_turns_into_every_other(self):
        mesh = init_device_mesh("cpu", (self.world,))
        shape = (2 * self.world, 3 * self.world)
        parts = DTensor.from_local(tensor_of(self.rank, shape), mesh, [Partial()])
        total = reduced(all_of(self.world, shape))
        self.same(parts.full_tensor(), total)
        for target in (Replicate(), Shard(0), Shard(1)):
            there = parts.redistribute(mesh, [target])
            self.same(there.full_tensor().contiguous(), total)
            for further in (Replicate(), Shard(0), Shard(1)):
                with self.case(target, further):
                    self.same(there.redistribute(mesh, [further]).full_tensor().contiguous(), total)

    @on_ranks(2, 3)
    def test_products_of_shards_and_their_gradients(self):
        mesh = init_device_mesh("cpu", (self.world,))
        left, right = whole((2 * self.world, 4)), whole((4, 3 * self.world), salt=1)
        for placement in (Shard(0), Replicate()):
            with self.case(placement):
                a = distribute_tensor(left, mesh, [placement]).requires_grad_()
                b = distribute_tensor(right, mesh, [Shard(1)]).requires_grad_()
                product = (a.redistribute(mesh, [Replicate()]) @ b)
                self.same(product.full_tensor().detach().contiguous(), left @ right)
                product.sum().backward()
                self.same(a.grad.full_tensor().contiguous(), torch.ones(product.shape) @ right.t(), tolerance=1e-6)

    @on_ranks(4)
    def test_on_a_mesh_of_two_dimensions(self):
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("row", "column"))
        for placements in ((Shard(0), Shard(1)), (Replicate(), Shard(0)), (Shard(1), Replicate()),
                           (Shard(0), Shard(0))):
            with self.case(placements):
                self.same(distribute_tensor(whole((8, 6)), mesh, placements).full_tensor().contiguous(), whole((8, 6)))


@modern
class Parallel(RankTest):
    @on_ranks(2, 3, limit=60)
    def test_layers_split_over_ranks_learn_as_one(self):
        mesh = init_device_mesh("cpu", (self.world,))
        serial = made(Net, width=6 * self.world)
        model = parallelize_module(copy.deepcopy(serial), mesh, {"layers.0": ColwiseParallel(),
                                                                 "layers.2": RowwiseParallel()})
        for step in range(2):
            for net in (serial, model):
                net.zero_grad()
                loss_of(net, batch_of(0, step)).backward()
            with torch.no_grad():
                for (name, mine), theirs in zip(model.named_parameters(), serial.parameters()):
                    grad = mine.grad.full_tensor() if isinstance(mine.grad, DTensor) else mine.grad
                    with self.case(name, step=step):
                        self.same(grad.contiguous(), theirs.grad, tolerance=1e-5)
                for net in (serial, model):
                    for parameter in net.parameters():
                        parameter -= 0.1 * parameter.grad


class Stage(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.layer = nn.Linear(inputs, outputs)

    def forward(self, x):
        return torch.tanh(self.layer(x))


@modern
class Pipelines(RankTest):
    @on_ranks(2, 3, limit=60)
    def test_micro_batches_through_stages_learn_as_one(self):
        from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

        widths = [6, 8, 5, 4][:self.world] + [3]
        torch.manual_seed(3)
        stages = [Stage(*pair) for pair in zip(widths, widths[1:])]
        inputs, targets = whole((8, 6)), whole((8, 3), salt=1)
        serial = copy.deepcopy(stages)
        nn.functional.mse_loss(nn.Sequential(*serial)(inputs), targets).backward()
        scale = 4 if kTorch < (2, 7) else 1  # before, gradients of micro-batches were summed
        for schedule_of in (ScheduleGPipe, Schedule1F1B):
            mine = copy.deepcopy(stages[self.rank])
            stage = PipelineStage(mine, self.rank, self.world, torch.device("cpu"))
            schedule = schedule_of(stage, n_microbatches=4,
                                   loss_fn=lambda y, target: nn.functional.mse_loss(y, target) / scale)
            if self.rank == 0:
                schedule.step(inputs)
            elif self.rank == self.world - 1:
                schedule.step(target=targets)
            else:
                schedule.step()
            for name, parameter in mine.named_parameters():
                with self.case(schedule_of.__name__, name):
                    expected = dict(serial[self.rank].named_parameters())[name].grad
                    self.same(parameter.grad, expected, tolerance=1e-5)
