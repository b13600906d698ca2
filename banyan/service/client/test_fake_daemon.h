// A daemon that lives in a test. It listens at a socket in a folder of its own, speaks as the real one does, and
// carries out the calls of communicators of one rank. Tests look at its state, change it and have it say things between
// two of its steps: by look(). What it can no longer understand fails the test.
#pragma once

#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <variant>

#include "banyan/base/check.h"
#include "banyan/run/system/event.h"
#include "banyan/service/protocol/messages.h"
#include "banyan/service/protocol/region_table.h"
#include "banyan/service/protocol/rings.h"
#include "banyan/service/protocol/validate.h"
#include "banyan/testing/temporary_folder.h"
#include "banyan/testing/test.h"

namespace banyan::service {

class FakeDaemon : testing::TemporaryFolder {
 public:
  struct Session {
    OpenSession opened;
    std::shared_ptr<const Region> memory;  // of its page
    bool had_zeroed_page = false;
    std::unique_ptr<DaemonRings> rings;
    SessionPage* page = nullptr;
    SessionRules rules;
    std::vector<Submission> submissions;  // all that were taken
    std::deque<ValidCall> messages;       // that wait for their other end, and their sequences
    std::deque<uint64_t> message_sequences;
    std::deque<Completion> unsaid;

    void complete(uint64_t sequence, uint32_t peer = 0) { unsaid.push_back({.sequence = sequence, .peer = peer}); }
  };
  struct Client {
    run::FileDescriptor socket;
    std::unique_ptr<Region> doorbell;
    run::Event event;  // by which it wakes the daemon
    RegionTable regions{RegionTable::Quota{}};
    std::map<uint32_t, Session> sessions;

    DoorbellPage& page() const { return *reinterpret_cast<DoorbellPage*>(doorbell->data()); }
    void say(const DaemonMessage& message, int descriptor = -1) const {
      CHECK(send_parcel(socket.get(), encode(message), descriptor)) << "a client does not read";
    }
    std::byte* at(const BufferName& name, uint64_t bytes) const {
      const std::shared_ptr<const Region> region = regions.find(name, bytes);
      CHECK(region != nullptr) << name.region << " does not have " << bytes << " bytes from " << name.offset << " on";
      return region->data() + name.offset;
    }
  };
  struct State {
    // How it behaves.
    Welcome welcome{.version = kProtocolVersion, .host = "node7", .capability = {1, 2, 0xab}};
    bool is_silent = false;      // answers no hello
    bool is_deaf = false;        // reads no messages
    bool takes_calls = true;     // out of the rings
    bool holds_answers = false;  // until say_held()
    std::function<std::optional<Error>(const ClientMessage&)> refusal;
    // Carries out a call; none: as the only rank.
    std::function<void(Session&, const Submission&, const ValidCall&)> perform;
    // What it has heard, and who is there.
    std::vector<ClientMessage> heard;
    std::map<uint64_t, Client> clients;
    std::vector<DaemonMessage> held;
    size_t sleeps = 0;

    // Of tests with one client.
    Client& client() {
      CHECK(clients.size() == 1) << clients.size() << " clients";
      return clients.begin()->second;
    }
    Session& session(uint32_t number = 0) { return client().sessions.at(number); }
    template <typename Message>
    std::vector<Message> all_heard() const {
      std::vector<Message> found;
      for (const ClientMessage& message : heard) {
        if (const auto* const said = std::get_if<Message>(&message)) found.push_back(*said);
      }
      return found;
    }
    template <typename Message>
    size_t count() const {
      return all_heard<Message>().size();
    }
    void say_held() {
      holds_answers = false;
      for (const DaemonMessage& answer : std::exchange(held, {})) client().say(answer);
    }
  };

