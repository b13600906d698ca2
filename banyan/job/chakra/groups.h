// The process groups of a Chakra job: which ranks a collective is among, from what its node and its surroundings say.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "banyan/job/job.h"

namespace banyan::job::chakra {

class Groups {
 public:
  using Table = std::map<std::string, std::vector<uint32_t>>;  // by name; ranks empty: all

  // `json` is the side file, or empty. Throws Error{invalid_input} for what is none.
  // Groups are added to the builder, which is borrowed.
  Groups(uint32_t rank_count, std::string_view json, std::vector<uint32_t> dimensions, Job::Builder& builder);

  uint32_t rank_count() const { return rank_count_; }

  // The groups that a "## process_group:init ##" node declares, from its printed inputs.
  static Table parse_init(std::string_view input_values);

  // The number of the group in the job, which is made when it is met first. A name means what the side file says, else
  // what the rank's own trace says (`local`); the same name with other ranks is another group. Without a name the
  // collective is among all ranks, or among those along the involved dimensions. Throws Error{invalid_input} for a name
  // that is not known and dimensions that do not fit.
  uint32_t find(uint32_t rank, const std::string& pg_name, const std::vector<bool>& involved_dim, const Table& local);
  const std::vector<uint32_t>& ranks(uint32_t group) const { return *ranks_[group]; }

 private:
  std::vector<uint32_t> everybody() const;
  std::vector<uint32_t> along(uint32_t rank, const std::vector<bool>& involved_dim) const;
  uint32_t number_of(const std::string& name, std::vector<uint32_t> ranks);

  Job::Builder& builder_;
  uint32_t rank_count_;
  Table named_;
  std::vector<uint32_t> dimensions_;
  std::map<std::pair<std::string, std::vector<uint32_t>>, uint32_t> numbers_;
  std::vector<const std::vector<uint32_t>*> ranks_;  // by number, into numbers_
};

// The name of the group of all ranks if a trace gives it none.
constexpr std::string_view kAllRanks = "all ranks";

}  // namespace banyan::job::chakra
