// Views with all fields filled in from a seed, by their rows (view_fields.h). Tests only.
#pragma once

#include <cmath>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "banyan/service/view/view_fields.h"

namespace banyan::service {

class RandomViews {
 public:
  explicit RandomViews(uint32_t seed) : random_(seed) {}

  HostView host() { return any<HostView>(); }
  ClusterView cluster() { return any<ClusterView>(); }
  size_t below(size_t end) { return random_() % end; }

 private:
  template <typename Value>
  Value any() {
    Value value{};
    fill(value);
    return value;
  }
  template <typename View>
  requires std::is_class_v<View>
  void fill(View& view) {
    each_field<View>([&](const auto& field) { fill(view.*field.member); });
  }
  void fill(bool& value) { value = below(2) == 0; }
  template <std::unsigned_integral Count>
  void fill(Count& count) {
    count = static_cast<Count>(random_());
  }
  void fill(double& number) {
    const double part = std::uniform_real_distribution<double>()(random_);
    number = below(4) == 0 ? 0 : std::ldexp(part, static_cast<int>(below(80)) - 40);
  }
  void fill(ShareClass& share_class) { share_class = static_cast<ShareClass>(below(3)); }
  void fill(std::string& text) {
    static const std::vector<std::string> kParts = {"a",    "0",        "\"", "\\", "\n",
                                                    "\x01", "\xc3\xa4", "->", "{",  std::string(1, '\0')};
    for (size_t i = below(6); i > 0; --i) text += kParts[below(kParts.size())];
  }
  template <typename Value>
  void fill(std::optional<Value>& value) {
    if (below(2) == 0) fill(value.emplace());
  }
  void fill(std::map<std::string, uint64_t>& counts) {
    for (size_t i = below(3); i > 0; --i) counts[any<std::string>()] = random_();
  }
  template <typename Value>
  void fill(std::vector<Value>& values) {
    for (size_t i = below(3); i > 0; --i) values.push_back(any<Value>());
  }

  std::mt19937_64 random_;
};

}  // namespace banyan::service
