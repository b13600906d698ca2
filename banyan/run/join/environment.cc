#include "banyan/run/join/environment.h"

#include <sys/socket.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/run/join/network.h"
#include "banyan/run/system/process_watch.h"

namespace banyan::run {
namespace {

[[noreturn]] void refuse(const std::string& message) { throw Error(ErrorCode::invalid_input, message); }

class Reader {
 public:
  explicit Reader(const Surroundings& surroundings) : surroundings_(surroundings) {}

  std::optional<Invitation> read() const {
    // With both it is clear; one alone is often exported for some other use.
    if (has("RANK") && has("WORLD_SIZE")) return torch();
    if (has("OMPI_COMM_WORLD_RANK")) return open_mpi();
    if (has("SLURM_PROCID") && has("SLURM_STEP_ID")) return slurm();
    if (has("PMI_RANK")) return pmi();
    if (text_or_empty("BANYAN_ALONE") != "1") refuse_half_of_a_launch();
    return {};
  }

 private:
  bool has(const char* name) const { return surroundings_.variable(name) != nullptr; }
  std::string text(const char* name) const {
    const std::string value = text_or_empty(name);
    if (value.empty()) refuse(std::string(name) + " is not set");
    return value;
  }
  std::string text_or_empty(const char* name) const {
    const char* value = surroundings_.variable(name);
    return value == nullptr ? "" : value;
  }
  std::string text_or(const char* name, const std::string& otherwise) const {
    return has(name) ? text(name) : otherwise;
  }
  uint64_t number(const char* name, uint64_t most) const {
    const std::string value = text(name);
    uint64_t count = 0;
    const char* end = value.data() + value.size();
    const auto [rest, error] = std::from_chars(value.data(), end, count);
    if (error != std::errc() || rest != end || count > most) {
      refuse(std::string(name) + "=" + value + " is no number from 0 to " + std::to_string(most));
    }
    return count;
  }

