// CHECK: our own bug ends the process at once, with the values in the message. Always on.
//
//   CHECK(x < n) << "x=" << x << " n=" << n;
//   CHECK_EQ(a, b);
//
// Never for what a stranger can cause: that is banyan::Error. DCHECK is for inner loops, on in debug builds only.
// Include it from .cc files and templates only: other libraries own the same short name.
#pragma once

#include <sstream>

namespace banyan::internal {

class CheckFailure {
 public:
  CheckFailure(const char* file, int line, const char* condition);
  [[noreturn]] ~CheckFailure();
  std::ostream& stream() { return stream_; }

 private:
  std::ostringstream stream_;
};

struct Voidify {
  void operator&(std::ostream&) const {}
};

}  // namespace banyan::internal

#define CHECK(condition) \
  (condition)            \
      ? (void)0          \
      : ::banyan::internal::Voidify() & ::banyan::internal::CheckFailure(__FILE__, __LINE__, #condition).stream()
#define CHECK_EQ(a, b) CHECK((a) == (b)) << "left=" << (a) << " right=" << (b) << " "
#ifdef NDEBUG
#define DCHECK(condition) CHECK(true || (condition))
#else
#define DCHECK(condition) CHECK(condition)
#endif
