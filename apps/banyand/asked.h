// The options of banyand's command line.
#pragma once

#include <string>
#include <vector>

#include "apps/syntax.h"
#include "banyan/run/join/secret.h"
#include "banyan/service/daemon/daemon.h"

namespace banyan::app {

// The texts among them are read once the whole command line is there.
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
  // Throws Error{invalid_input} for a file that is missing or may not be read: waiting would not mend that.
  void expect_files() const;
  // The secret in --secret-file; empty without that option. Throws what Secret::from_file throws.
  run::Secret secret() const;
};

void declare(CommandSyntax& syntax, Asked& asked);

}  // namespace banyan::app
