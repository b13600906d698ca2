// Somebody in the network between the daemons of two hosts changes what goes there: recv() of one daemon does it in his
// place.
#include <dlfcn.h>
#include <sys/socket.h>

#include "banyan/service/daemon/test_services.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

constexpr const char *kSaid = "what rank 0 has said", *kChanged = "what somebody wanted";
bool changes = false;

class LanesBetweenHosts : public Services {
 protected:
  // What rank 1 hears of a broadcast, or its error.
  std::string heard() {
    daemon_begins_ = [](uint32_t host) { changes = host == 1; };
    return run_ranks(2, 2, [](run::Communicator& comm, run::RegionPool&) -> std::string {
      std::string text(2000, ' ');
      if (comm.rank() == 0) text.replace(1000, std::strlen(kSaid), kSaid);
      std::string into(text.size(), '\0');
      try {
        comm.run({.kind = run::OperationKind::broadcast,
                  .type = element::DataType::uint8,
                  .send = reinterpret_cast<const std::byte*>(text.data()),
                  .recv = reinterpret_cast<std::byte*>(into.data()),
                  .count = text.size()});
        return into;
      } catch (const Error& error) {
        return error.what();
      }
    })[1];
  }
};

TEST_F(LanesBetweenHosts, AreSealedWhereDaemonsHaveASecret) {
  daemons_.secret = run::Secret::random();
  daemons_.address = "127.0.0.1";
  EXPECT_THAT(heard(), HasSubstr("were changed on their way"));
}

// So the test before would see it.
TEST_F(LanesBetweenHosts, AreNotSealedWhereTheyHaveNone) { EXPECT_THAT(heard(), HasSubstr(kChanged)); }

}  // namespace

void change_for_test(char* bytes, size_t count) {
  if (!changes) return;
  char* const found = std::search(bytes, bytes + count, kSaid, kSaid + std::strlen(kSaid));
  if (found != bytes + count) std::memcpy(found, kChanged, std::strlen(kChanged));
}

}  // namespace banyan::service

extern "C" ssize_t recv(int fd, void* into, size_t size, int flags) {
  static const auto real = reinterpret_cast<decltype(&recv)>(dlsym(RTLD_NEXT, "recv"));
  const ssize_t count = real(fd, into, size, flags);
  if (count > 0) banyan::service::change_for_test(static_cast<char*>(into), static_cast<size_t>(count));
  return count;
}
