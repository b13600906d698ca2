#include "banyan/predict/report/test_predictions.h"

#include <algorithm>
#include <cmath>

#include "banyan/fabric/generate.h"

namespace banyan::predict::sample {
namespace {

// 0 to 1, from two numbers.
double noise(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9E3779B97F4A7C15u + b * 0xC2B2AE3D27D4EB4Fu + 0x165667B19E3779F9u;
  x ^= x >> 31;
  x *= 0xD6E8FEB86659FD93u;
  x ^= x >> 29;
  return static_cast<double>(x >> 11) * 0x1p-53;
}

Picoseconds micros(double value) { return Picoseconds(static_cast<int64_t>(value * 1e6)); }

class StepMaker {
 public:
  StepMaker(const StepShape& shape, Fabric fabric) : shape_(shape), fabric_(std::move(fabric)) {
    trace_.names = {"forward layer",      "attention",        "allreduce tensor",    "backward layer",
                    "backward attention", "send activations", "receive activations", "allreduce gradients",
                    "optimizer",          "wait for stage"};
  }

  ReportInput make() && {
    trace_.jobs.push_back({.name = "step", .tenant = "", .alone = {}});
    for (uint32_t rank = 0; rank < fabric_.ranks().size(); ++rank) add_rank(rank);
    std::stable_sort(trace_.spans.begin(), trace_.spans.end(),
                     [](const PredictedSpan& a, const PredictedSpan& b) { return a.begin < b.begin; });
    for (const PredictedSpan& span : trace_.spans) trace_.time = std::max(trace_.time, span.end);
    for (PredictedRank& rank : trace_.ranks) {
      rank.bubble = trace_.time - rank.compute - rank.exposed - rank.waiting;
    }
    trace_.jobs.front().end = trace_.time;
    add_links();
    trace_.title = "Training step, " + std::to_string(shape_.stages) + " pipeline stages, on " + shape_.fabric;
    return {.prediction = std::move(trace_), .fabric = fabric_};
  }

 private:
  enum Name : uint32_t {
    forward,
    attention,
    tensor,
    backward,
    back_attention,
    send,
    receive,
    gradients,
    optimizer,
    wait
  };
  using Kind = PredictedSpan::Kind;

  Picoseconds add(uint32_t rank, uint16_t stream, Kind kind, Name name, Picoseconds begin, double length_us) {
    const Picoseconds end = begin + micros(length_us);
    if (rank < shape_.ranks_with_spans) {
      trace_.spans.push_back({.rank = rank, .stream = stream, .kind = kind, .name = name, .begin = begin, .end = end});
    }
    PredictedRank& row = trace_.ranks[rank];
    if (stream == 0) (kind == Kind::wait ? row.waiting : row.compute) += end - begin;
    if (stream == 1) row.exposed += end - begin;
    return end;
  }

  void add_rank(uint32_t rank) {
    const NodeId node = fabric_.ranks()[rank];
    trace_.ranks.push_back(
        {.name = fabric_.name(node), .node = index(node), .streams = {"compute", "collectives", "messages"}});
    const uint32_t per_stage = std::max<uint32_t>(1, static_cast<uint32_t>(fabric_.ranks().size()) / shape_.stages);
    const uint32_t stage = std::min(rank / per_stage, shape_.stages - 1);
    const double pass = 130.0 * shape_.layers, slowest = 1.0 + 0.08 * noise(rank, 7);
    Picoseconds now = micros(stage * pass * 1.1);
    for (uint32_t batch = 0; batch < shape_.micro_batches; ++batch) {
      if (stage > 0) add(rank, 2, Kind::receive, receive, std::max(Picoseconds(0), now - micros(18)), 17.5);
      now = add_pass(rank, batch, slowest, now, forward, attention);
      if (stage + 1 < shape_.stages) add(rank, 2, Kind::send, send, now - micros(9), 8 + noise(rank, batch));
    }
    now = add(rank, 0, Kind::wait, wait, now, 20 + 60 * noise(rank, 99)) +
          micros((shape_.stages - 1 - stage) * pass * 1.4);
    for (uint32_t batch = 0; batch < shape_.micro_batches; ++batch) {
      now = add_pass(rank, 1000 + batch, slowest * 1.8, now, backward, back_attention);
    }
    now = add(rank, 1, Kind::collective, gradients, now, 260 + 3 * noise(rank, 3));
    add(rank, 0, Kind::memory, optimizer, now, 90);
  }

