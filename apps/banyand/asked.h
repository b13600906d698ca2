// What banyand is told by its command line.
#pragma once

#include <string>
#include <vector>

#include "apps/syntax.h"
#include "banyan/run/join/secret.h"
#include "banyan/service/daemon/daemon.h"

namespace banyan::app {

// Its texts are read when all of it is there.
struct Asked {
  Asked();

  service::Daemon::Options options;
  std::string secret_file, payload, ds_field, workers, upgrade_from, reload;
  std::vector<std::string> http_hosts, obey;
  bool wants_version = false, wants_check = false, is_for_all_users = false;

  // Each reads some of the texts into the options. All throw Error{invalid_input}, which names the option.
  void read_payload();
  void read_workers();
  void read_ds_field();
  void read_http_hosts();
  void read_obey();
  void read_texts();  // all of these
  // Throws Error{invalid_input} for one that is missing or may not be read: nothing that comes by itself.
  void expect_files() const;
  // Of --secret-file; empty: there is none. Throws what Secret::from_file throws.
  run::Secret secret() const;
};

void declare(CommandSyntax& syntax, Asked& asked);

}  // namespace banyan::app
