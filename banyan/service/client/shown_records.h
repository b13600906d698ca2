// ShownRecords: the flight records of this process' communicators whose ranks are all on one host. They do without the
// daemon, which is shown their records, so that operators see them, too. Nothing depends on that: where there is no
// daemon, or it refuses, nobody hears of it; where one comes, or takes the place of another, it is shown all of them
// within kPause.
//
// It has a thread from the first record on. A forked process has no part in it.
//
// Any thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "banyan/run/system/file_descriptor.h"
#include "banyan/service/client/attachment.h"
#include "banyan/service/protocol/messages.h"

namespace banyan::service {

class ShownRecords {
 public:
  static constexpr std::chrono::milliseconds kPause{500};

  // `attach` returns the attachment to the daemon that is there now, and throws Error where there is none.
  explicit ShownRecords(std::function<std::shared_ptr<Attachment>()> attach);
  ~ShownRecords();
  ShownRecords(const ShownRecords&) = delete;
  ShownRecords& operator=(const ShownRecords&) = delete;

  // Until the handle is gone, which may outlive this object. Does not wait. `memory` is a sealed memfd with a recorder.
  // Throws Error{io} when no thread can begin.
  std::shared_ptr<const void> show(ShowRecord record, run::FileDescriptor memory);

 private:
  struct Board;
  const std::shared_ptr<Board> board_;  // shared with the handles and the thread
};

}  // namespace banyan::service
