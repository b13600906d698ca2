#include "apps/collective_name.h"

#include <array>
#include <cctype>
#include <utility>

namespace banyan::app {
namespace {

// Spelled as squeezed() leaves them.
constexpr std::array<std::pair<std::string_view, std::string_view>, 16> kSpellings{{
    {"allreduce", "allreduce"},
    {"reduce", "reduce"},
    {"broadcast", "broadcast"},
    {"bcast", "broadcast"},
    {"allgather", "allgather"},
    {"allgatherintotensor", "allgather"},
    {"reducescatter", "reduce-scatter"},
    {"reducescatterblock", "reduce-scatter"},
    {"reducescattertensor", "reduce-scatter"},
    {"alltoall", "all-to-all"},
    {"all2all", "all-to-all"},
    {"alltoallsingle", "all-to-all"},
    {"gather", "gather"},
    {"scatter", "scatter"},
    {"sendrecv", "sendrecv"},
    {"barrier", "barrier"},
}};

// In small letters, without the dashes, underscores and the words around the name.
std::string squeezed(std::string_view text) {
  std::string name;
  for (const char c : text) {
    if (c != '-' && c != '_') name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  for (const std::string_view before : {"nccl", "rccl", "mpi"}) {
    if (name.starts_with(before)) name.erase(0, before.size());
  }
  if (name.ends_with("perf")) name.resize(name.size() - 4);
  return name;
}

}  // namespace

std::string collective_name(std::string_view text) {
  const std::string name = squeezed(text);
  for (const auto& [theirs, ours] : kSpellings) {
    if (name == theirs) return std::string(ours);
  }
  return std::string(text);
}

}  // namespace banyan::app
