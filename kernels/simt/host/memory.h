// The host executor's global memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace genesis::simt::host {

struct Allocation {
  uintptr_t address = 0;
  size_t bytes = 0;
  int number = 0;  // counts allocations
};

// Reserves addresses that fault when they are read or written.
void* reserve_addresses(size_t bytes);

// One file in memory, mapped twice: where pointers point to, which can be closed while kernels run, and a
// second view through which the executor reads and writes. Addresses are never given out twice, so that a
// stale pointer is found out.
class GlobalMemory {
 public:
  GlobalMemory();

  void* allocate(size_t bytes, size_t guard);
  void release(void* address) noexcept;
  void close() { protect(false); }
  void open() { protect(true); }
  // From now on the host may never touch it: device memory that is not managed.
  void keep_closed();

  // The allocation that holds this address, or null; the last one that starts before it, or null. Not to be
  // called while another thread allocates.
  const Allocation* find(uintptr_t address) const;
  const Allocation* before(uintptr_t address) const;
  unsigned char* view(uintptr_t address) const {
    return view_ + (address - reinterpret_cast<uintptr_t>(base_));
  }

 private:
  void protect(bool readable);

  int file_ = -1;
  unsigned char* base_ = nullptr;
  unsigned char* view_ = nullptr;
  size_t used_ = 0;  // bytes of the file
  int count_ = 0;
  bool open_ = true, kept_closed_ = false;
  std::vector<Allocation> allocations_;  // by address
};

GlobalMemory& global_memory();

}  // namespace genesis::simt::host
