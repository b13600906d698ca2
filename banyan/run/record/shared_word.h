// Words that one thread writes and others read, without a lock: stores release, and loads acquire.
#pragma once

namespace banyan::run {

template <typename T>
T load(const T& word) {
  T value;
  __atomic_load(&word, &value, __ATOMIC_ACQUIRE);
  return value;
}

template <typename T>
void store(T& word, T value) {
  __atomic_store(&word, &value, __ATOMIC_RELEASE);
}

}  // namespace banyan::run
