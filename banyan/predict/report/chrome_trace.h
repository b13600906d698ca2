// Predictions as a Chrome trace (the JSON that chrome://tracing, Perfetto and Speedscope open).
//
//   a process per rank, named after it, in the order of the ranks; a thread per stream of it
//   a "complete" event per span, with its kind as category
//   one process "links" with a counter per link whose load was recorded, 0 to 1, where it changes
//
// Times are microseconds, as the format wants, with up to six decimals: the picoseconds are in the text. (Viewers keep
// what a double keeps: to a nanosecond and better up to 100 days.) Events of a thread must not overlap in part, so a
// span that begins before the last one of its stream has ended goes to a further thread of that rank.
//
// Written as it comes, in blocks of about 64 KiB; a million spans are some 100 MB, and take under a second.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "banyan/predict/report/report_input.h"

namespace banyan::predict {

// Called with one block after another; what it throws comes through.
using TextSink = std::function<void(std::string_view)>;

void write_chrome_trace(const ReportInput& input, const TextSink& sink);
std::string chrome_trace(const ReportInput& input);

}  // namespace banyan::predict
