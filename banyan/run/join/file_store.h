// FileStore: a store in a folder that all processes see, on one host or on a shared file system.
//
// Rank 0 hosts: it makes a fresh subfolder, holds a lock on a file in it for as long as it lives (flock(2); the kernel
// takes it away from a process that is killed), and names the subfolder in the file `current`. Visitors believe
// `current` only while that lock is held, so that what an earlier job left behind is never read; the next host removes
// it. Values come whole or not at all, by rename(2).
//
//   FOLDER/lock              held while a host moves in
//   FOLDER/current           the name of the subfolder
//   FOLDER/meeting-<16 hex>/host        locked by the host; says who it is
//                           visitors    locked (shared) by every visitor
//                           v.<key>     a value
//                           l.<key>     locked while a counter changes
//                           w.<16 hex>  a last will, locked by the process that left it as long as it lives
//
// The file system must have locks: local ones, NFS, Lustre (mounted with -o flock) have. Secrets are not asked for:
// every process that may write to the folder belongs to the job. The folder must therefore belong to this user, or
// root, and not be writable to all. It is opened once, without following a link of its name, and everything in it is
// reached from there, so that nobody can put another folder in its place (or that of a link) after it was checked.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "banyan/base/error.h"
#include "banyan/run/join/store.h"
#include "banyan/run/system/file_descriptor.h"

namespace banyan::run {

class FileStore : public Store {
 public:
  // Makes the folder (but not those above it), readable to this user only, unless it is there. `self` tells people who
  // hosts: "process 4711 on node7". Throws Error{mismatch} when somebody else hosts there: "file:///scratch/meet:
  // process 12 on node8 is meeting others here already; give every job a folder of its own".
  static std::unique_ptr<FileStore> host(const std::string& folder, const std::string& self);
  // Waits for a host. Throws Error{timed_out}: "rank 0 has not come to file:///scratch/meet within 30 s".
  static std::unique_ptr<FileStore> visit(const std::string& folder, const Deadline& deadline);
  // The host's takes everything away that it made, and visitors that are still there are told peer_lost. In a process
  // that was forked from the owner it does nothing.
  ~FileStore() override;

  // The longest pause between two looks of a wait.
  static constexpr std::chrono::milliseconds kLongestPause{10};

  void set(const std::string& key, const std::string& value, const Deadline& deadline) override;
  std::string get(const std::string& key, const Deadline& deadline) override;
  std::optional<std::string> try_get(const std::string& key, const Deadline& deadline) override;
  int64_t add(const std::string& key, int64_t delta, const Deadline& deadline) override;
  void leave_will(const LastWill& will, const Deadline& deadline) override;
  const std::string& place() const override { return place_; }

  bool is_host() const { return is_host_; }
  // For the host: lets no more visitors in, and returns when all have gone; false when some have not until the
  // deadline.
  bool finish(const Deadline& deadline);

 private:
  FileStore(std::string folder, FileDescriptor opened, std::string meeting);
  void leave();
  bool enter();
  bool move_in(const std::string& self);
  std::optional<std::string> read_value(const std::string& key);
  // A file of this name in `folder`, whole or not at all.
  void write_value(const FileDescriptor& folder, const std::string& name, const std::string& value);
  void check_host() const;
  void carry_out_wills(const Deadline& deadline);
  Error gone() const;

  std::string folder_, place_;
  std::string meeting_;  // the name of the subfolder
  bool is_host_ = false, made_folder_ = false;
  pid_t owner_;
  FileDescriptor folder_file_, meeting_file_;  // the folders themselves
  FileDescriptor host_file_, visitors_file_, will_file_;
};

}  // namespace banyan::run
