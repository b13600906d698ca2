#include <algorithm>

#include "banyan/base/check.h"
#include "banyan/fabric/text.h"
#include "banyan/predict/simulation/link_events.h"
#include "banyan/testing/fuzz.h"

namespace banyan::predict {
namespace {

// Lines of events. Nodes whose names hold '-', two cables between one pair, a link of one direction.
const testing::Fuzzer kFuzzer(
    "link_events", "banyan/predict/simulation/corpus/link_events", [](std::string_view input) {
      static const Fabric fabric = fabric::parse_fabric_text(
          "a <-> sw-s 4GB/s; a <-> sw-s 2GB/s; sw-s <-> b 4GB/s; a <-> s-w-t 2GB/s; s-w-t <-> b 2GB/s; b -> a 1GB/s");
      std::vector<LinkEvent> events;
      while (!input.empty() && events.size() < 1000) {
        const size_t end = std::min(input.find('\n'), input.size());
        const std::string_view line = input.substr(0, end);
        input.remove_prefix(std::min(end + 1, input.size()));
        try {
          parse_on_failure(line);
        } catch (const Error&) {
        }
        try {
          const std::vector<LinkEvent> more = parse_link_events(fabric, line);
          CHECK(!more.empty());
          events.insert(events.end(), more.begin(), more.end());
        } catch (const Error&) {
        }
      }
      const LinkTimeline timeline(fabric, events);
      CHECK(timeline.moments().empty() == events.empty());
      for (const LinkTimeline::Moment& moment : timeline.moments()) {
        CHECK(moment.time.count() >= 0 && moment.state < timeline.states().size());
        for (const LinkEvent& change : moment.changes) {
          CHECK(timeline.is_down(moment.state, change.link) == (change.bandwidth == Bandwidth()));
        }
      }
    });

}  // namespace
}  // namespace banyan::predict
