#include "banyan/predict/train/model.h"

#include <algorithm>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/base/nearest.h"
#include "banyan/base/text.h"

namespace banyan::predict {
namespace {

constexpr uint32_t kMegatronVocabulary = 51200;  // Narayanan et al. 2021, section 5.1
constexpr uint32_t kMegatronSequence = 2048;

struct LlamaShape {
  uint32_t layers, hidden, heads, kv_heads, ffn, sequence, vocabulary;
};

TrainModel gpt(std::string name, std::string source, const GptShape& shape) {
  TrainModel model = gpt_model(shape);
  model.name = std::move(name);
  model.source = std::move(source);
  return model;
}

TrainModel llama(std::string name, std::string source, const LlamaShape& shape) {
  return {.name = std::move(name),
          .source = std::move(source),
          .layers = shape.layers,
          .hidden = shape.hidden,
          .heads = shape.heads,
          .kv_heads = shape.kv_heads,
          .ffn = shape.ffn,
          .gated = true,
          .biases = false,
          .tied = false,
          .positions = false,
          .sequence = shape.sequence,
          .vocabulary = shape.vocabulary};
}

std::vector<TrainModel> make_models() {
  std::vector<TrainModel> models;
  const auto megatron = [&](const char* name, uint32_t layers, uint32_t hidden, uint32_t heads) {
    models.push_back(
        gpt(name, "Narayanan et al. 2021, table 1", {layers, hidden, heads, kMegatronSequence, kMegatronVocabulary}));
  };
  const auto brown = [&](const char* name, uint32_t layers, uint32_t hidden, uint32_t heads) {
    models.push_back(gpt(name, "Brown et al. 2020 (arXiv 2005.14165), table 2.1",
                         {layers, hidden, heads, kMegatronSequence, kMegatronVocabulary}));
  };
  brown("gpt3-125m", 12, 768, 12);
  brown("gpt3-350m", 24, 1024, 16);
  brown("gpt3-760m", 24, 1536, 16);
  brown("gpt3-1.3b", 24, 2048, 16);  // heads of 128, as in later code; the table's 24 do not divide 2048
  brown("gpt3-2.7b", 32, 2560, 32);
  brown("gpt3-6.7b", 32, 4096, 32);
  brown("gpt3-13b", 40, 5120, 40);  // the table's 5140 is no multiple of its 40 heads
  brown("gpt3-175b", 96, 12288, 96);
  megatron("megatron-1.7b", 24, 2304, 24);
  megatron("megatron-3.6b", 30, 3072, 32);
  megatron("megatron-7.5b", 36, 4096, 32);
  megatron("megatron-18.4b", 40, 6144, 48);
  megatron("megatron-39.1b", 48, 8192, 64);
  megatron("megatron-76.1b", 60, 10240, 80);
  megatron("megatron-145.6b", 80, 12288, 96);
  megatron("megatron-310.1b", 96, 16384, 128);
  megatron("megatron-529.6b", 105, 20480, 128);
  megatron("megatron-1t", 128, 25600, 160);
  const char* const llama1 = "Touvron et al. 2023 (arXiv 2302.13971), table 2";
  const char* const llama2 = "Touvron et al. 2023 (arXiv 2307.09288), table 1 and its checkpoints";
  const char* const llama3 = "Llama team 2024 (arXiv 2407.21783), table 3";
  models.push_back(llama("llama-65b", llama1, {80, 8192, 64, 64, 22016, 2048, 32000}));
  models.push_back(llama("llama2-7b", llama2, {32, 4096, 32, 32, 11008, 4096, 32000}));
  models.push_back(llama("llama2-13b", llama2, {40, 5120, 40, 40, 13824, 4096, 32000}));
  models.push_back(llama("llama2-70b", llama2, {80, 8192, 64, 8, 28672, 4096, 32000}));
  models.push_back(llama("llama3-8b", llama3, {32, 4096, 32, 8, 14336, 8192, 128256}));
  models.push_back(llama("llama3-70b", llama3, {80, 8192, 64, 8, 28672, 8192, 128256}));
  models.push_back(llama("llama3-405b", llama3, {126, 16384, 128, 8, 53248, 8192, 128256}));
  models.push_back(
      llama("mixtral-8x7b", "Jiang et al. 2024 (arXiv 2401.04088), table 1", {32, 4096, 32, 8, 14336, 4096, 32000}));
  models.back().experts = 8, models.back().top_k = 2;
  for (const TrainModel& model : models) check_model(model);
  return models;
}

}  // namespace

double TrainModel::attention_parameters() const {
  const double h = hidden, kv = kv_width();
  const double matrices = h * h + 2 * h * kv + h * h;  // queries, keys and values, output
  const double bias = biases ? h + 2 * kv + h : 0;
  const double norms = 2 * (biases ? 2 : 1) * h;  // of attention and of the MLP
  return matrices + bias + norms;
}

double TrainModel::mlp_parameters() const {
  const double h = hidden, f = ffn;
  return (gated ? 3 : 2) * h * f + (biases ? (gated ? 2 : 1) * f + h : 0);
}

double TrainModel::router_parameters() const { return static_cast<double>(experts) * hidden; }

double TrainModel::layer_parameters() const {
  return attention_parameters() + std::max(1u, experts) * mlp_parameters() + router_parameters();
}

double TrainModel::embedding_parameters() const {
  return (static_cast<double>(vocabulary) + (positions ? sequence : 0)) * hidden;
}

double TrainModel::head_parameters() const { return tied ? 0 : static_cast<double>(vocabulary) * hidden; }

double TrainModel::parameters() const {
  const double last_norm = (biases ? 2.0 : 1.0) * hidden;
  return layers * layer_parameters() + embedding_parameters() + head_parameters() + last_norm;
}

TrainModel gpt_model(const GptShape& shape) {
  uint32_t heads = shape.heads;
  if (heads == 0) heads = std::max(1u, shape.hidden / (shape.hidden >= 2048 ? 128 : 64));
  return {.name = "gpt",
          .source = "given",
          .layers = shape.layers,
          .hidden = shape.hidden,
          .heads = heads,
          .kv_heads = heads,
          .ffn = 4 * shape.hidden,
          .sequence = shape.sequence,
          .vocabulary = shape.vocabulary};
}

std::span<const TrainModel> train_models() {
  static const std::vector<TrainModel> models = make_models();
  return models;
}

const TrainModel& train_model(std::string_view name) {
  const std::string wanted = lower(name);
  NearestName nearest(wanted);
  std::string known;
  for (const TrainModel& model : train_models()) {
    if (model.name == wanted) return model;
    nearest.offer(model.name);
    known += (known.empty() ? "" : ", ") + model.name;
  }
  throw Error(ErrorCode::not_found, "model '" + std::string(name.substr(0, 60)) + "' is not known" + nearest.hint() +
                                        "; known are " + known + ", or give --layers, --hidden and --heads");
}

void check_model(const TrainModel& model) {
  const auto refuse = [&](const std::string& message) { throw invalid(message); };
  const auto text = [](uint32_t number) { return std::to_string(number); };
  if (model.layers == 0 || model.layers > 100'000) refuse("a model needs 1 to 100000 layers (--layers)");
  if (model.hidden == 0 || model.hidden > 10'000'000) refuse("a model needs a hidden size of 1 to 10^7 (--hidden)");
  if (model.heads == 0 || model.hidden % model.heads != 0)
    refuse("a hidden size of " + text(model.hidden) + " cannot be split into " + text(model.heads) +
           " heads; make it a multiple (--heads)");
  if (model.kv_heads == 0 || model.heads % model.kv_heads != 0)
    refuse(text(model.heads) + " heads cannot share " + text(model.kv_heads) + " of keys and values (--kv-heads)");
  if (model.ffn == 0 || model.ffn > 100'000'000) refuse("the MLP needs a width of 1 to 10^8 (--ffn)");
  if (model.sequence == 0 || model.sequence > 100'000'000) refuse("a sequence needs 1 to 10^8 tokens (--seq)");
  if (model.vocabulary < 2 || model.vocabulary > 100'000'000) refuse("a vocabulary needs 2 to 10^8 words (--vocab)");
  if (model.experts > 100'000 || (model.experts > 0 && (model.top_k == 0 || model.top_k > model.experts)))
    refuse("of " + text(model.experts) + " experts, " + text(model.top_k) +
           " cannot be chosen for a token; --top-k must be 1 to the number of --experts");
}

}  // namespace banyan::predict
