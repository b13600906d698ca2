#include "banyan/run/agent/looks.h"

#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "banyan/base/json_line.h"
#include "banyan/run/agent/socket_dialer.h"
#include "banyan/run/join/peer_owner.h"
#include "banyan/run/join/wire.h"

namespace banyan::run {
namespace {

constexpr size_t kMostVisitors = 16;
// In all, for one visitor.
constexpr std::chrono::seconds kVisit{5};

// Numbers rise, and cannot be guessed: else a stranger could have the name before.
std::string next_door() {
  static std::atomic<uint64_t> doors{0};
  constexpr unsigned kRandomBits = 40;
  uint64_t random = 0;
  if (getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random) random = 0;  // it is one way of several
  return door_prefix(getpid()) + std::to_string(doors.fetch_add(1) << kRandomBits | random >> (64 - kRandomBits));
}

}  // namespace

std::string door_prefix(int64_t pid) { return kDoorPrefix + std::to_string(pid) + "-"; }

Looks::Looks(Reactor& reactor, Job job, AskAll ask_all)
    : reactor_(reactor), job_(std::move(job)), ask_all_(std::move(ask_all)) {
  open_door();
}

Looks::~Looks() { close(); }

void Looks::close() noexcept {
  visitors_.clear();
  if (!door_.is_open()) return;
  reactor_.forget(door_.get());
  door_.reset();
}

void Looks::open_door() {
  FileDescriptor door(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!door.is_open()) return;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = next_door();
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (bind(door.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 || listen(door.get(), 8) != 0) return;
  door_ = std::move(door);
  reactor_.watch(door_.get(), EPOLLIN, [this](uint32_t) { answer_door(); });
}

void Looks::answer_door() {
  FileDescriptor socket(accept4(door_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket.is_open()) {
    if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return;
    reactor_.forget(door_.get());  // descriptors are short, and the caller in the queue would wake us again and again
    return door_.reset();
  }
  if (stranger_at(socket.get())) return;
  admit(std::make_unique<SocketStream>(reactor_, std::move(socket), std::chrono::milliseconds(0)));
}

void Looks::admit(std::unique_ptr<ByteStream> stream) {
  if (visitors_.size() >= kMostVisitors) visitors_.pop_front();
  visitors_.emplace_back().stream = std::move(stream);
  const auto visitor = std::prev(visitors_.end());
  visitor->timer.set_after(reactor_, kVisit, [this, visitor] { visitors_.erase(visitor); });
  visitor->stream->watch([this, visitor](bool may_receive, bool may_send) {
    std::array<char, 256> words;  // it has nothing to say, and may hang up
    const bool is_over = may_receive && visitor->stream->receive(words).is_over;
    if (is_over) visitors_.erase(visitor);
    if (!is_over && may_send) send(visitor);
  });
  if (std::exchange(is_asking_, true)) return;
  ask_all_([this](const std::vector<PeerReport>& reports) {
    is_asking_ = false;
    answer(reports);
  });
}

// Who has come meanwhile gets the same.
void Looks::answer(const std::vector<PeerReport>& reports) {
  const std::string text = document_of(reports);
  for (auto visitor = visitors_.begin(); visitor != visitors_.end();) {
    const auto next = std::next(visitor);
    if (visitor->answer.empty()) {
      visitor->answer = text;
      send(visitor);
    }
    visitor = next;
  }
}

// A length, and what all ranks say: {"asked": 0, "met": "tcp://...", "ranks": [{"rank": 0, "health": "alive", "text":
// "..."}]}. The texts are views of processes, and quoted, so that nobody's nonsense spoils what others say.
std::string Looks::document_of(const std::vector<PeerReport>& reports) const {
  std::string ranks;
  for (uint32_t rank = 0; rank < reports.size(); ++rank) {
    if (rank > 0) ranks += ',';
    ranks += JsonLine()
                 .add("rank", rank)
                 .add("process", job_.processes[rank].name)
                 .add("place", job_.processes[rank].place)
                 .add("health", to_string(reports[rank].health))
                 .add("text", reports[rank].text)
                 .take();
  }
  std::string text = JsonLine().add("banyan", "look/2").add("asked", job_.rank).add("met", job_.met).take();
  text.back() = ',';
  text += R"("ranks":[)" + ranks + "]}";
  return WireWriter().number(static_cast<uint64_t>(text.size())).take() + text;
}

void Looks::send(Visitors::iterator visitor) {
  const std::string_view rest = std::string_view(visitor->answer).substr(visitor->sent);
  visitor->sent += visitor->stream->send(rest);
  const bool is_sent = !visitor->answer.empty() && visitor->sent == visitor->answer.size();
  // What has been taken may still wait for room; the visitor hangs up when it has all.
  visitor->stream->await_room(!is_sent);
}

}  // namespace banyan::run
