"""Messages between two ranks: send, recv, isend, irecv, tags, any source, batches."""

import random

import torch
import torch.distributed as dist

from data import random_bits, tensor_of, types
from ranks import RankTest, not_by_gloo, on_ranks, seed


class SendAndReceive(RankTest):
    @on_ranks(2, 3, 4)
    def test_a_message_goes_round_the_ring(self):
        for salt, dtype in enumerate(types()):
            with self.case(dtype):
                after, before = (self.rank + 1) % self.world, (self.rank - 1) % self.world
                got = torch.ones(11, dtype=dtype)
                if self.rank == 0:
                    dist.send(tensor_of(0, 11, dtype, salt), after)
                    self.assertEqual(dist.recv(got, before), before)
                else:
                    self.assertEqual(dist.recv(got, before), before)
                    dist.send(tensor_of(self.rank, 11, dtype, salt), after)
                self.same(got, tensor_of(before, 11, dtype, salt))

    @on_ranks(2, 3)
    def test_messages_of_any_size_arrive_in_order(self):
        sizes = [1, 2, 255, 4096, 65537, 1_000_003, 0, 7]
        if self.rank == 0:
            for salt, size in enumerate(sizes):
                for to in range(1, self.world):
                    dist.send(tensor_of(0, size, salt=salt), to)
        else:
            for salt, size in enumerate(sizes):
                with self.case(size=size):
                    got = torch.ones(size)
                    dist.recv(got, 0)
                    self.same(got, tensor_of(0, size, salt=salt))

    @on_ranks(2)
    def test_both_may_receive_before_they_send(self):
        other = 1 - self.rank
        got = torch.zeros(300_000)
        receiving = dist.irecv(got, other)
        sending = dist.isend(tensor_of(self.rank, 300_000), other)
        sending.wait()
        receiving.wait()
        self.same(got, tensor_of(other, 300_000))

    @on_ranks(2)
    def test_both_may_send_before_they_receive(self):
        other = 1 - self.rank
        sending = [dist.isend(tensor_of(self.rank, size, salt=size), other) for size in (10, 100_000, 2_000_000)]
        for size in (10, 100_000, 2_000_000):
            got = torch.zeros(size)
            dist.recv(got, other)
            self.same(got, tensor_of(other, size, salt=size))
        for work in sending:
            work.wait()

    @on_ranks(2)
    def test_a_part_of_a_tensor_can_be_sent_and_received(self):
        table = tensor_of(self.rank, (10, 6))
        if self.rank == 0:
            dist.send(table[3:7], 1)
        else:
            dist.recv(table[2:6], 0)
            self.same(table[2:6], tensor_of(0, (10, 6))[3:7])
            self.same(table[6:], tensor_of(1, (10, 6))[6:])
            self.same(table[:2], tensor_of(1, (10, 6))[:2])

    @on_ranks(2, 3)
    def test_messages_and_collectives_do_not_disturb_each_other(self):
        after, before = (self.rank + 1) % self.world, (self.rank - 1) % self.world
        got = torch.zeros(5000)
        receiving = dist.irecv(got, before)
        total = torch.full((3,), float(self.rank))
        dist.all_reduce(total)
        sending = dist.isend(tensor_of(self.rank, 5000), after)
        dist.barrier()
        receiving.wait()
        sending.wait()
        self.same(got, tensor_of(before, 5000))
        self.same(total, torch.full((3,), float(sum(range(self.world)))))

    @not_by_gloo("crashes on a message to oneself")
    @on_ranks(1, 2)
    def test_a_rank_can_send_to_itself(self):
        for count in (10, 300_000):
            for receives_first in (True, False):
                got, given = torch.zeros(count), tensor_of(self.rank, count)
                works = [lambda: dist.irecv(got, self.rank, tag=3), lambda: dist.isend(given, self.rank, tag=3)]
                for work in [start() for start in (works if receives_first else reversed(works))]:
                    work.wait()
                self.same(got, given)
        dist.barrier()


class Tags(RankTest):
    @on_ranks(2)
    def test_receives_take_the_message_with_their_tag(self):
        tags = [5, 0, 70000, 1, 2]
        if self.rank == 0:
            sending = [dist.isend(tensor_of(0, 1000 + tag % 100, salt=tag), 1, tag=tag) for tag in tags]
            for work in sending:
                work.wait()
        else:
            for tag in sorted(tags):
                with self.case(tag=tag):
                    got = torch.zeros(1000 + tag % 100)
                    dist.recv(got, 0, tag=tag)
                    self.same(got, tensor_of(0, 1000 + tag % 100, salt=tag))

    @on_ranks(2)
    def test_large_messages_with_other_tags_do_not_block_one(self):
        size = 500_000
        if self.rank == 0:
            sending = [dist.isend(tensor_of(0, size, salt=tag), 1, tag=tag) for tag in range(6)]
            for work in sending:
                work.wait()
        else:
            for tag in (5, 3, 1, 0, 2, 4):
                got = torch.zeros(size)
                dist.recv(got, 0, tag=tag)
                self.same(got, tensor_of(0, size, salt=tag))

    @on_ranks(2)
    def test_messages_of_one_tag_stay_in_order(self):
        if self.rank == 0:
            sending = [dist.isend(tensor_of(0, 50, salt=salt), 1, tag=salt % 2) for salt in range(20)]
            for work in sending:
                work.wait()
        else:
            for tag in (0, 1):
                for salt in range(tag, 20, 2):
                    got = torch.zeros(50)
                    dist.recv(got, 0, tag=tag)
                    self.same(got, tensor_of(0, 50, salt=salt))


