#include "apps/plan/watched_simulation.h"

#include <csignal>

namespace banyan::app {
namespace {

volatile std::sig_atomic_t interrupted = 0;

extern "C" void note_interrupt(int) { interrupted = 1; }

}  // namespace

WatchedSimulation::WatchedSimulation(Progress& progress)
    : progress_(progress), before_(std::signal(SIGINT, note_interrupt)) {}
WatchedSimulation::~WatchedSimulation() { std::signal(SIGINT, before_); }
void WatchedSimulation::begins(const char* what) { progress_.say(what); }
void WatchedSimulation::progress(double fraction_done, Picoseconds) { progress_.fraction(fraction_done); }
bool WatchedSimulation::stop() { return interrupted != 0; }

}  // namespace banyan::app
