#include "banyan/job/kineto/group_table.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/job/kineto/comm.h"

namespace banyan::job::kineto {
namespace {

// {'pg_id': 1405, 'ranks': {0: 0, 1: 1}} as JSON: quotes doubled, keys that are numbers quoted.
std::string json_of_literal(std::string_view text) {
  std::string out;
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0) {
      if (c == quote) {
        quote = 0;
        out += '"';
      } else {
        if (c == '"') out += '\\';
        out += c;
      }
    } else if (c == '\'' || c == '"') {
      quote = c;
      out += '"';
    } else if (c >= '0' && c <= '9') {
      size_t end = i;
      while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
      const size_t after = text.find_first_not_of(' ', end);
      const std::string digits(text.substr(i, end - i));
      out += after != std::string_view::npos && text[after] == ':' ? "\"" + digits + "\"" : digits;
      i = end - 1;
    } else if (text.substr(i).starts_with("None")) {
      out += "null";
      i += 3;
    } else if (text.substr(i).starts_with("True")) {
      out += "true";
      i += 3;
    } else if (text.substr(i).starts_with("False")) {
      out += "false";
      i += 4;
    } else {
      out += c;
    }
  }
  return out;
}

std::optional<uint32_t> rank_of(const nlohmann::json& value) {
  if (value.is_number_unsigned() && value.get<uint64_t>() < Job::kMaxRanks) return value.get<uint32_t>();
  if (!value.is_string()) return std::nullopt;
  const std::vector<uint32_t> ranks = read_rank_list(value.get_ref<const std::string&>(), 1);
  if (ranks.size() != 1) return std::nullopt;
  return ranks[0];
}

// The members of a row that has them as a list, as an object {rank: place in the group} or as a printed list. False for
// what is none of these. `shortened` counts what was not written out.
bool read_members(const nlohmann::json& ranks, ProcessGroup& group, size_t& shortened) {
  if (ranks.is_array()) {
    for (const nlohmann::json& rank : ranks) {
      const auto number = rank_of(rank);
      if (!number) return false;
      group.ranks.push_back(*number);
    }
  } else if (ranks.is_object()) {
    std::vector<std::pair<uint64_t, uint32_t>> places;
    for (const auto& [rank, place] : ranks.items()) {
      const auto number = rank_of(nlohmann::json(rank));
      if (!number || !place.is_number_unsigned()) return false;
      places.emplace_back(place.get<uint64_t>(), *number);
    }
    std::sort(places.begin(), places.end());
    for (const auto& [place, rank] : places) group.ranks.push_back(rank);
  } else if (ranks.is_string()) {
    const auto& written = ranks.get_ref<const std::string&>();
    group.ranks = read_rank_list(written, group.size);
    if (group.ranks.empty()) return written.find_first_of("0123456789") == std::string::npos;
    if (written.find("...") != std::string::npos) shortened += group.ranks.size();
    if (shortened > kMostShortened) {
      throw Error(ErrorCode::unsupported, "the table of process groups has shortened lists that stand for more than " +
                                              std::to_string(kMostShortened) + " ranks; is it damaged?");
    }
  }
  std::vector<uint32_t> sorted = group.ranks;
  std::sort(sorted.begin(), sorted.end());
  return std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
}

}  // namespace

std::vector<ProcessGroup> read_group_table(std::string_view text) {
  nlohmann::json table = nlohmann::json::parse(text, nullptr, false);
  if (table.is_discarded()) table = nlohmann::json::parse(json_of_literal(text), nullptr, false);
  std::vector<ProcessGroup> groups;
  if (!table.is_array()) return groups;
  size_t shortened = 0;
  for (const nlohmann::json& row : table) {
    if (!row.is_object()) continue;
    ProcessGroup group;
    for (const char* key : {"pg_name", "pg_id"}) {
      const auto name = row.find(key);
      if (name == row.end()) continue;
      group.name = name->is_string() ? name->get<std::string>() : name->dump();
      break;
    }
    if (group.name.empty()) continue;
    for (const char* key : {"group_size", "pg_size"}) {
      const auto size = row.find(key);
      if (size != row.end() && size->is_number_unsigned() && size->get<uint64_t>() <= Job::kMaxRanks) {
        group.size = size->get<uint32_t>();
      }
    }
    const auto ranks = row.find("ranks");
    if (ranks == row.end() || read_members(*ranks, group, shortened)) groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace banyan::job::kineto
