// Link events: links that change bandwidth, fail and return while jobs run, and what becomes of what is on them.
//
// In words, as on the command line, for both directions of all cables between two nodes:
//
//   10ms gpu0-ib0=10GB/s    from 10 ms on they have this bandwidth
//   10ms gpu0-ib0 fail      they carry nothing
//   20ms gpu0-ib0 returns   they have what the fabric says, again
//
// A pair of nodes is read as fabric/node_pair.h says.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "banyan/base/units.h"
#include "banyan/fabric/fabric.h"

namespace banyan::predict {

// One direction of one cable.
struct LinkEvent {
  Picoseconds time{0};
  LinkId link{};
  std::optional<Bandwidth> bandwidth = {};  // zero: it fails; nothing: what the fabric says
};

enum class OnFailure : uint8_t {
  stop,  // flows on the link wait until it returns
  move,  // they go another way with what they have left, and wait where there is none
  fail,  // the jobs whose flows are on it end there
};

// Throws Error{invalid_input} or Error{not_found} that names the text and the mend.
std::vector<LinkEvent> parse_link_events(const Fabric& fabric, std::string_view text);
OnFailure parse_on_failure(std::string_view text);  // "stop", "move", "fail"

// Events in order: moments at which links change, and how all of them are after each.
class LinkTimeline {
 public:
  struct Moment {
    Picoseconds time{0};
    std::vector<LinkEvent> changes;  // one for a link, by ascending link; of several at one time the last holds
    uint32_t state = 0;              // from then on: into states()
  };
  struct Changed {
    LinkId link{};
    Bandwidth bandwidth;  // zero: it is down
    friend auto operator<=>(const Changed&, const Changed&) = default;
  };
  // Links that are not as the fabric says, ascending.
  using State = std::vector<Changed>;

  // Every event is of a link of the fabric, at a time of 0 or later.
  LinkTimeline(const Fabric& fabric, std::span<const LinkEvent> events);

  const std::vector<Moment>& moments() const { return moments_; }  // by ascending time
  // Each that there is at some time, once; the first is the empty one.
  const std::vector<State>& states() const { return states_; }
  bool is_down(uint32_t state, LinkId link) const;
  bool any_ever_down() const;
  // The bandwidth of the link in this state; `own` is its bandwidth in the fabric.
  Bandwidth bandwidth(uint32_t state, LinkId link, Bandwidth own) const;

 private:
  const Changed* find(uint32_t state, LinkId link) const;

  std::vector<Moment> moments_;
  std::vector<State> states_;
};

}  // namespace banyan::predict
