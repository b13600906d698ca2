// INVARIANT: CHECK of banyan/base/check.h under a name that is ours alone, since PyTorch's headers have a CHECK, too.
//
//   INVARIANT(left > 0) << "left=" << left;
#pragma once

#pragma push_macro("CHECK")
#pragma push_macro("CHECK_EQ")
#pragma push_macro("DCHECK")
#undef CHECK
#undef CHECK_EQ
#undef DCHECK
#include "banyan/base/check.h"
#undef CHECK
#undef CHECK_EQ
#undef DCHECK
#pragma pop_macro("CHECK")
#pragma pop_macro("CHECK_EQ")
#pragma pop_macro("DCHECK")

#define INVARIANT(condition) \
  (condition)                \
      ? (void)0              \
      : ::banyan::internal::Voidify() & ::banyan::internal::CheckFailure(__FILE__, __LINE__, #condition).stream()
