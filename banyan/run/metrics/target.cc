#include "banyan/run/metrics/target.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>

#include "banyan/base/error.h"
#include "banyan/run/system/host_names.h"

namespace banyan::run {
namespace {

Error bad(const std::string& text, const std::string& why) {
  return Error(ErrorCode::invalid_input, "BANYAN_METRICS=" + text.substr(0, 100) + ": " + why);
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool are_digits(std::string_view text) { return !text.empty() && std::all_of(text.begin(), text.end(), is_digit); }

// Of a job's name what may stand in a file's.
std::string plain(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '/' || static_cast<unsigned char>(c) < ' '; }, '_');
  return text;
}

}  // namespace

std::string scheduler_job() {
  for (const char* name : {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID", "TORCHELASTIC_RUN_ID"}) {
    const char* const value = std::getenv(name);
    if (value != nullptr && *value != '\0' && std::string_view(value) != "none") return value;
  }
  return "";
}

MetricsTarget MetricsTarget::parse(const std::string& text) {
  MetricsTarget target;
  const size_t colon = text.rfind(':');
  const std::string_view port = std::string_view(text).substr(colon == std::string::npos ? 0 : colon + 1);
  const bool is_port = are_digits(port) && text.find('/') == std::string::npos;
  if (is_port) {
    const auto [end, code] = std::from_chars(port.data(), port.data() + port.size(), target.port);
    if (code != std::errc() || target.port == 0) throw bad(text, "a port is a number from 1 to 65535");
    if (colon != std::string::npos) target.address = text.substr(0, colon);
    return target;
  }
  const auto is_of_a_number = [](char c) {
    return is_digit(c) || std::string_view("+-., ").find(c) != std::string_view::npos;
  };
  if (std::all_of(text.begin(), text.end(), is_of_a_number) && std::any_of(text.begin(), text.end(), is_digit)) {
    throw bad(text, "a port is a number from 1 to 65535; for a file of this name, write ./" + text);
  }
  std::error_code ignored;
  target.path = text;
  if (std::filesystem::is_directory(text, ignored)) {
    target.path = (std::filesystem::path(text) / "banyan-%j-rank%r.prom").string();
  }
  for (size_t at = target.path.find('%'); at != std::string::npos; at = target.path.find('%', at + 2)) {
    if (at + 1 == target.path.size() || std::string_view("rjhp%").find(target.path[at + 1]) == std::string_view::npos) {
      throw bad(text, "a '%' is to be followed by r (rank), j (job), h (host), p (process) or %");
    }
  }
  return target;
}

std::string MetricsTarget::endpoint(const JobPlace& place) const {
  const uint64_t own = uint64_t{port} + place.rank_on_host;
  if (own > UINT16_MAX) {
    throw bad(std::to_string(port), "rank " + std::to_string(place.rank_on_host) + " of this host would have port " +
                                        std::to_string(own) + ", which there is not; give a lower one");
  }
  return (address.empty() ? "127.0.0.1" : address) + ":" + std::to_string(own);
}

std::string MetricsTarget::file(const JobPlace& place) const {
  std::string result;
  bool is_own = place.size == 1;
  for (size_t i = 0; i < path.size(); ++i) {
    if (path[i] != '%' || i + 1 == path.size()) {
      result += path[i];
      continue;
    }
    const char letter = path[++i];
    is_own = is_own || letter == 'r' || letter == 'p';
    if (letter == 'r') result += std::to_string(place.rank);
    if (letter == 'p') result += std::to_string(getpid());
    if (letter == 'h') result += host_name_or("unknown");
    if (letter == 'j') result += scheduler_job().empty() ? "nojob" : plain(scheduler_job());
    if (letter == '%') result += '%';
  }
  if (is_own) return result;
  const std::filesystem::path whole(result);
  const std::string name = whole.stem().string() + "." + std::to_string(place.rank) + whole.extension().string();
  return (whole.parent_path() / name).string();
}

}  // namespace banyan::run
