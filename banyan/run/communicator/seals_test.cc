// What becomes of BANYAN_ENCRYPTION when processes join.

#include "banyan/run/communicator/joined_processes.h"
#include "banyan/run/system/processes.h"
#include "banyan/testing/temporary_folder.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

struct Wish {
  Encryption encryption = Encryption::automatic;
  bool has_secret = true, is_between_hosts = true;
};

std::string words_of(const Seals& seals) {
  if (!seals.sealing) return "none";
  return std::string(*seals.sealing == Sealing::encrypted ? "full" : "auth") +
         (seals.is_asked_for ? "" : " by default");
}

std::vector<std::string> ends(const Wish& first, const Wish& second) {
  const testing::TemporaryFolder folder;
  const auto reports = run_processes(2, std::chrono::seconds(60), [&](uint32_t rank) -> std::string {
    const Wish& wish = rank == 0 ? first : second;
    setenv("BANYAN_HOST_ID", wish.is_between_hosts && rank == 1 ? "b" : "a", 1);
    const Secret secret = wish.has_secret ? Secret::parse("000102030405060708090a0b0c0d0e0f", "test") : Secret();
    RegionPool pool;
    try {
      return words_of(JoinedProcesses::join(pool,
                                            {.url = "file://" + folder.path() + "/meeting",
                                             .rank = rank,
                                             .size = 2,
                                             .name = {},
                                             .encryption = wish.encryption},
                                            secret, Deadline::after(std::chrono::seconds(30)))
                          ->seals());
    } catch (const Error& error) {
      return error.what();
    }
  });
  return reports;
}
std::vector<std::string> ends(const Wish& both) { return ends(both, both); }

TEST(Seals, AreTheDefaultBetweenHostsWhereASecretIsSet) {
  EXPECT_THAT(ends({}), Each("auth by default"));
  EXPECT_THAT(ends({.is_between_hosts = false}), Each("none"));
  EXPECT_THAT(ends({.encryption = Encryption::off}), Each("none"));
  EXPECT_THAT(ends({.has_secret = false, .is_between_hosts = false}), Each("none"));
}

TEST(Seals, AreOfAllThatGoesByTcpWhereTheyAreAskedFor) {
  EXPECT_THAT(ends({.encryption = Encryption::authenticated, .is_between_hosts = false}), Each("auth"));
  EXPECT_THAT(ends({.encryption = Encryption::encrypted}), Each("full"));
}

TEST(Seals, WantASecretAndTheSameWishOfAll) {
  EXPECT_THAT(ends({.encryption = Encryption::authenticated, .has_secret = false, .is_between_hosts = false}),
              Each(HasSubstr("BANYAN_ENCRYPTION=auth wants a secret (set BANYAN_SECRET")));
  EXPECT_THAT(ends({}, {.encryption = Encryption::off}),
              Each(HasSubstr("has BANYAN_ENCRYPTION=off, and rank 0 unset (set it to the same on all ranks)")));
}

}  // namespace
}  // namespace banyan::run
