#include "banyan/run/join/endpoint_record.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/base/file.h"
#include "banyan/base/json_line.h"
#include "banyan/base/json_reader.h"
#include "banyan/base/text.h"
#include "banyan/run/system/host_names.h"
#include "banyan/run/system/process_watch.h"
#include "banyan/run/system/system_error.h"

namespace banyan::run {
namespace {

constexpr const char* kNamed = "id:";

std::string number_of_namespace(const std::string& name) {
  const std::string path = "/proc/self/ns/" + name;
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) throw system_error("cannot look at " + path);
  return std::to_string(status.st_ino);
}

}  // namespace

std::string EndpointRecord::encode() const {
  JsonLine others;
  for (const auto& [name, value] : extras) others.add(name, value);
  return JsonLine()
      .add("version", kVersion)
      .add("rank", rank)
      .add("host_name", member.host_name)
      .add("host_id", member.host_id)
      .add("pid", member.pid)
      .add("start_time", member.start_time)
      .add("addresses", member.addresses)
      .add("port", member.port)
      .add("cores", cores)
      .add("extras", std::move(others))
      .take();
}

EndpointRecord EndpointRecord::decode(std::string_view text) {
  try {
    const JsonDocument document(text, {.name = "card"});
    const JsonNode object = document.root();
    const uint64_t version = object.at("version").whole();
    if (version != kVersion) {
      throw Error(ErrorCode::mismatch, "a card of version " + std::to_string(version) + ", and this process reads " +
                                           std::to_string(kVersion) + "; run the same Banyan everywhere");
    }
    EndpointRecord card;
    card.rank = static_cast<uint32_t>(object.at("rank").whole(0, UINT32_MAX));
    card.member.host_name = object.at("host_name").text();
    card.member.host_id = object.at("host_id").text();
    card.member.pid = static_cast<int32_t>(object.at("pid").integer(INT32_MIN, INT32_MAX));
    card.member.start_time = object.at("start_time").whole();
    for (const JsonNode address : object.at("addresses").items()) card.member.addresses.push_back(address.text());
    card.member.port = static_cast<uint16_t>(object.at("port").whole(0, UINT16_MAX));
    card.cores = object.at("cores").small_numbers();
    for (const auto& [name, value] : object.at("extras").members()) card.extras.emplace(name, value.text());
    return card;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_input) throw;
    throw Error(ErrorCode::invalid_input, "no card of a process: " + error.message());
  }
}

std::string EndpointRecord::described() const {
  return "process " + std::to_string(member.pid) + " on " + member.host_name;
}

Member describe_self(uint16_t port, std::vector<std::string> addresses) {
  Member self;
  self.host_name = host_name();
  self.host_id = own_host_id();
  self.pid = getpid();
  const std::optional<uint64_t> started = start_time_of(self.pid);
  if (!started) throw Error(ErrorCode::io, "/proc/self/task does not tell when this process was started");
  self.start_time = *started;
  self.addresses = std::move(addresses);
  self.port = port;
  return self;
}

std::string own_host_id() {
  std::string id = read_file("/proc/sys/kernel/random/boot_id");
  while (!id.empty() && id.back() == '\n') id.pop_back();
  if (const char* name = std::getenv("BANYAN_HOST_ID"); name != nullptr) return id + " " + kNamed + name;
  for (const char* space : {"net", "pid", "ipc"}) id += " " + number_of_namespace(space);
  return id;
}

std::string own_memory_scope() {
  constexpr uint64_t kMayLookIntoAll = uint64_t{1} << CAP_SYS_PTRACE;
  std::string scope = number_of_namespace("user");
  const std::string status = read_file("/proc/self/status");
  std::string identity;
  for (const std::string_view line : split(status, '\n')) {
    if (line.starts_with("CapEff:")) {
      const std::string digits(line.substr(line.find_last_of("\t ") + 1));
      if ((std::strtoull(digits.c_str(), nullptr, 16) & kMayLookIntoAll) != 0) return scope + " all";
    }
    for (const char* name : {"Uid:", "Gid:", "CapPrm:"}) {
      if (line.starts_with(name)) identity += " " + std::string(line.substr(std::strlen(name)));
    }
  }
  std::ranges::replace(identity, '\t', ' ');
  // Nobody without that capability may look into a process that has more rights than its user (setuid, for one).
  if (prctl(PR_GET_DUMPABLE) != 1) identity += " process " + std::to_string(getpid());
  return scope + identity;
}

bool share_loopback(const std::string& host_id, const std::string& other) {
  // "boot net pid ipc", or "boot id:name".
  const std::vector<std::string_view> a = split(host_id, ' '), b = split(other, ' ');
  const auto net = [](const std::vector<std::string_view>& words) {
    return words.size() > 1 ? words[1] : std::string_view();
  };
  const bool are_known = !net(a).starts_with(kNamed) && !net(b).starts_with(kNamed);
  return a[0] == b[0] && (!are_known || net(a) == net(b));
}

}  // namespace banyan::run
