// Memory barriers in other threads, so that those that store often and are seldom waited for need none themselves. See
// membarrier(2): the "expedited" commands, "global" for threads of other processes, "private" for those of this one.
#pragma once

namespace banyan::run {

// From now on the barriers of others reach this process. False where the kernel, or who confines this process, has
// none.
bool register_for_barriers();

// Every thread of every registered process passes a full barrier between the call and its return. A few microseconds.
// False, and there was none, when this process has been forbidden to since it registered.
bool barrier_everywhere();

// The same among the threads of this process alone, which disturbs no other process.
bool register_for_own_barriers();
bool barrier_in_process();

// Keeps the compiler, and nothing else, from moving a later load before an earlier store; for threads that one of these
// barriers reaches.
inline void order_for_barriers() { asm volatile("" ::: "memory"); }

}  // namespace banyan::run
