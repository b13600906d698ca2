// The reader of routes on arbitrary bytes: an Error, or a book that its own file gives back.
#include "banyan/base/check.h"
#include "banyan/fabric/route_book.h"
#include "banyan/fabric/text.h"
#include "banyan/testing/fuzz.h"

namespace banyan::fabric {
namespace {

const testing::Fuzzer kFuzzer("route_book", "banyan/fabric/corpus/routes", [](std::string_view input) {
  static const Fabric fabric = parse_fabric_text("a <-> sw 1GB/s; a <-> sw 1GB/s; sw <-> b 1GB/s; b <-> c 1GB/s");
  const RouteBook book = RouteBook::parse(input, fabric, "");
  const std::string text = book.format(fabric);
  CHECK_EQ(RouteBook::parse(text, fabric, "").format(fabric), text);
});

}  // namespace
}  // namespace banyan::fabric
