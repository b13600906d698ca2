// banyan compress: what codes would do to a recorded tensor.
#include <charconv>

#include "apps/command.h"
#include "apps/compress/codec_speed.h"
#include "apps/compress/compress_text.h"
#include "apps/compress/packed_text.h"
#include "apps/compress/recorded_tensor.h"
#include "apps/option_values.h"
#include "apps/report.h"
#include "banyan/base/split_list.h"
#include "banyan/tensor/rate_coder.h"

namespace banyan::app {
namespace {

class CompressCommand : public Command {
 public:
  CommandSyntax& declare(CommandSyntax& program) override {
    CommandSyntax& command = program.command("compress", "Show what codes would do to a recorded tensor.");
    syntax_ = &command;
    command.file_word("FILE", file_, "a .npy or .safetensors file, or elements without a header (--type)");
    command
        .option("-d,--type", into(options_.type, parse_float_type), "TYPE",
                "of elements without a header: float16, bfloat16, float32 or float64")
        .values = float_types();
    command.option("--tensor", &options_.name, "NAME", "of a .safetensors file with several");
    command.option("--row", &options_.row_elements, "ELEMENTS",
                   "of a row (default: the last of several dimensions; of a vector 1)");
    command.option("--ranks", count_into(ranks_, {.most = tensor::kMostRanks}), "RANKS",
                   "that would share the rows (default 8)");
    command.option("--bits", into(bits_, parse_bits), "BITS",
                   "also code at so many bits a value, for weights and checkpoints: 3 or 2.5,3,4");
    command.option("-o,--output", &output_, "FILE",
                   "the tensors in --bits BITS a value, for 'decompress'; or a picture, where it ends in .svg");
    command.option("--plot", &plot_, "FILE", "draw bytes and errors of the codecs as SVG");
    command.flag("--json", json_, "print one JSON object");
    command.flag("--speed", speed_, "measure encoding for --json, too, which then differs from run to run");
    command.examples(
        {"banyan compress gradient.npy", "banyan compress gradient.npy --ranks 64 -o codecs.svg",
         "banyan compress model.safetensors --tensor lm_head.weight",
         "banyan compress bucket.bin --type float32 --row 64", "banyan compress weights.npy --bits 2.5,3,4",
         "banyan compress model.safetensors --bits 4 -o model.bnp", "banyan compress gradient.npy --json --speed"});
    command.notes(
        {"A .npy file is written by numpy.save(FILE, array): float16, float32 or float64, little-endian, in C order. "
         "For a PyTorch tensor: numpy.save(FILE, tensor.detach().cpu().numpy()). A .safetensors file holds several "
         "tensors: "
         "--tensor names one. -o FILE with --bits packs all tensors of either kind of file: docs/formats/packed.md.",
         "Codecs code float32; other types are taken as float32 first. Errors are those of codes alone, whatever the "
         "collective; docs/run.md says how programs use codes."});
    return command;
  }

  ExitCode run(const Terminal& terminal) override {
    if (!bits_.empty() && !output_.empty() && output_ != "-" && !output_.ends_with(".svg")) return pack(terminal);
    if (!output_.empty()) {
      if (!plot_.empty()) throw Error(ErrorCode::invalid_input, "is a picture, as --plot is; leave one out", "-o");
      plot_ = output_;
    }
    check_output_place(plot_, json_);
    if (plot_ == file_) throw Error(ErrorCode::invalid_input, "is FILE itself; name another file", "-o");
    CompressAnswer answer{.file = file_, .ranks = ranks_};
    {
      Progress progress(terminal, "reading the tensor");
      const RecordedTensor recorded = RecordedTensor::load(file_, options_);
      const tensor::Tensor tensor = recorded.tensor();
      const auto tell = [&](double part) { progress.fraction(part); };
      answer.type = tensor.type;
      answer.shape = recorded.shape();
      answer.tensor = recorded.name();
      answer.row_elements = tensor.row_elements;
      progress.say("coding");
      answer.report = report_on(tensor, {.ranks = ranks_, .bits = bits_, .progress = tell});
      if (!json_ || speed_) {
        progress.say("measuring codecs");
        answer.rates = measure_encoding(tensor, bits_, tell);
      }
    }
    if (!plot_.empty()) write_output(terminal, plot_, draw_compress(answer));
    say_beside(
        terminal, plot_,
        json_ ? format_compress_json(answer) : format_compress_text(answer, terminal) + written(terminal, plot_));
    return ExitCode::success;
  }

 private:
  ExitCode pack(const Terminal& terminal) const {
    for (const char* const option : {"--type", "--tensor", "--row", "--plot", "--ranks", "--speed"}) {
      if (!syntax_->is_given(option)) continue;
      throw Error(
          ErrorCode::invalid_input,
          "is for the report; a file is packed whole, as it says itself: leave it out, or give -o a name in .svg",
          option);
    }
    if (bits_.size() != 1) throw Error(ErrorCode::invalid_input, "a file is packed at one rate; give one", "--bits");
    check_output_place(output_);
    if (output_ == file_) throw Error(ErrorCode::invalid_input, "is FILE itself; name another file", "-o");
    PackedFile packed;
    {
      Progress progress(terminal, "packing");
      packed = pack_file(file_, bits_.front(), [&](double part) { progress.fraction(part); });
    }
    write_output(terminal, output_, packed.contents);
    const PackedAnswer answer{.file = file_, .output = output_, .summary = packed.summary};
    terminal.print(json_ ? format_packed_json(answer) : format_packed_text(answer, terminal));
    return ExitCode::success;
  }

  static std::vector<double> parse_bits(const std::string& text) {
    std::vector<double> found;
    for (const std::string& word : split_list(text, "")) {
      double bits = 0;
      const char* const end = word.data() + word.size();
      const auto [rest, wrong] = std::from_chars(word.data(), end, bits, std::chars_format::fixed);
      if (wrong != std::errc() || rest != end || !(bits >= tensor::kLeastRate && bits <= tensor::kMostRate)) {
        throw invalid(in_quotes(word) + " is no number of bits from 0.25 to 24");
      }
      found.push_back(bits);
    }
    return found;
  }

  const CommandSyntax* syntax_ = nullptr;
  std::string file_, output_, plot_;
  TensorOptions options_;
  uint32_t ranks_ = 8;
  std::vector<double> bits_;
  bool json_ = false, speed_ = false;
};

}  // namespace

std::unique_ptr<Command> make_compress_command() { return std::make_unique<CompressCommand>(); }

}  // namespace banyan::app
