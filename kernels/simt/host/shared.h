// A block's shared memory: addresses that fault, the bytes beside them, and who wrote and read each of them
// last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace genesis::simt::host {

class SharedMemory {
 public:
  static constexpr size_t kMostBytes = 228 * 1024;  // of any architecture
  static constexpr size_t kSmallestAccess = 2;      // bytes

  SharedMemory();
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  // Fills with NaN and forgets every access.
  void begin_block(size_t bytes);
  void* address() const { return address_; }
  size_t bytes() const { return bytes_; }
  bool contains(uintptr_t a) const { return a - reinterpret_cast<uintptr_t>(address_) < kMostBytes; }
  size_t offset(uintptr_t a) const { return a - reinterpret_cast<uintptr_t>(address_); }
  unsigned char* data(size_t offset) { return data_.data() + offset; }

  // Who accesses, and when: barriers order everything before them in the block, sync_warp in the warp.
  struct Access {
    uint32_t block_epoch = 0;  // counts barriers
    uint16_t warp_epoch = 0;   // counts sync_warp since the barrier
    uint16_t thread = 0;
    int32_t site = 0;
  };
  void barrier() { ++epoch_; }
  uint32_t epoch() const { return epoch_; }

  // Notes an access; returns the earlier access it is not ordered after, or null. A copy that is under way is
  // ordered before nothing, not even in its own thread.
  struct Conflict {
    Access earlier;
    bool wrote = false, pending = false;
  };
  const Conflict* read(size_t offset, size_t bytes, const Access& a);
  const Conflict* write(size_t offset, size_t bytes, const Access& a);
  const Conflict* begin_copy(size_t offset, size_t bytes, const Access& a);
  void end_copy(size_t offset, size_t bytes, const Access& a);

 private:
  static constexpr size_t kGranule = kSmallestAccess;
  static constexpr uint16_t kManyWarps = 0xffff;    // readers of several warps
  static constexpr uint16_t kWarpReaders = 0x8000;  // with the warp: several of its lanes
  static constexpr uint32_t kPending = 0xffffffff;  // block_epoch of a copy under way

  struct Granule {
    Access write, read;
  };
  const Conflict* conflict(const Access& earlier, bool wrote);

  void* address_ = nullptr;
  size_t bytes_ = 0;
  uint32_t epoch_ = 1;
  std::vector<unsigned char> data_;
  std::vector<Granule> granules_;
  Conflict conflict_;
};

}  // namespace genesis::simt::host
