// What strangers, wrong launches and wrong secrets can do to ranks: nothing but an error that names who is to blame.
#include <arpa/inet.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <iterator>
#include <mutex>
#include <new>

#include "banyan/base/check.h"
#include "banyan/run/join/free_port.h"
#include "banyan/run/system/file_descriptor.h"
#include "banyan/testing/test.h"
#include "bindings/c/test_footprint.h"
#include "bindings/c/test_load.h"
#include "bindings/c/test_ranks.h"

namespace banyan::c {
namespace {

using ::testing::AnyOf;
using Clock = std::chrono::steady_clock;
namespace fs = std::filesystem;

// ---- Strangers ----

// The places where this process listens for TCP connections.
std::vector<sockaddr_in> listening() {
  std::set<std::string> own;  // inodes of sockets
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = fs::read_symlink(entry.path(), gone).string();
    if (target.starts_with("socket:[")) own.insert(target.substr(8, target.size() - 9));
  }
  std::vector<sockaddr_in> places;
  std::ifstream table("/proc/self/net/tcp");
  std::string line;
  std::getline(table, line);  // the names of the columns
  while (std::getline(table, line)) {
    std::istringstream columns(line);
    std::vector<std::string> words{std::istream_iterator<std::string>(columns), {}};
    constexpr const char* kListening = "0A";
    if (words.size() < 10 || words[3] != kListening || !own.contains(words[9])) continue;
    sockaddr_in place{};
    place.sin_family = AF_INET;
    place.sin_addr.s_addr = static_cast<in_addr_t>(std::stoul(words[1].substr(0, 8), nullptr, 16));
    if (place.sin_addr.s_addr == INADDR_ANY) place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    place.sin_port = htons(static_cast<uint16_t>(std::stoul(words[1].substr(9), nullptr, 16)));
    places.push_back(place);
  }
  return places;
}

// A thread that calls all ports of its own process, again and again, and says the wrong thing.
class Stranger {
 public:
  enum class Manner { garbage, half_a_greeting, silence, flood };

  explicit Stranger(Manner manner) : manner_(manner), thread_([this] { run(); }) {}
  ~Stranger() { stop(); }
  // The number of connections that were made.
  uint64_t stop() {
    is_over_ = true;
    if (thread_.joinable()) thread_.join();
    return calls_;
  }

 private:
  void run() {
    std::mt19937_64 random(getpid());
    while (!is_over_) {
      for (const sockaddr_in& place : listening()) call(place, random);
      std::this_thread::yield();
    }
  }

  void call(const sockaddr_in& place, std::mt19937_64& random) {
    const size_t most_open = manner_ == Manner::flood ? 300 : manner_ == Manner::silence ? 20 : 1;
    run::FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket.is_open() || connect(socket.get(), reinterpret_cast<const sockaddr*>(&place), sizeof place) != 0)
      return;
    ++calls_;
    std::string words(random() % 3000, '\0');
    for (char& letter : words) letter = static_cast<char>(random());
    if (manner_ == Manner::half_a_greeting) words = "banyan/1\n" + words.substr(0, words.size() % 40);
    if (manner_ == Manner::silence || manner_ == Manner::flood) words.clear();
    // They may be hung up on at any moment.
    if (!words.empty() && send(socket.get(), words.data(), words.size(), MSG_NOSIGNAL) < 0) ++unheard_;
    open_.push_back(std::move(socket));
    if (open_.size() > most_open)
      open_.erase(open_.begin(), open_.begin() + static_cast<std::ptrdiff_t>(open_.size() / 2));
  }

  const Manner manner_;
  std::atomic<bool> is_over_{false};
  std::atomic<uint64_t> calls_{0}, unheard_{0};
  std::vector<run::FileDescriptor> open_;
  std::thread thread_;
};

class Strangers : public ::testing::TestWithParam<Stranger::Manner> {};
INSTANTIATE_TEST_SUITE_P(Manners, Strangers,
                         ::testing::Values(Stranger::Manner::garbage, Stranger::Manner::half_a_greeting,
                                           Stranger::Manner::silence, Stranger::Manner::flood));

