#include "banyan/run/join/rendezvous.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string_view>
#include <thread>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/run/join/file_store.h"
#include "banyan/run/join/listener.h"
#include "banyan/run/join/network.h"
#include "banyan/run/join/socket_address.h"
#include "banyan/run/join/tcp_store.h"
#include "banyan/run/record/log.h"
#include "banyan/run/system/host_names.h"

namespace banyan::run {
namespace {

constexpr const char* kLoopback = "127.0.0.1";
constexpr std::chrono::milliseconds kFarewell{1000}, kLatecomers{2000}, kLatecomersOfDead{500}, kPortPatience{1000},
    kFirstAnswer{500};

// All addresses, in whichever family this machine has.
Listener listen_everywhere(uint16_t port) {
  try {
    return Listener::on("::", port);
  } catch (const Error&) {
    return Listener::on("0.0.0.0", port);  // there is no IPv6; any other trouble comes again
  }
}

// A port may be taken for a moment: by the last host that is about to go, or by a connection of a stranger to which the
// kernel gave that number. An empty address stands for all.
Listener listen_patiently(const std::string& address, uint16_t port, const Deadline& deadline) {
  const Deadline patience = deadline.within(kPortPatience);
  while (true) {
    try {
      return address.empty() ? listen_everywhere(port) : Listener::on(address, port);
    } catch (const Error&) {
      if (patience.has_passed()) throw;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

std::string id_text(const std::string& address, const Listener& listener, const Secret& secret) {
  return tcp_url(address, listener.port()) + "#" + std::string(secret.key());
}

uint16_t parse_port(std::string_view text, const std::string& url) {
  uint16_t port = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || rest != text.data() + text.size() || port == 0) {
    throw Error(ErrorCode::invalid_input, "'" + url + "' ends with no port from 1 to 65535");
  }
  return port;
}

Place parse_tcp(std::string url) {
  Place place;
  if (const size_t mark = url.find('#'); mark != std::string::npos) {
    const std::string secret = url.substr(mark + 1);
    url.erase(mark);
    place.secret = Secret::parse(secret, "the id " + url + "#...");
  }
  place.url = url;
  const std::string_view rest = std::string_view(url).substr(std::string_view("tcp://").size());
  const size_t colon = rest.rfind(':');
  if (colon == std::string_view::npos) {
    throw Error(ErrorCode::invalid_input, "'" + url + "' has no port; write tcp://host:port");
  }
  place.port = parse_port(rest.substr(colon + 1), url);
  std::string_view host = rest.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host.empty()) throw Error(ErrorCode::invalid_input, "'" + url + "' has no host; write tcp://host:port");
  place.host = host;
  if (is_link_local(place.host)) SocketAddress::parse(place.host, place.port);  // refused without its interface
  return place;
}

Place parse_file(const std::string& url) {
  Place place;
  place.url = url;
  place.folder = url.substr(std::string_view("file://").size());
  if (!place.folder.starts_with('/')) {
    throw Error(ErrorCode::invalid_input, "'" + url + "' has no absolute path; write file:///folder");
  }
  while (place.folder.ends_with('/')) place.folder.pop_back();
  if (place.folder.empty()) throw Error(ErrorCode::invalid_input, "'" + url + "' names no folder");
  return place;
}

// Beside each other, not within: rank 0 makes one folder only.
std::string folder_of_job(std::string folder, const std::string& job) {
  folder += "-";
  for (const char c : job) folder += c == '/' ? '.' : c;
  return folder;
}

// Whom to call at a place of tcp.
TcpStore::Host host_at(const Place& place, const Secret& secret) {
  TcpStore::Host host{.place = place.url, .name = place.host, .port = place.port};
  if (!secret.is_empty()) return host;
  const std::vector<std::string> addresses = addresses_of(place.host);
  if (std::ranges::none_of(addresses, is_own_address)) {
    throw Error(ErrorCode::invalid_input,
                place.url +
                    " is on another machine, and without a secret only this one is trusted (set BANYAN_SECRET "
                    "or BANYAN_SECRET_FILE to the same on all hosts)");
  }
  host.name = addresses.front() == "::1" ? "::1" : "127.0.0.1";
  return host;
}

// What a host that was asked whether it is there is given to answer.
Deadline soon(const Deadline& deadline) { return deadline.within(kFirstAnswer); }

// A store that somebody hosts; null when nobody does.
template <typename Visit>
std::unique_ptr<Store> hosted(Visit visit) {
  try {
    return visit();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::timed_out) return nullptr;
    throw;
  }
}

// Of the job without a name, or of another one.
std::unique_ptr<Store> visit_folder(const std::string& folder, const Deadline& deadline) {
  const std::filesystem::path path(folder);
  std::set<std::string> folders{folder};
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(path.parent_path(), error)) {
    if (entry.path().filename().string().starts_with(folder_of_job(path.filename(), ""))) folders.insert(entry.path());
  }
  for (const std::string& each : folders) {
    if (!std::filesystem::exists(each, error)) continue;
    if (auto store = hosted([&] { return FileStore::visit(each, soon(deadline)); })) return store;
  }
  return nullptr;
}

std::unique_ptr<Store> visit(const Place& place, const Secret& secret, const Deadline& deadline) {
  if (!place.folder.empty()) return visit_folder(place.folder, deadline);
  const Secret& known = place.secret ? *place.secret : secret;
  TcpStore::Host host = host_at(place, known);
  host.is_any_job = true;
  return hosted([&] { return std::make_unique<TcpStore>(host, known, "", soon(deadline)); });
}

// The addresses that a word of BANYAN_ADDRESS stands for.
std::vector<std::string> given_addresses(const std::string& name) {
  const std::vector<std::string> of_interface = addresses_of_interface(name);
  if (!of_interface.empty()) return of_interface;
  try {
    return addresses_of(name);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found) throw error.within("BANYAN_ADDRESS");
    throw Error(error.code(), "BANYAN_ADDRESS=" + name + ": " + error.message() +
                                  ", and no interface with an address is called so (this machine has " +
                                  list_interfaces() + ")");
  }
}

}  // namespace

