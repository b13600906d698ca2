#include "banyan/run/join/environment.h"

#include <sys/socket.h>

#include "banyan/run/system/file_descriptor.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

using Variables = std::map<std::string, std::string>;

Surroundings surroundings_of(const Variables& variables) {
  return {.variable =
              [&](const char* name) {
                const auto found = variables.find(name);
                return found == variables.end() ? nullptr : found->second.c_str();
              },
          .launcher_at = [](int fd) -> std::optional<std::string> {
            if (fd == 6) return "4711-99";
            return {};
          }};
}

std::optional<Invitation> read(const Variables& variables) { return invitation_from(surroundings_of(variables)); }

std::string message_of(const Variables& variables) {
  return testing::error_of([&] { read(variables); }, ErrorCode::invalid_input);
}

Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

Variables without(Variables variables, const std::string& name) {
  variables.erase(name);
  return variables;
}

const Variables kTorch{{"RANK", "3"}, {"WORLD_SIZE", "8"}, {"MASTER_ADDR", "node0"}, {"MASTER_PORT", "29500"}};
const Variables kSlurm{{"SLURM_PROCID", "5"},
                       {"SLURM_NTASKS", "16"},
                       {"SLURM_JOB_ID", "1001"},
                       {"SLURM_STEP_ID", "2"},
                       {"SLURM_JOB_NODELIST", "gpu[07-09,12],login1"}};
const Variables kOpenMpi{{"OMPI_COMM_WORLD_RANK", "1"},
                         {"OMPI_COMM_WORLD_SIZE", "2"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                         {"PMIX_SERVER_TMPDIR", "/tmp/ompi.node.0/pid.7"},
                         {"PMIX_NAMESPACE", "66977793"}};
const Variables kMpich{{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"PMI_FD", "6"}, {"MPI_LOCALNRANKS", "2"}};

TEST(Environment, InvitesNobodyWhenItIsEmpty) { EXPECT_EQ(read({}), std::nullopt); }

TEST(Environment, ReadsThatOfTorch) {
  const Invitation plain = *read(kTorch);
  EXPECT_EQ(plain.rank, 3u);
  EXPECT_EQ(plain.size, 8u);
  EXPECT_EQ(plain.url, "tcp://node0:29501");
  EXPECT_EQ(plain.job, "");
  const Invitation elastic = *read(with(kTorch, {{"TORCHELASTIC_RUN_ID", "none"},
                                                 {"TORCHELASTIC_RESTART_COUNT", "2"},
                                                 {"MASTER_ADDR", "fe80::1"},
                                                 {"MASTER_PORT", "65535"}}));
  EXPECT_EQ(elastic.url, "tcp://[fe80::1]:65534");
  EXPECT_EQ(elastic.job, "none/2");
  EXPECT_EQ(elastic.source, "torchrun");
}

TEST(Environment, ReadsThatOfSlurm) {
  const Invitation invitation = *read(kSlurm);
  EXPECT_EQ(invitation.rank, 5u);
  EXPECT_EQ(invitation.size, 16u);
  EXPECT_EQ(invitation.url, "tcp://gpu07:27009");  // 20000 + (1001 * 7 + 2) % 12000
  EXPECT_EQ(invitation.job, "1001.2");
  EXPECT_EQ(invitation.source, "Slurm");
  const Invitation step = *read(with(kSlurm, {{"SLURM_STEP_NUM_TASKS", "6"}, {"SLURM_STEP_NODELIST", "gpu12"}}));
  EXPECT_EQ(step.size, 6u);
  EXPECT_EQ(step.url, "tcp://gpu12:27009");
  EXPECT_EQ(read(without(kSlurm, "SLURM_STEP_ID")), std::nullopt) << "a batch script is no rank";
}

TEST(Environment, ReadsThatOfOpenMpiOnOneHost) {
  const Invitation invitation = *read(kOpenMpi);
  EXPECT_EQ(invitation.rank, 1u);
  EXPECT_EQ(invitation.size, 2u);
  EXPECT_EQ(invitation.url, "file:///tmp/ompi.node.0/pid.7/banyan");
  EXPECT_EQ(invitation.job, "66977793");
}

TEST(Environment, ReadsThatOfMpichOnOneHost) {
  const Invitation invitation = *read(with(kMpich, {{"TMPDIR", "/var/tmp"}}));
  EXPECT_EQ(invitation.rank, 1u);
  EXPECT_THAT(invitation.url, ::testing::MatchesRegex("file:///var/tmp/banyan-[0-9]+-4711-99"));
  EXPECT_THAT(message_of(with(kMpich, {{"PMI_FD", "7"}})), HasSubstr("PMI_FD leads to no launcher"));
}

TEST(Environment, PrefersTheLauncherThatIsNearest) {
  EXPECT_EQ(read(with(kSlurm, kTorch))->source, "RANK and WORLD_SIZE");
  EXPECT_EQ(read(with(kSlurm, kOpenMpi))->source, "Open MPI");
  EXPECT_EQ(read(with(kSlurm, kMpich))->source, "Slurm");
  EXPECT_EQ(read(with(kSlurm, {{"WORLD_SIZE", "16"}}))->source, "Slurm") << "exported for something else";
}

TEST(Environment, MeetsWhereTheUserSays) {
  const Variables place{{"BANYAN_RENDEZVOUS", "tcp://elsewhere:1"}};
  for (const Variables& variables : {kTorch, kSlurm, kOpenMpi, kMpich}) {
    EXPECT_EQ(read(with(variables, place))->url, "tcp://elsewhere:1");
  }
  EXPECT_EQ(read(with(without(without(kTorch, "MASTER_ADDR"), "MASTER_PORT"), place))->url, "tcp://elsewhere:1");
  EXPECT_THAT(message_of(place), HasSubstr("RANK and WORLD_SIZE are not"));
  const Variables many_hosts = with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}});
  EXPECT_THAT(message_of(many_hosts), HasSubstr("BANYAN_RENDEZVOUS is not set"));
  EXPECT_EQ(read(with(many_hosts, place))->url, "tcp://elsewhere:1");
}

