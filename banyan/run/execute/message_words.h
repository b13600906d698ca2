// Describes a message in words, for errors of both executors.
#pragma once

#include <string>

#include "banyan/element/data_type.h"
#include "banyan/run/message/tag_matcher.h"

namespace banyan::run {

// "10 int32". A type of another version's is a number.
inline std::string message_words(const MessageShape& shape) {
  if (shape.type() >= element::kDataTypes) {
    return std::to_string(shape.bytes()) + " bytes of type " + std::to_string(shape.type());
  }
  const auto type = static_cast<element::DataType>(shape.type());
  return std::to_string(shape.bytes() / size_of(type)) + " " + std::string(to_string(type));
}

}  // namespace banyan::run
