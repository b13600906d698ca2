// Ranks on hosts, and fabrics that tests put them on.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "banyan/compose/planner.h"

namespace banyan::compose {

inline constexpr Bytes kLarge{uint64_t{1} << 30};
inline constexpr const char* kLeafSpine = "leaf-spine:leaves=2,hosts=2,spines=2@200Mb/s";
inline constexpr const char* kStar = "a <-> sw 1GB/s; b <-> sw 1GB/s; c <-> sw 1GB/s";

inline run::RankLayout on_hosts(std::vector<uint32_t> host_of_rank) {
  run::RankLayout layout{
      .members = {}, .job_size = static_cast<uint32_t>(host_of_rank.size()), .host_of_rank = host_of_rank};
  for (uint32_t rank = 0; rank < layout.job_size; ++rank) layout.members.push_back(rank);
  return layout;
}

inline run::RankLayout on_nodes(std::vector<std::string> node_of_host, std::vector<uint32_t> host_of_rank,
                                uint32_t own = 0) {
  run::RankLayout layout = on_hosts(std::move(host_of_rank));
  layout.job_size = 1000;  // says nothing about the cluster
  layout.own = own;
  layout.node_of_host = std::move(node_of_host);
  return layout;
}

}  // namespace banyan::compose
