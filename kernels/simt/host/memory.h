// The host executor's global memory: a range of addresses with no memory behind them, and beside it the bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace genesis::simt::host {

struct Allocation {
  uintptr_t address = 0;
  size_t bytes = 0;
  std::unique_ptr<unsigned char[]> data;
  std::string name;
};

// Reserves addresses that fault when they are read or written.
void* reserve_addresses(size_t bytes);

// The device's allocations. Addresses are never given out twice, so that a stale pointer is found out.
class GlobalMemory {
 public:
  GlobalMemory();
  void* allocate(size_t bytes, const std::string& name);
  void release(void* address) noexcept;
  // The allocation that holds this address, or null. Not to be called while another thread allocates.
  const Allocation* find(uintptr_t address) const;
  // The last allocation at or before it, or null.
  const Allocation* before(uintptr_t address) const;

 private:
  uintptr_t next_ = 0, end_ = 0;
  std::vector<Allocation> allocations_;  // by address
};

GlobalMemory& global_memory();

}  // namespace genesis::simt::host