// Each would join alone, and compute something else than was meant.
TEST(Environment, RefusesWhatTellsOfOthersWithoutARank) {
  const std::map<std::string, std::pair<std::string, std::string>> halves{
      {"WORLD_SIZE", {"2", "WORLD_SIZE=2 is set, but RANK is not"}},
      {"LOCAL_RANK", {"1", "LOCAL_RANK=1 is set, but RANK and WORLD_SIZE are not"}},
      {"MASTER_ADDR", {"node0", "MASTER_ADDR=node0 is set, but RANK and WORLD_SIZE are not"}},
      {"MASTER_PORT", {"29500", "MASTER_PORT=29500 is set, but RANK and WORLD_SIZE are not"}},
      {"OMPI_COMM_WORLD_SIZE", {"4", "OMPI_COMM_WORLD_SIZE=4 is set, but OMPI_COMM_WORLD_RANK is not"}},
      {"PMI_SIZE", {"4", "PMI_SIZE=4 is set, but PMI_RANK is not"}},
      {"BANYAN_RENDEZVOUS",
       {"tcp://node0:1#0123456789abcdef", "BANYAN_RENDEZVOUS=tcp://node0:1 is set, but RANK and WORLD_SIZE are not"}}};
  for (const auto& [name, half] : halves) {
    const auto& [value, told] = half;
    EXPECT_THAT(message_of({{name, value}}), ::testing::StartsWith(told + "; set both")) << name;
    EXPECT_EQ(read({{name, value}, {"BANYAN_ALONE", "1"}}), std::nullopt) << name;
    EXPECT_EQ(read({{name, ""}}), std::nullopt) << name << " is empty";
  }
  EXPECT_EQ(read({{"WORLD_SIZE", "1"}}), std::nullopt) << "who is alone has this rank only";
  EXPECT_EQ(read(with(kTorch, {{"BANYAN_ALONE", "1"}}))->rank, 3u) << "a whole launch counts";
}

