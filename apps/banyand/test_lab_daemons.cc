#include "apps/banyand/test_lab_daemons.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <utility>

#include "apps/banyand/test_banyand.h"

namespace banyan::service {

LabDaemons::LabDaemons() {
  std::ofstream(folder_ + "/secret") << "5a17c0de9b3e4f605a17c0de9b3e4f60";
  std::filesystem::permissions(folder_ + "/secret", std::filesystem::perms(0600));
}

std::string LabDaemons::daemon(const std::string& options) const {
  return std::string("exec ") + BANYAND_BINARY + " --socket " + folder_ + "/$BANYAN_LAB_HOST --operators " + folder_ +
         "/$BANYAN_LAB_HOST.operators --obey '*' --world file://" + folder_ + "/world --secret-file " + folder_ +
         "/secret --address $BANYAN_ADDRESS --crowded " + options + " >" + folder_ + "/$BANYAN_LAB_HOST.log 2>&1";
}

run::Communicator LabDaemons::join(const lab::Lab& lab, const Seat& seat, run::RegionPool& pool) const {
  for (const auto& [name, value] : lab.host_variables(lab.plan().fabric().at(seat.host))) {
    setenv(name.c_str(), value.c_str(), 1);
  }
  for (const char* unwanted : {"BANYAN_FABRIC", "BANYAN_ROUTES"}) unsetenv(unwanted);
  setenv("BANYAN_SECRET_FILE", (folder_ + "/secret").c_str(), 1);
  const auto link = attached_to("unix:" + folder_ + "/" + seat.host, pool);
  return run::Communicator::join(
      pool, {.url = "file://" + folder_ + "/meeting" + seat.tenant, .rank = seat.rank, .size = seat.size, .name = {}},
      options_by(link, kPatience, seat.tenant));
}

}  // namespace banyan::service
