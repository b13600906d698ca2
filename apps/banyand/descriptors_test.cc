// A real daemon whose descriptors are used up, and are not any more.
#include <stdlib.h>
#include <sys/resource.h>

#include <future>

#include "apps/banyand/test_banyand.h"
#include "banyan/base/check.h"
#include "banyan/base/file.h"
#include "banyan/run/host/regions.h"
#include "banyan/service/client/service_link.h"
#include "banyan/service/cluster/test_etcd.h"
#include "banyan/service/http/client.h"
#include "banyan/service/view/view_json.h"
#include "banyan/testing/temporary_folder.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

class Descriptors : public ::testing::Test, protected testing::TemporaryFolder {
 protected:
  Descriptors() {
    daemon_.emplace(BanyandProcess::Options{.socket = folder_ + "/daemon",
                                            .world = "file://" + folder_ + "/world",
                                            .host = "host",
                                            .more = {"--operators", folder_ + "/operators"}});
  }

  // Attaches as a program does, and detaches. What is wrong, or nothing.
  std::string attach() const {
    try {
      run::RegionPool pool;
      const ServiceLink link("unix:" + folder_ + "/daemon", pool, run::Deadline::after(seconds(60)));
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }
  std::string asked(const std::string& path) const {
    return http_ask("unix:" + folder_ + "/operators", "GET", path, "", seconds(20)).body;
  }
  // The lowest number that is free: the next descriptor.
  uint64_t next() const {
    const std::string folder = "/proc/" + std::to_string(daemon_->id()) + "/fd/";
    uint64_t number = 0;
    while (std::filesystem::is_symlink(folder + std::to_string(number))) ++number;
    return number;
  }
  // Of what was closed last the daemon still closes some: it is the same for many looks.
  uint64_t settled() const {
    uint64_t number = next();
    int looks = 0;
    comes_true([&] {
      const uint64_t seen = next();
      looks = seen == number ? looks + 1 : 0;
      number = seen;
      return looks == 50;
    });
    return number;
  }
  bool settles_at(uint64_t number) const {
    return comes_true([&] { return next() == number; });
  }
  void allow(uint64_t most) const {
    rlimit own{};
    CHECK(prlimit(daemon_->id(), RLIMIT_NOFILE, nullptr, &own) == 0) << errno;
    own.rlim_cur = most;
    CHECK(prlimit(daemon_->id(), RLIMIT_NOFILE, &own, nullptr) == 0) << errno;
  }

  std::optional<BanyandProcess> daemon_;
};

TEST_F(Descriptors, OfADaemonThatAreUsedUpAreToldAndMissedOnlyWhileTheyAre) {
  ASSERT_EQ(attach(), "");
  asked("/v1/host");
  const uint64_t before = settled();

  // None is left: a program waits at the door, and is let in as soon as there are some.
  allow(before);
  std::future<std::string> waits = std::async(std::launch::async, [&] { return attach(); });
  EXPECT_TRUE(comes_true([&] {
    return read_file(folder_ + "/daemon.log").find("programs wait at the door of the service") != std::string::npos;
  }));
  EXPECT_NE(waits.wait_for(seconds(0)), std::future_status::ready);
  allow(1024);
  EXPECT_EQ(waits.get(), "");
  ASSERT_TRUE(settles_at(before));

  // The last ones are kept for operators: a program is refused, with what helps.
  allow(before + 1);
  EXPECT_THAT(attach(),
              HasSubstr("descriptors in use and keeps the last ones; end some programs, or allow banyand more"));
  EXPECT_TRUE(settles_at(before));
  const HostView seen = host_view_from(asked("/v1/host"));
  EXPECT_EQ(seen.most_descriptors, before + 1);
  EXPECT_GE(seen.descriptors, before);
  EXPECT_GE(seen.refused.at("descriptors"), 2u);
  ASSERT_EQ(seen.troubles.size(), 1u);
  EXPECT_EQ(seen.troubles[0].kind, "descriptors");
  EXPECT_THAT(seen.troubles[0].words, HasSubstr("lets no program in"));
  EXPECT_TRUE(std::any_of(seen.events.begin(), seen.events.end(), [](const EventView& event) {
    return event.words.find("programs wait at the door of the service") != std::string::npos;
  }));
  EXPECT_TRUE(settles_at(before));
  const std::string metrics = asked("/metrics");
  EXPECT_THAT(metrics, HasSubstr("banyan_service_most_descriptors{host=\""));
  EXPECT_THAT(metrics, HasSubstr("banyan_refused_total{"));
  EXPECT_THAT(metrics, HasSubstr("reason=\"descriptors\""));

  allow(1024);
  EXPECT_EQ(attach(), "");
  EXPECT_FALSE(daemon_->has_ended());
}

}  // namespace
}  // namespace banyan::service
