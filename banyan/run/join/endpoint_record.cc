#include "banyan/run/join/endpoint_record.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/base/file.h"
#include "banyan/base/text.h"
#include "banyan/run/join/network.h"
#include "banyan/run/system/process_watch.h"
#include "banyan/run/system/system_error.h"

namespace banyan::run {
namespace {

using Json = nlohmann::json;

constexpr const char* kNamed = "id:";

}  // namespace

std::string EndpointRecord::encode() const {
  const Json object = {{"version", kVersion},
                       {"rank", rank},
                       {"host_name", member.host_name},
                       {"host_id", member.host_id},
                       {"pid", member.pid},
                       {"start_time", member.start_time},
                       {"addresses", member.addresses},
                       {"port", member.port},
                       {"cores", cores},
                       {"extras", extras}};
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

EndpointRecord EndpointRecord::decode(std::string_view text) {
  try {
    const Json object = Json::parse(text);
    const auto version = object.at("version").get<uint32_t>();
    if (version != kVersion) {
      throw Error(ErrorCode::mismatch, "a card of version " + std::to_string(version) + ", and this process reads " +
                                           std::to_string(kVersion) + "; run the same Banyan everywhere");
    }
    EndpointRecord card;
    object.at("rank").get_to(card.rank);
    object.at("host_name").get_to(card.member.host_name);
    object.at("host_id").get_to(card.member.host_id);
    object.at("pid").get_to(card.member.pid);
    object.at("start_time").get_to(card.member.start_time);
    object.at("addresses").get_to(card.member.addresses);
    object.at("port").get_to(card.member.port);
    object.at("cores").get_to(card.cores);
    object.at("extras").get_to(card.extras);
    return card;
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::invalid_input, std::string("no card of a process: ") + error.what());
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
  if (!started) throw Error(ErrorCode::io, "/proc/self/stat does not tell when this process was started");
  self.start_time = *started;
  self.addresses = std::move(addresses);
  self.port = port;
  return self;
}

std::string own_host_id() {
  std::string id = read_file("/proc/sys/kernel/random/boot_id");
  while (!id.empty() && id.back() == '\n') id.pop_back();
  if (const char* name = std::getenv("BANYAN_HOST_ID"); name != nullptr) return id + " " + kNamed + name;
  for (const char* space : {"net", "pid", "ipc"}) {
    const std::string path = std::string("/proc/self/ns/") + space;
    struct stat status {};
    if (stat(path.c_str(), &status) != 0) throw system_error("cannot look at " + path);
    id += " " + std::to_string(status.st_ino);
  }
  return id;
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