  Picoseconds add_pass(uint32_t rank, uint64_t batch, double slower, Picoseconds now, Name layer_name,
                       Name attention_name) {
    for (uint32_t layer = 0; layer < shape_.layers; ++layer) {
      const double vary = 0.9 + 0.2 * noise(rank * 131 + layer, batch);
      now = add(rank, 0, Kind::compute, attention_name, now, 34.125 * slower * vary);
      now = add(rank, 0, Kind::compute, layer_name, now, 58.75 * slower * vary);
      now = add(rank, 1, Kind::collective, tensor, now, 21.0625 * vary);
    }
    return now;
  }

  void add_links() {
    const double seconds = static_cast<double>(trace_.time.count()) * 1e-12;
    trace_.load_step = Picoseconds(trace_.time.count() / std::max(1u, shape_.load_steps) + 1);
    for (uint32_t number = 0; number < fabric_.links().size(); ++number) {
      const Link& link = fabric_.links()[number];
      // Links from switch to switch are the busiest; some are never used.
      const bool upper = !fabric_.is_rank(link.from) && !fabric_.is_rank(link.to);
      const double base = noise(number, 1) < 0.06 ? 0 : (upper ? 0.75 : 0.12 + 0.5 * noise(number, 2));
      PredictedLink out;
      double sum = 0;
      for (uint32_t step = 0; step < shape_.load_steps && base > 0; ++step) {
        const double wave = 0.5 + 0.5 * std::sin(step * 0.35 + noise(number, 4) * 6);
        const double load = std::min(1.0, base * (0.35 + 1.3 * wave));
        if (load >= 0.995) out.full += trace_.load_step;
        sum += load;
        out.load.push_back(static_cast<float>(load));
      }
      const double mean = shape_.load_steps > 0 ? sum / shape_.load_steps : base;
      out.bytes = mean * seconds * static_cast<double>(link.bandwidth.bytes_per_second());
      out.full = std::min(out.full, trace_.time);
      trace_.links.push_back(std::move(out));
    }
  }