std::optional<MeetingView> look_at_meeting(const Place& place, const Secret& secret, const Deadline& deadline) {
  const std::unique_ptr<Store> store = visit(place, secret, deadline);
  return store == nullptr ? std::nullopt : std::optional(look_at_meeting(*store, deadline));
}

std::vector<std::string> given_addresses() {
  std::vector<std::string> addresses;
  const char* list = std::getenv("BANYAN_ADDRESS");
  if (list == nullptr) return addresses;
  std::string_view rest = list;
  while (true) {
    const size_t end = rest.find(',');
    for (const std::string& address : given_addresses(std::string(rest.substr(0, end)))) addresses.push_back(address);
    if (end == std::string_view::npos) return addresses;
    rest.remove_prefix(end + 1);
  }
}

Place Place::parse(const std::string& text) {
  if (text.starts_with("tcp://")) return parse_tcp(text);
  if (text.starts_with("file://")) return parse_file(text);
  throw Error(ErrorCode::invalid_input,
              "'" + text.substr(0, text.find('#')) + "' is no place to meet; write tcp://host:port or file:///folder");
}

Rendezvous::Rendezvous(const Place& place, const Secret& secret, const Options& options, const Deadline& deadline)
    : place_(place), secret_(place.secret.value_or(secret)), last_(deadline) {
  constexpr size_t kLongestJob = 128;
  if (options.job.size() > kLongestJob) {
    throw Error(ErrorCode::invalid_input,
                "the job '" + options.job + "' has a name of more than " + std::to_string(kLongestJob) + " bytes");
  }
  if (place_.folder.empty()) {
    open_tcp(options, deadline);
  } else {
    open_folder(options, deadline);
  }
}

Rendezvous::~Rendezvous() {
  try {
    leave();
  } catch (...) {  // visitors notice that the place is gone
    BANYAN_LOG(warning) << "the meeting ended without a good-bye: " << current_error().what();
  }
}

void Rendezvous::leave() {
  const Deadline deadline = last_.left() > kFarewell ? last_ : Deadline::after(kFarewell);
  if (server_ != nullptr) {
    store_.reset();                                    // one of the visitors
    const bool have_gone = server_->finish(deadline);  // those that have not are told that we have
    if (!have_gone && deadline.is_stopped()) server_->finish(Deadline::after(kFarewell));
  } else if (auto* files = dynamic_cast<FileStore*>(store_.get()); files != nullptr && files->is_host()) {
    files->finish(deadline);
  }
}

bool Rendezvous::is_host() const {
  const auto* files = dynamic_cast<const FileStore*>(store_.get());
  return server_ != nullptr || (files != nullptr && files->is_host());
}

// Whether the place says that all are on this machine.
// Names are not asked for: that of a machine often means the loopback there, and nowhere else.
bool Rendezvous::is_local() const { return place_.host == "localhost" || is_loopback(place_.host); }

