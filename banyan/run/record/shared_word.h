// Words that one thread writes and others read, without a lock: stores release, and loads acquire. But for those with
// which nothing else goes, and for a last look, after which nothing else is read.
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

template <typename T>
T load_alone(const T& word) {
  T value;
  __atomic_load(&word, &value, __ATOMIC_RELAXED);
  return value;
}

template <typename T>
void store_alone(T& word, T value) {
  __atomic_store(&word, &value, __ATOMIC_RELAXED);
}

}  // namespace banyan::run
