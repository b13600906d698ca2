// ByteRing: a bounded stream of bytes through memory that two processes share.
//
// One process writes, one reads. `written` and `read` count bytes for ever; each is stored by one side, after the bytes
// below it were copied, and loaded by the other. No lock, no system call.
//
// Nothing here waits. A side that has to wait raises its flag, looks once more, and sleeps; the other side looks at the
// flag after each move. In every order of the two, one of them sees what the other did.
//
// Orders (testing/orders): the counts are stored with release and loaded with acquire, since the bytes go with them.
// More than that, they and the flags are stored and looked at sequentially consistent: each side stores one word and
// then loads the other's. The flag is lowered relaxed, since nothing goes with it. A side loads its own count relaxed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace banyan::run {

class ByteRing {
 public:
  ByteRing() = default;
  // Bytes of memory for a ring of so many bytes (a power of two), aligned to a cache line.
  static size_t memory_bytes(size_t capacity);
  // Makes an empty ring of zeroed memory; once, by either side or before both.
  static void create(std::byte* memory);
  // One side's hold of a ring that was created there.
  ByteRing(std::byte* memory, size_t capacity);

  // The writer's. As much of `head` and then of `body` as there is room for; says how much.
  size_t write(std::span<const std::byte> head, std::span<const std::byte> body);
  size_t room() const;

  // The reader's. The number of bytes that have arrived and are not consumed.
  size_t taken() const;
  // The oldest of them, or some; valid until consume() or read(). Throws Error{io} when the other side
  // did not keep to the rules.
  std::span<const std::byte> peek() const;
  void consume(size_t count);
  size_t read(std::span<std::byte> into);

  size_t capacity() const { return capacity_; }

  // The reader is about to sleep, until something has arrived: raises its flag. True if something has arrived
  // meanwhile, so that it should not sleep. The same of the writer, until half of the ring is free.
  bool reader_sleeps();
  bool writer_sleeps();
  // Called by the other side after a move: true if the reader, or the writer, is to be woken. Lowers the flag.
  bool shall_wake_reader();
  bool shall_wake_writer();

 private:
  struct Head;

  std::byte* at(uint64_t position) const { return bytes_ + (position & (capacity_ - 1)); }
  size_t until_wrap(uint64_t position) const { return capacity_ - (position & (capacity_ - 1)); }
  static bool lower(std::atomic<uint32_t>& flag);
  void copy_in(uint64_t position, std::span<const std::byte> bytes) const;

  Head* head_ = nullptr;
  std::byte* bytes_ = nullptr;
  size_t capacity_ = 0;  // a power of two
};

}  // namespace banyan::run
