// What the tests of the Kineto reader share: reading samples and texts, and holding what was read against what is true.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/job/kineto/kineto.h"
#include "banyan/job/kineto/test_sample.h"

namespace banyan::testing {

job::kineto::LinkedJob read_sample(const Sample& sample, const job::kineto::Options& options = {});
job::kineto::LinkedJob read_texts(const std::vector<std::string>& kineto);
// "no error" where there is none.
std::string error_of_sample(const Sample& sample, const job::kineto::Options& options = {});
std::string error_of_texts(const std::vector<std::string>& kineto);

// Of each group, such as "group 1: 0 1 ", its calls in order. Groups have no order among each other.
using Calls = std::map<std::string, std::vector<std::string>>;
Calls calls_of(const Job& job, uint32_t rank);
Calls true_calls(const Sample& sample, uint32_t rank);

// Kernels by name: on which stream, and for how long at least (launch latency may be added).
void expect_kernels(const Job& job, const Sample& sample, uint32_t rank);
// All of what is true of the sample is found, and running the job takes as long as the run took.
void expect_truth(const Sample& sample, const job::kineto::LinkedJob& read, int64_t within_ns = 2'000);

bool has_line(const job::kineto::LinkReport& report, const std::string& text);

// A Kineto trace of these events, JSON objects. One of `rank` and `world` where the latter is not 0.
std::string trace_of(const std::vector<std::string>& events, uint32_t rank = 0, uint32_t world = 0);

}  // namespace banyan::testing
