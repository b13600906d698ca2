// Link events as reports show them: marks on the timeline, and when links were not as the fabric says.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "banyan/predict/report/link_names.h"
#include "banyan/predict/report/report_input.h"

namespace banyan::predict::report {

// From `begin` to `end` a link had this bandwidth; zero: it was down.
struct LinkState {
  Picoseconds begin{0}, end{0};
  Bandwidth bandwidth;
};

// Links to which the same happens at one time.
struct LinkMark {
  enum class Kind : uint8_t { down, bandwidth, up };
  Picoseconds time{0};
  Kind kind = Kind::down;
  Bandwidth bandwidth;             // of Kind::bandwidth
  size_t links = 0;                // directions of cables
  std::vector<std::string> names;  // "a – b" for both directions of a cable, the first few
};

class PageEvents {
 public:
  static constexpr size_t kMostNames = 6;

  // Keeps at most `most` marks. `names` are of the same fabric, and it and `input` outlive this.
  PageEvents(const ReportInput& input, const LinkNames& names, size_t most);

  const std::vector<LinkMark>& marks() const { return marks_; }  // by time
  const std::string& note() const { return note_; }              // what was left out, or empty

  // Links to which something happens, ascending.
  std::vector<uint32_t> changed_links() const;
  std::span<const LinkState> states(uint32_t link) const;  // by time
  // The periods in which at least one of these links is down, by time; they neither overlap nor touch.
  std::vector<LinkState> down(std::span<const uint32_t> links) const;

 private:
  void make_marks(size_t most);
  void make_states();

  const ReportInput& input_;
  const LinkNames& names_;
  std::vector<LinkMark> marks_;
  std::vector<std::pair<uint32_t, LinkState>> states_;  // by link and time
  std::vector<LinkState> only_states_;                  // the same without their links
  std::string note_;
};

}  // namespace banyan::predict::report
