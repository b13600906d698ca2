// WayMeter: the bytes that all sessions of a host have sent lately along each path to a host (a *way*), and whether
// they waited (view/slow_links.h).
//
// Sessions look at their lanes every LaneWatch::kPause while calls are under way, and at no other time. A lane counts
// as pressed between two looks if bytes waited in the kernel at both, or stand in the network (lane_delay.h): for as
// long as the kernel was busy with it and the receiver had room. Nothing waits, or not for want of the network, if a
// sender has nothing to send, is held back (rate_gate.h), or its receiver does not read.
//
// The figures cover a window: the present half, and the whole one before it, so from kHalf to twice that.
//
// A WayMeter may be used by any thread, a LaneWatch by that of its session.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "banyan/run/execute/net_executor.h"
#include "banyan/run/system/run_delay.h"
#include "banyan/service/session/lane_delay.h"

namespace banyan::service {

class WayMeter {
 public:
  using Time = std::chrono::nanoseconds;  // of a monotonic clock; threads may be a little late with theirs
  static constexpr Time kHalf = std::chrono::milliseconds(200);
  static constexpr size_t kMostTenants = 100;  // that are told apart on a way (tenant_label.h)

  struct Way {
    std::string to;               // the host, for people
    std::vector<uint32_t> links;  // of the fabric
    bool is_whole = true;         // these are all

    friend auto operator<=>(const Way&, const Way&) = default;
  };
  // Figures of one lane, since it was looked at last.
  struct Sent {
    const void* session = nullptr;  // any mark of its own
    std::string tenant = {};
    uint64_t lane = 0;  // any number of its own in its session
    uint64_t bytes = 0;
    Time busy{0};                          // anything was under way, and the receiver had room
    Time pressed{0};                       // of that
    Time delayed{0};                       // of that, while nothing waited in the kernel
    Time round_trip{0};                    // while it was delayed; 0: it was not
    run::RunDelay thread = {};             // what the thread of its session has waited for a core, and its turns
    std::optional<uint64_t> allowed = {};  // bytes per second; nothing: any
  };
  void add(const Way& way, const Sent& sent, Time now);

  struct Row {
    Way way;
    Time window{0};
    Time busy{0};                 // of the lane that was busy longest
    Time pressed{0}, delayed{0};  // of the lane that was pressed longest
    Time round_trip{0};           // of that lane, the least; 0: it was not delayed
    Time wake{0};  // that the thread of a session has waited for a core at each of its turns, on average; the longest
    std::map<std::string, uint64_t> bytes = {};  // by tenant
    std::optional<uint64_t> allowed = {};        // of all lanes together
  };
  // None before a half is over, and where nothing was looked at since.
  std::vector<Row> rows(Time now);

 private:
  struct LaneSums {
    Time busy{0}, pressed{0}, delayed{0}, round_trip{0};
    run::RunDelay thread = {};
    std::optional<uint64_t> allowed = {};  // at the last look

    void add(const LaneSums& later);
  };
  struct Sums {
    std::map<std::string, uint64_t> bytes = {};
    std::map<std::pair<const void*, uint64_t>, LaneSums> lanes = {};

    void add(const std::string& tenant, uint64_t more);
  };
  using Half = std::map<Way, Sums>;

  void turn(Time now);

  std::mutex mutex_;  // protects what follows
  Half present_, before_;
  Time began_{-2 * kHalf}, before_length_{0};  // of the present half; of the one before
  bool has_before_ = false;
};

// The lanes of one session, as it looks at them.
class LaneWatch {
 public:
  using Time = WayMeter::Time;
  static constexpr Time kPause = std::chrono::milliseconds(20);

  struct Options {
    std::shared_ptr<WayMeter> meter;  // of the daemon, shared with all sessions
    std::string tenant = {};
    std::function<std::vector<run::NetExecutor::LaneOnCables>()> loads;
    // To the host of a rank.
    std::function<WayMeter::Way(uint32_t peer, const std::vector<uint32_t>& cables)> way;
    std::vector<double> capacities = {};  // by link, bytes per second; none: nobody knows when a lane is delayed
    std::function<std::optional<run::RunDelay>()> run_delay = run::run_delay;
  };
  explicit LaneWatch(Options options) : options_(std::move(options)) {}

  Time next() const { return looked_ + kPause; }
  // `rate`: what all of its calls may send over any link, in bytes per second; nothing: any.
  void look(std::optional<uint64_t> rate, Time now);

 private:
  using LaneKey = std::pair<uint32_t, uint32_t>;  // peer and lane

  struct Seen {
    run::LaneLoad last;
    WayMeter::Way way;
    double most = 0;  // bytes per second that the way carries; 0: not known
    LaneDelay delay = {};
    bool is_new = true;
    uint64_t look = 0;  // the last one
  };

  double capacity_of(const WayMeter::Way& way) const;
  run::RunDelay thread_since_last();

  const Options options_;
  std::map<LaneKey, Seen> lanes_;
  Time looked_{0};
  std::optional<run::RunDelay> thread_;  // at the last look
  uint64_t looks_ = 0;
};

}  // namespace banyan::service
