#include "banyan/job/chakra/groups.h"

#include <algorithm>
#include <numeric>

#include "banyan/base/error.h"
#include "banyan/base/json_reader.h"
#include "banyan/job/kineto/trace.h"

namespace banyan::job::chakra {
Groups::Groups(uint32_t rank_count, std::string_view json, std::vector<uint32_t> dimensions, Job::Builder& builder)
    : builder_(builder), rank_count_(rank_count), dimensions_(std::move(dimensions)) {
  if (json.empty()) return;
  const JsonDocument document(json, {.name = "table of groups", .format = "", .depth = 2});
  if (!document.root().is_object()) throw invalid("is not a table of groups such as {\"0\": [0, 1]}");
  for (const auto& [name, ranks] : document.root().members()) {
    std::vector<uint32_t>& members = named_[std::string(name)];
    const std::string group = "group '" + std::string(name.substr(0, 60)) + "'";
    if (!ranks.is_array()) throw invalid(group + " is not a list of ranks");
    for (const JsonNode rank : ranks.items()) {
      if (!rank.is_whole(0, rank_count - 1)) {
        throw invalid(group + " names rank " + rank.in_words() + ", but there are traces of ranks 0 to " +
                      std::to_string(rank_count - 1));
      }
      members.push_back(static_cast<uint32_t>(rank.whole()));
    }
  }
}

// The text is a printed list of one text, which is a list of objects: ['[{"pg_name": "0", ...}]'], quoted one way or
// the other.
Groups::Table Groups::parse_init(std::string_view input_values) {
  const size_t first = input_values.find('{'), last = input_values.rfind('}');
  Table table;
  if (first == std::string_view::npos || last == std::string_view::npos || last < first) return table;
  std::string text = "[" + std::string(input_values.substr(first, last - first + 1)) + "]";
  std::vector<kineto::ProcessGroup> groups = kineto::read_group_table(text);
  if (groups.empty()) {
    std::string unquoted;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\\' && i + 1 < text.size()) ++i;
      unquoted += text[i];
    }
    groups = kineto::read_group_table(unquoted);
  }
  for (kineto::ProcessGroup& group : groups) table[group.name] = std::move(group.ranks);
  return table;
}

std::vector<uint32_t> Groups::everybody() const {
  std::vector<uint32_t> ranks(rank_count_);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

std::vector<uint32_t> Groups::along(uint32_t rank, const std::vector<bool>& involved_dim) const {
  std::vector<uint32_t> ranks = {rank};
  uint64_t stride = 1;
  for (size_t i = 0; i < dimensions_.size(); ++i) {
    if (i < involved_dim.size() && involved_dim[i]) {
      const uint64_t place = rank / stride % dimensions_[i];
      const std::vector<uint32_t> before = std::move(ranks);
      ranks = {};
      for (uint64_t other = 0; other < dimensions_[i]; ++other) {
        for (const uint32_t one : before) ranks.push_back(static_cast<uint32_t>(one + other * stride - place * stride));
      }
    }
    stride *= dimensions_[i];
  }
  return ranks;
}

uint32_t Groups::find(uint32_t rank, const std::string& pg_name, const std::vector<bool>& involved_dim,
                      const Table& local) {
  if (pg_name.empty()) {
    const bool is_everybody = std::all_of(involved_dim.begin(), involved_dim.end(), [](bool flag) { return flag; });
    if (is_everybody) return number_of(std::string(kAllRanks), everybody());
    uint64_t product = 1;
    for (const uint32_t size : dimensions_) product = std::min<uint64_t>(product * size, UINT32_MAX);
    if (dimensions_.empty() || product != rank_count_) {
      throw invalid(
          "the collective involves some dimensions only (involved_dim), so `dimensions` (--dimensions) must give "
          "their " +
          std::string("sizes, whose product is the number of ranks, ") + std::to_string(rank_count_));
    }
    std::string name = "dimensions";
    for (size_t i = 0; i < dimensions_.size() && i < involved_dim.size(); ++i) {
      if (involved_dim[i]) name += " " + std::to_string(i);
    }
    return number_of(name, along(rank, involved_dim));
  }
  for (const Table* table : {static_cast<const Table*>(&named_), &local}) {
    const auto it = table->find(pg_name);
    if (it != table->end()) return number_of(pg_name, it->second.empty() ? everybody() : it->second);
  }
  // What PyTorch calls the group of all ranks.
  if (pg_name == "0" || pg_name == "default_pg") return number_of(pg_name, everybody());
  throw invalid("group '" + pg_name.substr(0, 60) + "' is not known; add it to the groups file, {\"" +
                pg_name.substr(0, 60) + "\": [ranks]}");
}

uint32_t Groups::number_of(const std::string& name, std::vector<uint32_t> ranks) {
  const auto [it, is_new] = numbers_.try_emplace({name, std::move(ranks)});
  if (is_new) {
    it->second = builder_.add_group(name, it->first.second);
    ranks_.push_back(&it->first.second);
  }
  return it->second;
}

}  // namespace banyan::job::chakra
