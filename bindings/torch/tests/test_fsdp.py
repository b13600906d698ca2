"""Models whose parameters are shared out among ranks: FSDP, its successor fully_shard, both hybrid. Of PyTorch 2."""

import copy
import unittest

import torch
import torch.distributed as dist
from torch import nn

from models import Net, batch_of, loss_of, made, sgd, trained_serially
from ranks import RankTest, kTorch, on_ranks, since

kSteps = 3


def train(model, rank, steps=kSteps, clip=None):
    optimizer = sgd(model.parameters())
    for step in range(steps):
        optimizer.zero_grad()
        loss_of(model, batch_of(rank, step)).backward()
        if clip is not None:
            clip(model)
        optimizer.step()
    return model


@since(2, 4, "FSDP for CPUs")
class Wrapped(RankTest):
    """FullyShardedDataParallel."""

    def expect_trained(self, wrapped, serial):
        from torch.distributed.fsdp import FullyShardedDataParallel as Fsdp

        with Fsdp.summon_full_params(wrapped, writeback=False):
            for mine, theirs in zip(wrapped.parameters(), serial.parameters()):
                self.same(mine.detach().clone(), theirs.detach(), tolerance=1e-5)

    @on_ranks(2, 3, limit=60)
    def test_trains_as_one_process_does(self):
        from torch.distributed.fsdp import FullyShardedDataParallel as Fsdp
        from torch.distributed.fsdp import ShardingStrategy

        serial = trained_serially(made(Net), self.world, kSteps)
        for strategy in (ShardingStrategy.FULL_SHARD, ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy.NO_SHARD):
            for use_orig_params in (False, True):
                with self.case(strategy, use_orig_params=use_orig_params):
                    model = Fsdp(made(Net), sharding_strategy=strategy, use_orig_params=use_orig_params,
                                 device_id=torch.device("cpu"),
                                 auto_wrap_policy=lambda module, recurse, **_: recurse or isinstance(module, nn.Linear))
                    self.expect_trained(train(model, self.rank), serial)

    @on_ranks(4, limit=60)
    def test_hybrid_shards_train_as_one_process_does(self):
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import FullyShardedDataParallel as Fsdp
        from torch.distributed.fsdp import ShardingStrategy

        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("copies", "shards"))
        model = Fsdp(made(Net), device_mesh=mesh, sharding_strategy=ShardingStrategy.HYBRID_SHARD,
                     device_id=torch.device("cpu"))
        self.expect_trained(train(model, self.rank), trained_serially(made(Net), self.world, kSteps))

    @on_ranks(2, limit=60)
    def test_whole_and_sharded_states_come_back(self):
        from torch.distributed.fsdp import FullStateDictConfig, StateDictType
        from torch.distributed.fsdp import FullyShardedDataParallel as Fsdp

        model = Fsdp(made(Net), device_id=torch.device("cpu"))
        with Fsdp.state_dict_type(model, StateDictType.FULL_STATE_DICT, FullStateDictConfig(rank0_only=False)):
            state = model.state_dict()
        for name, tensor in made(Net).state_dict().items():
            self.same(state[name], tensor)
        other = Fsdp(Net(), device_id=torch.device("cpu"))
        with Fsdp.state_dict_type(model, StateDictType.SHARDED_STATE_DICT), \
                Fsdp.state_dict_type(other, StateDictType.SHARDED_STATE_DICT):
            other.load_state_dict(model.state_dict())
        self.expect_trained(other, made(Net))


@since(2, 7, "fully_shard for CPUs")
class FullyShard(RankTest):
    def sharded(self, mesh=None, **options):
        from torch.distributed.fsdp import fully_shard

        model = made(Net)
        options |= {"mesh": mesh} if mesh is not None else {}
        for layer in model.layers:
            if isinstance(layer, nn.Linear):
                fully_shard(layer, **options)
        return fully_shard(model, **options)

    def expect_trained(self, model, serial, tolerance=1e-5):
        for mine, theirs in zip(model.parameters(), serial.parameters()):
            self.same(mine.full_tensor().detach(), theirs.detach(), tolerance=tolerance)

    @on_ranks(2, 3, limit=60)
    def test_trains_as_one_process_does(self):
        from torch.distributed.device_mesh import init_device_mesh

        mesh = init_device_mesh("cpu", (self.world,))
        serial = trained_serially(made(Net), self.world, kSteps)
        for again in (False, True):
            with self.case(reshard_after_forward=again):
                self.expect_trained(train(self.sharded(mesh, reshard_after_forward=again), self.rank), serial)

    @on_ranks(4, limit=60)
    def test_hybrid_shards_train_as_one_process_does(self):
        from torch.distributed.device_mesh import init_device_mesh

        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("copies", "shards"))
        self.expect_trained(train(self.sharded(mesh), self.rank), trained_serially(made(Net), self.world, kSteps))

    @on_ranks(2, limit=60)
    def test_mixed_precision_trains(self):
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import MixedPrecisionPolicy

        if dist.get_backend() == "gloo":
            raise unittest.SkipTest("Gloo: no sums of bfloat16")
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16,
                                      output_dtype=torch.float32)
        model = train(self.sharded(init_device_mesh("cpu", (self.world,)), mp_policy=policy), self.rank)
        self.expect_trained(model, trained_serially(made(Net), self.world, kSteps), tolerance=0.05)

    @on_ranks(2, limit=60)
    def test_gradients_are_clipped_by_the_norm_of_all(self):
        from torch.distributed.device_mesh import init_device_mesh

        model = self.sharded(init_device_mesh("cpu", (self.world,)))
        loss_of(model, batch_of(self.rank, 0)).backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1e-3).full_tensor()
        serial = made(Net)
        for rank in range(self.world):
            (loss_of(serial, batch_of(rank, 0)) / self.world).backward()
        self.same(norm.detach(), nn.utils.clip_grad_norm_(serial.parameters(), 1e-3), tolerance=1e-5)

    @on_ranks(2, 3, limit=60)
    def test_states_are_whole_for_who_asks(self):
        from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, set_model_state_dict
        from torch.distributed.device_mesh import init_device_mesh

        mesh = init_device_mesh("cpu", (self.world,))
        model = train(self.sharded(mesh), self.rank)
        whole = StateDictOptions(full_state_dict=True, cpu_offload=True)
        state = get_model_state_dict(model, options=whole)
        kept = copy.deepcopy(state)
        for name, tensor in trained_serially(made(Net), self.world, kSteps).state_dict().items():
            if self.rank == 0:  # where it is put together
                self.same(state[name], tensor, tolerance=1e-5)
        other = self.sharded(mesh)
        set_model_state_dict(other, kept if self.rank == 0 else {},
                             options=StateDictOptions(full_state_dict=True, broadcast_from_rank0=True))
        for mine, theirs in zip(other.parameters(), model.parameters()):
            self.same(mine.to_local().detach(), theirs.to_local().detach())