  const StepShape& shape_;
  Fabric fabric_;
  Prediction trace_;
};

}  // namespace

ReportInput training_step(const StepShape& shape) {
  return StepMaker(shape, fabric::generate_fabric(shape.fabric)).make();
}

ReportInput all_reduce_on_one_box() {
  ReportInput input = training_step({.fabric = "dgx-a100:1", .stages = 1, .micro_batches = 1, .layers = 3});
  input.prediction.title = "Allreduce of 1 GiB by a forest on dgx-a100:1";
  input.points = sweep_only().points;
  input.facts = {{"Tokens", "4711 a second"}, {"Memory", "fits: 61.2 of 75.0 GiB"}};
  const Picoseconds time = input.prediction.time;
  input.what_if = {{"links gpu – nvswitch", time * 61 / 100, 0.39},
                   {"latency of all links", time * 97 / 100, 0.03},
                   {"compute of all ranks", time * 999 / 1000, 0.001}};
  return input;
}

ReportInput sweep_only() {
  ReportInput input;
  input.prediction.title = "Allreduce on dgx-a100:2, 16 ranks, by size";
  struct Plan {
    const char* name;
    double alpha_us, peak;  // bytes per second
  };
  for (const Plan& plan : {Plan{"tree", 6.5, 60e9}, Plan{"ring", 48, 145e9}, Plan{"forest", 19, 172e9}}) {
    for (uint32_t power = 10; power <= 32; ++power) {
      const double bytes = std::exp2(power), seconds = plan.alpha_us * 1e-6 + bytes / plan.peak;
      input.points.push_back({.total = Bytes(uint64_t{1} << power),
                              .plan = plan.name,
                              .time = Picoseconds(static_cast<int64_t>(seconds * 1e12)),
                              .algbw = bytes / seconds,
                              .busbw = bytes / seconds * 2 * 15 / 16});
    }
  }
  return input;
}

ReportInput three_jobs() {
  ReportInput input = training_step({.fabric = "dgx-a100:4", .stages = 2, .micro_batches = 4});
  Prediction& prediction = input.prediction;
  prediction.title = "Three jobs of two tenants on dgx-a100:4";
  const Picoseconds time = prediction.time;
  prediction.jobs = {
      {.name = "pretrain", .tenant = "research", .begin = Picoseconds(0), .end = time, .alone = time * 81 / 100},
      {.name = "finetune", .tenant = "product", .begin = time / 10, .end = time * 7 / 10, .alone = time * 57 / 100},
      {.name = "evaluate", .tenant = "product", .begin = time / 5, .end = time * 4 / 5, .alone = {}}};
  for (size_t i = 0; i < prediction.ranks.size(); ++i) prediction.ranks[i].job = i < 16 ? 0 : i < 24 ? 1 : 2;
  return input;
}

ReportInput links_that_change() {
  ReportInput input = three_jobs();
  Prediction& prediction = input.prediction;
  const Fabric& fabric = *input.fabric;
  prediction.title = "Three jobs on dgx-a100:4 while links change";
  const Picoseconds time = prediction.time;
  // Both directions of the first cable of a rank to a switch of the network.
  const auto happens = [&](uint32_t rank, Picoseconds at, std::optional<Bandwidth> bandwidth) {
    const NodeId node = fabric.ranks()[rank];
    NodeId other = node;
    for (const LinkId link : fabric.out_links(node)) {
      if (other == node && fabric.name(fabric.link(link).to).starts_with("ib")) other = fabric.link(link).to;
    }
    for (uint32_t number = 0; number < fabric.links().size(); ++number) {
      const Link& link = fabric.links()[number];
      if ((link.from == node && link.to == other) || (link.from == other && link.to == node))
        prediction.events.push_back({.time = at, .link = LinkId{number}, .bandwidth = bandwidth});
    }
  };
  happens(3, time / 5, Bandwidth());
  happens(9, time * 3 / 10, Bandwidth::gigabytes_per_second(5));
  happens(3, time * 9 / 20, std::nullopt);
  happens(30, time * 11 / 20, Bandwidth());
  happens(12, time * 111 / 200, Bandwidth());
  happens(12, time * 112 / 200, std::nullopt);
  happens(9, time * 4 / 5, std::nullopt);
  prediction.jobs[2].failed_at = prediction.jobs[2].end = time * 11 / 20;
  std::sort(prediction.events.begin(), prediction.events.end(), [](const LinkEvent& a, const LinkEvent& b) {
    return std::pair(a.time, a.link) < std::pair(b.time, b.link);
  });
  for (size_t i = 0; i < prediction.events.size(); ++i) {
    const LinkEvent& event = prediction.events[i];
    if (event.bandwidth != Bandwidth()) continue;
    Picoseconds back = time;
    for (size_t k = prediction.events.size(); k-- > i + 1;) {
      if (prediction.events[k].link == event.link) back = prediction.events[k].time;
    }
    std::vector<float>& load = prediction.links[index(event.link)].load;
    for (size_t step = 0; step < load.size(); ++step) {
      const Picoseconds at = static_cast<int64_t>(step) * prediction.load_step;
      if (at >= event.time && at < back) load[step] = 0;
    }
  }
  std::erase_if(prediction.spans, [&](const PredictedSpan& span) {
    return prediction.ranks[span.rank].job == 2 && span.end > *prediction.jobs[2].failed_at;
  });
  return input;
}

ReportInput stopped_early() {
  ReportInput input = training_step({.fabric = "mi250:2", .stages = 2, .micro_batches = 6});
  Prediction& prediction = input.prediction;
  prediction.complete = false;
  prediction.time = prediction.time * 2 / 3;
  std::erase_if(prediction.spans, [&](const PredictedSpan& span) { return span.begin >= prediction.time; });
  for (PredictedSpan& span : prediction.spans) span.end = std::min(span.end, prediction.time);
  for (PredictedRank& rank : prediction.ranks) {
    for (Picoseconds* part : {&rank.compute, &rank.exposed, &rank.waiting, &rank.bubble}) *part = *part * 2 / 3;
  }
  prediction.jobs.front().end = prediction.time;
  for (PredictedLink& link : prediction.links) {
    link.load.resize(link.load.size() * 2 / 3);
    link.bytes *= 0.67;
    link.full = link.full * 2 / 3;
  }
  return input;
}

ReportInput hostile_names() {
  Fabric::Builder builder;
  const NodeId switch_ = builder.add_switch("</script><script>document.title='broken'</script>");
  for (const char* name :
       {"<img src=x onerror=document.title='broken'>", "\"quotes\" & 'more'", "<!--", "\u202Eright to left",
        "back\\slash", "a name that is much longer than any column of any table was ever made for, really"}) {
    builder.add_cable(
        {.from = builder.add_rank(name), .to = switch_, .bandwidth = Bandwidth::gigabytes_per_second(25)});
  }
  ReportInput input = StepMaker({.fabric = "", .stages = 2, .micro_batches = 2}, std::move(builder).build()).make();
  Prediction& prediction = input.prediction;
  prediction.title = "<b>bold</b> </title></script> \x01 \xff @BANYAN_PREDICTION@";
  prediction.names[0] = "</script><script>document.title='broken'</script>";
  prediction.names[1] = "broken \xc3( UTF-8 \n line \t tab";
  prediction.names[2] = "<svg onload=document.title='broken'>";
  prediction.jobs[0].name = prediction.jobs[0].tenant = "</td></table><script>document.title='broken'</script>";
  input.what_if = {{"<script>document.title='broken'</script>", prediction.time / 2, 0.5}};
  input.points = {{Bytes(1024), "<i>plan</i>", Picoseconds(1000), 1e9, 1.5e9},
                  {Bytes(4096), "<i>plan</i>", Picoseconds(2000), 2e9, 3e9}};
  return input;
}

ReportInput nothing() { return {}; }

std::vector<Named> all_samples() {
  std::vector<Named> samples;
  samples.push_back({"box", all_reduce_on_one_box()});
  samples.push_back({"sweep", sweep_only()});
  samples.push_back({"jobs", three_jobs()});
  samples.push_back({"events", links_that_change()});
  samples.push_back({"partial", stopped_early()});
  samples.push_back({"hostile", hostile_names()});
  samples.push_back({"nothing", nothing()});
  samples.push_back(
      {"ranks1024", training_step({.fabric = "dgx-a100:128", .stages = 8, .micro_batches = 4, .layers = 2})});
  samples.push_back(
      {"fattree1024",
       training_step({.fabric = "fat-tree:k=16", .stages = 8, .micro_batches = 2, .layers = 2, .load_steps = 60})});
  samples.push_back(
      {"spans100k", training_step({.fabric = "dgx-a100:8", .stages = 8, .micro_batches = 24, .layers = 11})});
  samples.push_back({"torus", training_step({.fabric = "torus:8x8", .stages = 4})});
  samples.push_back({"ranks16384", training_step({.fabric = "dgx-h100:2048",
                                                  .stages = 16,
                                                  .micro_batches = 1,
                                                  .layers = 1,
                                                  .load_steps = 0,
                                                  .ranks_with_spans = 16384})});
  return samples;
}

}  // namespace banyan::predict::sample
