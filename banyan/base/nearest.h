// "did you mean ...?": the known name that a mistyped one was probably meant to be.
//
//   NearestName nearest("torsu");
//   for (const auto& known : names) nearest.offer(known);
//   message += nearest.hint();   // " (did you mean 'torus'?)", or nothing when no name is near
//
// Near means an edit distance of at most two, or a third of the name's length; or the name is a longer one cut short,
// of which there are three letters at least. The first offered of equally near names wins. Costs |name| * |candidate|
// an offer; names above kMaxLength are never near to anything.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace banyan {

class NearestName {
 public:
  static constexpr size_t kMaxLength = 80;

  explicit NearestName(std::string_view name);
  void offer(std::string_view candidate);

  const std::string& best() const { return best_; }  // empty when none is near
  std::string hint() const;

 private:
  std::string name_;
  std::string best_;
  size_t best_distance_;
};

}  // namespace banyan
