#include "banyan/job/kineto/pytorch_host.h"

#include "banyan/testing/test.h"

namespace banyan::job::kineto {
namespace {

HostTrace read(const std::string& nodes) {
  return read_host_trace(TraceSource::from_text("{\"schema\": \"1.0.2\", \"nodes\": [" + nodes + "]}", "test"));
}

const CommCall& only_comm(const HostTrace& trace) {
  const CommCall* found = nullptr;
  for (const HostNode& node : trace.nodes) {
    if (node.comm != HostNode::kNone) found = &trace.comms[node.comm];
  }
  if (found == nullptr) throw Error(ErrorCode::not_found, "no communication");
  return *found;
}

TEST(PytorchHost, ParamCommsWithAttributes) {
  // As in pytorch issue 124674, with the key that 2.4 wrote for one of them.
  const HostTrace trace = read(R"({"id": 436, "name": "record_param_comms", "ctrl_deps": 435,
    "inputs": {"values": [[[433,434,0,53120,4,"cuda:0"]],33,["7","tp"],0,"broadcast",[],[],0,1,2],
               "shapes": [], "types": []},
    "outputs": {"values": [[[433,434,0,53120,4,"cuda:0"]]]},
    "attrs": [{"name": "rf_id", "type": "uint64", "value": 14502}, {"name": "tid", "type": "uint64", "value": 1},
      {"name": "collective_name", "type": "string", "value": "broadcast"}, {"name": "dtype", "type": "string", "value": "BFloat16"},
      {"name": "in_msg_nelems", "type": "uint64", "value": 53120}, {"name": "Out msg nelems", "type": "uint64", "value": 53120},
      {"name": "pg_name", "type": "string", "value": "7"}, {"name": "pg_size", "type": "uint64", "value": 2},
      {"name": "global_rank_start", "type": "uint64", "value": 4}, {"name": "global_rank_stride", "type": "uint64", "value": 8}]})");
  const CommCall& call = only_comm(trace);
  EXPECT_EQ(call.collective, CollectiveKind::broadcast);
  EXPECT_EQ(call.in_elements, 53120u);
  EXPECT_EQ(call.out_elements, 53120u);
  EXPECT_EQ(call.width, 2u);
  EXPECT_EQ(call.group, "7");
  EXPECT_EQ(call.peer, 0u);
  EXPECT_EQ(call.group_size, 2u);
  EXPECT_EQ(call.first_rank, 4);
  EXPECT_EQ(call.rank_stride, 8);
  EXPECT_EQ(trace.nodes[0].record_id, 14502);
  EXPECT_EQ(trace.counts.missing_parents, 1u);
}

TEST(PytorchHost, ParamCommsByPosition) {
  const HostTrace trace = read(R"({"id": 5, "rf_id": 3, "parent": 2, "name": "record_param_comms", "tid": 1,
    "inputs": [[[10,11,0,4096,2,"cuda:0"],[12,13,0,1024,2,"cuda:0"]],44,94251234,3,"allreduce",[],[],8],
    "input_types": ["GenericList[Tensor(c10::Half)]"], "outputs": [[[10,11,0,4096,2,"cuda:0"]]]})");
  const CommCall& call = only_comm(trace);
  EXPECT_EQ(call.in_elements, 5120u);
  EXPECT_EQ(call.width, 2u);
  EXPECT_EQ(call.peer, 3u);
  EXPECT_EQ(call.group, "94251234");
  EXPECT_TRUE(call.group_is_object);
  EXPECT_EQ(call.group_size, 8u);
}

TEST(PytorchHost, TensorsOfDifferentTypesAreCountedInBytesAndNeverWrap) {
  const auto call_with = [](const std::string& tensors) {
    return read(R"({"id": 5, "parent": 2, "name": "record_param_comms", "inputs": [[)" + tensors +
                R"(],44,9,3,"allreduce",[],[],8]})");
  };
  const HostTrace mixed = call_with(R"([1,2,0,100,4,"cpu"],[3,4,0,50,2,"cpu"],[5,6,0,7,1,"cpu"])");
  EXPECT_EQ(only_comm(mixed).width, 1u);
  EXPECT_EQ(only_comm(mixed).in_elements, 507u);
  const HostTrace huge =
      call_with(R"([1,2,0,9223372036854775807,4,"cpu"],[3,4,0,9223372036854775807,4,"cpu"],[5,6,0,9,4,"cpu"])");
  EXPECT_EQ(only_comm(huge).in_elements, UINT64_MAX);
  bool fits = true;
  EXPECT_THROW(comm_bytes(only_comm(huge), 8, fits), Error);
}

