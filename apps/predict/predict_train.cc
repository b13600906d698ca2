#include "apps/predict/predict_train.h"

#include "apps/option_rows.h"
#include "banyan/base/words.h"

namespace banyan::app {
namespace {

std::string format_flop(double flop) {
  return flop < 1e15 ? format_decimals(flop * 1e-12, 1) + " TFLOP" : format_decimals(flop * 1e-15, 1) + " PFLOP";
}

}  // namespace

void declare_train_options(CommandSyntax& command, predict::TrainOptions& options) {
  declare_options(command, predict::train_options(), options);
  command.group(CommandSyntax::kOwnGroup);
}

std::string format_step(const answer::TrainSetup& setup, double seconds) {
  const answer::StepRates rates = step_rates(setup, seconds);
  return format_seconds(seconds) + " a step: " + format_decimals(rates.flops_a_device * 1e-12, 1) +
         " TFLOP/s a device, " + format_percent(rates.of_peak) + " of its peak in model FLOPs; " +
         format_decimals(rates.tokens_a_second, 0) + " tokens/s";
}

std::string format_launches(const Job& job) {
  return format_percent(answer::launch_share(job)) +
         " of the computing are launches and gaps between kernels, which a faster device does not shorten";
}

std::string format_train_setup(const Terminal& terminal, const answer::TrainSetup& setup,
                               const predict::MemoryReport& memory) {
  const predict::TrainConfig& config = setup.config;
  std::string text;
  if (!memory.fits) text += labelled(terminal, "memory", terminal.styled(Terminal::Style::bad, misfit(setup, memory)));
  text += labelled(terminal, "training", describe(config));
  text += labelled(terminal, "",
                   format_decimals(config.model.parameters() * 1e-9, 2) + " billion parameters, " +
                       format_flop(answer::model_flop(config)) + " a step");
  text += labelled(terminal, "device", setup.device.name + ": " + setup.device.description);
  for (const std::string& note : setup.notes) text += labelled(terminal, "note", note);
  text += "\n";
  Table table({"GiB on a rank of stage", "parameters", "gradients", "optimizer", "activations", "all"});
  for (size_t stage = 0; stage < memory.stages.size(); ++stage) {
    const bool shown =
        memory.stages.size() <= 8 || stage < 3 || stage + 2 >= memory.stages.size() || stage == memory.worst;
    if (!shown) continue;
    const predict::StageMemory& of = memory.stages[stage];
    table.add({std::to_string(stage), format_gibibytes(of.parameters), format_gibibytes(of.gradients),
               format_gibibytes(of.optimizer), format_gibibytes(of.activations), format_gibibytes(of.all())});
  }
  text += table.format(terminal) + "\n";
  if (memory.fits) {
    text += labelled(terminal, "memory",
                     "fits: " + format_gibibytes(memory.stages[memory.worst].all()) + " of the " +
                         format_gibibytes(static_cast<double>(memory.available.count())) +
                         " GiB that a device has for them");
  }
  return text;
}

// "12.6 MB, 25.2 MB (3 times), 4.1 MB; stage 1: ...".
std::string cut_in_words(const answer::CutBuckets& cut) {
  std::string text;
  for (size_t stage = 0; stage < cut.bytes.size(); ++stage) {
    const std::vector<uint64_t>& bytes = cut.bytes[stage];
    if (bytes.empty()) continue;
    if (!text.empty()) text += "; ";
    if (cut.bytes.size() > 1) text += "stage " + std::to_string(stage) + ": ";
    for (size_t i = 0; i < bytes.size();) {
      size_t alike = 1;
      while (i + alike < bytes.size() && bytes[i + alike] == bytes[i]) ++alike;
      text += (i == 0 ? "" : ", ") + Bytes(bytes[i]).to_string();
      if (alike > 1) text += " (" + std::to_string(alike) + " times)";
      i += alike;
    }
  }
  return text;
}

std::string format_compression(const Terminal& terminal, const answer::StepCompression& compression) {
  std::string text =
      labelled(terminal, "compress", compression.tried[compression.best].name + ": " + compression.why) + "\n";
  Table tried({"gradients as", "step"});
  for (size_t i = 0; i < compression.tried.size(); ++i) {
    const answer::TriedCompression& each = compression.tried[i];
    tried.add({each.name + (i == compression.best ? " *" : ""), format_seconds(each.time)});
  }
  text += tried.format(terminal) + "\n";
  const auto row = [](const answer::CompressedBucket& bucket) {
    return std::vector<std::string>{std::to_string(bucket.gradients.stage),
                                    "",
                                    std::to_string(bucket.gradients.ranks),
                                    Bytes(bucket.gradients.bytes).to_string(),
                                    bucket.codec ? to_string(*bucket.codec) : "none",
                                    !bucket.codec             ? ""
                                    : bucket.is_between_boxes ? "between boxes"
                                                              : "all",
                                    Bytes(bucket.wire_bytes).to_string(),
                                    format_seconds(bucket.dense_seconds),
                                    format_seconds(bucket.coded_seconds)};
  };
  Table buckets(
      {"stage", "buckets", "ranks", "gradients", "codec", "hops", "on the wire", "reduced alone", "coded alone"});
  for (size_t i = 0; i < compression.buckets.size();) {
    std::vector<std::string> cells = row(compression.buckets[i]);
    size_t alike = 1;
    while (i + alike < compression.buckets.size() && row(compression.buckets[i + alike]) == cells) ++alike;
    cells[1] = std::to_string(alike);
    buckets.add(std::move(cells));
    i += alike;
  }
  text += buckets.format(terminal) + "\n";
  for (const answer::CutBuckets& cut : compression.cuts) {
    text += labelled(terminal, "cut",
                     cut.code + ": " + format_seconds(cut.as_they_were) + " a step as buckets are; " +
                         format_seconds(cut.with_cap) + " with bucket_cap_mb " + std::to_string(cut.cap.count() >> 20) +
                         ";\n" + format_seconds(cut.anew) + " when each is cut for itself: " + cut_in_words(cut));
  }
  return text;
}

}  // namespace banyan::app
