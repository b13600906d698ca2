// The few sentences and figures that come first: on the page, and for the command line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "banyan/predict/report/report_input.h"

namespace banyan::predict {

// The parts of the time of all ranks, as fractions of it. All zero if there are no ranks or no time.
struct TimeShares {
  double compute = 0, exposed = 0, waiting = 0, host = 0, bubble = 0;
};
TimeShares time_shares(const Prediction& prediction);

// The use of a link over the whole time; both figures from 0 to 1.
struct LinkStanding {
  uint32_t link = 0;
  double full = 0;  // the part of the time that it was a bottleneck
  double load = 0;  // bytes over what it could have carried; 0 where no fabric tells its bandwidth
};
// The standing of each link, in the order of their numbers. Empty if the prediction has no links or no time.
std::vector<LinkStanding> link_standings(const ReportInput& input);
// The first `most` of them: full longest first, then by load, then by number; links without a byte are left out.
std::vector<LinkStanding> busiest_links(const ReportInput& input, size_t most);

// Links of one bandwidth that look alike in a report.
struct AlikeLinks {
  LinkStanding first;
  size_t count = 0;
};
// The first `most` kinds of busiest_links, in its order.
std::vector<AlikeLinks> busiest_kinds(const ReportInput& input, size_t most);

// The number of links that are a bottleneck for at least 99 % as long as the one that is it longest; 0 if none ever is.
size_t tight_links(const std::vector<LinkStanding>& standings);

// One to four sentences: how long, where the time goes, which link is to blame, what would help; of a sweep, which plan
// is best for which sizes.
std::string in_words(const ReportInput& input);

}  // namespace banyan::predict
