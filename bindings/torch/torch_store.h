// TorchStore: a c10d store as the place where the processes of a job meet.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <string>

#include "banyan/run/join/secret.h"
#include "banyan/run/join/store.h"
#include "bindings/torch/torch_version.h"

namespace banyan::pytorch {

// Errors of the c10d store become Error{io}; its time-outs Error{timed_out}. While get() waits in the main thread, it
// looks for Python's signals (signals.h), and throws what their handlers raise. The store can be used after a wait that
// was given up.
class TorchStore : public run::Store {
 public:
  explicit TorchStore(c10::intrusive_ptr<c10d::Store> store) : store_(std::move(store)) {}

  void set(const std::string& key, const std::string& value, const run::Deadline& deadline) override;
  std::string get(const std::string& key, const run::Deadline& deadline) override;
  std::optional<std::string> try_get(const std::string& key, const run::Deadline& deadline) override;
  int64_t add(const std::string& key, int64_t delta, const run::Deadline& deadline) override;
  const std::string& place() const override { return place_; }

 private:
  const c10::intrusive_ptr<c10d::Store> store_;
  const std::string place_ = "the store of torch.distributed";
};

// That of the environment, or else one that rank 0 makes and the others read from the store under `prefix`: whoever can
// read the store is trusted with the job, as PyTorch does.
run::Secret job_secret(run::Store& store, const std::string& prefix, uint32_t rank, const run::Deadline& deadline);

}  // namespace banyan::pytorch