TEST(Environment, TellsTheRankOfWhoHasNotJoinedYet) {
  const auto rank = [](const Variables& variables) { return rank_from(surroundings_of(variables)); };
  EXPECT_EQ(rank(kTorch), 3u);
  EXPECT_EQ(rank(kSlurm), 5u);
  EXPECT_EQ(rank(without(kSlurm, "SLURM_STEP_ID")), std::nullopt);
  EXPECT_EQ(rank(kOpenMpi), 1u);
  EXPECT_EQ(rank(kMpich), 1u);
  EXPECT_EQ(rank({{"RANK", "one"}, {"PMI_RANK", "2"}}), 2u);
  EXPECT_EQ(rank({}), std::nullopt);
}

TEST(Environment, NamesTheVariableThatIsWrong) {
  EXPECT_EQ(message_of(with(kTorch, {{"RANK", "7"}, {"WORLD_SIZE", "4"}})), "RANK=7 but WORLD_SIZE=4");
  EXPECT_EQ(message_of(with(kTorch, {{"RANK", "0"}, {"WORLD_SIZE", "0"}})), "RANK=0 but WORLD_SIZE=0");
  EXPECT_THAT(message_of(with(kTorch, {{"RANK", "-1"}})), HasSubstr("RANK=-1 is no number"));
  EXPECT_THAT(message_of(with(kTorch, {{"RANK", "99999999999999999999999"}})), HasSubstr("is no number from 0 to"));
  EXPECT_THAT(message_of(with(kTorch, {{"MASTER_PORT", "0"}})), HasSubstr("MASTER_PORT=0"));
  EXPECT_THAT(message_of(with(kTorch, {{"MASTER_PORT", "65536"}})), HasSubstr("MASTER_PORT=65536"));
  const std::string instead =
      " is not set; set MASTER_ADDR and MASTER_PORT, or BANYAN_RENDEZVOUS=tcp://HOST:PORT or file:///FOLDER, to the "
      "same on all ranks";
  EXPECT_EQ(message_of(with(kTorch, {{"MASTER_ADDR", ""}})), "MASTER_ADDR" + instead);
  EXPECT_EQ(message_of(without(kTorch, "MASTER_ADDR")), "MASTER_ADDR" + instead);
  EXPECT_EQ(message_of(without(kTorch, "MASTER_PORT")), "MASTER_PORT" + instead);
  EXPECT_EQ(
      message_of(without(kTorch, "WORLD_SIZE")),
      "RANK=3 is set, but WORLD_SIZE is not; set both, start by a launcher, or set BANYAN_ALONE=1 where one process "
      "is meant");
  EXPECT_EQ(message_of(without(kSlurm, "SLURM_JOB_ID")), "SLURM_JOB_ID is not set");
  EXPECT_THAT(message_of(with(kSlurm, {{"SLURM_JOB_NODELIST", "gpu[1"}})), HasSubstr("SLURM_JOB_NODELIST: "));
  EXPECT_EQ(message_of(without(kOpenMpi, "PMIX_SERVER_TMPDIR")), "PMIX_SERVER_TMPDIR is not set");
  EXPECT_EQ(message_of(without(kMpich, "PMI_SIZE")), "PMI_SIZE is not set");
}

TEST(Environment, FindsTheFirstHostOfASlurmList) {
  EXPECT_EQ(first_slurm_host("node7"), "node7");
  EXPECT_EQ(first_slurm_host("b,a"), "b");
  EXPECT_EQ(first_slurm_host("node[03-05,9],login"), "node03");
  EXPECT_EQ(first_slurm_host("node[9,03-05]"), "node9");
  EXPECT_EQ(first_slurm_host("rack[1-2]n[10-12].cluster,x"), "rack1n10.cluster");
  for (const std::string wrong : {"", ",a", "n[1", "["}) EXPECT_THROW(first_slurm_host(wrong), Error) << wrong;
}

TEST(Environment, KnowsTheProcessAtTheOtherEnd) {
  std::array<int, 2> ends;
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  const FileDescriptor a(ends[0]), b(ends[1]);
  const auto launcher = Surroundings::real().launcher_at(a.get());
  ASSERT_TRUE(launcher);
  EXPECT_TRUE(launcher->starts_with(std::to_string(getpid()) + "-")) << *launcher;
  EXPECT_EQ(Surroundings::real().launcher_at(-1), std::nullopt);
}

}  // namespace
}  // namespace banyan::run