  // Who was started as one of many, and does not know which, is not alone.
  void refuse_half_of_a_launch() const {
    const auto refuse_without = [this](const char* name, const char* missing) {
      const std::string value = text_or_empty(name);
      if (value.empty()) return;
      const std::string shown = value.substr(0, value.find('#'));  // after which an id has its secret
      refuse(std::string(name) + "=" + shown + " is set, but " + missing +
             "; set both, start by a launcher, or set BANYAN_ALONE=1 where one process is meant");
    };
    refuse_without("RANK", "WORLD_SIZE is not");
    if (text_or_empty("WORLD_SIZE") != "1") refuse_without("WORLD_SIZE", "RANK is not");
    refuse_without("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK is not");
    refuse_without("PMI_SIZE", "PMI_RANK is not");
    for (const char* name : {"BANYAN_RENDEZVOUS", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK"}) {
      refuse_without(name, "RANK and WORLD_SIZE are not");
    }
  }

  Invitation with_ranks(const char* rank_name, const char* size_name, std::string source) const {
    constexpr uint64_t kMost = 1 << 24;
    Invitation invitation;
    invitation.rank = static_cast<uint32_t>(number(rank_name, kMost));
    invitation.size = static_cast<uint32_t>(number(size_name, kMost));
    invitation.source = std::move(source);
    invitation.url = text_or("BANYAN_RENDEZVOUS", "");
    if (invitation.rank >= invitation.size) {
      refuse(std::string(rank_name) + "=" + std::to_string(invitation.rank) + " but " + size_name + "=" +
             std::to_string(invitation.size));
    }
    return invitation;
  }

  Invitation torch() const {
    const bool is_torchrun = has("TORCHELASTIC_RUN_ID");
    Invitation invitation = with_ranks("RANK", "WORLD_SIZE", is_torchrun ? "torchrun" : "RANK and WORLD_SIZE");
    if (is_torchrun) {  // which starts all anew when one has failed
      invitation.job = text("TORCHELASTIC_RUN_ID") + "/" + text_or("TORCHELASTIC_RESTART_COUNT", "0");
    }
    if (!invitation.url.empty()) return invitation;
    for (const char* name : {"MASTER_ADDR", "MASTER_PORT"}) {
      if (!text_or_empty(name).empty()) continue;
      refuse(std::string(name) +
             " is not set; set MASTER_ADDR and MASTER_PORT, or BANYAN_RENDEZVOUS=tcp://HOST:PORT or "
             "file:///FOLDER, to the same on all ranks");
    }
    const uint64_t port = number("MASTER_PORT", 65535);
    if (port == 0) refuse("MASTER_PORT=0 is no port");
    invitation.url = tcp_url(text("MASTER_ADDR"), static_cast<uint16_t>(port == 65535 ? port - 1 : port + 1));
    return invitation;
  }

  Invitation open_mpi() const {
    Invitation invitation = with_ranks("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "Open MPI");
    invitation.job = text_or("PMIX_NAMESPACE", "");
    if (!invitation.url.empty()) return invitation;
    if (number("OMPI_COMM_WORLD_LOCAL_SIZE", invitation.size) < invitation.size) {
      refuse_many_hosts("Open MPI", "mpirun -x BANYAN_RENDEZVOUS=... -x BANYAN_SECRET_FILE=...");
    }
    invitation.url = "file://" + text("PMIX_SERVER_TMPDIR") + "/banyan";
    return invitation;
  }

  Invitation slurm() const {
    Invitation invitation =
        with_ranks("SLURM_PROCID", has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS", "Slurm");
    const std::string job = text("SLURM_JOB_ID"), step = text("SLURM_STEP_ID");
    invitation.job = job + "." + step;
    if (!invitation.url.empty()) return invitation;
    const char* list = has("SLURM_STEP_NODELIST") ? "SLURM_STEP_NODELIST" : "SLURM_JOB_NODELIST";
    std::string host;
    try {
      host = first_slurm_host(text(list));
    } catch (const Error& error) {
      throw error.within(list);
    }
    // Below those that the kernel hands out by itself. Jobs that share hosts have numbers that are near to each other.
    constexpr uint64_t kFirst = 20'000, kCount = 12'000, kSteps = 7;
    const uint64_t number_of_job = number("SLURM_JOB_ID", UINT32_MAX),
                   number_of_step = number("SLURM_STEP_ID", UINT32_MAX);
    invitation.url = tcp_url(host, static_cast<uint16_t>(kFirst + (number_of_job * kSteps + number_of_step) % kCount));
    return invitation;
  }

  Invitation pmi() const {
    Invitation invitation = with_ranks("PMI_RANK", "PMI_SIZE", "PMI");
    if (!invitation.url.empty()) return invitation;
    if (number("MPI_LOCALNRANKS", invitation.size) < invitation.size) {
      refuse_many_hosts("PMI", "mpiexec -genv BANYAN_RENDEZVOUS ... -genv BANYAN_SECRET_FILE ...");
    }
    const std::optional<std::string> launcher =
        surroundings_.launcher_at(static_cast<int>(number("PMI_FD", INT32_MAX)));
    if (!launcher)
      refuse("PMI_FD leads to no launcher; set BANYAN_RENDEZVOUS=file:///some/folder to the same everywhere");
    invitation.url = "file://" + text_or("TMPDIR", "/tmp") + "/banyan-" + std::to_string(geteuid()) + "-" + *launcher;
    return invitation;
  }

  [[noreturn]] static void refuse_many_hosts(const std::string& source, const std::string& how) {
    refuse("BANYAN_RENDEZVOUS is not set, and nothing else says where rank 0 is, as " + source +
           " started processes on several hosts; set it to tcp://HOST-OF-RANK-0:PORT, or to file://FOLDER on a file "
           "system that all of them see (" +
           how + ")");
  }

  const Surroundings& surroundings_;
};

// The launcher made the pair of sockets, so it is the peer, whatever shells are between it and us.
std::optional<std::string> process_at(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.pid <= 0) return {};
  const std::optional<uint64_t> started = start_time_of(peer.pid);
  if (!started) return {};
  return std::to_string(peer.pid) + "-" + std::to_string(*started);
}

}  // namespace

Surroundings Surroundings::real() {
  return {.variable = [](const char* name) -> const char* { return std::getenv(name); }, .launcher_at = process_at};
}

std::optional<Invitation> invitation_from(const Surroundings& surroundings) { return Reader(surroundings).read(); }

std::optional<uint32_t> rank_from(const Surroundings& surroundings) {
  const bool is_step = surroundings.variable("SLURM_STEP_ID") != nullptr;
  for (const std::string_view name : {"RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "PMI_RANK"}) {
    const char* const value = surroundings.variable(name.data());
    if (value == nullptr || (name == "SLURM_PROCID" && !is_step)) continue;
    const std::string_view text = value;
    uint32_t rank = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
    if (error == std::errc() && rest == text.data() + text.size()) return rank;
  }
  return {};
}

std::string first_slurm_host(const std::string& list) {
  std::string host;
  for (size_t at = 0; at < list.size() && list[at] != ',';) {
    if (list[at] != '[') {
      host += list[at++];
      continue;
    }
    const size_t end = list.find(']', at);
    if (end == std::string::npos) refuse("'" + list + "' has a bracket that is not closed");
    const std::string_view numbers = std::string_view(list).substr(at + 1, end - at - 1);
    host += numbers.substr(0, numbers.find_first_of("-,"));
    at = end + 1;
  }
  if (host.empty()) refuse("'" + list + "' begins with no host");
  return host;
}

}  // namespace banyan::run
