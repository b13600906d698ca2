// The choice of spans that a page holds, by track (a stream of a rank), when not all of them fit.
#pragma once

#include <string>
#include <vector>

#include "banyan/predict/simulation/prediction.h"

namespace banyan::predict::report {

struct PageSpans {
  struct Track {
    uint32_t rank = 0, stream = 0;
    std::vector<uint32_t> spans;  // into Prediction::spans, by begin
  };
  std::vector<Track> tracks;  // by rank and stream; those without spans are left out
  std::string note;           // what was left out, in a sentence; empty when nothing was
};

// At most `most` spans. Ranks are kept whole: the first, the one that waits least (the others wait for it), and as many
// as fit, evenly spread. If the first alone is too many, its longest spans.
PageSpans choose_spans(const Prediction& prediction, size_t most);

}  // namespace banyan::predict::report
