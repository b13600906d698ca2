// Boxes: the ranks of a group as boxes of so many ranks in their order, and averages over the group by these two
// levels.
//
// Each rank of a box has a share of a buffer, as many values as the others but for the last ones. An average is three
// calls:
//   1. a sum in the box, of which each rank gets its share;
//   2. an average of each share over the ranks of the same place in all boxes, in a code where one is given;
//   3. the shares of the box to all of its ranks.
// In the box values go as they are, through shared memory where it is one host. So what goes between boxes is encoded
// once for a whole box, and a rank encodes its share only.
//
// The second and the third call begin when the one before has ended, in the thread that finds that out. That moment
// differs between ranks, so each step has a group of its own, in which calls come in the order of the first ones. If a
// call fails, other ranks would wait for calls that never come: so all these groups fail with it, and so does the group
// that they were made of.
//
// This is the hierarchical form of Espresso (Wang et al., EuroSys 2023, section 4.1) with its code between machines
// only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <vector>

#include "banyan/codec/codec.h"
#include "bindings/torch/futures.h"
#include "bindings/torch/in_order.h"
#include "bindings/torch/process_group.h"

namespace banyan::pytorch {

class Boxes : public std::enable_shared_from_this<Boxes> {
 public:
  using GroupPtr = c10::intrusive_ptr<ProcessGroupBanyan>;

  // Throws Error{invalid_input} unless so many ranks are more than one, and a part of the group that divides it.
  static void expect_possible(uint64_t box_ranks, int ranks);
  // Collective. Throws as expect_possible(), and what making groups throws.
  Boxes(GroupPtr group, uint64_t box_ranks);

  struct Share {
    size_t begin = 0, count = 0;
  };
  // The share of this rank in a buffer of so many values.
  Share share_of(size_t values) const;

  // Collective: starts the average over all ranks of a contiguous float32 buffer, in place, and returns. In the thread
  // of the backward pass, in the same order on all ranks. Without a code if none is given. `residual`, which may be
  // null, is of the share; what it holds is added to the sum of the box. The future's value is `buffer`; until it is
  // there the average keeps the residual alive.
  TensorFuture average(const at::Tensor& buffer, const std::optional<codec::Codec>& codec,
                       const std::shared_ptr<run::Residual>& residual);

  uint64_t box_ranks() const { return box_ranks_; }

  // Medians of three, in seconds, of a sum in the box with its gathering, and of an average of shares between boxes
  // without a code.
  struct Times {
    double inside = 0, across = 0;
  };
  // Collective over the group, and blocks; on a buffer of so many values, which all ranks begin together. Between
  // averages. Throws what calls throw.
  Times measure(size_t values);

 private:
  struct Average;  // under way

  std::vector<size_t> counts_of(size_t values) const;  // of the shares of a box
  void go_across(const std::shared_ptr<Average>& average, const std::exception_ptr& failure);
  void gather(const std::shared_ptr<Average>& average, const std::exception_ptr& failure);
  // All these groups end.
  void fail(const std::exception_ptr& error);

  const GroupPtr group_;
  const uint64_t box_ranks_;
  GroupPtr sums_, across_, gathers_;  // by step: the box, the ranks of this place in all boxes, the box
  InOrder across_calls_, gather_calls_;
};

}  // namespace banyan::pytorch