void Rendezvous::open_tcp(const Options& options, const Deadline& deadline) {
  const bool hosts = options.rank == 0 && !place_.secret;
  TcpStore::Host host = host_at(place_, secret_);
  if (hosts) {
    try {
      // An address of this host that was named is listened on, and no other. A name may be another address elsewhere.
      const bool is_named = is_local() || is_own_address(place_.host);
      if (!secret_.is_empty()) host.name = is_named ? addresses_of(place_.host).front() : "127.0.0.1";
      Listener listener = listen_patiently(secret_.is_empty() || is_named ? host.name : "", place_.port, deadline);
      server_ = std::make_unique<StoreServer>(std::move(listener), secret_, StoreServer::Options{.job = options.job});
    } catch (const Error& error) {
      throw error.within(place_.url);
    }
  }
  store_ = std::make_unique<TcpStore>(host, secret_, options.job, deadline);
}

void Rendezvous::open_folder(const Options& options, const Deadline& deadline) {
  const std::string folder = options.job.empty() ? place_.folder : folder_of_job(place_.folder, options.job);
  if (options.rank == 0) {
    store_ = FileStore::host(folder, "process " + std::to_string(getpid()) + " on " + host_name());
  } else {
    store_ = FileStore::visit(folder, deadline);
  }
}

std::vector<std::string> Rendezvous::own_addresses() const {
  if (std::vector<std::string> given = given_addresses(); !given.empty()) return given;
  if (secret_.is_empty() || is_local()) return {"127.0.0.1"};
  std::vector<std::string> addresses = outward_addresses();
  std::string best = store_->own_address();
  if (place_.folder.empty() && is_loopback(best)) {  // the host is reached where the others were told to go
    for (const std::string& address : addresses_of(place_.host)) {
      if (!is_loopback(address) && is_own_address(address)) best = address;
    }
  }
  if (best.empty() || is_loopback(best)) return addresses;
  std::erase(addresses, best);
  addresses.insert(addresses.begin(), best);
  return addresses;
}

std::string Rendezvous::listening_address() const {
  const std::vector<std::string> addresses = own_addresses();
  const bool is_named = given_addresses().size() == 1 || is_loopback(addresses.front());
  return addresses.size() == 1 && is_named ? addresses.front() : any_address_like(addresses);
}

std::vector<EndpointRecord> Rendezvous::meet(const EndpointRecord& own, uint32_t size, const Deadline& deadline,
                                             const std::optional<Error>& trouble) {
  last_ = deadline;
  std::vector<EndpointRecord> cards;
  try {
    cards = banyan::run::meet(*store_, own, size, deadline, "", trouble);
  } catch (const Error& error) {
    // The store of an id is kept by its maker, which is rank 0 as a rule, until this has thrown.
    const bool keeps_store = is_host() || (place_.secret && own.rank == 0);
    if (keeps_store && error.code() != ErrorCode::timed_out && error.code() != ErrorCode::aborted) {
      const auto patience = error.code() == ErrorCode::peer_lost ? kLatecomersOfDead : kLatecomers;
      await_latecomers(*store_, patience, deadline);
    }
    const Acceptor::Refusals refusals = server_ == nullptr ? Acceptor::Refusals{} : server_->refusals();
    if (refusals.last.empty()) throw;
    throw Error(error.code(),
                error.message() + "; " + std::to_string(refusals.count) +
                    " callers were refused, the last: " + refusals.last.back(),
                error.where());
  }
  if (!secret_.is_empty()) return cards;
  for (const EndpointRecord& card : cards) {
    if (share_loopback(card.member.host_id, own.member.host_id)) continue;
    throw Error(
        ErrorCode::mismatch,
        "rank " + std::to_string(card.rank) + " (" + card.described() + ") is on another machine than rank " +
            std::to_string(own.rank) + " (" + own.described() +
            "), which is trusted with a secret only (set BANYAN_SECRET or BANYAN_SECRET_FILE to the same on all "
            "hosts)");
  }
  return cards;
}

UniqueId make_unique_id() {
  const std::vector<std::string> given = given_addresses();
  const std::string address = given.empty() ? outward_addresses().front() : given.front();
  const bool is_named = is_loopback(address) || given.size() == 1;
  Listener listener = is_named ? Listener::on(address) : listen_everywhere(0);
  const Secret secret = Secret::random();
  UniqueId id;
  id.text = id_text(address, listener, secret);
  id.server = std::make_unique<StoreServer>(std::move(listener), secret, StoreServer::Options{});
  return id;
}

ForkedMeeting::ForkedMeeting()
    : secret_(Secret::random()), listener_(Listener::on(kLoopback)), url_(id_text(kLoopback, listener_, secret_)) {}

std::unique_ptr<StoreServer> ForkedMeeting::serve() {
  return std::make_unique<StoreServer>(std::move(listener_), secret_, StoreServer::Options{});
}

}  // namespace banyan::run
