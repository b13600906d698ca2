#include "banyan/fabric/cpu_table.h"

#include <algorithm>

namespace banyan::fabric {
namespace {

struct CpuRow {
  std::string_view vendor;
  int64_t family, least_model, most_model;  // family 0: any
  uint64_t gigabytes;
  std::string_view of;
};

// The first row that fits counts. Granite Rapids and Sierra Forest have lower models than Emerald Rapids, which they
// followed.
constexpr CpuRow kCpuRows[] = {
    {"AuthenticAMD", 26, 0, INT64_MAX, 40, "AMD Zen 5"},
    {"AuthenticAMD", 191, 0, INT64_MAX, 40, "AMD Zen 5"},
    {"AuthenticAMD", 25, 0, INT64_MAX, 24, "AMD Zen 3 and 4"},
    {"AuthenticAMD", 175, 0, INT64_MAX, 24, "AMD Zen 3 and 4"},
    {"AuthenticAMD", 0, 0, INT64_MAX, 16, "AMD Zen 1 and 2"},
    {"GenuineIntel", 6, 0xcf, INT64_MAX, 40, "Intel Emerald Rapids and later"},
    {"GenuineIntel", 6, 0xad, 0xaf, 40, "Intel Emerald Rapids and later"},
    {"GenuineIntel", 6, 0x8f, INT64_MAX, 22, "Intel Sapphire Rapids"},
    {"GenuineIntel", 6, 0x55, INT64_MAX, 10, "Intel Skylake to Ice Lake"},
    {"GenuineIntel", 0, 0, INT64_MAX, 6, "Intel before Skylake"},
    {"CentaurHauls", 7, 0x5b, 0x5b, 9, "Zhaoxin Yongfeng"},
    {"CentaurHauls", 0, 0, INT64_MAX, 6, "Zhaoxin"},
    {"  Shanghai  ", 7, 0x5b, 0x5b, 9, "Zhaoxin Yongfeng"},
    {"  Shanghai  ", 0, 0, INT64_MAX, 6, "Zhaoxin"},
};
constexpr uint64_t kLeastCpuLink = 6;

}  // namespace

CpuLink cpu_link(std::string_view arch, std::string_view vendor, int64_t family, int64_t model) {
  const auto link = [](uint64_t gigabytes, std::string_view of) {
    return CpuLink{.rate = Bandwidth::gigabytes_per_second(gigabytes), .of = of};
  };
  if (arch.starts_with("ppc64")) return link(32, "POWER");
  if (arch == "arm64" || arch == "aarch64") return link(6, "ARM");
  if (vendor == "AMD") vendor = "AuthenticAMD";
  const auto row = std::ranges::find_if(kCpuRows, [&](const CpuRow& each) {
    return each.vendor == vendor && (each.family == 0 || each.family == family) && each.least_model <= model &&
           model <= each.most_model;
  });
  return row == std::end(kCpuRows) ? link(kLeastCpuLink, "") : link(row->gigabytes, row->of);
}

}  // namespace banyan::fabric
