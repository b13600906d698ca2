// The barrier that says who is missing.
#include <algorithm>
#include <memory>
#include <utility>

#include "banyan/run/join/deadline.h"
#include "bindings/torch/process_group.h"
#include "bindings/torch/signals.h"

namespace banyan::pytorch {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kDefaultTime{30 * 60 * 1000};  // that of torch.distributed
constexpr size_t kVerdictBytes = 1024;
// Rank 0's time begins when it comes itself, maybe as late as anybody may; and its verdict takes a moment to arrive.
constexpr int kTimesToWait = 2;
constexpr milliseconds kMargin{5000};

using Text = std::shared_ptr<std::string>;

// The messages of one barrier.
class Messages {
 public:
  Messages(run::Communicator& communicator, uint64_t barrier)
      : communicator_(communicator), tag_(kTags | static_cast<uint32_t>(barrier & (kTags - 1))) {}

  run::Request send(uint32_t to, const Text& text) const { return start(run::OperationKind::send, to, text); }
  run::Request receive(uint32_t from, const Text& text) const { return start(run::OperationKind::recv, from, text); }

 private:
  static constexpr uint32_t kTags = 1u << 31;  // beyond those of programs

  run::Request start(run::OperationKind kind, uint32_t peer, const Text& text) const {
    auto* const bytes = reinterpret_cast<std::byte*>(text->data());
    const run::Request request = guarded([&] {
      return communicator_.start({.kind = kind,
                                  .type = element::DataType::uint8,
                                  .other = peer,
                                  .send = bytes,
                                  .recv = bytes,
                                  .count = text->size(),
                                  .tag = tag_});
    });
    request.on_done([text] {});  // which stays until then
    return request;
  }

  run::Communicator& communicator_;
  const uint32_t tag_;
};

bool is_done(run::Request request, const run::Deadline& deadline) {
  return guarded([&] {
    return wait_and_look(std::max(deadline.left(), milliseconds(1)),
                         [&](milliseconds at_most) { return request.wait_for(at_most); });
  });
}

std::string words_of(milliseconds time) { return std::to_string(time.count()) + " ms"; }

template <typename Number>
std::string list_of(const std::vector<Number>& numbers) {
  std::string list;
  for (const Number number : numbers) list += (list.empty() ? "" : ", ") + std::to_string(number);
  return list;
}

// The question of rank 0.
struct Question {
  milliseconds timeout;
  bool wait_all_ranks;                       // else the first that is missing is enough
  const std::vector<int64_t>& global_ranks;  // of the members, or empty
};

// Empty when nobody is missing.
std::string verdict_on(const std::vector<uint32_t>& missing, const Question& question) {
  const auto& [timeout, wait_all_ranks, global_ranks] = question;
  if (missing.empty()) return "";
  // PyTorch's own tests and users look for these words.
  std::string verdict = timeout.count() == 0 ? "Rank 0 timed out in monitoredBarrier after 0 ms: " : "";
  verdict += (wait_all_ranks ? "Ranks " : "Rank ") + list_of(missing) + " failed to pass monitoredBarrier in " +
             words_of(timeout);
  if (global_ranks.empty()) return verdict;
  std::vector<int64_t> global;
  for (const uint32_t rank : missing) global.push_back(global_ranks[rank]);
  return verdict + (global.size() == 1 ? " (global rank " : " (global ranks ") + list_of(global) + ")";
}

void await_verdict(const Messages& messages, int rank, milliseconds timeout) {
  const milliseconds patience = kTimesToWait * timeout + kMargin;
  const run::Deadline deadline = run::Deadline::after(patience);
  messages.send(0, std::make_shared<std::string>(1, '.'));
  const auto verdict = std::make_shared<std::string>(kVerdictBytes, '\0');
  const std::string came = "Rank " + std::to_string(rank) +
                           " successfully reached monitoredBarrier, but received errors while waiting for send/recv "
                           "from rank 0";
  if (!is_done(messages.receive(0, verdict), deadline)) {
    throw CommunicationError(ErrorCode::timed_out, came + ": it has sent no verdict within " + words_of(patience) +
                                                       ", so it has not come itself, or not in time");
  }
  if (verdict->front() == '\0') return;
  throw CommunicationError(ErrorCode::timed_out,
                           came + ". Please check rank 0 logs for faulty rank. It says: " + verdict->c_str());
}

std::string judge(const Messages& messages, uint32_t ranks, const Question& question) {
  const run::Deadline deadline = run::Deadline::after(question.timeout);
  std::vector<run::Request> arrivals(ranks);
  for (uint32_t rank = 1; rank < ranks; ++rank) {
    arrivals[rank] = messages.receive(rank, std::make_shared<std::string>(1, '\0'));
  }
  std::vector<uint32_t> missing;
  for (uint32_t rank = 1; rank < ranks && (question.wait_all_ranks || missing.empty()); ++rank) {
    if (!is_done(arrivals[rank], deadline)) missing.push_back(rank);
  }
  const std::string verdict = verdict_on(missing, question);
  const auto text = std::make_shared<std::string>(verdict);
  text->resize(kVerdictBytes);
  std::vector<run::Request> told;
  for (uint32_t rank = 1; rank < ranks; ++rank) {
    const run::Request telling = messages.send(rank, text);
    if (arrivals[rank].is_over()) told.push_back(telling);
  }
  const run::Deadline soon = run::Deadline::after(kMargin);
  for (const run::Request& each : told) is_done(each, soon);
  return verdict;
}

}  // namespace

void ProcessGroupBanyan::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  const milliseconds timeout =
      options.timeout == c10d::kUnsetTimeout ? kDefaultTime : std::max(options.timeout, milliseconds(0));
  const Messages messages(communicator_, barriers_.fetch_add(1));
  if (rank_ != 0) return await_verdict(messages, rank_, timeout);
  const std::string verdict = judge(messages, ranks(), {timeout, wait_all_ranks, global_ranks_});
  if (!verdict.empty()) throw CommunicationError(ErrorCode::timed_out, "[Rank 0]: " + verdict);
}

}  // namespace banyan::pytorch
