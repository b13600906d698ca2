// devices.json, as it was when this was built.
#pragma once

#include <string_view>

namespace banyan::predict {

std::string_view devices_json();

}  // namespace banyan::predict
