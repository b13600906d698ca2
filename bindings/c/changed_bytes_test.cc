// Somebody in the network between two hosts changes what goes there: these ranks' recv() does it in his place.
#include <dlfcn.h>
#include <sys/socket.h>

#include "banyan/run/join/free_port.h"
#include "banyan/testing/test.h"
#include "bindings/c/test_ranks.h"

namespace banyan::c {
namespace {

constexpr const char *kSaid = "what rank 0 has said", *kChanged = "what somebody wanted";
bool changes = false;

void change(char* bytes, size_t count) {
  char* const found = std::search(bytes, bytes + count, kSaid, kSaid + std::strlen(kSaid));
  if (found != bytes + count) std::memcpy(found, kChanged, std::strlen(kChanged));
}

// What rank 1 hears of a broadcast, or its error.
std::vector<std::string> heard(const char* encryption) {
  const std::string url = "tcp://127.0.0.1:" + std::to_string(run::free_port(2));
  return run_processes(2, [&](int rank) -> std::string {
    setenv("BANYAN_HOST_ID", rank == 0 ? "a" : "b", 1);
    setenv("BANYAN_SECRET", "000102030405060708090a0b0c0d0e0f", 1);
    if (encryption != nullptr) setenv("BANYAN_ENCRYPTION", encryption, 1);
    changes = rank == 1;
    banyan_config_t config = BANYAN_CONFIG_INIT;
    config.timeout = 20;
    banyan_comm_t comm = nullptr;
    require(banyan_comm_init_url(&comm, url.c_str(), 2, rank, &config));
    std::string text(2000, ' ');
    if (rank == 0) text.replace(1000, std::strlen(kSaid), kSaid);
    const banyan_result_t result =
        banyan_broadcast(text.data(), text.data(), text.size(), BANYAN_UINT8, 0, comm, nullptr);
    const std::string end = result == BANYAN_SUCCESS ? text : banyan_last_error(comm);
    banyan_comm_destroy(comm);
    return end;
  });
}

TEST(ChangedBytes, BetweenHostsAreNoticedWhereASecretIsSet) {
  for (const char* const encryption : {static_cast<const char*>(nullptr), "auth"}) {
    EXPECT_THAT(heard(encryption)[1], HasSubstr("bytes from rank 0 were changed on their way"));
  }
}

// So the test before would see it.
TEST(ChangedBytes, BetweenHostsComeWhereEncryptionIsOff) { EXPECT_THAT(heard("off")[1], HasSubstr(kChanged)); }

// There is nothing to be found and changed.
TEST(ChangedBytes, BetweenHostsAreNotThereWhereAllIsEncrypted) { EXPECT_THAT(heard("full")[1], HasSubstr(kSaid)); }

}  // namespace
}  // namespace banyan::c

extern "C" ssize_t recv(int fd, void* into, size_t size, int flags) {
  static const auto real = reinterpret_cast<decltype(&recv)>(dlsym(RTLD_NEXT, "recv"));
  const ssize_t count = real(fd, into, size, flags);
  if (banyan::c::changes && count > 0) banyan::c::change(static_cast<char*>(into), static_cast<size_t>(count));
  return count;
}