class AnySource(RankTest):
    @on_ranks(2, 3, 4, 5)
    def test_recv_without_a_source_returns_the_sender(self):
        if self.rank == 0:
            senders = []
            for _ in range(self.world - 1):
                got = torch.zeros(200)
                senders.append(dist.recv(got))
                self.same(got, tensor_of(senders[-1], 200))
            self.assertEqual(sorted(senders), list(range(1, self.world)))
        else:
            dist.send(tensor_of(self.rank, 200), 0)

    @on_ranks(3, 4)
    def test_it_takes_only_messages_with_its_tag(self):
        if self.rank == 0:
            got = torch.zeros(200)
            self.assertEqual(dist.recv(got, tag=2), 2)
            self.same(got, tensor_of(2, 200, salt=2))
            for source in range(1, self.world):
                if source != 2:
                    dist.recv(got, source, tag=source)
                    self.same(got, tensor_of(source, 200, salt=source))
        else:
            dist.send(tensor_of(self.rank, 200, salt=self.rank), 0, tag=self.rank)

    @on_ranks(3)
    def test_irecv_without_a_source_knows_it_when_it_is_done(self):
        if self.rank == 0:
            got = [torch.zeros(100) for _ in range(2 * (self.world - 1))]
            receiving = [dist.irecv(tensor) for tensor in got]
            for work in receiving:
                work.wait()
            for work, tensor in zip(receiving, got):
                self.same(tensor, tensor_of(work._source_rank(), 100))
            self.assertEqual(sorted(work._source_rank() for work in receiving), [1, 1, 2, 2])
        else:
            for _ in range(2):
                dist.send(tensor_of(self.rank, 100), 0)

    @on_ranks(3)
    def test_in_a_group_the_sender_is_named_by_its_global_rank(self):
        group = dist.new_group([1, 2])
        if self.rank == 1:
            got = torch.zeros(10)
            self.assertEqual(dist.recv(got, group=group), 2)
            self.same(got, tensor_of(2, 10))
        elif self.rank == 2:
            dist.send(tensor_of(2, 10), 1, group=group)


class Batches(RankTest):
    @on_ranks(2, 3, 4)
    def test_a_batch_sends_and_receives_in_any_order(self):
        after, before = (self.rank + 1) % self.world, (self.rank - 1) % self.world
        got = [torch.zeros(1000 + salt) for salt in range(4)]
        operations = []
        for salt, tensor in enumerate(got):
            operations.append(dist.P2POp(dist.irecv, tensor, before, tag=salt))
            operations.append(dist.P2POp(dist.isend, tensor_of(self.rank, 1000 + salt, salt=salt), after, tag=salt))
        if self.rank % 2:
            operations.reverse()
        for work in dist.batch_isend_irecv(operations):
            work.wait()
        for salt, tensor in enumerate(got):
            self.same(tensor, tensor_of(before, 1000 + salt, salt=salt))

    @on_ranks(2, 3, 4)
    def test_many_messages_between_all_ranks_in_random_order(self):
        """Every rank sends 12 messages to each other rank; both sides open them in an order of their own."""
        order = random.Random(seed() * 100 + self.rank)
        plan = []
        for peer in range(self.world):
            if peer == self.rank:
                continue
            for tag in range(12):
                plan += [("send", peer, tag), ("recv", peer, tag)]
        order.shuffle(plan)

        def size(source, to, tag):
            return int(random_bits(source * 10 + to, 12, salt=99)[tag]) % 40_000

        works, received = [], []
        for what, peer, tag in plan:
            if what == "send":
                salt = 100 * peer + tag
                works.append(dist.isend(tensor_of(self.rank, size(self.rank, peer, tag), salt=salt), peer, tag=tag))
            else:
                got = torch.zeros(size(peer, self.rank, tag))
                received.append((got, peer, tag))
                works.append(dist.irecv(got, peer, tag=tag))
        order.shuffle(works)
        for work in works:
            work.wait()
        for got, peer, tag in received:
            with self.case(peer=peer, tag=tag):
                self.same(got, tensor_of(peer, size(peer, self.rank, tag), salt=100 * self.rank + tag))
