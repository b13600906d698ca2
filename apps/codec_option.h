// The options --codec, --codec-speed and --ranks-per-core of commands that predict; a table of what codecs would do.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/report.h"
#include "apps/syntax.h"
#include "banyan/answer/codec_choice.h"

namespace banyan::app {

class CodecOption {
 public:
  // `help` says what it does to the command.
  void declare(CommandSyntax& command, const std::string& help);

  bool is_given() const { return wish_.has_value(); }
  // "none" where nothing is given.
  answer::CodecWish wish() const { return wish_.value_or(answer::CodecWish{.codecs = {std::nullopt}}); }
  const answer::CodecCores& cores() const { return cores_; }

 private:
  std::optional<answer::CodecWish> wish_;
  answer::CodecCores cores_;
};

std::string codec_or_float32(const std::optional<codec::Codec>& codec);

// A row for each; bytes alone by the bound of the collective, in seconds a byte.
std::string format_codec_rows(const Terminal& terminal, const answer::CodecChoice& choice, double bound);
Json codec_choice_json(const answer::CodecChoice& choice, double bound);

}  // namespace banyan::app
