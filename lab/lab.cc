#include "lab/lab.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <sstream>
#include <thread>

#include "banyan/base/error.h"
#include "banyan/base/file.h"
#include "banyan/base/nearest.h"
#include "banyan/fabric/json.h"
#include "banyan/run/join/secret.h"
#include "banyan/run/system/file_descriptor.h"
#include "banyan/run/system/system_error.h"
#include "lab/lab_file.h"
#include "lab/link_queue.h"
#include "lab/network_namespace.h"
#include "lab/tool.h"

namespace banyan::lab {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kLabs = "/run/banyan/labs";
constexpr const char* kNamespaces = "/run/netns";
constexpr const char* kPort = "29500";
constexpr uint32_t kMtu = 9000;
// Tables of the rules that send what comes from an address of a cable over that cable.
constexpr uint32_t kFirstTable = 1000;

std::string folder_of(const std::string& name) { return std::string(kLabs) + "/" + name; }
// A lab is up while this file is there.
std::string description_of(const std::string& name) { return folder_of(name) + "/lab.json"; }
std::string prefix_of(const std::string& name) { return "banyan-" + name + "."; }

// Held while a lab is changed.
class Lock {
 public:
  Lock() {
    std::error_code failure;
    std::filesystem::create_directories(kLabs, failure);
    const std::string path = std::string(kLabs) + "/.lock";
    fd_ = run::FileDescriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!fd_.is_open()) throw run::system_error("cannot write to " + path);
    while (flock(fd_.get(), LOCK_EX) != 0) {
      if (errno != EINTR) throw run::system_error("cannot lock " + path);
    }
  }

 private:
  run::FileDescriptor fd_;
};

void require_system() {
  const std::string reason = why_no_lab();
  if (!reason.empty()) throw Error(ErrorCode::unsupported, reason);
}

void write_setting(const std::string& path, const char* value) {
  const run::FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  const std::string_view text = value;
  if (!file.is_open() || write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    throw run::system_error("cannot set " + path);
  }
}

// Of those that a namespace may always choose, the one that shares a slow link evenly. The host's own choice, such as
// bbr, would neither do that nor heed a full queue.
void choose_reno() {
  try {
    write_setting("/proc/sys/net/ipv4/tcp_congestion_control", "reno");
  } catch (const Error& error) {
    std::string known = read_file("/proc/sys/net/ipv4/tcp_available_congestion_control");
    while (!known.empty() && known.back() == '\n') known.pop_back();
    throw Error(ErrorCode::unsupported, "the TCP of a lab is to be reno, and this kernel refuses that (it has " +
                                            known + "): " + error.message());
  }
}

std::vector<std::string> namespaces_of(const std::string& name) {
  std::vector<std::string> found;
  std::error_code failure;
  for (const auto& entry : std::filesystem::directory_iterator(kNamespaces, failure)) {
    if (entry.path().filename().string().starts_with(prefix_of(name))) found.push_back(entry.path().filename());
  }
  std::sort(found.begin(), found.end());
  return found;
}

// None of a namespace that is not there, which the tool tells by these words alone.
std::vector<int> processes_in(const std::string& network_namespace) {
  std::istringstream lines;
  try {
    lines.str(run_tool({"ip", "netns", "pids", network_namespace}));
  } catch (const Error& error) {
    if (std::string_view(error.what()).find("No such file or directory") == std::string_view::npos) throw;
  }
  std::vector<int> found;
  for (int pid; lines >> pid;) found.push_back(pid);
  return found;
}

// SIGTERM, and SIGKILL to those that have not ended in time.
void end_processes(const std::vector<std::string>& namespaces) {
  const auto running = [&] {
    std::vector<int> all;
    for (const std::string& each : namespaces) {
      for (const int pid : processes_in(each)) all.push_back(pid);
    }
    return all;
  };
  for (const int signal : {SIGTERM, SIGKILL}) {
    std::vector<int> left = running();
    for (const int pid : left) kill(pid, signal);
    const auto end = Clock::now() + std::chrono::seconds(2);
    while (!left.empty() && Clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      left = running();
    }
  }
}

bool remove(const std::string& name) {
  const std::vector<std::string> namespaces = namespaces_of(name);
  end_processes(namespaces);
  const bool was_up = std::filesystem::remove(description_of(name));  // first: from here on nobody opens it
  std::string script;
  for (const std::string& each : namespaces) script += "netns delete " + each + "\n";
  if (!script.empty()) run_tool({"ip", "-force", "-batch", "-"}, script);
  const bool had_folder = std::filesystem::remove_all(folder_of(name)) > 0;
  return was_up || had_folder || !namespaces.empty();
}

}  // namespace