// New connections are made all the while, since each part is a communicator of its own.
TEST_P(Strangers, OnThePortsOfWorkingRanksChangeNothing) {
  const auto body = [](banyan_comm_t comm, int) -> std::string {
    const auto work = [&](uint64_t round) -> std::string {
      banyan_comm_t part = nullptr;
      require(banyan_comm_split(comm, 0, 0, &part, nullptr));
      std::string wrong = Load(part, {.seed = round, .largest = 50'000}).calls(20, 50'000);
      banyan_comm_destroy(part);
      return wrong;
    };
    // The first plan of each kind brings in code and tables that stay, whoever calls.
    std::string wrong = work(100);
    const Footprint before = Footprint::now();
    {
      Stranger stranger(GetParam());
      for (uint64_t round = 0; round < 25 && wrong.empty(); ++round) wrong = work(round);
      if (stranger.stop() == 0) wrong += "nobody called";
    }
    // Who has hung up is forgotten, a little later.
    const auto end = Clock::now() + std::chrono::seconds(20);
    while (!growth(before, Footprint::now()).empty() && Clock::now() < end) std::this_thread::yield();
    return wrong + growth(before, Footprint::now());
  };
  EXPECT_THAT(run_ranks(3, body), Each(""));
}

// ---- Meeting ----

// An id that one process makes and others wait for.
class IdNote {
 public:
  IdNote() : note_(new (mmap(nullptr, sizeof(Note), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Note) {}
  ~IdNote() { munmap(note_, sizeof(Note)); }
  IdNote(const IdNote&) = delete;
  IdNote& operator=(const IdNote&) = delete;

  banyan_unique_id_t make() {
    CHECK(banyan_get_unique_id(&note_->id) == BANYAN_SUCCESS) << banyan_last_error(nullptr);
    note_->is_there = true;
    return note_->id;
  }
  banyan_unique_id_t wait() {
    while (!note_->is_there) std::this_thread::yield();
    return note_->id;
  }

 private:
  struct Note {
    std::atomic<bool> is_there{false};
    banyan_unique_id_t id;
  };
  Note* const note_;
};

// The sum of a one of each rank, as text; or why there is none.
std::string sum_of_ones(banyan_comm_t comm) {
  int32_t one = 1;
  const banyan_result_t result = banyan_all_reduce(&one, &one, 1, BANYAN_INT32, BANYAN_SUM, comm, nullptr);
  return result == BANYAN_SUCCESS ? std::to_string(one) : banyan_last_error(comm);
}

// What came of joining; the communicator is gone afterwards.
std::string outcome(banyan_result_t result, banyan_comm_t comm) {
  if (result != BANYAN_SUCCESS) return std::string(banyan_result_text(result)) + ": " + banyan_last_error(nullptr);
  std::string report = "one of " + sum_of_ones(comm);
  banyan_comm_destroy(comm);
  return report;
}

std::string join(const std::string& url, int size, int rank, double seconds) {
  banyan_config_t config = BANYAN_CONFIG_INIT;
  config.join_timeout = seconds;
  banyan_comm_t comm = nullptr;
  const banyan_result_t result = banyan_comm_init_url(&comm, url.c_str(), size, rank, &config);
  return outcome(result, comm);
}

std::string join(const banyan_unique_id_t& id, int size, int rank, double seconds) {
  banyan_config_t config = BANYAN_CONFIG_INIT;
  config.join_timeout = seconds;
  banyan_comm_t comm = nullptr;
  const banyan_result_t result = banyan_comm_init_rank(&comm, size, id, rank, &config);
  return outcome(result, comm);
}

TEST_P(Strangers, AtTheMeetingPointChangeNothing) {
  IdNote note;
  const auto body = [&](int rank) {
    if (rank > 0) return join(note.wait(), 4, rank, 60);
    const banyan_unique_id_t id = note.make();
    const Stranger stranger(GetParam());
    return join(id, 4, rank, 60);
  };
  EXPECT_THAT(run_processes(4, body), Each("one of 4"));
}

// Both kinds of places. The port is one that was free a moment ago.
std::vector<std::string> places(const MeetingPlace& folder) {
  return {folder.url(), "tcp://127.0.0.1:" + std::to_string(run::free_port())};
}

TEST(Meeting, ARankWithAnotherSecretIsRefusedAndTheMendIsNamed) {
  const MeetingPlace folder;
  for (const std::string& place : places(folder)) {
    const auto begin = Clock::now();
    const auto reports = run_processes(3, [&](int rank) {
      setenv("BANYAN_SECRET", rank == 1 ? "0f0e0d0c0b0a09080706050403020100" : "000102030405060708090a0b0c0d0e0f", 1);
      return join(place, 3, rank, 2);
    });
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(30));
    EXPECT_THAT(reports, Each(::testing::Not(HasSubstr("one of 3")))) << place;
    EXPECT_THAT(reports[1], HasSubstr("secret")) << place;
    EXPECT_THAT(reports[1], HasSubstr("BANYAN_SECRET")) << place;
    EXPECT_THAT(reports[0], ::testing::ContainsRegex("(rank|process) 1")) << place;
  }
}

// In a folder all meet first, whatever their secrets. Then nobody accuses those who give up because of the one.
TEST(Meeting, WhoHasAnotherSecretIsNamedByAllInAFolder) {
  for (const int odd : {0, 1, 3}) {
    const MeetingPlace folder;
    const auto begin = Clock::now();
    const auto reports = run_processes(4, [&](int rank) {
      setenv("BANYAN_SECRET", rank == odd ? "0f0e0d0c0b0a09080706050403020100" : "000102030405060708090a0b0c0d0e0f", 1);
      return join(folder.url(), 4, rank, 60);
    });
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(30)) << "there is nothing to wait for";
    std::string others;
    for (int rank = 0; rank < 4; ++rank)
      others += rank == odd ? "" : (others.empty() ? "" : ", ") + std::to_string(rank);
    EXPECT_THAT(reports, Each(AllOf(HasSubstr("rank " + std::to_string(odd) + " (process "),
                                    HasSubstr("has another secret than ranks " + others), HasSubstr("BANYAN_SECRET"))));
  }
}

TEST(Meeting, WhoEncryptsOtherwiseIsNamedByAll) {
  const MeetingPlace folder;
  for (const std::string& place : places(folder)) {
    const auto reports = run_processes(3, [&](int rank) {
      setenv("BANYAN_ENCRYPTION", rank == 1 ? "auth" : "full", 1);
      return join(place, 3, rank, 60);
    });
    EXPECT_THAT(reports, Each(AllOf(HasSubstr("rank 1 (process "),
                                    HasSubstr("has BANYAN_ENCRYPTION=auth, and ranks 0, 2 full"))))
        << place;
  }
}

TEST(Meeting, ASecretThatOnlyOneRankHasIsRefused) {
  const MeetingPlace folder;
  for (const std::string& place : places(folder)) {
    const auto reports = run_processes(2, [&](int rank) {
      if (rank == 1) setenv("BANYAN_SECRET", "0f0e0d0c0b0a09080706050403020100", 1);
      return join(place, 2, rank, 2);
    });
    EXPECT_THAT(reports, Each(::testing::Not(HasSubstr("one of 2")))) << place;
    EXPECT_THAT(reports[1], HasSubstr("BANYAN_SECRET")) << place;
  }
}

// An id is for one meeting. Whoever comes with it again waits in vain, and those who met by it do not notice.
TEST(Meeting, AnIdIsNotForASecondMeeting) {
  IdNote note;
  const auto reports = run_processes(2, [&](int rank) -> std::string {
    const banyan_unique_id_t id = rank == 0 ? note.make() : note.wait();
    banyan_comm_t comm = nullptr;
    require(banyan_comm_init_rank(&comm, 2, id, rank, nullptr));
    const std::string again = join(id, 2, rank, 1);
    const std::string sum = sum_of_ones(comm);
    banyan_comm_destroy(comm);
    return again + "; still one of " + sum;
  });
  // The others, as long as the place is still open for those who leave it.
  EXPECT_THAT(reports,
              Each(AnyOf(HasSubstr("rank 0 has not come to tcp://"), HasSubstr("twice"), HasSubstr("rank 0 hung up"))));
  EXPECT_THAT(reports, Each(::testing::EndsWith("; still one of 2")));
}

TEST(Meeting, RanksMayBeForkedFromWhoeverMadeTheId) {
  banyan_unique_id_t id{};
  ASSERT_EQ(banyan_get_unique_id(&id), BANYAN_SUCCESS);
  EXPECT_THAT(run_processes(3, [&](int rank) { return join(id, 3, rank, 30); }), Each("one of 3"));
}

// Rank 0, which keeps the place, has failed by then.
TEST(Meeting, WhoComesLateByAnIdLearnsWhyItFailed) {
  IdNote note;
  const auto reports = run_processes(3, [&](int rank) -> std::string {
    const banyan_unique_id_t id = rank == 0 ? note.make() : note.wait();
    if (rank == 2) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    return join(id, rank == 1 ? 4 : 3, rank, 30);
  });
  EXPECT_THAT(reports, Each(AllOf(HasSubstr("rank 1"), HasSubstr("4"), ::testing::Not(HasSubstr("has not come")))));
}

TEST(Meeting, WhatIsNoIdIsRefused) {
  banyan_unique_id_t id{};
  banyan_comm_t comm = nullptr;
  EXPECT_EQ(banyan_comm_init_rank(&comm, 1, id, 0, nullptr), BANYAN_INVALID_ARGUMENT);
  std::memset(id.text, 'x', sizeof id.text);
  EXPECT_EQ(banyan_comm_init_rank(&comm, 1, id, 0, nullptr), BANYAN_INVALID_ARGUMENT);
  EXPECT_THAT(banyan_last_error(nullptr), HasSubstr("no id of banyan_get_unique_id"));
  std::strcpy(id.text, "tcp://127.0.0.1:notaport#00");
  EXPECT_EQ(banyan_comm_init_rank(&comm, 1, id, 0, nullptr), BANYAN_INVALID_ARGUMENT);
  EXPECT_EQ(comm, nullptr);
}

}  // namespace
}  // namespace banyan::c
