// A small cluster with two tenants, for tests.
#pragma once

#include <string>

#include "banyan/service/view/host_view.h"

namespace banyan::app {

// A communicator of one host, which does without the daemon: two ranks on b, of which one waits.
inline service::CommunicatorView direct_communicator() {
  service::CommunicatorView local{
      .id = "d0d0", .name = "local", .tenant = "vgg", .size = 2, .hosts = {"b"}, .is_direct = true};
  local.ranks.push_back({.rank = 0, .host = "b", .process = 5, .calls_begun = 1'000, .calls_over = 1'000});
  local.ranks.push_back({.rank = 1, .host = "b", .process = 6, .calls_begun = 1'001, .calls_over = 1'000});
  local.ranks[0].idle_seconds = 0.01;
  local.ranks[1].call = "allreduce of 4 int8 sum";
  local.ranks[1].call_seconds = 0.02;
  return local;
}

// Hosts a and b; job17 of vgg with a rank on each, serve of gpt with one on a. Taken `seconds` after the beginning: vgg
// sends 300 MB and ends 10 calls in each second, gpt 100 MB and 50. One link, half full.
inline service::ClusterView service_view(double seconds) {
  const auto times = [&](double count) { return static_cast<uint64_t>(count * seconds); };
  service::ClusterView view{.at = 1000 + seconds};
  for (const char* const name : {"a", "b"}) {
    view.hosts.push_back({.at = view.at,
                          .host = std::string("id of ") + name,
                          .name = name,
                          .node = std::string("h") + name,
                          .version = "0.2.0",
                          .up_seconds = 60,
                          .steward = "a",
                          .rules_version = 7,
                          .clients = 2,
                          .memory_bytes = 64 << 20,
                          .descriptors = 19,
                          .most_descriptors = 1024});
  }
  service::CommunicatorView job{.id = "7f3a",
                                .name = "job17",
                                .tenant = "vgg",
                                .size = 2,
                                .hosts = {"a", "b"},
                                .rule = "default",
                                .sharer = "vgg",
                                .weight = 4};
  for (uint32_t rank = 0; rank < 2; ++rank) {
    job.ranks.push_back({.rank = rank,
                         .host = rank == 0 ? "a" : "b",
                         .process = 4711 + rank,
                         .calls_begun = times(10),
                         .calls_over = times(10),
                         .payload_bytes = times(200e6),
                         .sent_tcp_bytes = times(150e6),
                         .idle_seconds = 0.01,
                         .idle_total_seconds = seconds / 4});
  }
  service::CommunicatorView serve{.id = "9e01",
                                  .name = "serve",
                                  .tenant = "gpt",
                                  .size = 1,
                                  .hosts = {"a"},
                                  .rule = "default",
                                  .sharer = "gpt",
                                  .weight = 1};
  serve.share_class = service::ShareClass::high;
  serve.cap = 1'000'000'000;
  serve.progress = 0.25;
  serve.ranks.push_back({.rank = 0,
                         .host = "a",
                         .process = 12,
                         .calls_begun = times(50) + 1,
                         .calls_over = times(50),
                         .payload_bytes = times(80e6),
                         .sent_tcp_bytes = times(100e6),
                         .call = "allreduce of 4 MiB",
                         .call_seconds = 0.002});
  view.communicators = {serve, job};
  view.links = {{.name = "a->sw", .capacity = 800e6, .bytes_by_tenant = {{"gpt", times(100e6)}, {"vgg", times(300e6)}}},
                {.name = "sw->a", .capacity = 800e6, .bytes_by_tenant = {{"gpt", times(600e6)}}}};
  view.events = {{.at = 1000, .host = "a", .words = "process 4711 of user 1000 has attached"}};
  return view;
}

}  // namespace banyan::app
