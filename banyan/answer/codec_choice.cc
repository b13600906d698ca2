#include "banyan/answer/codec_choice.h"

#include <algorithm>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/base/split_list.h"
#include "banyan/base/words.h"
#include "banyan/predict/codes/code_rule.h"

namespace banyan::answer {
namespace {

std::string name_of(const CodecRow& row) { return row.codec ? to_string(*row.codec) : "float32"; }

double seconds_of(const CodecRow& row) { return std::chrono::duration<double>(row.timed.simulation.time).count(); }

// "3.90 times as quick as float32".
std::string gain_in_words(double dense, double coded) {
  return format_decimals(dense / coded, 2) + " times as quick as float32";
}

}  // namespace

CodecWish parse_codec_wish(std::string_view text) {
  if (text == "auto") return beside_all({.codecs = {}, .choice = CodecWish::Choice::by_rule});
  CodecWish wish;
  for (const std::string& name : split_list(text, "")) {
    wish.codecs.push_back(name == "none" ? std::nullopt : std::optional(codec::parse_codec(name)));
  }
  if (wish.codecs.size() > 1) wish.choice = CodecWish::Choice::quickest;
  if (wish.codecs.size() == 1 && wish.codecs.front()) wish.codecs.insert(wish.codecs.begin(), std::nullopt);
  return wish;
}

CodecWish beside_all(const CodecWish& wish) {
  CodecWish all{.codecs = {std::nullopt}, .choice = wish.choice};
  for (const codec::Codec& codec : predict::codecs_by_loss()) all.codecs.emplace_back(codec);
  for (const std::optional<codec::Codec>& codec : wish.codecs) {
    std::erase(all.codecs, codec);
    all.codecs.push_back(codec);
  }
  return all;
}

predict::CodecCost codec_cost(const codec::Codec& codec, const CodecCores& cores) {
  CHECK(cores.ranks_per_core > 0);
  predict::CodecSpeed speed = cores.speed ? *cores.speed : predict::measured_speed(codec);
  for (double* const seconds : {&speed.encode, &speed.decode, &speed.decode_add}) *seconds *= cores.ranks_per_core;
  return {.codec = codec, .speed = speed};
}

double CodecRow::core_share() const {
  if (!codec || timed.simulation.time.count() == 0) return 0;
  return static_cast<double>(timed.simulation.core_busy.count()) / static_cast<double>(timed.simulation.time.count());
}

void expect_codes(CollectiveKind kind) {
  if (!is_personal(kind)) return;
  throw Error(ErrorCode::unsupported, std::string(to_string(kind)) +
                                          " sends its blocks as they are; codecs are for collectives that add up, "
                                          "gather or broadcast float32");
}

size_t best_codec(std::span<const CodecRow> rows, CodecWish::Choice choice, std::string& why) {
  CHECK(!rows.empty());
  const auto dense = std::find_if(rows.begin(), rows.end(), [](const CodecRow& row) { return !row.codec; });
  const auto is_quicker = [](const CodecRow& a, const CodecRow& b) { return seconds_of(a) < seconds_of(b); };
  if (choice != CodecWish::Choice::by_rule || dense == rows.end()) {
    const bool is_named = choice == CodecWish::Choice::by_name;
    const auto quickest = is_named ? rows.end() - 1 : std::min_element(rows.begin(), rows.end(), is_quicker);
    why = is_named ? "as asked for" : "the quickest of these";
    if (dense != rows.end() && quickest != dense)
      why += ", " + gain_in_words(seconds_of(*dense), seconds_of(*quickest));
    return static_cast<size_t>(quickest - rows.begin());
  }
  std::vector<predict::TimedCode> ways;
  for (const CodecRow& row : rows) {
    ways.push_back({.seconds = seconds_of(row), .loss = row.loss, .is_coded = row.codec.has_value()});
  }
  const auto [best, quickest] = predict::best_by_rule(ways);
  if (!rows[best].codec) {
    why = "do not compress: ";
    why += !quickest ? "no code loses little enough"
                     : name_of(rows[*quickest]) + ", the quickest that loses at most " +
                           format_percent(predict::kMostLossOfAuto) + " of a value, is only " +
                           gain_in_words(seconds_of(*dense), seconds_of(rows[*quickest]));
    return best;
  }
  why = gain_in_words(seconds_of(*dense), seconds_of(rows[best])) + ", loses " + format_percent(rows[best].loss) +
        " of a value";
  if (best != *quickest) why += "; " + name_of(rows[*quickest]) + " is hardly quicker and loses more";
  return best;
}

CodecChoice choose_codec(std::span<const plan::Candidate> candidates, Bytes total, const CodecWish& wish,
                         const CodecCores& cores, const TimingOptions& options) {
  CHECK(!candidates.empty() && !wish.codecs.empty());
  CodecChoice choice;
  for (const std::optional<codec::Codec>& codec : wish.codecs) {
    TimingOptions timing = options;
    timing.codec.reset();
    CodecRow row{.codec = codec, .on_wire = total};
    if (codec) {
      expect_codes(candidates.front().schedule.collective().kind());
      timing.codec = codec_cost(*codec, cores);
      row.on_wire = timing.codec->coded(total);
      row.loss = predict::relative_loss(*codec);
    }
    row.ranking = rank_by_simulation(candidates, total, timing);
    row.candidate = row.ranking.front().candidate;
    row.planner = candidates[row.candidate].planner;
    row.timed = time_plan(candidates[row.candidate].schedule, total, timing);
    if (!row.timed.simulation.complete) throw Error(ErrorCode::aborted, "interrupted before a codec was chosen");
    choice.rows.push_back(std::move(row));
  }
  choice.best = best_codec(choice.rows, wish.choice, choice.why);
  return choice;
}

}  // namespace banyan::answer