Scale Scale::parse(const std::string& text) {
  Scale scale;
  const char* const end = text.data() + text.size();
  std::from_chars_result read = std::from_chars(text.data(), end, scale.numerator);
  if (read.ec == std::errc() && read.ptr != end && *read.ptr == '/') {
    read = std::from_chars(read.ptr + 1, end, scale.denominator);
  }
  if (read.ec != std::errc() || read.ptr != end || scale.numerator == 0 || scale.denominator == 0) {
    throw invalid("'" + text + "' is no factor; write one such as 1/1000");
  }
  return scale;
}

std::string Scale::to_string() const {
  return std::to_string(numerator) + (denominator == 1 ? "" : "/" + std::to_string(denominator));
}

void Lab::check_name(const std::string& name) {
  constexpr size_t kLongest = 20;
  const bool is_good =
      !name.empty() && name.size() <= kLongest && std::all_of(name.begin(), name.end(), [](unsigned char c) {
        return c < 128 && (std::isalnum(c) != 0 || c == '_' || c == '-');
      });
  if (!is_good) {
    throw invalid("'" + name + "' is no name for a lab; use up to " + std::to_string(kLongest) +
                  " letters, digits, '_' and '-'");
  }
}

std::string Lab::folder() const { return folder_of(name_); }

// The names of the nodes, where all of them can be part of a file's name.
std::string Lab::namespace_of(NodeId node) const {
  constexpr size_t kLongest = 60;
  const std::span<const Node> nodes = plan_.fabric().nodes();
  const bool are_plain = std::all_of(nodes.begin(), nodes.end(), [](const Node& each) {
    return each.name.size() <= kLongest && std::all_of(each.name.begin(), each.name.end(), [](unsigned char c) {
             return c < 128 && (std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.');
           });
  });
  return prefix_of(name_) + (are_plain ? plan_.fabric().name(node) : "node" + std::to_string(index(node)));
}

Lab Lab::up(const std::string& name, const Fabric& fabric, const Scale& scale, const LabOptions& options) {
  check_name(name);
  if (options.classes < 1 || options.classes > kMostClasses) {
    throw invalid("links have 1 to " + std::to_string(kMostClasses) + " classes of traffic, not " +
                  std::to_string(options.classes));
  }
  Lab lab(name, SharedHosts(scaled(fabric, scale.numerator, scale.denominator), options.ranks_per_host), scale,
          options.classes, {});
  require_system();
  const Lock lock;
  for (const std::string& each : namespaces_of(name)) {
    const std::vector<int> running = processes_in(each);
    if (running.empty()) continue;
    throw Error(ErrorCode::invalid_usage, "the lab '" + name + "' is up and process " +
                                              std::to_string(running.front()) +
                                              " runs in it; 'banyan lab down' ends it, --name sets up another");
  }
  remove(name);
  try {
    lab.save();
    lab.make_hosts();
    lab.make_cables();
    lab.set_addresses();
    for (uint32_t cable = 0; cable < lab.plan_.cables().all().size(); ++cable) lab.set_rates(cable);
    lab.set_routes();
  } catch (...) {
    const Error cause = current_error();
    try {
      remove(name);
    } catch (...) {  // which must not hide why
      throw Error(cause.code(), cause.message() + "; and what was set up could not be removed: " +
                                    current_error().message() + "; 'banyan lab down --name " + name + "' tries again");
    }
    throw;
  }
  return lab;
}

bool Lab::down(const std::string& name) {
  check_name(name);
  const Lock lock;
  return remove(name);
}

std::vector<std::string> Lab::names() {
  std::vector<std::string> found;
  std::error_code failure;
  for (const auto& entry : std::filesystem::directory_iterator(kLabs, failure)) {
    if (std::filesystem::exists(description_of(entry.path().filename()))) found.push_back(entry.path().filename());
  }
  std::sort(found.begin(), found.end());
  return found;
}

Lab Lab::open(const std::string& name) {
  check_name(name);
  const std::string folder = folder_of(name);
  if (!std::filesystem::exists(description_of(name))) {
    std::string others;
    for (const std::string& each : names()) others += (others.empty() ? "" : ", ") + each;
    throw Error(ErrorCode::not_found,
                "no lab '" + name + "' is up" +
                    (others.empty() ? "; 'banyan lab up FABRIC' sets one up" : "; these are: " + others));
  }
  const std::string shared = folder + "/network.json";
  const std::string path = std::filesystem::exists(shared) ? shared : folder + "/fabric.json";
  Fabric network = fabric::parse_fabric_json(read_file(path), path);
  LabFile file = read_lab_file(description_of(name), network);
  return Lab(name, SharedHosts(std::move(network), std::move(file.ranks_per_host)), file.scale, file.classes,
             std::move(file.cut));
}

std::vector<Lab> Lab::all() {
  constexpr int kTries = 5;
  constexpr std::chrono::milliseconds kPause{20};
  std::vector<Lab> labs;
  for (const std::string& name : names()) {
    for (int tries = 1;; ++tries) {
      try {
        labs.push_back(open(name));
        break;
      } catch (const Error&) {  // it goes, or has gone and another one of the name comes, or it is broken
        if (!std::filesystem::exists(description_of(name))) break;
        if (tries == kTries) throw;
      }
      std::this_thread::sleep_for(kPause);
    }
  }
  return labs;
}

void Lab::save() const {
  std::filesystem::create_directories(folder());
  if (!std::filesystem::exists(folder() + "/secret")) {
    const run::FileDescriptor file(
        ::open((folder() + "/secret").c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    const std::string text(run::Secret::random().key());
    if (!file.is_open() || write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
      throw run::system_error("cannot write to " + folder() + "/secret");
    }
    if (!hosts_.ranks_per_host().empty()) {
      write_file(folder() + "/network.json", format_fabric_json(plan_.fabric()));
    }
    write_file(folder() + "/fabric.json", format_fabric_json(fabric()));
    write_file(folder() + "/routes.json", hosts_.spread(plan_.route_book()).format(fabric()));
  }
  write_file(description_of(name_), format_lab_file(*this));
}

void Lab::make_hosts() const {
  std::string script;
  for (const Host& host : plan_.hosts()) script += "netns add " + namespace_of(host.node) + "\n";
  run_tool({"ip", "-batch", "-"}, script);
  for (const Host& host : plan_.hosts()) {
    const InNamespace inside(namespace_of(host.node));
    write_setting("/proc/sys/net/ipv4/ip_forward", "1");
    // A packet may come in by another cable than the answer goes out.
    write_setting("/proc/sys/net/ipv4/conf/all/rp_filter", "0");
    write_setting("/proc/sys/net/ipv4/conf/default/rp_filter", "0");
    choose_reno();
    // No new start after each pause, as clusters are set.
    write_setting("/proc/sys/net/ipv4/tcp_slow_start_after_idle", "0");
    if (std::filesystem::exists("/proc/sys/net/ipv6"))
      write_setting("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
  }
}

void Lab::make_cables() const {
  std::string script;
  for (uint32_t number = 0; number < plan_.cables().all().size(); ++number) {
    const fabric::Cable& cable = plan_.cables()[number];
    const std::string interface = "cable" + std::to_string(number);
    script += "link add name " + interface + " netns " + namespace_of(cable.a) + " type veth peer name " + interface +
              " netns " + namespace_of(cable.b) + "\n";
  }
  run_tool({"ip", "-batch", "-"}, script);
}

void Lab::set_addresses() const {
  for (const Host& host : plan_.hosts()) {
    std::string script = "link set lo up\naddress add " + host.primary.to_string() + "/32 dev lo\n";
    for (const Port& port : host.ports) {
      const std::string device = " dev " + port.interface();
      script += "address add " + port.address.to_string() + "/30" + device + "\n";
      for (const Address& other : port.others) script += "address add " + other.to_string() + "/32" + device + "\n";
      script += "link set" + device + " mtu " + std::to_string(kMtu) + " gso_max_size " +
                std::to_string(kLargestPacket) + " up\n";
      if (!plan_.fabric().is_rank(host.node)) continue;
      const std::string table = std::to_string(kFirstTable + port.cable);
      script += "route add default via " + port.peer.to_string() + device + " table " + table + "\n";
      for (const Address& each : port.addresses()) {
        script += "rule add from " + each.to_string() + " lookup " + table + "\n";
      }
    }
    run_tool({"ip", "-n", namespace_of(host.node), "-batch", "-"}, script);
  }
}

void Lab::set_rates(uint32_t number) const {
  const fabric::Cable& cable = plan_.cables()[number];
  for (const NodeId end : {cable.a, cable.b}) {
    const Port& port = plan_.port(end, number);
    const LinkQueue queue{
        .bytes_per_second = port.bytes_per_second, .classes = classes_, .is_cut = cut_.contains(number)};
    run_tool({"tc", "-n", namespace_of(end), "-batch", "-"}, queue_commands(port.interface(), queue));
  }
}

void Lab::set_routes() const {
  const std::vector<std::vector<RouteEntry>> routes = plan_.routes(cut_);
  for (const Host& host : plan_.hosts()) {
    std::string script;
    for (const RouteEntry& entry : routes[index(host.node)]) {
      const std::string target = entry.to.to_string() + "/32";
      if (!entry.cable) {
        script += "route replace unreachable " + target + "\n";
        continue;
      }
      script += "route replace " + target + " via " + entry.via->to_string() + " dev cable" +
                std::to_string(*entry.cable) + " src " + host.primary.to_string() + "\n";
    }
    run_tool({"ip", "-n", namespace_of(host.node), "-batch", "-"}, script);
  }
}

void Lab::fail(uint32_t cable) {
  const Lock lock;
  cut_.insert(cable);
  save();
  set_rates(cable);
  set_routes();
}

void Lab::heal(uint32_t cable) {
  const Lock lock;
  cut_.erase(cable);
  save();
  set_rates(cable);
  // Else the hosts remember for seconds that nobody answered there.
  for (const NodeId end : {plan_.cables()[cable].a, plan_.cables()[cable].b}) {
    run_tool({"ip", "-n", namespace_of(end), "neigh", "flush", "dev", "cable" + std::to_string(cable)});
  }
  set_routes();
}

std::vector<std::pair<std::string, std::string>> Lab::variables(uint32_t rank) const {
  const SharedHosts::Place& place = hosts_.place(rank);
  std::vector<std::pair<std::string, std::string>> variables{
      {"RANK", std::to_string(rank)},
      {"WORLD_SIZE", std::to_string(fabric().ranks().size())},
      {"LOCAL_RANK", std::to_string(place.local)},
      {"LOCAL_WORLD_SIZE", std::to_string(place.local_size)},
      {"MASTER_ADDR", plan_.host(host_of(0)).primary.to_string()},
      {"MASTER_PORT", kPort}};
  for (auto& variable : host_variables(place.host)) variables.push_back(std::move(variable));
  return variables;
}

std::vector<std::pair<std::string, std::string>> Lab::host_variables(NodeId host) const {
  return {{"BANYAN_LAB", folder() + "/lab.json"},
          {"BANYAN_LAB_HOST", plan_.fabric().name(host)},
          {"BANYAN_FABRIC", folder() + "/fabric.json"},
          {"BANYAN_ROUTES", folder() + "/routes.json"},
          {"BANYAN_HOST_ID", namespace_of(host)},
          {"BANYAN_ADDRESS", plan_.host(host).primary.to_string()},
          {"BANYAN_CROWDED", "1"}};  // all hosts share the cores of this machine
}

std::string Lab::secret() const { return read_file(folder() + "/secret"); }

bool Lab::is_one_of_several(uint32_t cable) const {
  const fabric::Cable& asked = plan_.cables()[cable];
  return std::any_of(plan_.cables().all().begin(), plan_.cables().all().end(), [&](const fabric::Cable& each) {
    return each.a == asked.a && each.b == asked.b && each.ordinal != asked.ordinal;
  });
}

std::string Lab::cable_name(uint32_t cable) const {
  return name_of(plan_.cables()[cable], plan_.fabric(), is_one_of_several(cable));
}

uint32_t Lab::find_cable(const std::string& name) const {
  NearestName nearest(name);
  for (uint32_t number = 0; number < plan_.cables().all().size(); ++number) {
    const fabric::Cable& cable = plan_.cables()[number];
    const std::string& a = plan_.fabric().name(cable.a);
    const std::string& b = plan_.fabric().name(cable.b);
    const std::string suffix = is_one_of_several(number) ? "#" + std::to_string(cable.ordinal) : "";
    for (const std::string& known : {a + "-" + b, b + "-" + a, a + "->" + b, b + "->" + a}) {
      if (name == known + suffix) return number;
      nearest.offer(known + suffix);
    }
  }
  throw Error(ErrorCode::not_found,
              "the lab has no cable '" + name + "'" + nearest.hint() + "; 'banyan lab status' lists them");
}

std::vector<int> Lab::processes(NodeId node) const { return processes_in(namespace_of(node)); }

}  // namespace banyan::lab