TEST(PytorchHost, WrappersAreNoCommunications) {
  const HostTrace trace =
      read(R"({"id": 5, "name": "record_param_comms", "parent": 2, "inputs": [44,94251234,3,"wait",[],[],8]},
                                  {"id": 6, "name": "record_param_comms", "parent": 2, "inputs": [0,94251234,3,"init",[],[],8]})");
  EXPECT_EQ(trace.nodes.size(), 2u);
  for (const HostNode& node : trace.nodes) EXPECT_EQ(node.comm, HostNode::kNone);
}

TEST(PytorchHost, GlooTakesRootAndPeerFromTheCallAround) {
  const HostTrace trace =
      read(R"({"id": 243, "name": "gloo:broadcast", "parent": 242, "inputs": [[53,60,0,1000,4,"cpu"]]},
    {"id": 242, "name": "c10d::broadcast_", "parent": 8, "inputs": [[[53,60,0,1000,4,"cpu"]],"<Object>",1,0,-1]},
    {"id": 268, "name": "gloo:recv", "parent": 267, "inputs": [[5,6,0,77,8,"cpu"]]},
    {"id": 267, "name": "c10d::recv_", "parent": 8, "inputs": [[[5,6,0,77,8,"cpu"]],"<Object>",3,0]})");
  ASSERT_EQ(trace.nodes.size(), 4u);  // by id
  EXPECT_EQ(trace.nodes[0].comm, HostNode::kNone);
  const CommCall &broadcast = trace.comms[trace.nodes[1].comm], &receive = trace.comms[trace.nodes[3].comm];
  EXPECT_EQ(broadcast.peer, 1u);
  EXPECT_EQ(broadcast.in_elements, 1000u);
  EXPECT_EQ(receive.kind, CommCall::Kind::receive);
  EXPECT_EQ(receive.peer, 3u);
  EXPECT_EQ(receive.out_elements, 77u);
  EXPECT_EQ(receive.width, 8u);
  EXPECT_EQ(trace.counts.missing_parents, 2u);
}

TEST(PytorchHost, NodesAreSortedAndProcessAndThreadsLeftOut) {
  const HostTrace trace = read(
      R"({"id": 9, "name": "b", "ctrl_deps": 4}, {"id": 4, "name": "a", "ctrl_deps": 2}, {"id": 9, "name": "again", "ctrl_deps": 2},
    {"id": 2, "name": "[pytorch|profiler|execution_trace|thread]", "ctrl_deps": 1},
    {"id": 1, "name": "[pytorch|profiler|execution_trace|process]", "ctrl_deps": 1})");
  ASSERT_EQ(trace.nodes.size(), 2u);
  EXPECT_EQ(trace.name(trace.nodes[0]), "a");
  EXPECT_EQ(trace.nodes[1].parent, 0u);
  EXPECT_EQ(trace.nodes[0].parent, HostNode::kNone);
  EXPECT_EQ(trace.counts.missing_parents, 0u);
  EXPECT_EQ(trace.counts.repeated_nodes, 1u);
}

TEST(PytorchHost, GroupsStandInTheInitNode) {
  const HostTrace trace = read(R"({"id": 3, "name": "## process_group:init ##", "ctrl_deps": 2,
    "inputs": {"values": ["[{\"pg_name\": \"0\", \"ranks\": [], \"group_size\": 4}, {\"pg_name\": \"2\", \"ranks\": [1, 3], \"group_size\": 2}]"]}})");
  ASSERT_EQ(trace.groups.size(), 2u);
  EXPECT_THAT(trace.groups[1].ranks, ElementsAre(1, 3));
}

TEST(PytorchHost, WhatIsNoHostTraceIsRefusedWithItsPlace) {
  const auto error_of = [](const std::string& text) {
    return testing::error_of([&] { read_host_trace(TraceSource::from_text(text, "host.json")); });
  };
  EXPECT_THAT(error_of("{}"), HasSubstr("host.json: holds no nodes"));
  EXPECT_THAT(error_of("{\"nodes\": [{\"id\": 1, \"name\": \"a\"}, {\"name\": \"b\"}]}"),
              HasSubstr("host.json event 1: has no id"));
  EXPECT_THAT(error_of("{\"nodes\": [7]}"), HasSubstr("event 0: is not an object"));
  EXPECT_THAT(error_of("{\"nodes\": [{\"id\" 1}]}"), HasSubstr("host.json event 0 byte "));
}

}  // namespace
}  // namespace banyan::job::kineto
