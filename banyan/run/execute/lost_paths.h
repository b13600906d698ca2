// LostPaths: the paths between ranks that a communicator has given up because cables of theirs were lost, and when it
// is time to try whether they carry again.
// Cables that an operator has them avoid are none of these: nothing is tried there.
//
// They are tried while calls wait, since only then somebody looks after connections. A cable that was lost for the
// first time is tried after kFirstPause, and the pause doubles each time that it is lost again, so that one which comes
// and goes does not stop the calls every few seconds. One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "banyan/run/transport/connector.h"

namespace banyan::run {

class LostPaths {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::milliseconds kFirstPause{3000}, kLongestPause{300'000};
  static constexpr size_t kMost = 64;  // that are remembered

  struct PeerPath {
    uint32_t peer = 0;
    Path path;
    std::vector<uint32_t> cables;  // that it crosses
  };

  // These cables were lost now; `paths` crossed them.
  void lose(const std::set<uint32_t>& cables, std::vector<PeerPath> paths, TimePoint now);
  // Plans do without these cables and no others from now on. Paths that cross none of them are forgotten.
  void keep(const std::set<uint32_t>& cables);

  // To be tried now; each is given once, until it has failed or worked.
  std::vector<PeerPath> due(TimePoint now);
  void failed(uint32_t peer, const Path& path, TimePoint now);
  // The cables of a path that works, of those that plans do without. It is tried again after kFirstPause, unless plans
  // use these cables by then.
  std::set<uint32_t> worked(uint32_t peer, const Path& path, TimePoint now);

  bool empty() const { return paths_.empty(); }

 private:
  struct Lost {
    PeerPath path;
    TimePoint due;
    bool is_tried = false;  // just now
  };
  std::vector<Lost>::iterator find(uint32_t peer, const Path& path);

  std::vector<Lost> paths_;
  std::set<uint32_t> cables_;            // that plans do without
  std::map<uint32_t, uint32_t> losses_;  // how often each cable was lost
};

}  // namespace banyan::run
