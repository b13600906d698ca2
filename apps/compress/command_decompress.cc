// banyan decompress: a packed file as it was, but for what its code has lost.
#include "apps/command.h"
#include "apps/compress/packed_text.h"
#include "apps/report.h"

namespace banyan::app {
namespace {

class DecompressCommand : public Command {
 public:
  CommandSyntax& declare(CommandSyntax& program) override {
    CommandSyntax& command = program.command("decompress", "Unpack tensors that 'compress --bits -o' has packed.");
    command.file_word("FILE", file_, "as 'banyan compress TENSORS --bits 4 -o FILE' writes it");
    command.option("-o,--output", &output_, "FILE", "write the .npy or .safetensors file that was packed").is_required =
        true;
    command.flag("--json", json_, "print one JSON object");
    command.examples(
        {"banyan decompress weights.bnp -o weights.npy", "banyan decompress model.bnp -o model.safetensors --json"});
    command.notes(
        {"The header, names, types and shapes are those of the file that was packed, bit for bit, and so are "
         "tensors that were not coded at a rate. A file that was changed since is refused."});
    return command;
  }

  ExitCode run(const Terminal& terminal) override {
    check_output_place(output_);
    if (output_ == file_) throw Error(ErrorCode::invalid_input, "is FILE itself; name another file", "-o");
    PackedFile unpacked;
    {
      Progress progress(terminal, "unpacking");
      unpacked = unpack_file(file_);
    }
    for (const std::string kind : {".npy", ".safetensors"}) {
      if (output_.ends_with(kind) && kind != unpacked.summary.kind) {
        throw Error(ErrorCode::invalid_input, "a " + unpacked.summary.kind + " file was packed; name it so", "-o");
      }
    }
    write_output(terminal, output_, unpacked.contents);
    const PackedAnswer answer{.file = file_, .output = output_, .is_unpacked = true, .summary = unpacked.summary};
    say_beside(terminal, output_, json_ ? format_packed_json(answer) : format_packed_text(answer, terminal));
    return ExitCode::success;
  }

 private:
  std::string file_, output_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_decompress_command() { return std::make_unique<DecompressCommand>(); }

}  // namespace banyan::app
