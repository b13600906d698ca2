#include "bindings/torch/torch_store.h"

#include <pybind11/pybind11.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "banyan/base/error.h"
#include "bindings/torch/signals.h"

namespace banyan::pytorch {
namespace {

// Between two questions it rests for a tenth of what it has waited: so it is late by a tenth at most, and thousands of
// ranks that wait long for the last one ask the one store seldom.
constexpr int kPauses = 10;
constexpr std::chrono::milliseconds kLongestPause{300};

// The first line: c10 appends where in its code it happened.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

template <typename Body>
auto guarded(const std::string& place, const run::Deadline& deadline, const Body& body) {
  const auto late = [&] { return Error(ErrorCode::timed_out, place + " did not answer within " + deadline.text()); };
  if (deadline.has_passed()) throw late();
  try {
    return body();
  } catch (const pybind11::error_already_set&) {  // of a handler of a signal
    throw;
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    // A store gives up by its own clock, which may be a little ahead.
    if (deadline.left() < std::chrono::milliseconds(50)) throw late();
    throw Error(ErrorCode::io, place + ": " + first_line(error.what()));
  }
}

}  // namespace

void TorchStore::set(const std::string& key, const std::string& value, const run::Deadline& deadline) {
  guarded(place_, deadline, [&] { store_->set(key, std::vector<uint8_t>(value.begin(), value.end())); });
}

// It asks, and does not let the store wait: where the answer comes just after a wait has ended at its timeout, a
// TCPStore of PyTorch 1.13 takes it for that to its next question, and then hangs or gives anything.
std::string TorchStore::get(const std::string& key, const run::Deadline& deadline) {
  return guarded(place_, deadline, [&] {
    const run::AwakeTicks ticks;
    const auto left = std::max(deadline.left(), std::chrono::milliseconds(1));
    std::chrono::milliseconds waited{0};
    const auto comes_within = [&](std::chrono::milliseconds at_most) {
      if (store_->check({key})) return true;
      const auto pause = std::min(at_most, std::clamp(waited / kPauses, std::chrono::milliseconds(1), kLongestPause));
      std::this_thread::sleep_for(pause);
      waited += pause;
      return false;
    };
    if (!wait_and_look(left, comes_within)) {
      throw Error(ErrorCode::timed_out, place_ + " did not answer within " + deadline.text());
    }
    const std::vector<uint8_t> value = store_->get(key);
    return std::string(value.begin(), value.end());
  });
}

std::optional<std::string> TorchStore::try_get(const std::string& key, const run::Deadline& deadline) {
  return guarded(place_, deadline, [&]() -> std::optional<std::string> {
    if (!store_->check({key})) return std::nullopt;
    const std::vector<uint8_t> value = store_->get(key);
    return std::string(value.begin(), value.end());
  });
}

int64_t TorchStore::add(const std::string& key, int64_t delta, const run::Deadline& deadline) {
  return guarded(place_, deadline, [&] { return store_->add(key, delta); });
}

run::Secret job_secret(run::Store& store, const std::string& prefix, uint32_t rank, const run::Deadline& deadline) {
  run::Secret secret = run::Secret::from_environment();
  if (!secret.is_empty()) return secret;
  const std::string key = prefix + "secret";
  if (rank != 0) {
    try {
      return run::Secret::parse(store.get(key, deadline), "PyTorch's store");
    } catch (const Error& error) {
      if (error.code() != ErrorCode::timed_out) throw;
      throw Error(ErrorCode::timed_out, "rank 0 has not come to " + store.place() + " within " + deadline.text());
    }
  }
  secret = run::Secret::random();
  store.set(key, std::string(secret.key()), deadline);
  return secret;
}

}  // namespace banyan::pytorch
