// Reads from the environment what the launcher of a process tells it: its rank, the number of ranks, and where they
// meet.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace banyan::run {

struct Invitation {
  std::string url;  // where to meet: see rendezvous.h
  uint32_t rank = 0, size = 0;
  std::string job;     // what tells this job from others that might meet at the same place; may be empty
  std::string source;  // who says so, for messages: "Slurm"

  bool operator==(const Invitation&) const = default;
};

// The surroundings of a process, from which an invitation is read.
struct Surroundings {
  // Null when it is not set.
  std::function<const char*(const char* name)> variable;
  // A name that the processes of one launch share, and nobody else on this host: that of the process at the other end
  // of the socket `fd`. Nothing when that cannot be known.
  std::function<std::optional<std::string>(int fd)> launcher_at;

  static Surroundings real();
};

// The first of these that is there; nothing when none is:
//
//   RANK and WORLD_SIZE, MASTER_ADDR and MASTER_PORT (banyan run, torchrun). MASTER_PORT is where torch's own store
//     listens, of torchrun's agent or of rank 0; so we meet at the port after it (before it, for 65535).
//   OMPI_COMM_WORLD_RANK and _SIZE (Open MPI). On one host they meet in PMIX_SERVER_TMPDIR, which mpirun removes.
//   SLURM_PROCID and SLURM_STEP_NUM_TASKS or SLURM_NTASKS, within a step (SLURM_STEP_ID; a batch script that was not
//     started by srun is no rank). They meet on the first host of SLURM_STEP_NODELIST or SLURM_JOB_NODELIST, at a port
//     from 20000 to 31999 that follows from the numbers of job and step.
//   PMI_RANK and PMI_SIZE (MPICH and its relatives). On one host they meet in a folder in TMPDIR named for the
//   launcher.
//
// BANYAN_RENDEZVOUS is the url in place of any of these. It is needed where Open MPI or MPICH start processes on
// several hosts, since nothing in their environment says where rank 0 is. Throws Error{invalid_input} naming the
// variable and what is wrong with it: "RANK=7 but WORLD_SIZE=4"; also where a part of these is there and the rank is
// not, such as WORLD_SIZE=2 alone, unless BANYAN_ALONE=1 says that one process is meant.
std::optional<Invitation> invitation_from(const Surroundings& surroundings);

// The rank alone, as far as one is told, for messages before joining. Throws nothing.
std::optional<uint32_t> rank_from(const Surroundings& surroundings);

// The first host of a list as Slurm writes it: "node[03-05,9],login" begins with "node03". Throws Error{invalid_input}.
std::string first_slurm_host(const std::string& list);

}  // namespace banyan::run
