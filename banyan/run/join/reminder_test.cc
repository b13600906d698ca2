#include "banyan/run/join/reminder.h"

#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

TEST(Reminder, IsNotDueAtOnceAndNeverWaitsBeyondTheDeadline) {
  const Deadline deadline = Deadline::after(milliseconds(50));
  const Reminder reminder(deadline);
  EXPECT_FALSE(reminder.is_due());
  EXPECT_LE(reminder.until_next().left(), milliseconds(50));
  const Reminder patient(Deadline::after(milliseconds(60'000)));
  EXPECT_LE(patient.until_next().left(), milliseconds(10'000));
  EXPECT_GT(patient.until_next().left(), milliseconds(9'000));
}

TEST(Reminder, WaitsTwiceAsLongForEachNextTime) {
  Reminder reminder(Deadline::after(milliseconds(300'000)));
  reminder.skip();
  EXPECT_GT(reminder.until_next().left(), milliseconds(19'000));
  reminder.skip();
  EXPECT_GT(reminder.until_next().left(), milliseconds(39'000));
}

}  // namespace
}  // namespace banyan::run
