// FolderDirectory: the cards of hosts as files of a folder that all hosts see.
//
//   FOLDER/host-<name of the host in hexadecimal>    its card, signed where daemons have a secret (host_directory.h)
//
// The folder is opened for each question as those are in which ranks meet (run/join/meeting_folder.h): it is this
// user's or root's, not everybody may write to it, and neither its name nor one in it may be a link. A file that was
// read is not read again while it is the same, by its time, size and number: with thousands of hosts, a question costs
// a look at each and no more.
//
// One thread at a time.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "banyan/run/join/secret.h"
#include "banyan/run/system/file_descriptor.h"
#include "banyan/service/cluster/file_version.h"
#include "banyan/service/cluster/host_directory.h"

namespace banyan::service {

class FolderDirectory : public HostDirectory {
 public:
  // Throws Error{invalid_input} for a folder that is there and in which others could pretend to be a host. One that is
  // not there may be mounted later; the first question makes it (but not those above it).
  FolderDirectory(std::string folder, run::Secret secret);

  void publish(const HostCard& card) override;
  std::optional<HostCard> find(const std::string& host) override;
  HostCards cards() override;

 private:
  struct Known {
    FileVersion version;
    std::optional<HostCard> card;
    std::string why = {};  // there is no card
  };

  // Made first, unless it has been there.
  run::FileDescriptor opened();
  // Null where there is no such file.
  const Known* look(const run::FileDescriptor& folder, const std::string& name, const std::string& host);

  const std::string folder_;
  const run::Secret secret_;
  bool was_there_ = false;
  std::map<std::string, Known> known_;  // by name of the file
};

}  // namespace banyan::service