  FakeDaemon() {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path().c_str(), sizeof address.sun_path - 1);
    door_ = run::FileDescriptor(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    CHECK(bind(door_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) << path();
    CHECK(listen(door_.get(), 16) == 0) << path();
    thread_ = std::thread([this] { run(); });
  }
  ~FakeDaemon() { die(); }
  FakeDaemon(const FakeDaemon&) = delete;
  FakeDaemon& operator=(const FakeDaemon&) = delete;

  std::string path() const { return folder_ + "/socket"; }
  std::string url() const { return "unix:" + path(); }

  // Runs `body(state)`; what it leaves to do is done afterwards.
  template <typename Body>
  auto look(Body body) {
    struct Waker {
      ~Waker() { event.set(); }
      run::Event& event;
    };
    const Waker waker{event_};
    const std::lock_guard lock(mutex_);
    return body(state_);
  }
  // Waits until `is_so(state)`. False when it never is.
  template <typename IsSo>
  bool wait_until(IsSo is_so) {
    std::unique_lock lock(mutex_);
    return stepped_.wait_for(lock, std::chrono::seconds(60), [&] { return is_so(state_); });
  }
  // Its process ends.
  void die() {
    if (!thread_.joinable()) return;
    look([&](State&) { stops_ = true; });
    thread_.join();
    const std::lock_guard lock(mutex_);
    state_.clients.clear();
    door_.reset();
  }

 private:
  void run() {
    for (;;) {
      std::vector<pollfd> waited;
      {
        const std::lock_guard lock(mutex_);
        if (stops_) return;
        const bool moved = step();
        stepped_.notify_all();
        if (moved || !fall_asleep(waited)) continue;
      }
      poll(waited.data(), waited.size(), -1);
      const std::lock_guard lock(mutex_);
      event_.clear();
      for (auto& [number, client] : state_.clients) {
        client.event.clear();
        if (client.doorbell) client.page().daemon_sleeps.store(0);
      }
    }
  }

  // False when a client has rung meanwhile.
  bool fall_asleep(std::vector<pollfd>& waited) {
    ++state_.sleeps;
    waited = {{.fd = event_.fd(), .events = POLLIN, .revents = 0}, {.fd = door_.get(), .events = POLLIN, .revents = 0}};
    bool has_rung = false;
    for (auto& [number, client] : state_.clients) {
      waited.push_back({.fd = client.event.fd(), .events = POLLIN, .revents = 0});
      if (!state_.is_deaf) waited.push_back({.fd = client.socket.get(), .events = POLLIN, .revents = 0});
      if (!client.doorbell) continue;
      client.page().daemon_sleeps.store(1);
      has_rung |= client.page().groups.load() != 0;
    }
    return !has_rung;
  }

  bool step() {
    bool moved = false;
    run::FileDescriptor guest(accept4(door_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (guest.is_open()) state_.clients[++guests_].socket = std::move(guest);
    for (auto client = state_.clients.begin(); client != state_.clients.end();) {
      try {
        moved |= receive(client->second);
        moved |= carry_out(client->second);
        ++client;
      } catch (const Error& error) {
        if (error.code() != ErrorCode::peer_lost) ADD_FAILURE() << "the daemon of the test: " << error.what();
        client = state_.clients.erase(client);
      }
    }
    return moved;
  }

  bool receive(Client& client) {
    if (state_.is_deaf) return false;
    std::optional<Parcel> parcel = receive_parcel(client.socket.get());
    if (!parcel) return false;
    const ClientMessage message = decode_client_message(parcel->bytes);
    state_.heard.push_back(message);
    if (std::optional<DaemonMessage> answer = answer_to(client, message, std::move(parcel->descriptor))) {
      if (state_.holds_answers) {
        state_.held.push_back(*answer);
      } else {
        client.say(*answer, std::holds_alternative<Welcome>(*answer) ? client.event.fd() : -1);
      }
    }
    return true;
  }

  std::optional<DaemonMessage> answer_to(Client& client, const ClientMessage& message,
                                         std::optional<run::FileDescriptor> descriptor) {
    const uint64_t wish = std::visit(
        [](const auto& said) -> uint64_t {
          if constexpr (requires { said.wish; }) return said.wish;
          return 0;
        },
        message);
    if (state_.refusal) {
      if (const std::optional<Error> refusal = state_.refusal(message)) return Refused{.wish = wish, .error = *refusal};
    }
    if (std::holds_alternative<Hello>(message)) {
      if (state_.is_silent) return std::nullopt;
      client.doorbell = std::make_unique<Region>(descriptor.value(), sizeof(DoorbellPage));
      return state_.welcome;
    }
    if (const auto* const offer = std::get_if<OfferRegion>(&message)) {
      return RegionPlaced{.wish = wish, .place = client.regions.offer({descriptor.value(), offer->bytes})};
    }
    if (const auto* const open = std::get_if<OpenSession>(&message)) {
      add_session(client, *open);
      return SessionOpened{.wish = wish, .means = "a fake"};
    }
    if (const auto* const withdraw = std::get_if<WithdrawRegion>(&message)) client.regions.withdraw(withdraw->place);
    if (const auto* const close = std::get_if<CloseSession>(&message)) client.sessions.erase(close->session);
    return std::nullopt;
  }

  static void add_session(Client& client, const OpenSession& open) {
    CHECK(!client.sessions.contains(open.session)) << "session " << open.session << " is open already";
    Session& session = client.sessions[open.session];
    session.opened = open;
    session.memory = client.regions.find(open.page, sizeof(SessionPage));
    CHECK(session.memory != nullptr) << "there is no page";
    std::byte* const begin = session.memory->data() + open.page.offset;
    session.had_zeroed_page =
        std::all_of(begin, begin + sizeof(SessionPage), [](std::byte byte) { return byte == std::byte{0}; });
    session.page = reinterpret_cast<SessionPage*>(begin);
    session.rings = std::make_unique<DaemonRings>(*session.page);
    session.rules = {.rank = open.rank, .size = std::max<uint32_t>(1, static_cast<uint32_t>(open.members.size()))};
  }

  bool carry_out(Client& client) {
    if (!client.doorbell) return false;
    bool moved = answer(client.page(), [](uint32_t) {});
    for (auto& [number, session] : client.sessions) {
      while (state_.takes_calls) {
        const std::optional<Submission> submission = session.rings->take();
        if (!submission) break;
        moved = true;
        take(client, session, *submission);
      }
      for (; !session.unsaid.empty() && session.rings->has_room(); session.unsaid.pop_front()) {
        session.rings->complete(session.unsaid.front());
        moved = true;
      }
    }
    return moved;
  }

  void take(Client& client, Session& session, const Submission& submission) {
    session.submissions.push_back(submission);
    auto checked = validate(submission, session.rules, client.regions);
    if (const Refusal* const refusal = std::get_if<Refusal>(&checked)) {
      ADD_FAILURE() << "the daemon of the test refuses a call: " << refusal->words;
      return;
    }
    ++session.rules.next_sequence;
    if (state_.perform) return state_.perform(session, submission, std::get<ValidCall>(checked));
    if (run::is_message(std::get<ValidCall>(checked).call.kind)) {
      return pass_message(session, std::get<ValidCall>(std::move(checked)), submission.sequence);
    }
    perform_alone(std::get<ValidCall>(checked).call);
    session.complete(submission.sequence);
  }

  // To the rank itself.
  static void pass_message(Session& session, ValidCall message, uint64_t sequence) {
    for (size_t i = 0; i < session.messages.size(); ++i) {
      const run::Call& other = session.messages[i].call;
      if (other.kind == message.call.kind || other.tag != message.call.tag) continue;
      const bool sends = message.call.kind == run::OperationKind::send;
      const run::Call &from = sends ? message.call : other, &to = sends ? other : message.call;
      CHECK(from.count == to.count) << from.count << " are sent, " << to.count << " received";
      if (from.count > 0) std::memcpy(to.recv, from.send, from.count * size_of(from.type));
      session.complete(sequence);
      session.complete(session.message_sequences[i]);
      session.messages.erase(session.messages.begin() + static_cast<std::ptrdiff_t>(i));
      session.message_sequences.erase(session.message_sequences.begin() + static_cast<std::ptrdiff_t>(i));
      return;
    }
    session.messages.push_back(std::move(message));
    session.message_sequences.push_back(sequence);
  }

  static void perform_alone(const run::Call& call) {
    const size_t from = call.send_displacements.empty() ? 0 : call.send_displacements[0];
    const size_t to = call.recv_displacements.empty() ? 0 : call.recv_displacements[0];
    size_t count = call.count;
    if (!call.send_counts.empty()) count = call.send_counts[0];
    if (!call.recv_counts.empty()) count = call.recv_counts[0];
    if (count == 0) return;
    std::memmove(call.recv + to * size_of(call.type), call.send + from * size_of(call.type),
                 count * size_of(call.type));
  }

  run::FileDescriptor door_;
  run::Event event_;
  std::mutex mutex_;  // protects what follows
  std::condition_variable stepped_;
  State state_;
  uint64_t guests_ = 0;
  bool stops_ = false;
  std::thread thread_;
};

// Whether the body throws an Error of that code, in a child whose failed expectations nobody would see.
template <typename Body>
bool is_unsupported(Body body) {
  try {
    body();
  } catch (const Error& error) {
    return error.code() == ErrorCode::unsupported;
  }
  return false;
}

}  // namespace banyan::service
