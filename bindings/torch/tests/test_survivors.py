"""After a death: those who live learn their new ranks and where they meet, and go on in a new group."""

import os
import signal

import torch
import torch.distributed as dist

from data import reduced, tensor_of
from ranks import RankTest, not_by_gloo, on_ranks, run_on_ranks


def go_on(job, *victims):
    """Ranks of the first world die, one after the other; what each survivor saw: its ranks, worlds, lost ones, sums."""
    import banyan_torch
    first, seen = job.rank, []
    alive = list(range(job.world))
    for number, victim in enumerate(victims):
        dist.barrier()
        if first == victim:
            os.kill(os.getpid(), signal.SIGKILL)
        lost = alive.index(victim)
        try:
            while True:
                dist.all_reduce(torch.ones(1000))
        except banyan_torch.Error:
            left = banyan_torch.survivors()
        alive.remove(victim)
        assert left.lost == [lost], left
        assert (left.rank, left.world_size) == (alive.index(first), len(alive)), left
        dist.destroy_process_group()
        dist.init_process_group("banyan", store=left.store, rank=left.rank, world_size=left.world_size)
        mine = tensor_of(first, 1000, salt=number)
        dist.all_reduce(mine)
        expected = reduced([tensor_of(rank, 1000, salt=number) for rank in alive])
        assert torch.equal(mine, expected), (mine, expected)
        seen.append((left.rank, left.world_size))
    return seen


@not_by_gloo("has no such call")
class Survivors(RankTest):
    def check(self, world, *victims):
        outcomes = run_on_ranks(world, go_on, *victims, limit=60)
        alive = [rank for rank in range(world) if rank not in victims]
        for rank in victims:
            self.assertEqual((outcomes[rank].how, outcomes[rank].code), ("died", -signal.SIGKILL), outcomes[rank].text)
        for rank in alive:
            self.assertEqual(outcomes[rank].how, "returned", outcomes[rank].text)
            self.assertEqual(tuple(outcomes[rank].value[-1]), (alive.index(rank), len(alive)))

    def test_any_rank_may_die(self):
        for victim in range(3):
            self.check(3, victim)

    def test_one_may_die_after_the_other(self):
        self.check(4, 0, 1)
        self.check(4, 3, 0)

    def test_one_may_stay_alone(self):
        self.check(2, 0)

    @on_ranks(2)
    def test_it_can_be_called_while_all_live(self):
        import banyan_torch
        left = banyan_torch.survivors(timeout=20)
        self.assertEqual((left.rank, left.world_size, left.lost), (self.rank, 2, []))
        with self.assertRaises(banyan_torch.Error):
            dist.barrier()
