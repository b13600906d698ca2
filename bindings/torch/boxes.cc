#include "bindings/torch/boxes.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include "banyan/base/error.h"
#include "bindings/torch/averages.h"

namespace banyan::pytorch {
namespace {

std::exception_ptr failure_of(const c10::ivalue::Future& over) {
  return over.hasError() ? over.exception_ptr() : nullptr;
}

std::string words_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& exception) {
    return exception.what();
  } catch (...) {
    return "a call has failed";
  }
}

}  // namespace

struct Boxes::Average {
  at::Tensor buffer, share;
  std::optional<codec::Codec> codec;
  std::shared_ptr<run::Residual> residual;  // of who asked for the average, too
  uint64_t number = 0;
  TensorFuture averaged = new_tensor_future();
};

void Boxes::expect_possible(uint64_t box_ranks, int ranks) {
  const auto all = static_cast<uint64_t>(ranks);
  if (box_ranks > 1 && box_ranks < all && all % box_ranks == 0) return;
  throw Error(ErrorCode::invalid_input, "box_ranks is " + std::to_string(box_ranks) + " in a group of " +
                                            std::to_string(ranks) +
                                            ": it is to divide that number, to be more than 1, and fewer than all");
}

Boxes::Boxes(GroupPtr group, uint64_t box_ranks) : group_(std::move(group)), box_ranks_(box_ranks) {
  expect_possible(box_ranks, group_->getSize());
  const int each = static_cast<int>(box_ranks), rank = group_->getRank(), place = rank % each;
  std::vector<int> box, across;
  for (int i = 0; i < each; ++i) box.push_back(rank - place + i);
  for (int i = place; i < group_->getSize(); i += each) across.push_back(i);
  const std::string words = " of " + std::to_string(each) + " ranks";
  sums_ = group_->among(box, "box " + std::to_string(rank / each) + words);
  across_ = group_->among(across, "place " + std::to_string(place) + " in boxes" + words);
  gathers_ = sums_->twin();
}

std::vector<size_t> Boxes::counts_of(size_t values) const {
  const size_t each = (values + box_ranks_ - 1) / box_ranks_;
  std::vector<size_t> counts;
  for (size_t i = 0; i < box_ranks_; ++i) counts.push_back(std::min(each, values - std::min(values, i * each)));
  return counts;
}

Boxes::Share Boxes::share_of(size_t values) const {
  const size_t each = (values + box_ranks_ - 1) / box_ranks_;
  const auto place = static_cast<size_t>(sums_->getRank());
  return {.begin = std::min(values, place * each), .count = counts_of(values)[place]};
}

TensorFuture Boxes::average(const at::Tensor& buffer, const std::optional<codec::Codec>& codec,
                            const std::shared_ptr<run::Residual>& residual) {
  const auto values = static_cast<size_t>(buffer.numel());
  const auto average = std::make_shared<Average>();
  average->buffer = buffer;
  average->share = at::empty({static_cast<int64_t>(share_of(values).count)}, buffer.options());
  average->codec = codec;
  average->residual = residual;
  try {
    const auto work = sums_->sum_parts(buffer, counts_of(values), average->share);
    const uint64_t number = average->number = across_calls_.next_number();
    TORCH_INTERNAL_ASSERT(gather_calls_.next_number() == number);
    work->getFuture()->addCallback([self = shared_from_this(), average](c10::ivalue::Future& over) {
      self->across_calls_.run(average->number,
                              [self, average, failure = failure_of(over)] { self->go_across(average, failure); });
    });
  } catch (...) {
    fail(std::current_exception());
    throw;
  }
  return average->averaged;
}

// In order; then it is the turn of the third call, with what has failed until then.
void Boxes::go_across(const std::shared_ptr<Average>& average, const std::exception_ptr& failure) {
  const auto go_on = [self = shared_from_this(), average](const std::exception_ptr& failed) {
    self->gather_calls_.run(average->number, [self, average, failed] { self->gather(average, failed); });
  };
  if (failure || average->share.numel() == 0) return go_on(failure);
  try {
    c10::intrusive_ptr<c10d::Work> work;
    if (average->codec) {
      work = across_->coded_average(average->share, *average->codec, average->residual);
    } else {
      work = all_reduce(*across_, average->share, c10d::ReduceOp::AVG);
    }
    work->getFuture()->addCallback([go_on](c10::ivalue::Future& over) { go_on(failure_of(over)); });
  } catch (...) {
    go_on(std::current_exception());
  }
}

void Boxes::gather(const std::shared_ptr<Average>& average, const std::exception_ptr& failure) {
  const auto end = [self = shared_from_this(), average](const std::exception_ptr& failed) {
    average->residual.reset();
    if (!failed) return average->averaged->markCompleted(average->buffer);
    self->fail(failed);
    average->averaged->setError(failed);
  };
  if (failure) return end(failure);
  try {
    const at::NoGradGuard no_grad;
    average->share.mul_(1.0 / static_cast<double>(box_ranks_));
    const auto work = gathers_->gather_parts(average->share, counts_of(static_cast<size_t>(average->buffer.numel())),
                                             average->buffer);
    work->getFuture()->addCallback([end](c10::ivalue::Future& over) { end(failure_of(over)); });
  } catch (...) {
    end(std::current_exception());
  }
}

Boxes::Times Boxes::measure(size_t values) {
  const at::Tensor buffer = at::zeros({static_cast<int64_t>(values)}, at::kFloat);
  const at::Tensor share = at::zeros({static_cast<int64_t>(share_of(values).count)}, at::kFloat);
  const std::vector<size_t> counts = counts_of(values);
  const auto median = [&](const std::function<void()>& calls) {
    std::array<double, 3> seconds{};
    for (double& one : seconds) {
      group_->barrier(c10d::BarrierOptions())->wait();
      const auto begin = std::chrono::steady_clock::now();
      calls();
      one = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    }
    std::sort(seconds.begin(), seconds.end());
    return seconds[1];
  };
  Times times;
  times.inside = median([&] {
    sums_->sum_parts(buffer, counts, share)->wait();
    gathers_->gather_parts(share, counts, buffer)->wait();
  });
  times.across = median([&] { all_reduce(*across_, share)->wait(); });
  return times;
}

void Boxes::fail(const std::exception_ptr& error) { group_->abort(words_of(error)); }

}  // namespace banyan::pytorch
