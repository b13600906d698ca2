// Nodes that an option names in one word: a node; or Slurm's list of names, "node[01-16],login", each of which may end
// in '*' for all that begin so. A node whose name is that very word wins.
#pragma once

#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace banyan::fabric {

// True if more than one node may be meant.
inline bool is_list_of_names(std::string_view text) { return text.find_first_of("[],*") != std::string_view::npos; }

class NodeNames {
 public:
  explicit NodeNames(std::vector<std::string_view> known);  // borrowed

  // In the order of the list, a name perhaps more than once. Throws Error{not_found} for the first that is not known,
  // with the nearest, and Error{invalid_input} for what is no list. O(log known) a name.
  std::vector<std::string_view> named(std::string_view text) const;

  // All that the words behind --remove name. Throws as named() does, with the option in front.
  std::set<std::string, std::less<>> removed(std::span<const std::string> texts) const;

  bool contains(std::string_view name) const;

 private:
  std::vector<std::string_view> known_;  // ascending
};

}  // namespace banyan::fabric
