"""A mixture of experts that live on different ranks. Each token goes to the one expert that the router likes best."""

import time

import torch
import torch.distributed as dist
from torch import nn


class Exchange(torch.autograd.Function):
    """Sends sent[r] rows to each rank r, in order, and gives the received[r] of each; the gradients go back."""

    rows, seconds = 0, 0.0  # of this process: received from other ranks; spent in the calls

    @staticmethod
    def forward(context, rows, sent, received):
        context.ways_back = received, sent
        arrived, begin = rows.new_empty(sum(received), *rows.shape[1:]), time.perf_counter()
        dist.all_to_all_single(arrived, rows.contiguous(), received, sent)
        Exchange.seconds += time.perf_counter() - begin
        Exchange.rows += len(arrived) - received[dist.get_rank()]
        return arrived

    @staticmethod
    def backward(context, gradient):
        return Exchange.apply(gradient, *context.ways_back), None, None


class MixtureOfExperts(nn.Module):
    """The router, and of `total` experts those in the range `here`. Equal seeds make equal experts, wherever they are;
    the ranks hold equally many, in order. The gradients of an expert are those of all tokens that came to it, from any
    rank; those of the router are of this rank's tokens, and the program adds them up."""

    def __init__(self, seed, width, total, here):
        super().__init__()
        torch.manual_seed(seed)
        self.router = nn.Linear(width, total)
        experts = [nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))
                   for _ in range(total)]
        self.experts = nn.ModuleList(experts[number] for number in here)

    def forward(self, tokens):
        weight, choice = self.router(tokens).softmax(1).max(1)
        by_expert = choice.argsort(stable=True)
        leaving = choice.bincount(minlength=self.router.out_features).view(-1, len(self.experts))  # [rank, its expert]
        arriving = torch.empty_like(leaving)  # [rank, our expert]
        dist.all_to_all_single(arriving, leaving)
        sent, received = leaving.sum(1).tolist(), arriving.sum(1).tolist()
        arrived = Exchange.apply(tokens[by_expert], sent, received)
        wanted = torch.arange(len(self.experts)).repeat(len(arriving)).repeat_interleave(arriving.flatten())
        grouped = wanted.argsort(stable=True)
        parts = arrived[grouped].split(arriving.sum(0).tolist())
        done = torch.cat([expert(part) for expert, part in zip(self.experts, parts)])[grouped.argsort()]
        return Exchange.apply(done, received, sent)[by_expert.argsort()] * weight[:, None]

    def forward_alone(self, tokens):
        """The same where all experts are here, without any exchange."""
        weight, choice = self.router(tokens).softmax(1).max(1)
        result = torch.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            result[choice == number] = expert(tokens[choice == number])
        return result * weight[:, None]
